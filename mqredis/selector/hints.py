"""Which identifier must a matching message have? The broker's index finds it without a scan.

``Selector`` calls it; ``commands.filters`` writes the hints into a filter, for which lua/matching/candidates.lua reads
the index.
"""

from __future__ import annotations

import re

from mqredis.models.text import MAX_IDENTIFIER_BYTES
from mqredis.selector.names import View
from mqredis.selector.nodes import And, Compare, Condition, Header, In, Literal

# The name of an identifier of ``Message``, and its value.
Hint = tuple[str, str | bytes]
_HEX_ID = re.compile("ID:((?:[0-9a-f]{2})+)")
# The more telling identifier first.
_ORDER = ("message_id", "correlation_id", "group_id")


def alternatives(root: Condition) -> tuple[Hint, ...]:
    """One of these identifiers is on every message that can match; empty if the selector names none.

    Only an equality that every match must pass counts: the whole condition, or one under a top-level AND.
    """
    found = [hints for item in (root.items if isinstance(root, And) else (root,)) if (hints := _of(item))]
    return min(found, key=lambda hints: (len(hints) > 1, _ORDER.index(hints[0][0])), default=())


def _of(node: Condition) -> tuple[Hint, ...]:
    match node:
        case Compare("=", Header() as header, Literal(value)) | Compare(
            "=", Literal(value), Header() as header
        ):
            return _hints(header, value)
        case In(Header() as header, values):
            return tuple(hint for value in values for hint in _hints(header, value))
        case _:
            return ()


def _hints(header: Header, value: object) -> tuple[Hint, ...]:
    view = header.field.view
    if view not in (View.IDENTIFIER, View.JMS_IDENTIFIER) or not isinstance(value, str | bytes):
        return ()
    if view == View.JMS_IDENTIFIER:
        if isinstance(value, bytes):
            return ()
        # JMS shows bytes as "ID:" and hexadecimal digits, and a text identifier may look just like that.
        digits = _HEX_ID.fullmatch(value)
        if digits:
            return _possible(header.field.field, bytes.fromhex(digits[1]), value)
    return _possible(header.field.field, value)


def _possible(name: str, *values: str | bytes) -> tuple[Hint, ...]:
    """These values of the identifier, but for those that are longer than any identifier."""
    encoded = ((value, value.encode() if isinstance(value, str) else value) for value in values)
    return tuple((name, value) for value, data in encoded if len(data) <= MAX_IDENTIFIER_BYTES)
