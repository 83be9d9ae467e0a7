"""receive.lua, peek.lua, lookup.lua: show, take or lock messages (MS-MQDMPR 3.1.7.1.10, .11, .13, .14, .15).

``mqredis.operations`` calls it: ``receive`` (also for ``several``, ``groups`` and ``cursor``), ``peek``, ``lookup`` and
``browser``; ``wait`` and others read a ``Found``. ``settle``, workers, ``mqredis.testing`` and ``cli.transfer`` know
``BATCH``.
``drivers.waiting.handoff`` makes a reply that ``_parse_receive`` reads, so both change together
(``tests/contract/test_constants.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mqredis.codec import Raw, Rows
from mqredis.commands.address import Address
from mqredis.commands.arguments import Mode
from mqredis.commands.replies import OK, check, number, text
from mqredis.commands.settlement import Lost, lost_in
from mqredis.commands.waiting import Waiter
from mqredis.errors import error_for
from mqredis.models.lookup_ids import SIZE, checked_ids
from mqredis.models.record_parts import FLAG_AT, LARGE_FLAGS
from mqredis.status import Status
from mqredis.steps import Arg, Call, Payload

# Messages, and settlements, that one call takes at most, so that it does not hold up others for long. Only the client
# checks it; docs/performance.md and the docstrings of ``lock_many`` and of ``Worker.consumer`` name it.
BATCH = 256

# Nothing was found, so far. What was settled on the way is settled all the same.
NOTHING_FOUND = frozenset((int(Status.WAITING), int(Status.CONTINUE)))


@dataclass(init=False)
class Found:
    """What a read answers. No ``messages``: nothing was found, so far if there is a ``place``."""

    messages: Sequence[Raw] = ()
    # Of the transaction, or of the locks; "" of a peek and of a read that took messages.
    fence: str = ""
    # When the lease lapses, on the server's clock in ms.
    deadline: int = 0
    now_ms: int = 0
    # What the next look of the waiting reader names (``commands.waiting.Waiter``); "" with messages.
    ticket: str = ""
    # Ms until the next timer of the queue, which may make a message available; -1: there is none.
    due_ms: int = -1
    # Not everything was looked at yet: the search goes on behind this id.
    place: str = ""
    lost: Sequence[Lost] = ()

    # Of most reads these four have to be set, and one that sets all takes twice as long.
    def __init__(
        self, messages: Sequence[Raw] = (), fence: str = "", deadline: int = 0, now_ms: int = 0
    ) -> None:
        self.messages = messages
        self.fence = fence
        self.deadline = deadline
        self.now_ms = now_ms

    @classmethod
    def nothing(cls, ticket: str = "", due_ms: int = -1, place: str = "", lost: Sequence[Lost] = ()) -> Found:
        """The answer of a read that has found nothing."""
        found = cls([])
        found.ticket, found.due_ms, found.place, found.lost = ticket, due_ms, place, lost
        return found


# The first letter of a cursor (lua/core/seek.lua): the message at its id is unread or read, or a search goes on
# behind the id.
UNREAD, READ, BEHIND = "URA"


def behind(place: str) -> str:
    """The cursor with which a search goes on behind this id; "" where it begins."""
    return BEHIND + place if place else ""


def _messages(payload: Payload, at: int) -> Sequence[Raw]:
    """The messages of a reply from element ``at`` on (lua/core/message.lua).

    Empty if the call was repeated and what it had found is gone since: its lease was over by then.
    """
    if at == len(payload):
        return []
    ids, joint, records = checked_ids(payload[at]), payload[at + 1], payload[at + 2 :]
    count = len(ids) // SIZE
    if len(records) != count:
        rest = iter(records)
        records = [record + next(rest) if record[FLAG_AT] in LARGE_FLAGS else record for record in rest]
    if count == 1:
        (record,) = records
        return [(ids, joint, record)]
    states = joint.split(b",")
    return Rows(ids, states if len(states) == count else states * count, records)


def _parse_receive(status: int, payload: Payload) -> Found:
    if status != OK:
        if status not in NOTHING_FOUND:
            check(status)
        stop = 3 + int(payload[2])
        lost = lost_in(payload[3:stop])
        place = text(payload[stop]) if status == Status.CONTINUE else ""
        return Found.nothing(text(payload[0]), number(payload[1]), place, lost)
    stop = 4 + int(payload[3])
    found = Found(_messages(payload, stop), payload[0].decode(), int(payload[1] or 0), int(payload[2]))
    if stop > 4:
        found.lost = lost_in(payload[4:stop])
    return found


def _parse_lookup(status: int, payload: Payload) -> Found:
    """As of a receive; but a lookup never waits, so it raises MessageNotFound if it has found nothing."""
    found = _parse_receive(status, payload)
    if not found.messages and not found.place:
        raise error_for(Status.MESSAGE_NOT_FOUND)
    return found


def receive(
    queue: Address,
    mode: Mode,
    count: int = 1,
    owner: str = "",
    grant: str = "",
    cursor: str = "",
    waiter: Waiter | None = None,
    match: bytes = b"",
    settle: Sequence[str] = (),
) -> Call[Found]:
    """Take (``take``), lock (``lock``) or receive in a transaction (``tx``) the first available messages.

    ``owner``: id of the transaction. ``grant``: its fence, or the lease of the locks in ms. ``settle``: what is settled
    on the way, as :func:`mqredis.commands.settlement.runs` returns it.
    """
    registration, ticket = ("", "") if waiter is None else (waiter.registration, waiter.ticket)
    args: tuple[Arg, ...] = (queue.generation, mode, str(count), owner, grant)
    if cursor or registration or match or settle:
        args += (cursor, registration, ticket, match, *settle)
    return Call("receive", queue.call, args, _parse_receive)


def _parse_peek(status: int, payload: Payload) -> Found:
    if status in NOTHING_FOUND:
        place = text(payload[2]) if status == Status.CONTINUE else ""
        return Found.nothing(text(payload[0]), number(payload[1]), place)
    check(status)
    return Found(messages=_messages(payload, 1), now_ms=number(payload[0]))


def peek(
    queue: Address,
    count: int = 1,
    *,
    cursor: str = "",
    step: str = "current",
    waiter: Waiter | None = None,
    match: bytes = b"",
    marks: bool = False,
) -> Call[Found]:
    """Show the first available messages; with a cursor its current or its next one."""
    wait = waiter or Waiter()
    args: list[Arg] = [queue.generation, str(count), cursor, step, wait.registration, wait.ticket, match]
    # A waiting peek may be handed a copy, which its look removes from the slot: that one is worth a token.
    return Call("peek", queue.call, args, _parse_peek, changes=marks or bool(wait.registration))


def lookup(
    queue: Address,
    mode: Mode,
    seek: str,
    lookup_id: str = "",
    *,
    owner: str = "",
    grant: str = "",
    allow_peek: bool = False,
    own_fence: str = "",
    match: bytes = b"",
) -> Call[Found]:
    """Read one particular message by lookup id: ``peek``, ``take``, ``lock`` or ``tx``.

    ``owner``: id of the transaction. ``grant``: its fence, or the lease of a lock in ms. ``own_fence``: of a lock on
    the message that this call takes over. ``match``: which messages the handle sees.
    """
    args: list[Arg] = [
        queue.generation,
        mode,
        seek,
        lookup_id,
        owner,
        grant,
        "1" if allow_peek else "0",
        own_fence,
        match,
    ]
    return Call("lookup", queue.call, args, _parse_lookup, changes=mode != "peek")
