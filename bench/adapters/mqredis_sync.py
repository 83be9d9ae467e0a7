"""mqredis itself, as a user would call it: tokens, fences and delivery counts as shipped."""

from __future__ import annotations

import contextlib
import time
from typing import ClassVar

import mqredis
from bench.adapters.base import PLAIN, Peer
from bench.payload import BODY_BYTES, check, correlation_id, properties

#: The server of the benchmark keeps nothing on disk, for nobody; this alone differs from the defaults.
SETTINGS = mqredis.Settings(allow_volatile=True)


def message(number: int) -> mqredis.Outgoing:
    """Message ``number`` for a call that takes many."""
    return mqredis.Outgoing(
        body=BODY_BYTES, correlation_id=correlation_id(number), properties=dict(properties(number))
    )


class Mqredis(Peer):
    """Locks one message at a time; the call that locks the next settles the last."""

    works: ClassVar[tuple[str, ...]] = PLAIN
    settings = "lock, settled by the next lock"
    transactional = False

    def open(self) -> None:
        self.connect(self.url, "default")

    def connect(self, url: str, manager: str) -> None:
        """Connect, and open the queue, which perhaps another process has made."""
        self.qm = mqredis.connect(url, manager=manager, settings=SETTINGS)
        with contextlib.suppress(mqredis.QueueExists):
            self.qm.create_queue("bench", transactional=self.transactional)
            self.qm.create_queue("target", transactional=self.transactional)
        self.queue = self.qm.open("bench")

    def close(self) -> None:
        self.queue.close()
        self.qm.close()

    def send(self, first: int, count: int) -> None:
        send = self.queue.send
        for number in range(first, first + count):
            send(BODY_BYTES, correlation_id=correlation_id(number), properties=properties(number))

    def receive(self, count: int) -> None:
        self.receive_batch(count, 1)

    def send_batch(self, first: int, count: int, size: int) -> None:
        for start in range(first, first + count, size):
            stop = min(start + size, first + count)
            self.queue.send_many([message(number) for number in range(start, stop)])

    def receive_batch(self, count: int, size: int) -> None:
        held: list[mqredis.LockedMessage] = []
        done = 0
        while done < count:
            held = self.queue.lock_many(min(size, count - done), timeout=0, settle=held)
            for locked in held:
                check(locked.body)
            done += len(held)
        self.queue.commit_many(held)

    def arrivals(self, count: int) -> list[float]:
        held: list[mqredis.LockedMessage] = []
        times = []
        for _ in range(count):
            held = self.queue.lock_many(1, timeout=10, settle=held)
            times.append(time.monotonic())
            check(held[0].body)
        held[0].commit()
        return times


class MqredisPrefetch(Mqredis):
    """As others do that prefetch: the loop goes on one by one, the calls take several."""

    works = ("receive",)
    settings = "locks 16 at a time, settled by the next 16"

    def fill(self, first: int, count: int) -> None:
        self.send_batch(first, count, 100)

    def receive(self, count: int) -> None:
        self.receive_batch(count, 16)


class MqredisReceive(Mqredis):
    """Destructive receive: one call takes the message, and the broker keeps it until the next call."""

    works = ("send", "receive")
    settings = "destructive receive"

    def receive(self, count: int) -> None:
        receive = self.queue.receive
        for _ in range(count):
            check(receive(timeout=0).body)


class MqredisTwoCalls(Mqredis):
    """Lock, then commit: two calls for each message."""

    works = ("send", "receive")
    settings = "lock, then commit"

    def receive(self, count: int) -> None:
        for _ in range(count):
            with self.queue.lock(timeout=0) as locked:
                check(locked.body)


class MqredisTransactions(Mqredis):
    """Every message is received and sent on in a transaction."""

    works: ClassVar[tuple[str, ...]] = ("send_batch", "transact", "transact_batch")
    settings = "transactional queues; one transaction per call"
    transactional = True

    def send(self, first: int, count: int) -> None:
        self.send_batch(first, count, 1)

    def send_batch(self, first: int, count: int, size: int) -> None:
        for start in range(first, first + count, size):
            stop = min(start + size, first + count)
            with self.qm.transaction() as tx:
                self.queue.send_many([message(number) for number in range(start, stop)], transaction=tx)

    def transact(self, count: int) -> None:
        with self.qm.open("target") as target:
            for _ in range(count):
                with self.qm.transaction() as tx:
                    received = self.queue.receive(timeout=0, transaction=tx)
                    check(received.body)
                    target.send(
                        received.body,
                        correlation_id=received.correlation_id,
                        properties=received.properties,
                        transaction=tx,
                    )

    def transact_batch(self, count: int, size: int) -> None:
        with self.qm.open("target") as target:
            for start in range(0, count, size):
                with self.qm.transaction() as tx:
                    batch = self.queue.receive_many(min(size, count - start), timeout=0, transaction=tx)
                    for received in batch:
                        check(received.body)
                    target.send_many([forward(received) for received in batch], transaction=tx)


def forward(received: mqredis.Message) -> mqredis.Outgoing:
    """The same message for another queue."""
    return mqredis.Outgoing(
        body=received.body, correlation_id=received.correlation_id, properties=received.properties
    )


class MqredisSharded(Mqredis):
    """On the queue manager of a cluster that its address names."""

    works = PLAIN
    settings = "one queue manager for each node of a cluster"

    def open(self) -> None:
        where, _, manager = self.url.partition("?manager=")
        self.connect(where, manager)
