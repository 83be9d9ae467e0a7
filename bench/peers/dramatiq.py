"""dramatiq: the broker's own enqueue, consume and ack, and its worker."""

from __future__ import annotations

import threading
from typing import Any

import dramatiq
from dramatiq.brokers.redis import RedisBroker

from bench.messages import LABEL, check, correlation_id, properties
from bench.peers.base import Peer, Tally

QUEUE = "bench"


class Dramatiq(Peer):
    """One message fetched at a time."""

    def open(self) -> None:
        self.broker: Any = RedisBroker(url=self.url, middleware=[])
        self.broker.declare_queue(QUEUE)
        self.consumer = self.broker.consume(QUEUE, prefetch=1, timeout=5000)

    def close(self) -> None:
        self.consumer.close()
        self.broker.close()

    def send(self, first: int, count: int) -> None:
        for number in range(first, first + count):
            values = {"label": LABEL, "identity": correlation_id(number), "properties": properties(number)}
            message = dramatiq.Message(
                queue_name=QUEUE, actor_name="work", args=(self.text,), kwargs=values, options={}
            )
            self.broker.enqueue(message)

    def receive(self, count: int) -> None:
        done = 0
        while done < count:
            message = next(self.consumer)
            if message is not None:
                check(
                    message.args[0],
                    self.text,
                    *(message.kwargs[name] for name in ("label", "identity", "properties")),
                )
                self.consumer.ack(message)
                done += 1


class DramatiqWorker(Dramatiq):
    """Its worker with its default prefetch."""

    def drain(self, count: int) -> list[float]:
        enough = threading.Event()
        tally = Tally(count, enough.set)

        def work(body: str, label: str, identity: str, properties: Any) -> None:
            check(body, self.text, label, identity, properties)
            tally()

        dramatiq.actor(work, actor_name="work", queue_name=QUEUE, broker=self.broker)
        worker = dramatiq.Worker(self.broker, worker_threads=8)
        worker.start()
        enough.wait()
        worker.stop()
        return tally.times
