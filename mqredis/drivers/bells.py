"""Doorbells: the half of waiting that knows no threads, tasks or sockets.

Rules of waking: only the event ``sadd`` and locks that are handed over wake, on exactly subscribed channels; each
confirmation of a subscription after the first means that something may have been missed, so it wakes too.
"""

from __future__ import annotations

import itertools
import random
from collections import deque
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import Any, Protocol

from redis import exceptions as rx

from mqredis.commands import manager
from mqredis.drivers.handed import LOCK
from mqredis.drivers.session import Run, Slot
from mqredis.keys import MESSAGE_SCRIPT_PARTS, QUEUE_PARTS, KeySet, ManagerKeys
from mqredis.settings import Settings
from mqredis.steps import Steps, Wait, Woken, perform, procedure

#: How long a probe waits for its own event, in seconds.
PROBE_SECONDS = 0.25
#: A subscription silent for so long is asked for a sign of life, and given up after as long again.
HEALTH_SECONDS = 10.0
#: A wait looks by itself only after so many re-check periods: one glance in each of them looks for all waits. What a
#: glance cannot see is a cancellation whose ring was lost.
PATIENCE = 100
#: But it does so often enough that the broker does not forget the slots of an idle session.
TTL_PART = 4
#: How long a closing driver lets its waits take back their registrations, in seconds.
LEAVE_SECONDS = 1.0
#: Queues in one glance, channels in one SUBSCRIBE.
CHUNK = 64
#: Slots in one glance.
SLOTS = 1000

_RING = b"sadd"
_CONFIG = "notify-keyspace-events"


class Flag(Protocol):
    """What ``threading.Event`` and ``asyncio.Event`` have in common."""

    def set(self) -> None:
        """Raise it."""

    def clear(self) -> None:
        """Lower it."""

    def is_set(self) -> bool:
        """Is it up?"""


class Ringer(str):  # noqa: SLOT000 - a str cannot have slots of its own
    """How the bell of an operation is rung: "k", "p" or "", and what a script must know besides."""

    slot: str
    database: int

    def __new__(cls, mode: str, slot: str, database: int) -> Ringer:
        """``slot`` names the bell, ``database`` is part of its channel."""
        self = super().__new__(cls, mode)
        self.slot = slot
        self.database = database
        return self


class Bell:
    """One subscribed channel; it belongs to a slot and is kept as long as the session."""

    __slots__ = ("channel", "confirmed", "late", "rung", "said", "session")

    def __init__(self, channel: str, session: str, rung: Any, confirmed: Any) -> None:
        self.channel = channel
        self.session = session
        self.rung = rung
        self.confirmed = confirmed
        #: The last message that handed over a lock (``handed``).
        self.said: bytes | None = None
        #: Somebody relies on it already, although the server has not confirmed it.
        self.late = False

    def confirm(self) -> None:
        """The server confirmed the subscription: the first time, or after a loss."""
        if self.late or self.confirmed.is_set():
            self.rung.set()
        self.late = False
        self.confirmed.set()


