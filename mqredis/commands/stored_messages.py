"""message_list.lua: messages of a queue in any state.

``mqredis.operations.inspection`` calls it.

It serves no timers, so it also shows messages that are due and were not moved yet (``overdue``).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime

from mqredis.codec import Raw
from mqredis.commands.address import Address
from mqredis.commands.replies import check_queue, number, page_after, text
from mqredis.models.inspection import MessageState, Page
from mqredis.models.lookup_ids import LOOKUP_ID
from mqredis.models.record_parts import FLAG_AT, LARGE_FLAGS
from mqredis.models.text import time_at
from mqredis.steps import Arg, Call, Payload

_ID_PLACE = re.compile(f"({LOOKUP_ID.pattern})")
# The time of a timer in ms, and its member in the list of timers, in which a dedup key may stand: a text without lone
# surrogates.
_TIMER_PLACE = re.compile(r"(\d{1,16})-([a-z][^\ud800-\udfff]*)", re.ASCII)


@dataclass(frozen=True, slots=True)
class StoredRow:
    """A message in the reply of message_list.lua."""

    raw: Raw
    state: MessageState
    due_at: datetime | None
    """When it becomes available; None unless it is delayed or rests."""
    bytes: int
    complete: bool
    """Does ``raw`` have the whole body?"""
    overdue: bool
    """Is its time over, to become available or to expire, and no call has served it yet?"""


def available(
    queue: Address, after: object, limit: int, match: bytes, reverse: bool = False, whole: bool = False
) -> Call[Page[StoredRow]]:
    """A page of the available messages, in delivery order or its reverse.

    ``after``: the place where the page before ended, None for the first one; a lookup id in hex. ``whole``: with large
    bodies.
    """
    (lookup_id,) = page_after(_ID_PLACE, after, "messages")
    which = "reverse" if reverse else "available"
    return _messages(queue, which, limit, place=lookup_id, match=match, whole=whole)


def scheduled(
    queue: Address, after: object, limit: int, span: tuple[str, str], match: bytes, whole: bool = False
) -> Call[Page[StoredRow]]:
    """A page of the delayed and the resting messages, in the order of the times for which they wait.

    ``after``: the place where the page before ended, None for the first one; time and member of a timer. ``span``: from
    and to in ms, "" for no limit. ``whole``: with large bodies.
    """
    ms, timer = page_after(_TIMER_PLACE, after, "scheduled messages")
    first, until = span
    return _messages(
        queue,
        "scheduled",
        limit,
        score=ms or first,
        place=timer,
        until=until,
        match=match,
        whole=whole,
    )


def one(queue: Address, lookup_id: str) -> Call[Page[StoredRow]]:
    """One message with its body, in any state; an empty page if it does not exist."""
    return _messages(queue, "one", 1, place=lookup_id, whole=True)


def _messages(
    queue: Address,
    which: str,
    limit: int,
    *,
    score: str = "",
    place: str = "",
    until: str = "",
    match: bytes = b"",
    whole: bool = False,
) -> Call[Page[StoredRow]]:
    """The call of the script, whose header describes these arguments."""

    def parse(status: int, payload: Payload) -> Page[StoredRow]:
        check_queue(status, queue.path)
        now, more, last_score, last_place = (text(item) for item in payload[:4])
        rows = tuple(_row(int(now), whole, payload[n : n + 7]) for n in range(4, len(payload), 7))
        place = f"{last_score}-{last_place}" if which == "scheduled" else last_place
        return Page(rows, place if more == "1" else None)

    # The end of the rest of a message in ;retry is in the timers of the parent.
    name, _, subqueue = queue.path.partition(";")
    keys_ = queue.manager.call(queue.path, name if subqueue == "retry" else f"{name};retry")
    args: list[Arg] = [which, str(limit), score, place, until, match, "1" if whole else ""]
    return Call("message_list", keys_, args, parse, changes=False)


def _row(now: int, whole: bool, row: Payload) -> StoredRow:
    lookup_id, state, due, expires, deliveries, size, record = row
    due_ms, expires_ms = number(due), number(expires)
    return StoredRow(
        raw=(lookup_id, deliveries, record),
        state=text(state),  # type: ignore[arg-type]  # the script says one of these
        due_at=time_at(due_ms) if due_ms >= 0 else None,
        bytes=number(size),
        complete=whole or record[FLAG_AT] not in LARGE_FLAGS,
        overdue=0 <= due_ms <= now or 0 <= expires_ms <= now,
    )
