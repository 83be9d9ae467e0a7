"""The state that the operations of one client share, and its open handles and units of work.

``connect`` makes the ``Context`` of a client, and all operations take it. ``ServerState`` is that of ``drivers.core``,
which sets it; ``prepared`` also serves ``cli.scripts``. docs/extending.md lists what integrations may use.

The threads of a blocking client share a context, its handles and its units of work without a lock. ``__del__`` runs in
the thread that drops the last reference, whatever it is doing, so it only appends to a deque.
"""

from __future__ import annotations

import logging
import math
import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from time import monotonic
from typing import TYPE_CHECKING, Any
from weakref import ref

from mqredis import codec
from mqredis.commands.address import Address
from mqredis.commands.filters import Member
from mqredis.commands.queues import FLAGS
from mqredis.commands.transactions import Doubt
from mqredis.errors import (
    AccessDenied,
    InvalidArgument,
    InvalidHandle,
    SealBroken,
    TransactionSequence,
)
from mqredis.keys import ManagerKeys
from mqredis.models import Access, Message, Outgoing, Share
from mqredis.models.text import milliseconds
from mqredis.operations.checks import seconds
from mqredis.sealing import Sealer
from mqredis.settings import ENV_PREFIX, LONGEST_LEASE, Settings
from mqredis.steps import Operation

if TYPE_CHECKING:
    from mqredis.selector import Selector

log = logging.getLogger("mqredis")

# So many dropped objects are kept until the client is closed. The oldest of more are left to their leases.
MAX_DROPPED = 10_000


@dataclass(slots=True)
class ServerState:
    """What is known of the server process that a client talks to; a driver asks each new one."""

    volatile: bool = False
    """Does the server keep nothing on disk, without ``allow_volatile``? Then it takes only messages that may be
    lost."""


def _numbers() -> Iterator[int]:
    """1, 2, 3 and so on; ``next`` gives each thread another one."""
    return count(1)


