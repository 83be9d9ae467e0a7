"""The session of a client at the server, its slots, and one operation that holds a slot.

A call that changes something carries a token: session, slot and sequence number. The server keeps the last reply of
each slot (lua/core/session), so a call that is repeated with its token is carried out once.

``core`` opens the session. ``attempt`` takes the tokens from the slot of its ``Run``; the drivers make one ``Run`` for
each operation. ``outcomes`` and ``waiting.handoff`` set ``Slot.last``, too, and ``outcomes`` gives a ``Run`` its old
slot back when its call is resolved.

Change together with: a token is read by lua/core/context.lua (slot and sequence), ``outcomes`` and
``commands.manager.resolve``; ``coalescing`` and ``durable_calls`` take the last one from ``Slot.latest``.
"""

from __future__ import annotations

import itertools
from time import monotonic
from typing import TYPE_CHECKING, Any

from mqredis.keys import KeySet

if TYPE_CHECKING:
    from mqredis.drivers.waiting.table import WakeChannel


class Slot:
    """One place of a session: at most one call at a time, numbered 1, 2, 3..."""

    __slots__ = ("last", "name", "session")

    def __init__(self, session: Session, index: int) -> None:
        self.session = session
        self.name = f"{session.number}.{index}"
        # The last sequence number that the server is known to have taken.
        self.last = 0

    def token(self) -> str:
        """Token of the call that is under way or comes next."""
        return f"{self.name}:{self.last + 1}"

    def latest(self) -> str:
        """Token of the call that was answered last."""
        return f"{self.name}:{self.last}"


class Session:
    """A session and its slots. The slot used last is given out first: its wake channel is subscribed already.

    Threads share it without a lock, since each step on the list and the count is atomic.
    """

    __slots__ = ("_count", "free", "number")

    def __init__(self, number: str) -> None:
        self.number = number
        # Slots that no operation uses.
        self.free: list[Slot] = []
        self._count = itertools.count()

    def take(self) -> Slot:
        """A slot that no operation uses."""
        try:
            return self.free.pop()
        except IndexError:
            return Slot(self, next(self._count))

    def give(self, slot: Slot) -> None:
        """Put a slot back. A slot whose last call has an unknown outcome must not be put back."""
        self.free.append(slot)


class Run:
    """One operation under way: it holds one slot from start to end."""

    # Most operations neither wait nor are interrupted, and set none of these. The registry of the waits
    # (``waiting.base``) sets flag, wake, polling, floor and mark; the driver sets keys, and ``Attempt.quarantine``
    # unknown and lost.
    flag: Any = None
    """The flag that a notification raises: a ``WakeFlag``, or an ``asyncio.Event``."""
    keys: KeySet | None = None
    """KEYS of the last call of an operation that listens: the queues that it waits on."""
    polling = True
    """Does the operation poll, since it cannot be notified?"""
    unknown = ""
    """Token of the last call whose outcome is unknown."""
    lost: Slot | None = None
    """The slot of the call with the token ``unknown``."""
    wake: WakeChannel[Any] | None = None
    """The wake channel of the operation's slot; None if it polls."""
    floor = 0
    """The history number that was known when the operation began to listen. A lock may have been handed to it at any
    time since. The reply with that lock has the history number of its time, which may be less than the client's
    now."""
    mark = 0
    """Position in the log of cancellations when the present fetch began."""

    def __init__(self, slot: Slot, deadline: float | None = None) -> None:
        self.slot = slot
        # Deadline of the operation's calls, on the monotonic clock, if it has one. Each call ends at the latest
        # ``retry_seconds`` after it began.
        self.deadline = deadline
        # Has the operation subscribed to the wake channel of its slot?
        self.listening = False

    def interrupted(self, error: BaseException) -> bool:
        """Note what ended a step of the operation. True: a call was under way, and its outcome is unknown."""
        if not isinstance(error, Exception):
            self.deadline = monotonic()  # the calls with which the operation cleans up are tried once
        return bool(self.unknown)
