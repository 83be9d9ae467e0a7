"""Random operations as data, and how to carry one out on any broker with the product's face.

A :class:`Runner` holds what operations refer to (handles, cursors, transactions, locks) by number, so the
same list of steps can be run on the model, on Redis and on fakeredis, and every outcome compared.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from hypothesis import strategies as st

from mqredis.errors import MqError
from mqredis.models import Message, Outgoing, QueueInfo, QueueProperties, Seek, Sent

#: Queue name to properties: two plain ones (one with a name that needs encoding) and two transactional ones.
QUEUES: dict[str, dict[str, Any]] = {
    "plain": {},
    "größe/ü 日本": {"quota_messages": 6},
    "units": {"transactional": True},
    "more units": {"transactional": True, "quota_messages": 6},
}
NAMES = tuple(QUEUES)
#: Subqueues that are open all the time.
SUBQUEUES = ("plain;s", "units;s")

#: Stands for the transaction that an operation needs on its queue.
FITTING = -1

#: What may differ between two brokers that are both right: clocks, tokens, sizes of headers.
LOOSE = {
    "token", "sent_at", "arrived_at", "expires_at", "last_moved_at", "created_at", "modified_at", "bytes",
}  # fmt: skip


@dataclass(frozen=True)
class Step:
    """One operation: its name and its arguments, all of them plain data."""

    name: str
    args: tuple[Any, ...]


def plain(value: Any) -> Any:
    """An outcome without what may differ."""
    if isinstance(value, Message | QueueInfo | Sent):
        return {k: v for k, v in value.model_dump().items() if k not in LOOSE}
    if isinstance(value, list):
        return [plain(v) for v in value]
    if hasattr(value, "message"):
        return plain(value.message)
    if value is None or isinstance(value, int | str | bool):
        return value
    return type(value).__name__.removeprefix("Model")


class Runner:
    """Carries out steps on one broker and remembers what they made."""

    #: What there is to work on; other lists of steps have other queues.
    queue_properties: ClassVar[dict[str, dict[str, Any]]] = QUEUES
    subqueues: ClassVar[tuple[str, ...]] = SUBQUEUES

    def __init__(self, qm: Any) -> None:
        self.qm = qm
        self.queues: dict[str, Any] = {}
        self.units: list[Any] = []
        self.open_units: list[Any] = []  # those we did not end; their lease may have run out
        self.locks: list[Any] = []
        self.cursors: list[Any] = []
        self.ids: dict[str, list[int]] = {name: [] for name in self.queue_properties}  # of the main queue
        self.sends = self.begins = 0
        for name, properties in self.queue_properties.items():
            qm.create_queue(name, **properties)
            self.reopen_family(name)

    def do(self, step: Step) -> Any:
        """The outcome: a plain value, or the class of the error."""
        method: Callable[..., Any] = getattr(self, step.name)
        try:
            return plain(method(*step.args))
        except MqError as error:
            return type(error).__name__

    def state(self) -> dict[str, Any]:
        """Everything a client can see without changing it."""
        out: dict[str, Any] = {}
        for name, queue in self.queues.items():
            out[name] = plain(self.qm.queue_info(name))
            if name in self.subqueues:  # it has no properties of its own
                out[name] = {k: v for k, v in out[name].items() if k not in QueueProperties.model_fields}
            out[name]["bodies"] = [plain(m) for m in queue.browse()]
            for end in (Seek.FIRST, Seek.LAST):  # these see what is locked but visible to peeks, too
                out[name][end.value] = self.do(Step("at_end", (name, end)))
        info = self.qm.info()
        out[""] = (info.messages, info.transactions, info.queues, info.throttled, info.quota_messages)
        return out

    # ---- what a step can be -----------------------------------------------------------------------------

    def send(self, queue: str, unit: int | None, fields: dict[str, Any]) -> Any:
        sent = self.queues[queue].send(transaction=self.unit(unit, queue), **self.named(fields))
        self.ids[queue].append(sent.lookup_id)
        return sent

    def send_many(self, queue: str, unit: int | None, many: list[dict[str, Any]]) -> Any:
        items = [Outgoing(**self.named(fields)) for fields in many]
        sent = self.queues[queue].send_many(items, transaction=self.unit(unit, queue))
        self.ids[queue] += [s.lookup_id for s in sent]
        return sent

    def receive(self, queue: str, unit: int | None) -> Any:
        return self.queues[queue].receive(0, transaction=self.unit(unit, queue))

    def receive_many(self, queue: str, unit: int | None, count: int) -> Any:
        return self.queues[queue].receive_many(count, 0, transaction=self.unit(unit, queue))

    def peek(self, queue: str) -> Any:
        return self.queues[queue].peek(0)

    def lock(self, queue: str, lease: float) -> Any:
        self.locks.append(self.queues[queue].lock(0, lease=lease))
        return self.locks[-1]

    def lock_many(self, queue: str, count: int, lease: float) -> Any:
        found = self.queues[queue].lock_many(count, 0, lease=lease)
        self.locks += found
        return found

    def by_id(self, how: str, queue: str, which: int, seek: Seek, unit: int | None, show: bool) -> Any:
        ids = self.ids[queue.partition(";")[0]]
        lookup_id = ids[-1 - which % len(ids)] if ids else 1
        handle = self.queues[queue]
        if how == "peek":
            return handle.peek_by_lookup_id(lookup_id, seek=seek)
        if how == "lock":
            self.locks.append(handle.lock_by_lookup_id(lookup_id, seek=seek, lease=50))
            return self.locks[-1]
        transaction = self.unit(unit, queue)
        allow = show and transaction is not None
        return handle.receive_by_lookup_id(lookup_id, seek=seek, transaction=transaction, allow_peek=allow)

    def at_end(self, queue: str, end: Seek) -> Any:
        return self.queues[queue].peek_by_lookup_id(0, seek=end)

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
        self.cursors.append(self.queues[queue].cursor())
        return len(self.cursors)

    def use_cursor(self, which: int, queue: str, how: str, unit: int | None) -> Any:
        if not self.cursors:
            self.open_cursor(queue)
        cursor = self.cursors[which % len(self.cursors)]
        if how == "reset":
            return cursor.reset()
        if how == "lock":
            self.locks.append(cursor.lock(0, lease=50))
            return self.locks[-1]
        if how == "receive":
            return cursor.receive(0, transaction=self.unit(unit, queue))
        return getattr(cursor, how)(0)

    def purge(self, queue: str) -> Any:
        self.queues[queue].purge()

    def recreate(self, queue: str) -> Any:
        """Delete and make again; old locks, cursors and transactions now refer to a queue that is gone."""
        self.qm.delete_queue(queue)
        self.qm.create_queue(queue, **self.queue_properties[queue])
        self.reopen_family(queue)

    def reopen_family(self, queue: str) -> None:
        for name in (queue, *(sub for sub in self.subqueues if sub.partition(";")[0] == queue)):
            self.queues[name] = self.qm.open(name)

    def reopen(self, queue: str) -> Any:
        self.queues[queue].close()
        self.queues[queue] = self.qm.open(queue)

    def move(self, queue: str, target: str, which: int, unit: int | None) -> Any:
        ids = self.ids[queue.partition(";")[0]]
        lookup_id = ids[-1 - which % len(ids)] if ids else 1
        return self.queues[queue].move(lookup_id, self.queues[target], transaction=self.unit(unit, queue))

    def change(self, queue: str, quota: int | None) -> Any:
        self.qm.update_queue(queue, quota_messages=quota)

    def throttle(self, on: bool) -> Any:
        self.qm.throttle(on)

    def manager_quota(self, messages: int | None) -> Any:
        self.qm.set_quota(messages=messages)

    def pass_time(self, seconds: float) -> Any:
        self.qm.advance_clock(seconds)
        self.qm.maintain()

    def named(self, fields: dict[str, Any]) -> dict[str, Any]:
        """The same message with an identifier of ours (those the broker makes up differ) and its body made."""
        self.sends += 1
        body = fields["body"]
        if isinstance(body, tuple):
            body = body[0] * body[1]
        return fields | {"message_id": f"message-{self.sends:06}", "body": body}

    def unit(self, which: int | None, queue: str) -> Any:
        """None: no transaction; FITTING: what this queue needs; else one of those there ever were."""
        if which == FITTING:
            if not self.queue_properties[queue.partition(";")[0]].get("transactional"):
                return None
            if not self.open_units:
                self.begin(500.0)
            return self.open_units[-1]
        return None if which is None or not self.units else self.units[which % len(self.units)]


# ---- strategies ----------------------------------------------------------------------------------------

BODIES = st.one_of(
    st.sampled_from([b"", b"\0", b"\0\1\2\3\4", b"-0", b"\r\n+OK\r\n"]),
    st.binary(max_size=40),
    # Big ones as a recipe, so that a failure can be read.
    st.tuples(st.just(b"x"), st.integers(4090, 4100)),
    st.just((b"\xff\0", 9_000)),
)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
VALUES = st.one_of(
    TEXTS, st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False, allow_infinity=False), st.booleans(),
    st.none(), st.binary(max_size=12),
)  # fmt: skip
MESSAGES = st.fixed_dictionaries(
    {"body": BODIES},
    optional={
        "priority": st.integers(0, 7),
        "label": TEXTS,
        "correlation_id": st.one_of(TEXTS.filter(bool), st.binary(min_size=1, max_size=8)),
        "properties": st.dictionaries(TEXTS.filter(bool), VALUES, max_size=3),
        "app_tag": st.integers(0, 2**32 - 1),
        "time_to_be_received": st.sampled_from([0.0, 5.0, 50.0, 500.0]),
        "delay": st.sampled_from([5.0, 50.0, 500.0]),
    },
)
QUEUE = st.sampled_from([*NAMES, "plain", "plain", "units", "units"])
WHICH = st.integers(0, 7)
UNIT = st.sampled_from([None, FITTING, FITTING, FITTING, FITTING, 0, 1])
READ = st.one_of(QUEUE, QUEUE, st.sampled_from(SUBQUEUES))
READ_UNIT = st.sampled_from([None, None, None, FITTING, FITTING, FITTING, 0])
MOVED = st.sampled_from(["plain", "plain;s", "units", "units;s"])
CURSOR_CALLS = ["peek", "peek", "peek_next", "peek_next", "receive", "lock", "reset"]
LEASE = st.sampled_from([5.0, 50.0, 500.0])
KINDS: dict[str, tuple[st.SearchStrategy[Any], ...]] = {
    "send": (QUEUE, UNIT, MESSAGES),
    "send_many": (QUEUE, UNIT, st.lists(MESSAGES, min_size=1, max_size=4)),
    "receive": (READ, READ_UNIT),
    "receive_many": (READ, READ_UNIT, st.integers(1, 4)),
    "peek": (READ,),
    "lock": (READ, LEASE),
    "lock_many": (READ, st.integers(1, 4), LEASE),
    "by_id": (
        st.sampled_from(["peek", "lock", "receive"]), READ, WHICH, st.sampled_from(list(Seek)), READ_UNIT,
        st.booleans(),
    ),
    "end_lock": (WHICH, st.sampled_from(["commit", "abort", "reject"])),
    "extend_lock": (WHICH, LEASE),
    "begin": (LEASE,),
    "end_unit": (WHICH, st.sampled_from(["commit", "commit", "abort", "abort", "prepare"])),
    "open_cursor": (READ,),
    "use_cursor": (WHICH, READ, st.sampled_from(CURSOR_CALLS), READ_UNIT),
    "move": (MOVED, MOVED, WHICH, READ_UNIT),
    "purge": (READ,),
    "recreate": (QUEUE,),
    "reopen": (READ,),
    "change": (QUEUE, st.one_of(st.none(), st.integers(0, 5))),
    "throttle": (st.sampled_from([False, False, True]),),
    "manager_quota": (st.one_of(st.none(), st.integers(0, 30)),),
    "pass_time": (st.sampled_from([1.0, 10.0, 100.0, 1000.0]),),
}  # fmt: skip
#: How often a kind is drawn: sends, reads and transactions lead to more states than the rest.
WEIGHTS = {
    "send": 14,
    "send_many": 6,
    "receive": 6,
    "by_id": 8,
    "use_cursor": 8,
    "end_unit": 6,
    "move": 8,
    "lock": 4,
    "end_lock": 5,
    "pass_time": 3,
}


def step_of(name: str) -> st.SearchStrategy[Step]:
    return st.tuples(*KINDS[name]).map(lambda args: Step(name, args))


STEPS = st.sampled_from([n for n in KINDS for _ in range(WEIGHTS.get(n, 1))]).flatmap(step_of)