@dataclass(slots=True)
class Context:
    """One client of one queue manager."""

    keys: ManagerKeys
    settings: Settings
    database: int = 0
    """Number of the server's database, which is a part of the names of wake channels."""
    incarnation: str = ""
    """Identifier of the manager's data, a part of each message's token."""
    server_state: ServerState = field(default_factory=ServerState)
    sealer: Sealer | None = None
    """Seals what is sent and opens what is read."""
    clock: Callable[[], float] = monotonic
    """A clock in seconds of which only differences mean anything."""
    handle_numbers: Iterator[int] = field(default_factory=_numbers)
    """Numbers for the handles of this client, and for the names of its browsers, transactions and reply queues."""
    browser_numbers: Iterator[int] = field(default_factory=_numbers)
    transaction_numbers: Iterator[int] = field(default_factory=_numbers)
    reply_queue_numbers: Iterator[int] = field(default_factory=_numbers)
    has_requested: bool = False
    """Has the client made a request, so that it may have left a reply queue?"""
    replies: list[tuple[Handle, float]] = field(default_factory=list)
    """Temporary reply queues that are free, and when each was used last, on ``clock``."""
    leftovers: deque[tuple[str, Callable[[], Operation[Any]]]] = field(default_factory=deque)
    """Functions that make operations to be carried out later (``operations.leftovers``), each with the token of the
    call that the operation undoes or ""."""
    lease_ms: int = field(init=False)
    """The lease of a lock in ms, kept here since reading it from the settings takes longer."""
    lease: str = field(init=False)
    """``lease_ms`` as an argument of scripts."""
    opened: set[ref[Handle]] = field(default_factory=set)
    """References to the handles of this client."""
    subqueues: dict[str, Address] = field(default_factory=dict)
    """The subqueues of open handles, by the numbers of these, also of handles that the application has dropped."""
    units: set[ref[UnitOfWork]] = field(default_factory=set)
    """References to the units of work. Plain sets can be copied while another thread adds to them."""
    dropped: deque[Handle | UnitOfWork] = field(default_factory=lambda: deque(maxlen=MAX_DROPPED))
    """Handles that held locks, and units of work that had begun, when the application dropped its last reference."""

    def __post_init__(self) -> None:
        self.lease_ms = milliseconds(self.settings.lease_seconds)
        self.lease = str(self.lease_ms)

    def after_fork(self) -> None:
        """In a child process: locks, units of work and reply queues stay the parent's, which ends them. The child may
        go on with the handles."""
        for handle in self.open_handles():
            handle.locks.clear()
        for unit in self.begun():
            unit.inherited = True
        for held in (self.dropped, self.replies, self.leftovers, self.subqueues):
            held.clear()

    def handle(self, handle: Handle) -> Handle:
        """Add a new handle."""
        self.opened.add(ref(handle, self.opened.discard))
        return handle

    def unit(self, unit: UnitOfWork) -> UnitOfWork:
        """Add a new unit of work."""
        self.units.add(ref(unit, self.units.discard))
        return unit

    def open_handles(self) -> list[Handle]:
        """The open handles, also those in ``dropped``."""
        # A weak reference may still lead to an object in ``dropped``, so each is taken once.
        each = dict.fromkeys([*(reference() for reference in list(self.opened)), *self.dropped])
        return [handle for handle in each if isinstance(handle, Handle) and not handle.closed]

    def begun(self) -> list[UnitOfWork]:
        """The open units of work."""
        each = dict.fromkeys([*(reference() for reference in list(self.units)), *self.dropped])
        return [unit for unit in each if isinstance(unit, UnitOfWork) and unit.open]

    def holding(self) -> list[Handle]:
        """The open handles that hold locks."""
        return [handle for handle in self.open_handles() if handle.locks]

    def messages(self, path: str, raw: Sequence[codec.Raw], *, taken: bool = False) -> list[Message]:
        """Decode messages of a reply, and open their bodies. Raises SealBroken, which has the messages.

        What the reply has changed (locks, a position) must be noted before, since the error is no refusal of the call:
        see :meth:`decoded`. ``taken``: the script removed them, so their states do not count this delivery.
        """
        return self.unsealed(self.decoded(path, raw, taken=taken))

    def decoded(self, path: str, raw: Sequence[codec.Raw], *, taken: bool = False) -> list[Message]:
        """Decode messages of a reply, and leave their bodies as they are stored."""
        return codec.decode_each(path, self.incarnation, raw, taken)

    def sealed(self, message: Outgoing) -> Outgoing:
        """The message as it is sent. Raises InvalidArgument for a segment, if the client seals."""
        if self.sealer is None:
            return message
        if message.segment or message.last_segment:
            raise InvalidArgument(
                "segments are joined by their lengths, which sealing changes: send the body whole"
            )
        return message.replace(body=self.sealer.seal(message.body, self.keys.manager.encode()))

    def unsealed(self, messages: list[Message]) -> list[Message]:
        """The messages with their bodies opened. Raises SealBroken."""
        sealer = self.sealer
        if sealer is None:
            return messages
        opened, broken = [], ""
        for message in messages:
            try:
                body = sealer.open(message.body, self.keys.manager.encode())
            except SealBroken as error:
                broken = broken or f"message {message.lookup_id:#018x} of queue {message.queue!r}: {error}"
                opened.append(message)
            else:
                opened.append(message.replace(body=body))
        if broken:
            raise SealBroken(broken, messages=opened)
        return opened


@dataclass(slots=True, eq=False)
class Logical:
    """The position of a handle in a group: the next member, and whether the group is read in a unit of work."""

    member: Member | None = None
    in_unit: bool = False
    log: list[tuple[object, Member | None, bool]] = field(default_factory=list)
    """Reads whose messages may be returned, oldest first: the lock or unit of work, and the position before it."""

    def advance(self, reader: object, member: Member | None, in_unit: bool) -> None:
        """A read succeeded. ``reader``: the lock or unit of work that may return the message; None: it cannot be
        returned."""
        if reader is not None:
            self.log.append((reader, self.member, self.in_unit))
        self.member, self.in_unit = member, in_unit

    def back(self, reader: object) -> None:
        """The messages of this lock or unit of work were returned: go back to the position before it, unless an
        earlier one was returned already."""
        for at, (each, member, in_unit) in enumerate(self.log):
            if each == reader:
                self.member, self.in_unit = member, in_unit
                del self.log[at:]
                return

    def settle(self, reader: object) -> None:
        """The messages of this lock or unit of work will not be returned."""
        if self.log:
            self.log = [entry for entry in self.log if entry[0] != reader]


_ALL = Access.ALL
# As handle.receives in lua/core/handle.lua, which compares share modes.
_RECEIVES = (Access.RECEIVE, Access.ADMIN, Access.ALL)
_ALLOWED: dict[str, tuple[Access, ...]] = {
    "send": (Access.SEND, Access.ADMIN, Access.ALL),
    "receive": _RECEIVES,
    "peek": (*_RECEIVES, Access.PEEK),
}
# IBM MQ's reason codes of a use that the access of a handle does not allow.
_MQRC = {"send": 2039, "receive": 2037, "peek": 2036}