class Board:
    """All bells of a hub, by channel and by slot, and the waits of the moment."""

    def __init__(self, settings: Settings, flag: Callable[[], Flag]) -> None:
        self._settings = settings
        self._flag = flag
        self.by_channel: dict[bytes, Bell] = {}
        self.by_slot: dict[str, Bell] = {}
        self.journal = Journal()
        self.waits: dict[Run, tuple[Wait, Flag]] = {}
        #: Operations that wait now and then, from their first wait to their end.
        self.listeners: set[Run] = set()
        self.denied = ""

    def bell(self, slot: str, channel: str, session: str = "") -> tuple[Bell, bool]:
        """The bell of a slot; True when it is new and must be subscribed."""
        found = self.by_slot.get(slot)
        if found is not None:
            return found, False
        bell = Bell(channel, session, self._flag(), self._flag())
        self.by_slot[slot] = self.by_channel[channel.encode()] = bell
        return bell, True

    def follow(self, old: Slot, new: Slot) -> None:
        """The operation goes on with another slot; its waiter may still be registered with the old one."""
        bells = self.by_slot.get(old.name), self.by_slot.get(new.name)
        if bells[0] is not None and bells[1] is not None:
            self.by_channel[bells[0].channel.encode()] = bells[1]

    def stale(self, session: str) -> list[str]:
        """Remove the bells of other sessions that no wait uses; their channels."""
        used = {id(flag) for _, flag in self.waits.values()}
        gone = [
            (slot, bell)
            for slot, bell in self.by_slot.items()
            if bell.session not in ("", session) and id(bell.rung) not in used
        ]
        for slot, bell in gone:
            del self.by_slot[slot]
            self.by_channel.pop(bell.channel.encode(), None)
        return [bell.channel for _, bell in gone]

    def forget(self, slot: str) -> None:
        """Remove one bell."""
        bell = self.by_slot.pop(slot, None)
        if bell is not None:
            self.by_channel.pop(bell.channel.encode(), None)

    def channels(self) -> list[list[str]]:
        """All channels, in portions."""
        every = sorted(channel.decode() for channel in list(self.by_channel))
        return [every[n : n + CHUNK] for n in range(0, len(every), CHUNK)]

    def heard(self, message: Any) -> None:
        """A message of the subscription arrived, or what the server says instead: raises what ends the connection."""
        if not isinstance(message, list) or len(message) < 3:
            if isinstance(message, rx.ResponseError):
                self.deny(str(message))
            elif isinstance(message, Exception):
                raise message
            return
        bell = self.by_channel.get(message[1])
        if bell is None:
            return
        if message[0] == b"message":
            if message[2].startswith(LOCK):
                bell.said = message[2]
            elif message[2] != _RING:
                return
            bell.rung.set()
        elif message[0] == b"subscribe":
            bell.confirm()

    def deny(self, why: str) -> None:
        """The server does not let us subscribe: nobody needs to wait for a confirmation."""
        self.denied = why
        for bell in list(self.by_slot.values()):
            bell.confirmed.set()

    def nap(self, step: Wait, polling: bool) -> tuple[float, Woken]:
        """How long to sleep at most, in seconds, and what it means when nothing rang."""
        limit = self._settings.poll_seconds if polling else self._patience()
        if step.nap is not None and step.nap <= limit:
            return max(step.nap, 0.0), Woken.TIMED_OUT
        return limit, Woken.RUNG

    def _patience(self) -> float:
        return min(self.recheck() * PATIENCE, self._settings.session_ttl_seconds / TTL_PART)

    def recheck(self) -> float:
        """How long until somebody looks for all who wait, in seconds; different in each process."""
        return self._settings.recheck_seconds * random.uniform(0.85, 1.0)  # noqa: S311 - a spread, not a secret

    def cancel(self, scope: object) -> None:
        """End the waits of this scope."""
        self.journal.add(scope)
        for step, flag in list(self.waits.values()):
            if scope in step.scopes:
                flag.set()

    def ring_all(self) -> None:
        """Let every wait look again."""
        for _, flag in list(self.waits.values()):
            flag.set()

    def queues(self) -> dict[tuple[str, ...], list[Flag]]:
        """The key groups of the queues that are waited on, each with the flags of its waits."""
        out: dict[tuple[str, ...], list[Flag]] = {}
        for run, (_, flag) in list(self.waits.items()):
            for group in groups(run.keys):
                out.setdefault(group, []).append(flag)
        return out

    def looks(self) -> list[tuple[Run, Flag]]:
        """The runs whose next call may be answered before it is made, each with the flag of its wait."""
        return [(run, flag) for run, (step, flag) in list(self.waits.items()) if step.call is not None]


