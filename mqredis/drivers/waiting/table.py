"""State of the waiting operations of a driver and of their Pub/Sub channels, without I/O.

``waiting.base``, ``waits_aio`` and the registries use it; ``drivers.session`` names the ``WakeChannel`` of a run.
``received`` runs where the subscription is read: in any thread that waits, or in the event loop.

Only the event ``sadd`` and handed-over locks wake an operation, on channels that are subscribed by their exact names.
Each confirmation of a subscription after the first one wakes too: a notification may have been missed before it.
"""

from __future__ import annotations

import itertools
import random
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, Protocol, TypeVar

from redis import exceptions as rx

from mqredis.commands import manager
from mqredis.drivers.session import Run, Slot
from mqredis.drivers.waiting.handoff import LOCK
from mqredis.keys import MESSAGE_SCRIPT_PARTS, QUEUE_PARTS, KeySet, ManagerKeys
from mqredis.settings import Settings
from mqredis.steps import Steps, Wait, Woken, perform, procedure

# Seconds that the trial of a mode waits for its own event.
PROBE_SECONDS = 0.25
# Seconds without data after which a PING is sent over the subscription. After as many again it is closed.
HEALTH_SECONDS = 10.0
# A wait fetches by itself only after so many re-check periods, since in each of them one call polls for all waits.
# That call cannot see a cancellation whose notification was lost.
RECHECKS_PER_FETCH = 100
# But it fetches at least so often in the lifetime of a session that the broker does not forget an idle one.
FETCHES_PER_SESSION_TTL = 4
# Seconds that a closing driver waits until its operations have removed their registrations.
LEAVE_SECONDS = 1.0
# Queues in one poll, channels in one SUBSCRIBE.
CHUNK = 64
# Slots in one poll. lua/poll_all.lua unpacks them with the queues, and the stack of Lua holds about 8,000 values.
SLOTS = 1000

# The event that announces a notification on the channel of a wake key. Scripts add the key (lua/waiting/notify.lua), or
# publish this text where keyspace notifications are switched off.
EVENT = b"sadd"


class Flag(Protocol):
    """What ``threading.Event``, ``asyncio.Event`` and the reader's ``WakeFlag`` have in common."""

    def set(self) -> None:
        """Set the flag."""

    def clear(self) -> None:
        """Clear the flag."""

    def is_set(self) -> bool:
        """Is the flag set?"""


F = TypeVar("F", bound=Flag)


class WakeChannel(Generic[F]):
    """The Pub/Sub channel of one slot. It stays subscribed as long as the session lives or an operation uses it."""

    __slots__ = ("confirmed", "handoff", "name", "notified", "session", "used_early")

    def __init__(self, name: str, session: str, notified: F, confirmed: F) -> None:
        self.name = name
        self.session = session
        # Set after a notification.
        self.notified = notified
        # Set once the server has confirmed the subscription.
        self.confirmed = confirmed
        # The last notification that carried a locked message.
        self.handoff: bytes | None = None
        # An operation waits on this channel although the server has not confirmed it.
        self.used_early = False

    def confirm(self) -> None:
        """Note a confirmation by the server: the first one, or one after a lost connection."""
        if self.used_early or self.confirmed.is_set():
            self.notified.set()
        self.used_early = False
        self.confirmed.set()