@dataclass(slots=True, eq=False, weakref_slot=True)
class Handle:
    """An open queue (OpenQueueDescriptor, MS-MQDMPR 3.1.1.16)."""

    context: Context
    address: Address
    number: str
    """Names the handle within the session (lua/core/handle.lua); "" of a multiple-element name, which the broker does
    not know."""
    access: Access
    share: Share
    flags: str
    """The letters of the queue's properties that are set (``FLAGS``), when it was opened."""
    max_message_bytes: int
    """Largest message that may be sent through the handle, in bytes, by queue and settings."""
    closed: bool = False
    waited: bool = False
    """Did the last read have to wait? Then the next one registers its waiter with its first call."""
    locks: dict[str, str] = field(default_factory=dict)  # lookup id -> fence, of locks not settled yet
    selector: Selector | None = None
    """The selector that was given when the handle was opened; each read returns only messages that it selects."""
    getting: Logical = field(default_factory=Logical)
    """The position of reads in logical order."""
    parts: dict[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)
    """The lookup ids of locked messages that were joined from segments, by the fence and the id of the first one. The
    fence tells them from a later lock of the first segment alone."""
    elements: tuple[Handle, ...] = ()  # of a multiple-element name
    batchers: dict[type, Any] = field(default_factory=dict)
    """The batchers of this handle, by class of operation (``drivers/coalescing``)."""
    topic: bool = field(init=False)
    """Is it a topic?"""
    transactional: bool = field(init=False)
    """Does the queue hold transactional messages?"""
    group_exclusive: bool = field(init=False)
    """Do groups take turns?"""

    def __post_init__(self) -> None:
        self.topic, self.transactional, self.group_exclusive = (
            FLAGS[name] in self.flags for name in ("topic", "transactional", "group_exclusive")
        )

    @property
    def path(self) -> str:
        """Name of the queue, with its subqueue."""
        return self.address.path

    def __del__(self) -> None:
        """Keep a handle that holds locks until its client is closed, which gives them back."""
        if self.locks and not self.closed:
            self.context.dropped.append(self)

    def close(self) -> None:
        """Close the handle: ``need`` raises from now on."""
        self.closed = True

    def need(self, use: str) -> None:
        """Raise unless the handle is open and was opened for this use: "send", "receive" or "peek"."""
        if self.access is _ALL and not self.closed and (use == "receive" or ";" not in self.address.path):
            return  # the most frequent case: Access.ALL allows each use
        if self.closed:
            raise InvalidHandle(f"this handle of queue {self.path!r} is closed")
        if use == "send" and ";" in self.path and not self.elements:
            raise AccessDenied(f"messages cannot be sent to {self.path!r}: they are moved or copied there")
        if self.access not in _ALLOWED[use]:
            raise AccessDenied(
                f"the handle of queue {self.path!r} was opened with access {self.access.value!r}, "
                f"which does not allow to {use}",
                mqrc=_MQRC[use],
            )


