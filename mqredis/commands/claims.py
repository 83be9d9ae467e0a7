"""claim*.lua: the claims of data pipelines, which lock messages until they are committed (docs/decisions/pipelines.md).

``mqredis.operations.pipelines`` and ``inspection`` call it, and Spark's readers (``spark.planning``,
``spark.claim_slice``). ``stages`` has the calls of writers.

A claim belongs to an owner (``consumerName``) and to a lineage (the checkpoint of the query that has made it), and has
a sequence number.
"""

from __future__ import annotations

from dataclasses import dataclass

from mqredis import keys
from mqredis.codec.claims import COMPLETE, FILLING, RELEASED, Claim
from mqredis.commands.address import Address
from mqredis.commands.read import Found
from mqredis.commands.replies import check, check_lost, check_queue, number, text
from mqredis.commands.waiting import Waiter
from mqredis.models.inspection import ClaimInfo, ClaimState
from mqredis.models.lookup_ids import split_ids
from mqredis.models.text import time_at
from mqredis.status import Status
from mqredis.steps import Arg, Call, Payload

# What each word behind LOCK_LOST means for the caller (``tests/contract/test_arguments.py`` compares the words).
WHY = {
    "foreign": "a query with another checkpoint has taken over this consumerName. Nothing was taken by this query. "
    "Stop one of the two queries; a query that is to go on needs a new checkpoint",
    "running": "another query with this consumerName is running. Stop that query, or choose another name",
    "released": "an operator released this claim (mqredis.spark.release). Start with a new checkpoint once the release "
    "has come to its end",
    "stale": "this batch was received already: the checkpoint is older than the state of the queue, as after a restore "
    "from a copy. Start with a new checkpoint; the messages of this batch are no longer in the queue",
    "fenced": "a later batch of this reader is claimed: two queries use one checkpoint or one consumerName. Stop one "
    "of them",
    "open": "an earlier batch of this reader is not received yet",
    "gap": "the queue does not know the batch before this one: the queue was restored or deleted, or the checkpoint is "
    "from another queue. Nothing was taken. Start with a new checkpoint, and write by the column batch_id",
}


@dataclass(slots=True)
class Backlog:
    """The backlog of a queue, from which a pipeline plans its batches."""

    generation: str
    available: int  # for an owner: what its claim could take, of groups that take turns one message each
    last: str  # SequentialID given out last, 14 hex digits
    oldest_ms: int | None  # arrival of the first available message
    now_ms: int
    claim: Claim | None  # of the owner; None: it has none
    alive: bool  # is the process of that claim connected?
    turns: bool  # for an owner: does the queue have one active message for each group (group_exclusive)?


def backlog(queue: Address, owner: str = "", bound: str = "", after: str = "") -> Call[Backlog]:
    """The backlog of a queue, and the progress of a claim."""

    def parse(status: int, payload: Payload) -> Backlog:
        check_queue(status, queue.path)
        oldest, claim = text(payload[3]), text(payload[5])
        return Backlog(
            generation=text(payload[0]),
            available=number(payload[1]),
            last=text(payload[2]),
            oldest_ms=int(oldest) if oldest else None,
            now_ms=number(payload[4]),
            claim=Claim.parse(claim) if claim else None,
            alive=number(payload[6]) == 1,
            turns=number(payload[7]) == 1,
        )

    return Call("claim_backlog", queue.call, [keys.encode(owner), bound, after], parse, changes=False)


@dataclass(frozen=True, slots=True)
class Order:
    """The order of a claim: which messages it takes, and how many."""

    messages: int  # at most
    most_bytes: int | None = None  # None: no limit; the first message is always taken
    after: str = ""  # only messages with a later SequentialID
    bound: str = ""  # no message with a later SequentialID
    match: bytes = b""  # only messages that pass (Filter.text)


@dataclass(slots=True)
class Claimed:
    """The progress of a claim."""

    count: int
    bytes: int
    sealed: bool  # it takes no further message
    place: str = ""  # where the search continues, if it is not sealed