class WaiterTable(Generic[F]):
    """The wake channels of a driver, by name and by slot, and its waiting operations.

    Callers hold the registry's lock, but not for ``received``, ``deny`` and ``registered_runs``, which any thread may
    use: these only set flags, or go through copies. A signal handler may use the table in the middle of any method, so
    all of them go through copies.
    """

    def __init__(self, settings: Settings, flag: Callable[[], F]) -> None:
        self._settings = settings
        self._flag = flag
        self.by_name: dict[bytes, WakeChannel[F]] = {}
        self.by_slot: dict[str, WakeChannel[F]] = {}
        self.cancellations = CancellationLog()
        self.waits: dict[Run, tuple[Wait, F]] = {}
        # Operations that may be registered as waiters in a queue, from their first wait to their end.
        self.registered_runs: set[Run] = set()
        # Why the server refuses subscriptions; "" if it does not.
        self.denied = ""
        # Seconds from the last poll for all waits until the next timer of one of their queues.
        self.until_timer: float | None = None

    def wake_channel(self, slot: str, name: str, session: str = "") -> tuple[WakeChannel[F], bool]:
        """Return the channel of a slot, and whether it is new and has to be subscribed."""
        found = self.by_slot.get(slot)
        if found is not None:
            return found, False
        wake = WakeChannel(name, session, self._flag(), self._flag())
        if self.denied:
            wake.confirmed.set()  # the server will not
        self.by_slot[slot] = self.by_name[name.encode()] = wake
        return wake, True

    def redirect(self, old: Slot, new: Slot) -> None:
        """Let notifications of slot ``old``, in which the operation may still be registered, reach slot ``new``."""
        before, now = self.by_slot.get(old.name), self.by_slot.get(new.name)
        if before is not None and now is not None:
            for name in self._names_of({id(before)}):
                self.by_name[name] = now

    def remove_stale(self, session: str) -> list[str]:
        """Remove the channels of other sessions that no operation uses. Returns the names to unsubscribe from."""
        used = {id(run.wake) for run in list(self.registered_runs)}
        return self._remove(
            slot
            for slot, wake in self.by_slot.copy().items()
            if wake.session not in ("", session) and id(wake) not in used
        )

    def remove(self, slot: str) -> list[str]:
        """Remove the channel of one slot. Returns the names to unsubscribe from."""
        return self._remove([slot])

    def _remove(self, slots: Iterable[str]) -> list[str]:
        removed = {id(self.by_slot.pop(slot, None)) for slot in slots}
        names = self._names_of(removed)
        for name in names:
            self.by_name.pop(name, None)
        return [name.decode() for name in names]

    def _names_of(self, wakes: set[int]) -> list[bytes]:
        """The names whose notifications go to these channels (given by ``id``)."""
        return [name for name, wake in self.by_name.copy().items() if id(wake) in wakes] if wakes else []

    def names(self) -> list[list[str]]:
        """The names of all channels, in chunks for SUBSCRIBE."""
        names = sorted(name.decode() for name in list(self.by_name))
        return [names[n : n + CHUNK] for n in range(0, len(names), CHUNK)]

    def received(self, message: Any) -> None:
        """Handle what the subscription has read. Raises an error that ends the connection."""
        if not isinstance(message, list) or len(message) < 3:
            if isinstance(message, rx.ResponseError):
                self.deny(str(message))
            elif isinstance(message, Exception):
                raise message
            return
        kind, channel, data = message[:3]
        wake = self.by_name.get(channel)
        if wake is None:
            return
        if kind == b"subscribe":
            wake.confirm()
        elif kind == b"message" and (data == EVENT or data.startswith(LOCK)):
            if data != EVENT:
                wake.handoff = data
            wake.notified.set()

    def deny(self, why: str) -> None:
        """Note that the server refuses subscriptions, so that no operation waits for a confirmation."""
        self.denied = why
        for wake in list(self.by_slot.values()):
            wake.confirmed.set()

    def sleep_limit(self, step: Wait, polling: bool) -> tuple[float, Woken]:
        """How long a wait sleeps at most, in seconds, and why it ends when it was not notified until then."""
        limit = self._settings.poll_seconds if polling else self._longest_sleep()
        if step.seconds is not None and step.seconds <= limit:
            return max(step.seconds, 0.0), Woken.TIMED_OUT
        return limit, Woken.NOTIFIED

    def _longest_sleep(self) -> float:
        return min(
            self.recheck_period() * RECHECKS_PER_FETCH,
            self._settings.session_ttl_seconds / FETCHES_PER_SESSION_TTL,
        )

    def recheck_period(self) -> float:
        """Longest time between two polls for all waits. The periods of several processes differ at random."""
        return self._settings.recheck_seconds * random.uniform(0.85, 1.0)  # noqa: S311 - a spread, not a secret

    def until_recheck(self) -> float:
        """Seconds from one poll for all waits to the next, which comes at the next timer of their queues if that is
        earlier. Timers that follow each other closely share a poll."""
        period = self.recheck_period()
        if self.until_timer is None:
            return period
        return min(period, max(self.until_timer, self._settings.poll_seconds))

    def cancel(self, scope: object) -> None:
        """End the waits of this scope."""
        self.cancellations.add(scope)
        for step, flag in list(self.waits.values()):
            if scope in step.scopes:
                flag.set()

    def notify_all(self) -> None:
        """Let every waiting operation fetch again."""
        for _, flag in list(self.waits.values()):
            flag.set()

    def confirm_all(self) -> None:
        """Let every operation go on that waits for its subscription, since the driver closes."""
        for wake in list(self.by_slot.values()):
            wake.confirmed.set()

    def queues(self) -> dict[tuple[str, ...], list[F]]:
        """The key groups of the queues that are waited on, each with the flags of its waits."""
        out: dict[tuple[str, ...], list[F]] = {}
        for run, (_, flag) in self.waits.copy().items():
            for group in groups(run.keys):
                out.setdefault(group, []).append(flag)
        return out

    def handoff_candidates(self) -> list[tuple[Run, F]]:
        """The operations that may be handed a message, each with the flag of its wait."""
        return [(run, flag) for run, (step, flag) in self.waits.copy().items() if step.call is not None]


