"""What ``parse`` answers: one selector, ready for the Python evaluator, for the index and for the server.

``operations.matching`` sends ``program`` and ``index_hints`` with a read, and handles and cursors keep the selector;
``spark.fetch`` calls ``matches``. Callers may keep one, too, and pass it in place of the text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mqredis.selector.encode import encode
from mqredis.selector.evaluate import Subject, truth_of
from mqredis.selector.hints import alternatives
from mqredis.selector.like import share
from mqredis.selector.nodes import Condition, Constant, Like, walk


@dataclass(frozen=True)
class Selector:
    """A parsed selector; equal when the text is."""

    text: str
    root: Condition = field(compare=False, repr=False)
    like_budget: int = field(init=False, compare=False, repr=False)
    """How many characters each searching LIKE may read, see ``mqredis/selector/like.py``."""
    program: bytes = field(init=False, compare=False, repr=False)
    """The compiled form: ``selector.compile`` of ``lua/selector/selector.lua`` reads it as one argument."""
    index_hints: tuple[tuple[str, str | bytes], ...] = field(init=False, compare=False, repr=False)
    """Identifiers one of which every matching message has: (``message_id``, ``correlation_id`` or ``group_id``, value).
    Empty: the selector names none, so a scan is needed."""

    def __post_init__(self) -> None:
        budget = share(sum(isinstance(node, Like) and node.searches for node in walk(self.root)))
        object.__setattr__(self, "like_budget", budget)
        object.__setattr__(self, "program", encode(self.root, budget))
        object.__setattr__(self, "index_hints", alternatives(self.root))

    @property
    def never(self) -> bool:
        """Can no message match, whatever it holds?"""
        return isinstance(self.root, Constant) and self.root.value is not True

    @property
    def always(self) -> bool:
        """Does every message match?"""
        return isinstance(self.root, Constant) and self.root.value is True

    def evaluate(self, properties: Mapping[str, Any], header: Mapping[str, Any] | None = None) -> bool | None:
        """True, False or None for unknown.

        ``header`` has the field names of ``mqredis.models.Message``: see :func:`mqredis.selector.header_of`.
        """
        return truth_of(self.root, Subject(properties, header or {}, self.like_budget))

    def matches(self, properties: Mapping[str, Any], header: Mapping[str, Any] | None = None) -> bool:
        """Is the message selected? Unknown does not select."""
        return self.evaluate(properties, header) is True
