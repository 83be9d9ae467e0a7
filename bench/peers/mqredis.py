"""mqredis as a user calls it, in each shape of message; tokens, fences and delivery counts as shipped.

``instructions`` calls the peer, too. With ``--beside`` this file runs on the mqredis of another commit, so a call that
an older one does not have ends that comparison.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

import mqredis
import mqredis.asyncio
from bench.messages import LABEL, Shape, check, correlation_id, properties
from bench.peers.base import AsyncPeer, Peer, Tally
from mqredis.worker import Worker

GROUP_ID = "group-1"

if not Path(mqredis.__file__).is_relative_to(os.environ.get("BENCH_CHECKOUT", "/")):
    raise ImportError(f"this process measures {mqredis.__file__}, not {os.environ['BENCH_CHECKOUT']}")


def settings(shape: Shape) -> mqredis.Settings:
    """The server of the benchmark has no persistence for any peer; the rest are defaults."""
    return mqredis.Settings(allow_volatile=True, functions="auto" if shape.functions else "off")


def queue_properties(shape: Shape) -> dict[str, Any]:
    """The properties with which the queues of a shape are created."""
    return {"quota_messages": 100_000_000, "quota_bytes": 1 << 40} if shape.quota else {}


def fields(shape: Shape, number: int) -> dict[str, Any]:
    """The keyword arguments of a send."""
    found: dict[str, Any] = {"correlation_id": correlation_id(number), "properties": properties(number)}
    if shape.text:
        found["label"] = LABEL
    if shape.time_to_live is not None:
        found["time_to_be_received"] = shape.time_to_live
    if shape.named:
        found |= {"message_id": f"m-{number}", "group_id": GROUP_ID}
    return found


def read(shape: Shape, message: mqredis.Message, text: str) -> None:
    """Read what a reader of this shape reads."""
    if shape.text:
        check(message.text, text, message.label, message.correlation_id, message.properties)
    else:
        assert message.body == text.encode()


def observe(qm: mqredis.QueueManager) -> None:
    """Switch the meter and the traces on; spans go to a provider that drops them."""
    import mqredis.otel
    from mqredis.prometheus import Meter

    Meter().watch(qm)
    mqredis.otel.instrument()


class Mqredis(Peer):
    """The blocking client."""

    def open(self) -> None:
        self.qm = mqredis.connect(self.url, settings=settings(self.shape))
        if self.shape.observed:
            observe(self.qm)
        made = queue_properties(self.shape)
        for name, transactional in (("bench", False), ("source", True), ("target", True)):
            # The other process of a bench of waiting readers has created it.
            with suppress(mqredis.QueueExists):
                self.qm.create_queue(name, transactional=transactional, **made)
        self.queue, self.source, self.target = (self.qm.open(name) for name in ("bench", "source", "target"))
        self.body: bytes | str = self.text if self.shape.text else self.text.encode()

    def close(self) -> None:
        self.qm.close()

    def send(self, first: int, count: int) -> None:
        for number in range(first, first + count):
            self.queue.send(self.body, **fields(self.shape, number))

    def _outgoing(self, number: int) -> mqredis.Outgoing:
        body = self.body if isinstance(self.body, bytes) else self.body.encode()
        more: dict[str, Any] = {"content_type": "text/plain"} if self.shape.text else {}
        return mqredis.Outgoing(body=body, **more, **fields(self.shape, number))

    def send_batch(self, first: int, count: int, size: int) -> None:
        for start in range(first, first + count, size):
            numbers = range(start, min(start + size, first + count))
            self.queue.send_many([self._outgoing(number) for number in numbers])

    def receive(self, count: int) -> None:
        self.receive_batch(count, 1)

    def receive_batch(self, count: int, size: int) -> None:
        held: list[mqredis.LockedMessage] = []
        done = 0
        while done < count:
            held = self.queue.lock_many(min(size, count - done), timeout=0, settle=held)
            for lock in held:
                read(self.shape, lock.message, self.text)
            done += len(held)
        self.queue.commit_many(held)

    def fill_source(self, first: int, count: int) -> None:
        """Put messages into the transactional queue."""
        for start in range(first, first + count, 100):
            with self.qm.transaction() as tx:
                numbers = range(start, min(start + 100, first + count))
                self.source.send_many([self._outgoing(number) for number in numbers], transaction=tx)

    def transact(self, count: int) -> None:
        for number in range(count):
            with self.qm.transaction() as tx:
                message = self.source.receive(timeout=0, transaction=tx)
                read(self.shape, message, self.text)
                self.target.send(self.body, transaction=tx, **fields(self.shape, number))


class MqredisWorker(Mqredis):
    """mqredis.worker with one thread and an empty handler."""

    options: ClassVar[dict[str, Any]] = {}

    def drain(self, count: int) -> list[float]:
        worker = Worker()
        tally = Tally(count, worker.stop)

        def handle(message: mqredis.Message) -> None:
            read(self.shape, message, self.text)
            tally()

        worker.consumer("bench", concurrency=1, **self.options)(handle)
        worker.run(manager=self.qm, signals=False)
        return tally.times


class MqredisWorkerPrefetch(MqredisWorker):
    """Up to 32 messages for each call."""

    options: ClassVar[dict[str, Any]] = {"prefetch": 32}


class MqredisAsyncio(AsyncPeer):
    """The asyncio client, in one task."""

    def open(self) -> None:
        async def start() -> None:
            self.qm = await mqredis.asyncio.connect(self.url, settings=settings(self.shape))
            with suppress(mqredis.QueueExists):
                await self.qm.create_queue("bench", **queue_properties(self.shape))
            self.queue = await self.qm.open("bench")

        self.wait(start())
        self.body: bytes | str = self.text if self.shape.text else self.text.encode()

    def close(self) -> None:
        self.wait(self.qm.close())

    def send(self, first: int, count: int) -> None:
        async def one(start: int, many: int) -> None:
            for number in range(first + start, first + start + many):
                await self.queue.send(self.body, **fields(self.shape, number))

        self.share(one, count)

    def receive(self, count: int) -> None:
        async def one(_: int, many: int) -> None:
            held: list[mqredis.asyncio.LockedMessage] = []
            for _ in range(many):
                held = await self.queue.lock_many(1, timeout=0, settle=held)
                read(self.shape, held[0].message, self.text)
            await self.queue.commit_many(held)

        self.share(one, count)

    def drain(self, count: int) -> list[float]:
        tally = Tally(count, lambda: None)

        async def one() -> None:
            held: list[mqredis.asyncio.LockedMessage] = []
            for _ in range(count):
                held = await self.queue.lock_many(1, timeout=30, settle=held)
                tally()
            await self.queue.commit_many(held)

        self.wait(asyncio.wait_for(one(), 120))
        return tally.times


class MqredisAsyncio20(MqredisAsyncio):
    """Twenty tasks that share one queue."""

    tasks = 20
