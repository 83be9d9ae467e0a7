"""The arguments by which operators choose messages, and the results of their actions.

``Operator`` takes and returns them: commands of ``mqredis.cli`` and the console make a ``Choice``, and
``commands.bulk`` a ``BulkResult``. ``operations.bulk.Chosen`` has the same fields as ``Choice``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypedDict

from mqredis.models.match import Match
from mqredis.models.queue import Model


class BulkResult(Model):
    """How far an action of an operator has got."""

    changed: int
    """Messages that were changed, or counted, by all calls of the action together."""
    locked: int = 0
    """Of the ``lookup_ids``: messages that a reader or a transaction holds."""
    missing: int = 0
    """Of the ``lookup_ids``: messages that are not in the queue, or not among those that the action takes."""
    cursor: str | None = None
    """Where the next call of the action continues; None: it is finished."""

    @property
    def finished(self) -> bool:
        """True if nothing is left to do."""
        return self.cursor is None


class Choice(TypedDict, total=False):
    """Keyword arguments of the actions of an operator: which messages, and how many in one call."""

    lookup_ids: Sequence[int] | None
    """These messages, at most 256. None: all that agree with ``match`` and ``selector``."""
    match: Match | None
    """Only messages that have these identifiers."""
    selector: str | None
    """Only messages that the selector selects."""
    scheduled: bool | None
    """True: only delayed messages; False: only available ones; None: both. Not given: as ``Operator`` says of the
    action, else both."""
    limit: int | None
    """How many messages at most. None: no limit."""
    cursor: str | None
    """``BulkResult.cursor`` of an unfinished action, which continues there."""
    steps: int | None
    """How many calls of the broker at most, of some hundred messages each. None: until the action is finished."""
    progress: Callable[[BulkResult], None] | None
    """Called after each call of the broker."""
    token: str | None
    """An action that is repeated with this text within a day changes nothing and reports what the first one did."""