@dataclass(slots=True, eq=False, weakref_slot=True)
class UnitOfWork:
    """A transaction (MS-MQDMPR 3.1.1.14) as its client knows it."""

    context: Context
    id: str
    lease_ms: int
    fence: str = ""  # "" before its first operation, which begins it
    paths: dict[str, None] = field(default_factory=dict)
    """The queues of its operations, in the order in which its end names them; a dict is an ordered set here."""
    finished: str = ""
    """What it is after its end, for errors: "committed", "aborted", "over" or "in doubt"; "" before it."""
    lapses: float = math.inf
    """When the lease ends at the latest, on ``context.clock``."""
    doubts: Sequence[Doubt] = ()
    """Its calls with an unknown outcome; set when the transaction is about to end."""
    undo: tuple[Callable[[], None], ...] = ()
    """Functions that an abort calls to restore the state of groups that are written in logical order."""
    inherited: bool = False
    """Is it that of the parent process, which ends it?"""
    readers: tuple[Logical, ...] = ()
    """Positions in groups that an abort restores, of handles that read in the unit of work."""

    def __del__(self) -> None:
        """Keep a unit of work that has begun until its client is closed, which aborts it."""
        if self.open:
            self.context.dropped.append(self)

    @property
    def open(self) -> bool:
        """Does the broker know it, and has this process to end it?"""
        return bool(self.fence) and not self.finished and not self.inherited

    def rolled_back(self) -> None:
        """The unit of work was undone."""
        for restore in reversed(self.undo):
            restore()
        self.undo = ()
        for reader in self.readers:
            reader.back(self)

    def committed(self) -> None:
        """The unit of work was committed: its messages will not be returned."""
        for reader in self.readers:
            reader.settle(self)

    def grant(self) -> str:
        """The fence that a call names, or the lease with which it begins the transaction."""
        if self.finished:
            raise TransactionSequence(f"transaction {self.id!r} is {self.finished} already")
        return self.fence or f"+{self.lease_ms}"

    def renewed(self, lease_ms: int) -> None:
        """The lease was begun or renewed just now."""
        self.lapses = self.context.clock() + lease_ms / 1000

    def touched(self, fence: str, handle: Handle) -> None:
        """An operation of this unit of work on this queue succeeded. ``fence``: in its reply, of the transaction.

        The lease runs from the first operation; later ones do not renew it. Raises TransactionSequence if this one
        began it while another task ended it: the broker had not heard of it by then, so this one is no part of it.
        """
        if self.finished and not self.fence:
            raise TransactionSequence(
                f"transaction {self.id!r} was {self.finished} while this call was under way, so what the call did is "
                "undone when the lease ends: wait for the calls in a transaction before you end it"
            )
        if not self.fence:
            self.renewed(self.lease_ms)
        self.fence = fence
        address = handle.address
        if address.path not in self.paths:
            self.paths.update(dict.fromkeys(address.family))


def unit_of(transaction: object) -> UnitOfWork | None:
    """The unit of work behind what a caller gave as ``transaction``, a Transaction of either interface."""
    if transaction is None:
        return None
    unit = getattr(transaction, "unit", None)
    if not isinstance(unit, UnitOfWork):
        raise InvalidArgument(f"transaction must be a mqredis Transaction, not {type(transaction).__name__}")
    return unit


def handle_of(queue: object) -> Handle:
    """The handle behind what a caller gave as a queue, a Queue of either interface."""
    handle = getattr(queue, "handle", None)
    if not isinstance(handle, Handle):
        raise InvalidArgument(f"an open mqredis Queue is needed, not {type(queue).__name__}")
    return handle


def lease_of(context: Context, lease: float | None) -> int:
    """A lease in ms, from seconds or the default. Raises InvalidArgument beyond what the setting may be, too."""
    if lease is None:
        return context.lease_ms
    return milliseconds(seconds(lease, "lease", positive=True, most=LONGEST_LEASE))


def lapsed(context: Context, until: float, otherwise: str) -> str:
    """When a lease ended, for an error; ``otherwise`` if it should not be over by this process's clock."""
    ago = context.clock() - until
    return f"its lease ended {ago:.1f} s ago" if ago >= 0 else otherwise


def owner_of(handle: Handle, unit: UnitOfWork | None) -> tuple[str, str]:
    """Id and grant of the transaction a call runs in, or two empty texts."""
    if unit is None:
        return "", ""
    if unit.context is not handle.context and unit.context.keys.tag != handle.context.keys.tag:
        raise InvalidArgument("the transaction belongs to another queue manager")
    return unit.id, unit.grant()


def prepared(
    url: object, manager: str | None, settings: Settings | None, sealer: object = None
) -> tuple[Settings, object]:
    """Settings with the manager's name in them, and where to connect to. Raises InvalidArgument."""
    settings = Settings.from_env() if settings is None else settings
    if not isinstance(settings, Settings):
        raise InvalidArgument(
            f"settings must be a mqredis.Settings, not {type(settings).__name__}: give Settings(lease_seconds=...)"
        )
    if sealer is not None and not all(callable(getattr(sealer, name, None)) for name in ("seal", "open")):
        raise InvalidArgument(
            f"sealer must have the methods seal and open, as mqredis.sealing.AesGcm has, not {type(sealer).__name__}"
        )
    if manager is not None:
        settings = settings.model_copy(update={"manager": manager})
    where = url if url is not None else settings.url
    if where is None:
        # Settings that name no server must not send messages to a private one while the environment names another.
        variable = os.environ.get(f"{ENV_PREFIX}URL")
        if variable == "":  # perhaps a deployment that fails to set it
            log.warning("%sURL is empty, so this client uses the private server of this machine", ENV_PREFIX)
        where = variable or "embedded://"
    return settings, where
