"""mqredis itself, as a user would call it: tokens, fences and delivery counts as shipped."""

from __future__ import annotations

from typing import ClassVar

import mqredis
from bench.adapters.base import WORKS, Peer
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

    works: ClassVar[tuple[str, ...]] = WORKS
    settings = "lock, settled by the next lock"

    def open(self) -> None:
        self.qm = mqredis.connect(self.url, settings=SETTINGS)
        self.qm.create_queue("bench")
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
                check(locked.message.body)
            done += len(held)
        for locked in held:
            locked.commit()


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
