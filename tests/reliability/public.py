"""Every public call as one short story, for clients with blocking methods (``tests.support.facade``)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from mqredis import Access, MqError, Outgoing, Seek


@dataclass
class Stage:
    """Two queues with a few messages, handles and a transaction on them, all through the client under test."""

    qm: Any
    name: str
    plain: Any = None
    sub: Any = None
    tx: Any = None
    unit: Any = None
    locked: Any = None
    cursor: Any = None
    ids: list[int] = field(default_factory=list)

    def prepare(self) -> None:
        """What every story finds: a, b, c in the plain queue, d, e in the transactional one, one lock, one unit."""
        self.qm.create_queue(self.name)
        self.qm.create_queue(self.name + "-t", transactional=True)
        self.plain = self.qm.open(self.name)
        self.sub = self.qm.open(self.name + ";s")
        self.tx = self.qm.open(self.name + "-t")
        self.ids = [m.lookup_id for m in self.plain.send_many([b"a", b"b", b"c"])]
        first = self.qm.transaction()
        self.tx.send_many([b"d", b"e"], transaction=first)
        first.commit()
        self.locked = self.plain.lock(0, lease=60)
        self.unit = self.qm.transaction(lease=60)
        self.tx.receive(0, transaction=self.unit)
        self.cursor = self.plain.cursor()

    def state(self) -> list[Any]:
        """What is in the queues, and in which place."""
        out: list[Any] = []
        for name in (self.name, self.name + ";s", self.name + "-t"):
            try:
                info = self.qm.queue_info(name)
            except MqError as error:
                out.append(type(error).__name__)
                continue
            out.append((info.messages, info.ready, info.locked, info.quota_messages))
        return out


def done(_: object) -> None:
    """The result is another one in each run."""


# Stories by name; what each returns is compared with an undisturbed run.
STORIES: dict[str, Callable[[Stage], Any]] = {
    "create_queue": lambda b: b.qm.create_queue(b.name + "-n", quota_messages=5).quota_messages,
    "queue_info": lambda b: b.qm.queue_info(b.name).messages,
    "update_queue": lambda b: b.qm.update_queue(b.name, quota_messages=7).quota_messages,
    "delete_queue": lambda b: b.qm.delete_queue(b.name),
    "listing": lambda b: len(b.qm.queues(b.name + "*")),
    "open_and_close": lambda b: b.qm.open(b.name, Access.PEEK).close(),
    "send": lambda b: done(b.plain.send(b"new", priority=7, properties={"n": 1})),
    "send_large": lambda b: done(b.plain.send(b"x" * 9000)),
    "send_many": lambda b: len(b.plain.send_many([b"1", Outgoing(body=b"2"), b"3"])),
    "send_in_transaction": lambda b: done(b.tx.send(b"new", transaction=b.unit)),
    "receive": lambda b: b.plain.receive(0).body,
    "receive_many": lambda b: [message.body for message in b.plain.receive_many(9, 0)],
    "receive_in_transaction": lambda b: b.tx.receive(0, transaction=b.unit).body,
    "receive_selected": lambda b: b.plain.receive(0, selector="JMSPriority >= 0").body,
    "receive_by_lookup_id": lambda b: b.plain.receive_by_lookup_id(b.ids[2]).body,
    "peek": lambda b: b.plain.peek(0).body,
    "peek_by_lookup_id": lambda b: b.plain.peek_by_lookup_id(b.ids[1], seek=Seek.NEXT).body,
    "lock": lambda b: b.plain.lock(0, lease=60).message.body,
    "lock_many": lambda b: [locked.message.body for locked in b.plain.lock_many(5, 0, lease=60)],
    "lock_by_lookup_id": lambda b: (
        b.plain.lock_by_lookup_id(b.ids[1], seek=Seek.CURRENT, lease=60).message.body
    ),
    "commit_lock": lambda b: b.locked.commit(),
    "abort_lock": lambda b: b.locked.abort(),
    "reject_lock": lambda b: b.locked.reject(),
    "extend_lock": lambda b: done(b.locked.extend(60)),
    "cursor": lambda b: [read(0).body for read in (b.cursor.peek, b.cursor.peek_next, b.cursor.receive)],
    "move": lambda b: done(b.plain.move(b.ids[1], b.sub)),
    "purge": lambda b: b.plain.purge(),
    "commit": lambda b: b.unit.commit(),
    "abort": lambda b: b.unit.abort(),
    "prepare": lambda b: b.unit.prepare(),
    "extend_transaction": lambda b: done(b.unit.extend(60)),
    "info": lambda b: b.qm.info().throttled,
    "throttle": lambda b: b.qm.throttle(False),
    "maintain": lambda b: done(b.qm.maintain()),
}
