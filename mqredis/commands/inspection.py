"""Reads for operators: the scripts with names that end with ``_list``, trail_read.lua and overview.lua."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from pydantic import ValidationError

from mqredis import keys
from mqredis.codec import Raw, generated_id, time_at, unescape
from mqredis.codec.trails import EntryRecord, TrailRecord
from mqredis.codec.transactions import OperationRecord, TransactionRecord
from mqredis.commands.address import Address
from mqredis.commands.filters import matched
from mqredis.commands.read import LARGE
from mqredis.commands.replies import check, number, text
from mqredis.errors import InvalidArgument
from mqredis.keys import ManagerKeys
from mqredis.models.inspection import (
    ClientInfo,
    HeldMessage,
    LockInfo,
    Page,
    QueueDepth,
    SessionInfo,
    TrailEntry,
    TransactionInfo,
)
from mqredis.models.text import Identifier, read_identifier
from mqredis.status import Status
from mqredis.steps import Arg, Call, Payload

# Locks, or sessions, of one page at most.
MAX_PAGE = 256
# Operations of each transaction that are told.
MAX_HELD = 100
# Queues that one call of the overview, or for waiting readers, names.
QUEUES = 128

_KINDS: dict[str, Literal["lock", "received", "sent", "moved"]] = {
    "L": "lock", "R": "received", "S": "sent", "M": "moved",
}  # fmt: skip
_OPERATIONS: dict[str, Literal["sent", "received", "rejected", "moved"]] = {
    "S": "sent", "R": "received", "X": "rejected", "M": "moved",
}  # fmt: skip
_LOCK_PLACE = re.compile(r"(\d{1,16})-([0-9a-f]{16})")
_SESSION_PLACE = re.compile(r"(\d{1,16})-(\d{1,16})")
_READY_PLACE = re.compile(r"([0-9a-f]{16})")
_TIMED_PLACE = re.compile(r"(\d{1,16})-([a-z][^\x00-\x1f]{0,300})")
_SCAN_PLACE = re.compile(r"\d{1,20}")


def client_of(told: str) -> ClientInfo:
    """The description of a client; an empty one if it cannot be parsed, as one of a later release may be."""
    try:
        values = json.loads(told)
        return ClientInfo(**{name: values[name] for name in ClientInfo.model_fields if name in values})
    except (TypeError, ValueError, ValidationError):
        return ClientInfo()


def place(pattern: re.Pattern[str], after: object, what: str) -> tuple[str, ...]:
    """The groups of a place where a page ended; empty texts for the first page. Raises InvalidArgument."""
    if after is None:
        return ("",) * pattern.groups
    match = pattern.fullmatch(after) if isinstance(after, str) and after.isascii() else None
    if match is None:
        raise InvalidArgument(f"after must be `next` of a page of {what}, not {after!r:.60}")
    return match.groups()


def locks(manager: ManagerKeys, path: str, after: str | None, limit: int) -> Call[Page[LockInfo]]:
    """A page of the locks of one queue."""

    def parse(status: int, payload: Payload) -> Page[LockInfo]:
        check(status, f"there is no queue {path!r}" if status == Status.QUEUE_NOT_FOUND else "")
        now, size = number(payload[0]), number(payload[1])
        stop = 2 + size * 10
        rest = [text(item) for item in payload[stop:]]
        bar = rest.index("-")
        known = {name: client_of(told) for name, told in _pairs(rest[:bar])}
        units = dict(_pairs(rest[bar + 1 :]))
        rows = [payload[at : at + 10] for at in range(2, stop, 10)]
        items = tuple(_lock(path, row, now, known, units) for row in rows)
        last = f"{text(rows[-1][1])}-{text(rows[-1][0])}" if size >= limit else None
        return Page(items, last)

    args: list[Arg] = [limit, *place(_LOCK_PLACE, after, "locks")]
    return Call("lock_list", manager.call(path), args, parse, changes=False)


def _pairs(items: Sequence[str]) -> Iterator[tuple[str, str]]:
    return zip(items[::2], items[1::2], strict=True)


def _lock(path: str, row: Payload, now: int, known: dict[str, ClientInfo], units: dict[str, str]) -> LockInfo:
    lookup_id, deadline, since, kind, owner, fence = (text(item) for item in row[:6])
    deliveries, uncounted, message_id, label = number(row[6]), number(row[7]), text(row[8]), text(row[9])
    locked = kind[0] == "L"
    session = owner.partition(".")[0] if locked else units.get(owner, "")
    return LockInfo(
        queue=path,
        lookup_id=int(lookup_id, 16),
        message_id=read_identifier(message_id) if message_id else generated_id(lookup_id),
        label=unescape(label),
        kind=_KINDS[kind[0]],
        purged="P" in kind,
        transaction=None if locked else owner,
        session=session,
        client=known.get(session, ClientInfo()),
        worker="",
        consumer="",
        since=_time(since),
        lease_until=time_at(int(deadline)),
        overdue=int(deadline) <= now,
        deliveries=deliveries,
        attempts=deliveries - uncounted,
        fence=fence,
    )


def _time(ms: str) -> datetime | None:
    return time_at(int(ms)) if ms else None


def transactions(manager: ManagerKeys, after: str | None) -> Call[Page[TransactionInfo]]:
    """A page of the open transactions."""

    def parse(status: int, payload: Payload) -> Page[TransactionInfo]:
        check(status)
        lead, following = number(payload[1]), text(payload[2])
        items, at = [], 3
        while at < len(payload):
            stop = at + 1 + number(payload[at])
            items.append(_transaction(lead, [text(item) for item in payload[at + 1 : stop]]))
            at = stop
        return Page(tuple(items), None if following == "0" else following)

    place(_SCAN_PLACE, after, "transactions")
    return Call("tx_list", manager.call(), [after or "0", MAX_HELD], parse, changes=False)


def _transaction(lead: int, row: list[str]) -> TransactionInfo:
    record = TransactionRecord.parse(row[1])
    if record is None:
        raise ValueError(f"{row[1]!r:.80} is not the record of a transaction")
    operations = [OperationRecord.parse(item) for item in row[3:]]
    return TransactionInfo(
        id=row[0],
        session=record.session,
        client=client_of(row[2]),
        since=time_at(record.since_ms - lead),
        lease_until=time_at(record.deadline_ms - lead),
        operations=record.operations,
        holds=tuple(_held(each) for each in operations if each),
        fence=str(record.fence),
    )


def _held(record: OperationRecord) -> HeldMessage:
    return HeldMessage(
        kind=_OPERATIONS[record.kind],
        queue=keys.decode(record.queue),
        lookup_id=int(record.lookup_id, 16),
        target=keys.decode(record.target) if record.target else None,
    )


def sessions(manager: ManagerKeys, after: str | None, limit: int) -> Call[Page[SessionInfo]]:
    """A page of the sessions."""

    def parse(status: int, payload: Payload) -> Page[SessionInfo]:
        check(status)
        rows = [[text(item) for item in payload[at : at + 5]] for at in range(2, len(payload), 5)]
        items = tuple(
            SessionInfo(
                number=name,
                client=client_of(told),
                last_seen=time_at(int(used)) if used != "0" else None,
                ttl_seconds=int(ttl) / 1000,
                waiting={},
            )
            for name, _, used, ttl, told in rows
        )
        return Page(items, f"{rows[-1][1]}-{rows[-1][0]}" if payload[1] == b"1" else None)

    args: list[Arg] = [limit, *place(_SESSION_PLACE, after, "sessions")]
    return Call("session_list", manager.admin(), args, parse, changes=False)


def waiters(manager: ManagerKeys, paths: Sequence[str]) -> Call[list[dict[str, int]]]:
    """How many readers of each session wait in these queues, for as many queues as one call returns."""

    def parse(status: int, payload: Payload) -> list[dict[str, int]]:
        check(status)
        rows = (text(row).split() for row in payload[1:])
        return [
            {session: int(count) for session, _, count in (pair.partition(":") for pair in row)}
            for row in rows
        ]

    return Call("waiter_list", manager.call(*paths), [], parse, changes=False)


@dataclass(frozen=True, slots=True)
class StoredRow:
    """A message in the reply of message_list.lua."""

    raw: Raw
    state: Literal["ready", "delayed", "retry", "locked", "claimed"]
    due_at: datetime | None
    bytes: int
    complete: bool
    overdue: bool


def ready(
    queue: Address, after: object, limit: int, match: bytes, reverse: bool = False
) -> Call[Page[StoredRow]]:
    """A page of the available messages, in delivery order or its reverse, without large bodies."""
    (place_,) = place(_READY_PLACE, after, "messages")
    which = "reverse" if reverse else "ready"
    return _messages(queue, (which, limit, "", place_, "", match), False, lambda _, at: at)


def timed(
    queue: Address, after: object, limit: int, span: tuple[str, str], match: bytes, whole: bool = False
) -> Call[Page[StoredRow]]:
    """A page of the messages that wait for a time, in the order of the times. ``span``: from and to in ms, "" for no
    limit."""
    score, member = place(_TIMED_PLACE, after, "scheduled messages")
    args = ("timed", limit, score or span[0], member, span[1], match)
    return _messages(queue, args, whole, lambda at, by: f"{at}-{by}")


def one(queue: Address, lookup_id: str) -> Call[Page[StoredRow]]:
    """One message with its body, in any state; an empty page if it does not exist."""
    return _messages(queue, ("one", 1, "", lookup_id, "", b""), True, lambda _, at: at)


def _messages(
    queue: Address, args: Sequence[Arg], whole: bool, following: Callable[[str, str], str]
) -> Call[Page[StoredRow]]:
    def parse(status: int, payload: Payload) -> Page[StoredRow]:
        check(status, f"there is no queue {queue.path!r}" if status == Status.QUEUE_NOT_FOUND else "")
        now, more, score, at = (text(item) for item in payload[:4])
        rows = tuple(_row(int(now), whole, payload[n : n + 7]) for n in range(4, len(payload), 7))
        return Page(rows, following(score, at) if more == "1" else None)

    name = queue.path.partition(";")[0]
    keys_ = queue.manager.call(queue.path, f"{name};retry")
    return Call("message_list", keys_, [*args, "1" if whole else ""], parse, changes=False)


def _row(now: int, whole: bool, row: Payload) -> StoredRow:
    lookup_id, state, due, expires, told, size, record = row
    due_ms, expires_ms = number(due), number(expires)
    return StoredRow(
        raw=(lookup_id, told, record),
        state=text(state),  # type: ignore[arg-type]  # the script says one of these
        due_at=time_at(due_ms) if due_ms >= 0 else None,
        bytes=number(size),
        complete=whole or record[13] not in LARGE,
        overdue=0 <= due_ms <= now or 0 <= expires_ms <= now,
    )


@dataclass(frozen=True, slots=True)
class Trail:
    """The trail of one message."""

    lookup_id: str
    """Its lookup id: the one that was asked for, or the first one of the message with the message id; "" if that is
    not known."""
    entries: list[TrailEntry]
    """Empty if no trail is kept."""


def trail(manager: ManagerKeys, path: str, wanted: str) -> Call[Trail]:
    """The trail of one message. ``wanted``: its lookup id, or what ``chosen_id`` makes of its message id."""

    def parse(status: int, payload: Payload) -> Trail:
        check(status, f"there is no queue {path!r}" if status == Status.QUEUE_NOT_FOUND else "")
        lead, told = number(payload[0]), text(payload[1])
        record = TrailRecord.parse(told) if told else None
        if record is None:
            if told:
                raise ValueError(f"{told!r:.80} is not a trail")
            return Trail(text(payload[2]), [])
        entries = [
            _entry(each, lead, record.omitted if n == 1 else 0) for n, each in enumerate(record.entries)
        ]
        return Trail(text(payload[2]), entries)

    return Call("trail_read", manager.call(path), [wanted], parse, changes=False)


def chosen_id(message_id: Identifier) -> str:
    """What ``trail`` takes in place of a lookup id: a message id that the sender has chosen."""
    return "=" + keys.encode(matched(message_id, "message_id"))


def _entry(record: EntryRecord, lead: int, omitted: int) -> TrailEntry:
    return TrailEntry(
        time=time_at(record.ms - lead),
        event=record.event,  # type: ignore[arg-type]  # the scripts write one of these
        queue=keys.decode(record.queue),
        session="" if record.session == "-" else record.session,
        client="" if record.client == "-" else keys.decode(record.client),
        target=None if record.target == "-" else keys.decode(record.target),
        lookup_id=None if record.lookup_id == "-" else int(record.lookup_id, 16),
        detail=unescape(record.detail),
        omitted=omitted,
    )


@dataclass(frozen=True, slots=True)
class Overview:
    """The reply of one call of the overview."""

    done: int
    """How many queues of the call the reply covers."""
    queues: list[QueueDepth]


def overview(manager: ManagerKeys, paths: Sequence[str]) -> Call[Overview]:
    """The contents of these queues, for as many queues as one call returns."""

    def parse(status: int, payload: Payload) -> Overview:
        check(status)
        now, done = number(payload[0]), number(payload[1])
        rows = zip(paths, payload[2:], strict=False)
        return Overview(done, [_depth(path, text(row), now) for path, row in rows if row])

    return Call("overview", manager.call(*paths), [], parse, changes=False)


def _depth(path: str, row: str, now: int) -> QueueDepth:
    numbers, _, flags = row.rpartition(" -")
    (
        messages, size, gone, ready, locked, claimed, waiters, overdue, oldest, retry, lapsed, poison, journal,
        dead, poisoned, rejected, expired,
    ) = map(int, numbers.split(" "))  # fmt: skip
    return QueueDepth(
        name=path,
        ready=ready,
        delayed=messages - ready - locked + retry + lapsed,
        locked=locked,
        claimed=claimed,
        poison=poison,
        journal=journal,
        messages=messages + retry + lapsed,
        bytes=size,
        waiters=waiters,
        total_in=messages + gone,
        total_out=gone,
        dead=dead,
        poisoned=poisoned,
        rejected=rejected,
        expired=expired,
        oldest_seconds=max(0, now - oldest) / 1000 if oldest >= 0 else None,
        overdue=overdue == 1,
        transactional="t" in flags,
        topic="f" in flags,
        put_inhibited="p" in flags,
        get_inhibited="g" in flags,
    )
