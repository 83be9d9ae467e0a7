"""Random operations as data, and how to carry one out on any broker with the public interface.

A :class:`Runner` holds what operations refer to (handles, cursors, transactions, locks) by number, so the
same list of steps can be run on the model, on Redis and on fakeredis, and every outcome compared.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from mqredis.errors import MqError
from mqredis.models import (
    Message,
    Outgoing,
    QueueInfo,
    QueueStatistics,
    Seek,
    Sent,
)
from tests.property.features import FeatureSteps

# Queue name to properties: two plain ones (one with a name that needs encoding) and two transactional ones; where
# acknowledgements and dead letters go; topics.
QUEUES: dict[str, dict[str, Any]] = {
    "plain": {},
    "größe/ü 日本": {"quota_messages": 6},
    "units": {"transactional": True},
    "more units": {"transactional": True, "quota_messages": 6},
    "admin": {},
    "letters": {},
    "news": {"topic": True},
    "unit news": {"topic": True, "transactional": True},
}
# Those that are mostly used.
NAMES = tuple(QUEUES)[:4]
# Topic, subscriber, selector.
SUBSCRIPTIONS: tuple[tuple[str, str, str | None], ...] = (
    ("news", "plain", None),
    ("news", "größe/ü 日本", "n = 1"),
    ("unit news", "units", None),
    ("unit news", "more units", "n = 1"),
)
# Subqueues that are open all the time, and queues that the broker fills by itself.
SUBQUEUES = ("plain;s", "units;s")
SIDES = (
    "plain;journal", "plain;retry", "plain;poison", "units;journal", "units;retry", "units;poison",
    "system$;deadletter", "system$;deadxact", "system$;journal",
)  # fmt: skip

# Stands for the transaction that an operation needs on its queue.
FITTING = -1

# What may differ between two brokers that are both right: clocks, tokens.
LOOSE = {
    "token", "sent_at", "arrived_at", "expires_at", "last_moved_at", "created_at", "modified_at",
    "original_arrived_at", "rate_in", "rate_out", "rate_seconds",
}  # fmt: skip


@dataclass(frozen=True)
class Step:
    """One operation: its name and its arguments, all of them plain data."""

    name: str
    args: tuple[Any, ...]


def plain(value: Any) -> Any:
    """Return an outcome without the parts that may differ."""
    if isinstance(value, Message | QueueInfo | QueueStatistics | Sent):
        fields = value.to_dict() if isinstance(value, Message | Sent) else value.model_dump()
        return {k: tidy(k, v) for k, v in fields.items() if k not in LOOSE}
    if isinstance(value, list):
        return [plain(v) for v in value]
    if hasattr(value, "message"):
        return plain(value.message)
    if value is None or isinstance(value, int | str | bool):
        return value
    return type(value).__name__.removeprefix("Model")


def tidy(name: str, value: Any) -> Any:
    """The part of a value that must be equal."""
    if name == "oldest_seconds":
        return sorted(value)
    if name == "properties":
        return {k: v for k, v in value.items() if k != "failure_time"}
    if name == "copies":
        return [{k: tidy(k, v) for k, v in copy.to_dict().items() if k not in LOOSE} for copy in value]
    return value


class Runner(FeatureSteps):
    """Carries out steps on one broker, and stores the locks, cursors and transactions that they create."""

    queue_properties: ClassVar[dict[str, dict[str, Any]]] = QUEUES
    """What there is to work on; other lists of steps have other queues."""
    subqueues: ClassVar[tuple[str, ...]] = SUBQUEUES
    subscriptions: ClassVar[tuple[tuple[str, str, str | None], ...]] = SUBSCRIPTIONS
    tick: ClassVar[float] = 1.0
    """Seconds that a step takes, and that a lock by id or with a cursor holds."""
    hold: ClassVar[float] = 50_000.0

    def __init__(self, qm: Any) -> None:
        self.qm = qm
        self.queues: dict[str, Any] = {}
        self.units: list[Any] = []
        self.open_units: list[Any] = []  # those we did not end; their lease may have run out
        self.locks: list[Any] = []
        self.cursors: list[Any] = []
        self.received: list[tuple[Any, str, Message]] = []  # in a transaction
        self.ids: dict[str, list[int]] = {name: [] for name in self.queue_properties}  # of the main queue
        self.sends = self.begins = 0
        for name, properties in self.queue_properties.items():
            qm.create_queue(name, **properties)
        for topic, queue, selector in self.subscriptions:
            qm.subscribe(topic, queue, selector)

    def do(self, step: Step) -> Any:
        """The outcome: a plain value, or the class of the error.

        Every step takes a second, and all durations are whole multiples of 1000 s: what falls due does so when time is
        passed, in the order of the steps, however long the steps really take.
        """
        method: Callable[..., Any] = getattr(self, step.name)
        if self.tick:
            self.qm.advance_clock(self.tick)
        return self.outcome(lambda: method(*step.args))

    def outcome(self, work: Callable[[], Any]) -> Any:
        try:
            return plain(work())
        except MqError as error:
            return type(error).__name__

    def queue(self, name: str) -> Any:
        """Return an open handle, opened at first use."""
        if name not in self.queues:
            self.queues[name] = self.qm.open(name)
        return self.queues[name]

    def state(self) -> dict[str, Any]:
        """Everything a client can see without changing it: every queue with its messages, journals and dead letters."""
        for info in self.qm.queues():
            self.queue(info.name)
        out = {info.name: plain(info) for info in self.qm.queues()}
        for name, row in out.items():
            row["bodies"] = self.outcome(partial(self.bodies, name))
            if name in self.queue_properties or name in self.subqueues:
                row["statistics"] = plain(self.qm.statistics(name))
                row["first"] = self.outcome(partial(self.at_end, name, Seek.FIRST))
                row["last"] = self.outcome(partial(self.at_end, name, Seek.LAST))
        info = self.qm.info()
        out[""] = {
            name: getattr(info, name)
            for name in ("messages", "bytes", "transactions", "queues", "throttled", "quota_messages")
        }
        return out

    def bodies(self, name: str) -> list[Message]:
        """Everything that is available, with its headers."""
        return list(self.queue(name).browse())

    def at_end(self, name: str, end: Seek) -> Any:
        """Locked messages that are visible to peeks are included."""
        return self.queue(name).peek_by_lookup_id(0, seek=end)

    # ---- what a step can be -----------------------------------------------------------------------------

    def send(self, queue: str, unit: int | None, fields: dict[str, Any]) -> Any:
        sent = self.queue(queue).send(transaction=self.unit(unit, queue), **self.named(fields))
        self.ids[queue].append(sent.lookup_id)
        return sent

    def send_many(self, queue: str, unit: int | None, many: list[dict[str, Any]]) -> Any:
        items = [Outgoing(**self.named(fields)) for fields in many]
        sent = self.queue(queue).send_many(items, transaction=self.unit(unit, queue))
        self.ids[queue] += [s.lookup_id for s in sent]
        return sent

    def receive(self, queue: str, unit: int | None) -> Any:
        transaction = self.unit(unit, queue)
        message = self.queue(queue).receive(0, transaction=transaction)
        if transaction is not None:
            self.received.append((transaction, queue, message))
        return message

    def receive_many(self, queue: str, unit: int | None, count: int) -> Any:
        return self.queue(queue).receive_many(count, 0, transaction=self.unit(unit, queue))

    def peek(self, queue: str) -> Any:
        return self.queue(queue).peek(0)

    def lock(self, queue: str, lease: float) -> Any:
        self.locks.append(self.queue(queue).lock(0, lease=lease))
        return self.locks[-1]

    def lock_many(self, queue: str, count: int, lease: float) -> Any:
        found = self.queue(queue).lock_many(count, 0, lease=lease)
        self.locks += found
        return found

    def by_id(self, how: str, queue: str, which: int, seek: Seek, unit: int | None, show: bool) -> Any:
        lookup_id = self.id_of(queue, which)
        handle = self.queue(queue)
        if how == "peek":
            return handle.peek_by_lookup_id(lookup_id, seek=seek)
        if how == "lock":
            self.locks.append(handle.lock_by_lookup_id(lookup_id, seek=seek, lease=self.hold))
            return self.locks[-1]
        transaction = self.unit(unit, queue)
        allow = show and transaction is not None
        return handle.receive_by_lookup_id(lookup_id, seek=seek, transaction=transaction, allow_peek=allow)

    def id_of(self, queue: str, which: int) -> int:
        """Of a message that was sent there, or of one that the broker put there."""
        name, _, part = queue.partition(";")
        ids = (
            self.ids.get(name, []) if part in ("", "s") else [m.lookup_id for m in self.queue(queue).browse()]
        )
        return ids[-1 - which % len(ids)] if ids else 1

    def end_lock(self, which: int, how: str) -> Any:
        if self.locks:
            lock = self.locks.pop(which % len(self.locks))
            return getattr(lock, how)()
        return None

    def extend_lock(self, which: int, lease: float) -> Any:
        return self.locks[which % len(self.locks)].extend(lease) if self.locks else None

    def begin(self, lease: float) -> Any:
        self.begins += 1  # ids come back: one whose transaction is over is free again
        self.units.append(self.qm.transaction(id=f"unit-{self.begins % 6}", lease=lease))
        self.open_units.append(self.units[-1])
        return len(self.units)

    def end_unit(self, which: int, how: str) -> Any:
        if not self.units:
            return None
        unit = self.units[-1 - which % len(self.units)]
        if how != "prepare" and unit in self.open_units:
            self.open_units.remove(unit)
        return getattr(unit, how)()

    def open_cursor(self, queue: str) -> Any:
        self.cursors.append(self.queue(queue).cursor())
        return len(self.cursors)

    def use_cursor(self, which: int, queue: str, how: str, unit: int | None) -> Any:
        if not self.cursors:
            self.open_cursor(queue)
        cursor = self.cursors[which % len(self.cursors)]
        if how == "reset":
            return cursor.reset()
        if how == "lock":
            self.locks.append(cursor.lock(0, lease=self.hold))
            return self.locks[-1]
        if how == "receive":
            return cursor.receive(0, transaction=self.unit(unit, queue))
        return getattr(cursor, how)(0)

    def purge(self, queue: str) -> Any:
        return self.queue(queue).purge()

    def recreate(self, queue: str) -> Any:
        """Delete and recreate the queue; old locks, cursors and transactions refer to the deleted queue."""
        self.qm.delete_queue(queue)
        for name in [n for n in self.queues if n.partition(";")[0] == queue]:
            del self.queues[name]
        self.qm.create_queue(queue, **self.queue_properties[queue])

    def reopen(self, queue: str) -> Any:
        self.queue(queue).close()
        self.queues[queue] = self.qm.open(queue)

    def close(self, queue: str) -> Any:
        """The last close of an empty subqueue removes it."""
        if queue in self.queues:
            self.queues.pop(queue).close()

    def move(self, queue: str, target: str, which: int, unit: int | None) -> Any:
        return self.queue(queue).move(
            self.id_of(queue, which), self.queue(target), transaction=self.unit(unit, queue)
        )

    def change(self, queue: str, changes: dict[str, Any]) -> Any:
        return self.qm.update_queue(queue, **changes)

    def throttle(self, on: bool) -> Any:
        self.qm.throttle(on)

    def manager_quota(self, messages: int | None) -> Any:
        self.qm.set_quota(messages=messages)

    def pass_time(self, seconds: float) -> Any:
        self.qm.advance_clock(seconds)
        self.qm.maintain()

    def named(self, fields: dict[str, Any]) -> dict[str, Any]:
        """The message with an identifier of the test (those that the broker generates differ), and its body."""
        self.sends += 1
        body = fields["body"]
        if isinstance(body, tuple):
            body = body[0] * body[1]
        return fields | {"message_id": f"message-{self.sends:06}", "body": body}

    def transactional(self, queue: str) -> bool:
        name = queue.partition(";")[0]
        return queue == "system$;deadxact" or bool(self.queue_properties.get(name, {}).get("transactional"))

    def unit(self, which: int | None, queue: str) -> Any:
        """None: no transaction; FITTING: what this queue needs; else one of those there ever were."""
        if which == FITTING:
            if not self.transactional(queue):
                return None
            if not self.open_units:
                self.begin(500_000.0)
            return self.open_units[-1]
        return None if which is None or not self.units else self.units[which % len(self.units)]