def claim(
    queue: Address,
    owner: str,
    lineage: str,
    sequence: int,
    order: Order,
    first: bool = False,
    place: str = "",
) -> Call[Claimed]:
    """Claim a page. Repeat the call until the claim is sealed. Raises ClaimLost. ``first``: the first claim of this
    checkpoint (``lineage``), which may take over from an owner whose process is gone."""

    def parse(status: int, payload: Payload) -> Claimed:
        if status != Status.CONTINUE:
            check_lost(status, payload, WHY)
        sealed = status != Status.CONTINUE
        return Claimed(number(payload[0]), number(payload[1]), sealed, "" if sealed else text(payload[2]))

    args: list[Arg] = [
        queue.generation, keys.encode(owner), lineage, str(sequence), str(order.messages),
        "" if order.most_bytes is None else str(order.most_bytes), order.bound, "1" if first else "0",
        order.after, order.match, place,
    ]  # fmt: skip
    return Call("claim", queue.call, args, parse)


def match(queue: Address, order: Order, place: str = "") -> Call[bool | str]:
    """Is there a message that fits the order? A text: where the search continues."""

    def parse(status: int, payload: Payload) -> bool | str:
        if status == Status.CONTINUE:
            return text(payload[0])
        check_queue(status, queue.path)
        return payload[0] == b"1"

    return Call("claim_match", queue.call, [order.match, order.after, order.bound, place], parse)


def wait(queue: Address, after: str, waiter: Waiter) -> Call[Found | None]:
    """None if a queue has a message newer than ``after``; otherwise this process is registered as a waiter."""

    def parse(status: int, payload: Payload) -> Found | None:
        if status == Status.WAITING:
            return Found.nothing(text(payload[0]), number(payload[1]))
        check(status)
        return None

    return Call(
        "claim_wait", queue.call, [queue.generation, after, waiter.registration, waiter.ticket], parse
    )


def read(
    queue: Address, owner: str, lineage: str, sequence: int, offset: int, count: int
) -> Call[list[bytes]]:
    """Ids of a part of a sealed claim. Raises ClaimLost."""

    def parse(status: int, payload: Payload) -> list[bytes]:
        check_lost(status, payload, WHY)
        return split_ids(b"".join(payload))

    args: list[Arg] = [queue.generation, keys.encode(owner), lineage, str(sequence), str(offset), str(count)]
    return Call("claim_read", queue.call, args, parse, changes=False)


@dataclass(slots=True)
class Received:
    """The result of one call of a commit."""

    count: int  # messages that it removed
    more: bool  # call again: some are left
    done: bool  # all up to the sequence are received, whatever comes; what is left is their removal


def commit(queue: Address, owner: str, lineage: str, sequence: int) -> Call[Received]:
    """Receive all claimed messages up to a sequence, and remove a page of them. Sequence 0: only remove messages that
    are received already, whatever lineage of the owner claimed them."""

    def parse(status: int, payload: Payload) -> Received:
        if status == Status.CONTINUE:
            return Received(number(payload[0]), True, number(payload[1]) == 1)
        check_lost(status, payload, WHY)
        return Received(number(payload[0]), False, True)

    args: list[Arg] = [queue.generation, keys.encode(owner), lineage, str(sequence)]
    return Call("claim_commit", queue.call, args, parse)


def release(queue: Address, owner: str, forget: bool) -> Call[tuple[int, bool]]:
    """Give a page of an owner's claim back. Returns how many messages, and whether to call again."""

    def parse(status: int, payload: Payload) -> tuple[int, bool]:
        if status != Status.CONTINUE:
            check(status, f"no owner {owner!r} has a claim on queue {queue.path!r}")
        return number(payload[0]), status == Status.CONTINUE

    return Call("claim_release", queue.call, [keys.encode(owner), "1" if forget else "0"], parse)


_STATES: dict[int, ClaimState] = {FILLING: "filling", COMPLETE: "complete", RELEASED: "released"}


def listing(queue: Address) -> Call[list[ClaimInfo]]:
    """The readers of a queue, with the claim of each. Raises QueueNotFound."""

    def parse(status: int, payload: Payload) -> list[ClaimInfo]:
        check_queue(status, queue.path)
        lead = number(payload[0])
        return [info(payload[n : n + 5], lead) for n in range(1, len(payload), 5)]

    def info(row: Payload, lead: int) -> ClaimInfo:
        claim = Claim.parse(text(row[2]))
        open_ = claim.sequence != claim.committed or claim.sealed == RELEASED
        return ClaimInfo(
            queue=queue.path,
            owner=keys.decode(text(row[0])),
            sequence=claim.sequence,
            messages=number(row[3]),
            bytes=claim.bytes,
            state=_STATES[claim.sealed] if open_ else "committed",
            since=time_at(claim.since_ms - lead),
            connected=row[1] == b"1",
            removing=number(row[4]),
        )

    return Call("claim_list", queue.call, [], parse, changes=False)
