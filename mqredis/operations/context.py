"""The state that the operations of one client share, and its open handles and units of work.

``connect`` makes the ``Context`` of a client, and all operations take it. ``ServerState`` is that of ``drivers.core``,
which sets it; ``prepared`` also serves ``cli.scripts``. docs/extending.md lists what integrations may use.

The threads of a blocking client share a context, its handles and its units of work without a lock.
"""

from __future__ import annotations

import logging
import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from time import monotonic
from typing import Any
from weakref import ref

from mqredis import codec
from mqredis.commands.address import Address
from mqredis.errors import (
    InvalidArgument,
    SealBroken,
)
from mqredis.keys import ManagerKeys
from mqredis.models import Message, Outgoing
from mqredis.models.text import milliseconds
from mqredis.operations.checks import seconds
from mqredis.operations.open_queue import Handle
from mqredis.operations.unit_of_work import UnitOfWork
from mqredis.sealing import Sealer
from mqredis.settings import ENV_PREFIX, LONGEST_LEASE, Settings
from mqredis.steps import Operation

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


def lease_of(context: Context, lease: float | None) -> int:
    """A lease in ms, from seconds or the default. Raises InvalidArgument beyond what the setting may be, too."""
    if lease is None:
        return context.lease_ms
    return milliseconds(seconds(lease, "lease", positive=True, most=LONGEST_LEASE))


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
