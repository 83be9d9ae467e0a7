"""Parts of the replies of all scripts: the status, numbers, texts, and places in a list of several pages.

All parsers of this package use it, operations that read a reply themselves or check a limit, and
``drivers.waiting.handoff``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from mqredis import keys
from mqredis.errors import ClaimLost, InvalidArgument, error_for
from mqredis.status import Status
from mqredis.steps import Payload

# A name of its own, since reading a member of an enumeration costs as much as a function call.
OK = int(Status.OK)
# The largest ``limit`` of a list in ``operations.inspection``. The docstrings of ``asyncio/inspection.py`` name it. One
# call of lua/message_list.lua looks at 300 messages, one of lua/lock_list.lua at 256 locks.
MAX_PAGE = 256


def check(status: int, message: str = "") -> None:
    """Raise the exception for a refusal."""
    if status != OK:
        raise error_for(status, message)


def check_queue(status: int, path: str) -> None:
    """Raise the exception for a refusal; QueueNotFound names the queue."""
    check(status, f"there is no queue {path!r}" if status == Status.QUEUE_NOT_FOUND else "")


def check_lost(status: int, payload: Payload, why: Mapping[str, str]) -> None:
    """Raise the exception for a refusal; ClaimLost has the text of the word that follows LOCK_LOST."""
    if status == Status.LOCK_LOST:
        word = text(payload[0]) if payload else ""
        raise ClaimLost(why.get(word, ""), why=word)
    check(status)


def number(data: bytes | int) -> int:
    """An integer of a reply."""
    return int(data)


def text(data: bytes | int) -> str:
    """A text of a reply."""
    return data.decode() if isinstance(data, bytes) else str(data)


def names_in(payload: Sequence[bytes]) -> list[str]:
    """The names in a list of encoded ones, such as the queues that a call has to name as well (KEYS_CHANGED)."""
    return [keys.decode(text(item)) for item in payload]


def page_after(pattern: re.Pattern[str], after: object, what: str) -> tuple[str, ...]:
    """The groups of a place where a page ended, as a caller gives it back; empty texts for the first page. Raises
    InvalidArgument."""
    if after is None:
        return ("",) * pattern.groups
    match = pattern.fullmatch(after) if isinstance(after, str) else None
    if match is None:
        raise InvalidArgument(f"after must be `next` of a page of {what}, not {after!r:.60}")
    return match.groups()
