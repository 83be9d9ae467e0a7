"""lock_list.lua, tx_list.lua, session_list.lua, waiter_list.lua, overview.lua: what operators see of a manager.

``mqredis.operations.inspection`` calls it. The heads of the scripts name the elements of each reply in their order,
which nothing compares but ``tests/inspection``. The console and the command line show the results by the fields of
``models.inspection``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, NamedTuple

from pydantic import ValidationError

from mqredis import keys
from mqredis.codec import states
from mqredis.codec.transactions import MOVED, RECEIVED, REJECTED, SENT, OperationRecord, TransactionRecord
from mqredis.commands.queues import FLAGS
from mqredis.commands.replies import check, check_queue, number, page_after, text
from mqredis.keys import ManagerKeys
from mqredis.models.inspection import (
    ClientInfo,
    HeldMessage,
    LockInfo,
    Page,
    QueueDepth,
    SessionInfo,
    TransactionInfo,
)
from mqredis.models.lookup_ids import LOOKUP_ID, generated_id
from mqredis.models.text import read_identifier, time_at, unescape
from mqredis.steps import Arg, Call, Payload

# Operations of each transaction that are shown (``TransactionInfo.holds`` tells users).
MAX_HELD = 100
# Elements of a lock in the reply of lock_list.lua.
LOCK_ELEMENTS = 10
# Queues that one call of the overview (``QueueManager.overview`` tells users), or for waiting readers, names.
QUEUES = 128

_KINDS: dict[str, Literal["lock", "received", "sent", "moved"]] = {
    states.BY_READER: "lock", states.RECEIVED: "received", states.SENT: "sent", states.MOVED: "moved",
}  # fmt: skip
_OPERATIONS: dict[str, Literal["sent", "received", "rejected", "moved"]] = {
    SENT: "sent", RECEIVED: "received", REJECTED: "rejected", MOVED: "moved",
}  # fmt: skip
_LOCK_PLACE = re.compile(rf"(\d{{1,16}})-({LOOKUP_ID.pattern})", re.ASCII)
_SESSION_PLACE = re.compile(r"(\d{1,16})-(\d{1,16})", re.ASCII)
_SCAN_PLACE = re.compile(r"\d{1,20}", re.ASCII)


def client_of(told: str) -> ClientInfo:
    """The description of a client; an empty one if it cannot be parsed, as one of a later release may be."""
    try:
        values = json.loads(told)
        return ClientInfo(**{name: values[name] for name in ClientInfo.model_fields if name in values})
    except (TypeError, ValueError, ValidationError):
        return ClientInfo()


def locks(
    manager: ManagerKeys, path: str, after: str | None, limit: int, match: bytes
) -> Call[Page[LockInfo]]:
    """A page of the locks of one queue."""

    def parse(status: int, payload: Payload) -> Page[LockInfo]:
        check_queue(status, path)
        now, deadline, last, size = number(payload[0]), text(payload[1]), text(payload[2]), number(payload[3])
        stop = 4 + size * LOCK_ELEMENTS
        rows = [payload[at : at + LOCK_ELEMENTS] for at in range(4, stop, LOCK_ELEMENTS)]
        # Behind the locks: pairs of a session and its client, "-", and pairs of a transaction and its session.
        rest = [text(item) for item in payload[stop:]]
        dash = rest.index("-")
        clients = {session: client_of(told) for session, told in _pairs(rest[:dash])}
        sessions_of = dict(_pairs(rest[dash + 1 :]))
        items = tuple(_lock(path, row, now, clients, sessions_of) for row in rows)
        return Page(items, f"{deadline}-{last}" if last else None)

    args: list[Arg] = [str(limit), *page_after(_LOCK_PLACE, after, "locks"), match]
    return Call("lock_list", manager.call(path), args, parse, changes=False)


def _pairs(items: Sequence[str]) -> Iterator[tuple[str, str]]:
    return zip(items[::2], items[1::2], strict=True)


def _lock(
    path: str, row: Payload, now: int, clients: dict[str, ClientInfo], sessions_of: dict[str, str]
) -> LockInfo:
    """A lock from its elements in the reply. ``clients``: by session; ``sessions_of``: the sessions of transactions."""
    lookup_id, deadline, since, kind, owner, fence, deliveries, uncounted, message_id, label = map(text, row)
    locked = kind[0] == states.BY_READER
    session = owner.partition(".")[0] if locked else sessions_of.get(owner, "")
    return LockInfo(
        queue=path,
        lookup_id=int(lookup_id, 16),
        message_id=read_identifier(message_id) if message_id else generated_id(lookup_id),
        label=unescape(label),
        kind=_KINDS[kind[0]],
        purged=states.PURGED in kind,
        transaction=None if locked else owner,
        session=session,
        client=clients.get(session, ClientInfo()),
        worker="",
        consumer="",
        since=_time(since),
        lease_until=time_at(int(deadline)),
        overdue=int(deadline) <= now,
        deliveries=int(deliveries),
        attempts=int(deliveries) - int(uncounted),
        fence=fence,
    )


def _time(ms: str) -> datetime | None:
    return time_at(int(ms)) if ms else None


def transactions(manager: ManagerKeys, after: str | None) -> Call[Page[TransactionInfo]]:
    """A page of the open transactions."""

    def parse(status: int, payload: Payload) -> Page[TransactionInfo]:
        check(status)
        lead, following = number(payload[0]), text(payload[1])
        items, at = [], 2
        while at < len(payload):
            stop = at + 1 + number(payload[at])
            items.append(_transaction(lead, [text(item) for item in payload[at + 1 : stop]]))
            at = stop
        return Page(tuple(items), None if following == "0" else following)

    page_after(_SCAN_PLACE, after, "transactions")
    return Call("tx_list", manager.call(), [after or "0", str(MAX_HELD)], parse, changes=False)


def _transaction(lead: int, row: list[str]) -> TransactionInfo:
    """A transaction from its id, record, client and first operations. ``lead``: ms by which stored times are ahead."""
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
        items, place = [], ""
        for at in range(1, len(payload), 5):
            name, score, used, ttl, told = map(text, payload[at : at + 5])
            items.append(
                SessionInfo(
                    number=name,
                    client=client_of(told),
                    last_seen=time_at(int(used)) if used != "0" else None,
                    ttl_seconds=int(ttl) / 1000,
                    waiting={},
                )
            )
            place = f"{score}-{name}"
        return Page(tuple(items), place if payload[0] == b"1" else None)

    args: list[Arg] = [str(limit), *page_after(_SESSION_PLACE, after, "sessions")]
    return Call("session_list", manager.admin(), args, parse, changes=False)


def waiters(manager: ManagerKeys, paths: Sequence[str]) -> Call[list[dict[str, int]]]:
    """How many readers of each session wait in these queues, for as many queues as one call returns."""

    def parse(status: int, payload: Payload) -> list[dict[str, int]]:
        check(status)
        rows = (text(row).split() for row in payload)
        return [
            {session: int(count) for session, _, count in (pair.partition(":") for pair in row)}
            for row in rows
        ]

    return Call("waiter_list", manager.call(*paths), [], parse, changes=False)


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
        now, *rows = payload
        found = [_depth(path, text(row), number(now)) for path, row in zip(paths, rows, strict=False) if row]
        return Overview(len(rows), found)

    return Call("overview", manager.call(*paths), [], parse, changes=False)


class DepthRow(NamedTuple):
    """The numbers in a row of overview.lua, in their order."""

    messages: int
    size: int  # in bytes, with the messages in ;retry and ;lapsed
    gone: int  # messages that have left since the queue was created
    ready: int
    locked: int  # those of claims included
    claimed: int
    waiters: int
    overdue: int  # 1: timers are due
    oldest_ms: int  # arrival of the oldest available message; below 0: none is available
    # Messages in the subqueues that the broker fills.
    retry: int
    lapsed: int
    poison: int
    journal: int
    # Counters since the queue was created.
    dead: int
    poisoned: int
    rejected: int
    expired: int


def _depth(path: str, row: str, now_ms: int) -> QueueDepth:
    """A row of overview.lua: its numbers, "-" and the letters of the queue's flags."""
    numbers, _, flags = row.rpartition(" -")
    found = DepthRow(*map(int, numbers.split(" ")))
    resting = found.retry + found.lapsed  # they return to the queue
    return QueueDepth(
        name=path,
        ready=found.ready,
        delayed=found.messages - found.ready - found.locked + resting,
        locked=found.locked,
        claimed=found.claimed,
        poison=found.poison,
        journal=found.journal,
        messages=found.messages + resting,
        bytes=found.size,
        waiters=found.waiters,
        total_in=found.messages + found.gone,
        total_out=found.gone,
        dead=found.dead,
        poisoned=found.poisoned,
        rejected=found.rejected,
        expired=found.expired,
        oldest_seconds=max(0, now_ms - found.oldest_ms) / 1000 if found.oldest_ms >= 0 else None,
        overdue=found.overdue == 1,
        transactional=FLAGS["transactional"] in flags,
        topic=FLAGS["topic"] in flags,
        put_inhibited=FLAGS["put_inhibited"] in flags,
        get_inhibited=FLAGS["get_inhibited"] in flags,
    )