@procedure
def poll_all(
    keys: ManagerKeys, queues: Mapping[tuple[str, ...], Sequence[Flag]], runs: Sequence[tuple[Run, Flag]]
) -> Steps[float | None]:
    """Poll all these queues at once, and raise the flags of those where a fetch would find something. Returns the
    seconds until their next timer, None if there is none.

    The flags of those ``runs`` that were handed a message before this poll are raised as well: their notification may
    be old, so they make the call and get its stored reply. Raises what a fetch would raise. The caller then lets every
    waiting operation fetch, so that each one gets the error itself.
    """
    all_groups, timers = list(queues), list[int]()
    for turn in range(max(-(-len(all_groups) // CHUNK), -(-len(runs) // SLOTS))):
        some, slots = all_groups[turn * CHUNK :][:CHUNK], runs[turn * SLOTS :][:SLOTS]
        found, handed_over, timer = yield from perform(
            manager.poll_all(keys, some, [(run.slot.name, run.slot.last) for run, _ in slots])
        )
        if timer is not None:
            timers.append(timer)
        for group in itertools.compress(some, found):
            for flag in queues[group]:
                flag.set()
        for run, flag in itertools.compress(slots, handed_over):
            if run.wake is not None:
                run.wake.handoff = None
            flag.set()
    return min(timers) / 1000 if timers else None


class Heartbeat:
    """Detects a lost subscription: after a silent period a PING has to be sent, and its reply proves the connection."""

    __slots__ = ("_sent",)

    def __init__(self) -> None:
        self._sent = False

    def next_period(self, received: bool) -> bool:
        """A period of ``HEALTH_SECONDS`` has ended. Returns whether a PING has to be sent now.

        :param received: has anything arrived in the period?

        Raises ConnectionError if a PING was sent before the period and nothing arrived in it.
        """
        if self._sent and not received:
            raise rx.ConnectionError("no sign of life")
        self._sent = not received
        return self._sent


class CancellationLog:
    """The latest cancellations, so that one between a fetch and the wait after it is not missed."""

    def __init__(self) -> None:
        self.position = 0
        self._entries: deque[tuple[int, object]] = deque(maxlen=4096)

    def add(self, scope: object) -> None:
        """Note a cancellation."""
        self._entries.append((self.position + 1, scope))
        self.position += 1

    def since(self, mark: int, scopes: tuple[object, ...]) -> bool:
        """Was one of the scopes cancelled after the position ``mark``?"""
        if self.position == mark:
            return False
        return any(at > mark and scope in scopes for at, scope in list(self._entries))


def groups(keys: KeySet | None) -> Iterable[tuple[str, ...]]:
    """The queues in the KEYS of a message script."""
    if keys is None:
        return []
    names, size = keys.keys[MESSAGE_SCRIPT_PARTS:], len(QUEUE_PARTS)
    return [names[n : n + size] for n in range(0, len(names) - size + 1, size)]