@procedure
def glance(
    keys: ManagerKeys, queues: Mapping[tuple[str, ...], Sequence[Flag]], looks: Sequence[tuple[Run, Flag]]
) -> Steps[None]:
    """Look once at all these queues, and raise the flags of those where a look would find something; and those of the
    runs whose next look was answered already (``handed``): before this glance, so what their bells said may be old.

    Raises what the look of a wait would raise: who asked lets every wait look, so that each learns it by itself.
    """
    every = list(queues)
    for turn in range(max(-(-len(every) // CHUNK), -(-len(looks) // SLOTS))):
        some, runs = every[turn * CHUNK :][:CHUNK], looks[turn * SLOTS :][:SLOTS]
        found, answered = yield from perform(
            manager.glance(keys, some, [(run.slot.name, run.slot.last) for run, _ in runs])
        )
        for group in itertools.compress(some, found):
            for flag in queues[group]:
                flag.set()
        for run, flag in itertools.compress(runs, answered):
            if run.bell is not None:
                run.bell.said = None
            flag.set()


class Pulse:
    """Does a subscription live? Where nothing came for a while it is asked; if nothing comes then, it is dead."""

    __slots__ = ("_asked",)

    def __init__(self) -> None:
        self._asked = False

    def beat(self, came: bool) -> bool:
        """Another ``HEALTH_SECONDS`` are over, or something came before: is it to be asked? Raises ConnectionError."""
        if self._asked and not came:
            raise rx.ConnectionError("no sign of life")
        self._asked = not came
        return self._asked


class Journal:
    """Cancellations, so that one that falls between a look and its wait is not lost."""

    def __init__(self) -> None:
        self.position = 0
        self._entries: deque[tuple[int, object]] = deque(maxlen=4096)

    def add(self, scope: object) -> None:
        """Note a cancellation."""
        self._entries.append((self.position + 1, scope))
        self.position += 1

    def since(self, mark: int, scopes: tuple[object, ...]) -> bool:
        """Was one of the scopes cancelled after ``mark``?"""
        if self.position == mark:
            return False
        return any(at > mark and scope in scopes for at, scope in list(self._entries))


def groups(keys: KeySet | None) -> Iterable[tuple[str, ...]]:
    """The queues in the KEYS of a message script."""
    if keys is None:
        return []
    names, size = keys.keys[MESSAGE_SCRIPT_PARTS:], len(QUEUE_PARTS)
    return [names[n : n + size] for n in range(0, len(names) - size + 1, size)]


def covers(flags: str) -> bool:
    """Do these flags of notify-keyspace-events announce a SADD on a keyspace channel?"""
    return "K" in flags and ("s" in flags or "A" in flags)


def union(flags: str) -> str:
    """The flags with ours added: CONFIG SET replaces, and others may rely on theirs."""
    out = flags if "K" in flags else flags + "K"
    return out if "s" in out or "A" in out else out + "s"


#: A command to run (answered None when the server refuses it) or a trial to make (answered True, False, or
#: None without a connection to try it with).
Question = tuple[str, ...]


def choose(settings: Settings) -> Generator[Question, Any, str]:
    """Find out how waits can be woken: "keyspace", "publish" or "poll"; "" when it cannot be told now."""
    wish = settings.wake
    if wish in ("poll", "publish"):
        return wish
    reply = yield ("CONFIG", "GET", _CONFIG)
    flags = None
    if isinstance(reply, list) and len(reply) == 2:
        flags = reply[1].decode() if isinstance(reply[1], bytes) else str(reply[1])
    if flags is not None and not covers(flags) and settings.configure_server:
        done = yield ("CONFIG", "SET", _CONFIG, union(flags))
        flags = flags if done is None else union(flags)
    if wish == "keyspace":
        return "keyspace"
    worked = None
    if flags is None or covers(flags):
        worked = yield ("trial", "keyspace")
        if worked:
            return "keyspace"
    worked = yield ("trial", "publish")
    if worked:
        return "publish"
    return "" if worked is None else "poll"


def letter(mode: str) -> str:
    """What a script is told."""
    return {"keyspace": "k", "publish": "p"}.get(mode, "")
