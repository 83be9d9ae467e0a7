"""Pages of a list: how many elements they have, and where the next one begins.

``commands.inspection`` and ``commands.stored_messages`` check with it what callers pass as ``after``;
``operations.inspection`` checks ``limit`` with ``MAX_PAGE``.
"""

from __future__ import annotations

import re

from mqredis.errors import InvalidArgument

# Elements of one page at most.
MAX_PAGE = 256


def page_after(pattern: re.Pattern[str], after: object, what: str) -> tuple[str, ...]:
    """The groups of a place where a page ended; empty texts for the first page. Raises InvalidArgument."""
    if after is None:
        return ("",) * pattern.groups
    match = pattern.fullmatch(after) if isinstance(after, str) and after.isascii() else None
    if match is None:
        raise InvalidArgument(f"after must be `next` of a page of {what}, not {after!r:.60}")
    return match.groups()
