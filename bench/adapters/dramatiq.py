"""dramatiq: the broker's own enqueue, consume and ack, without worker threads."""

from __future__ import annotations

import threading
from typing import Any

import dramatiq
from dramatiq.brokers.redis import RedisBroker

from bench.adapters.base import Peer, Tally
from bench.payload import BODY, check, correlation_id, properties

QUEUE = "bench"


class Dramatiq(Peer):
    """One message fetched at a time."""

    prefetch = 1

    def open(self) -> None:
        self.broker: Any = RedisBroker(url=self.url, middleware=[])
        self.broker.declare_queue(QUEUE)
        self.consumer = self.broker.consume(QUEUE, prefetch=self.prefetch, timeout=5000)

    def close(self) -> None:
        self.consumer.close()
        self.broker.close()

    def send(self, first: int, count: int) -> None:
        for number in range(first, first + count):
            self.broker.enqueue(
                dramatiq.Message(
                    queue_name=QUEUE,
                    actor_name="work",
                    args=(BODY,),
                    kwargs={"id": correlation_id(number), "properties": properties(number)},
                    options={},
                )
            )

    def receive(self, count: int) -> None:
        done = 0
        for message in self.consumer:
            if message is None:
                continue
            check(message.args[0])
            self.consumer.ack(message)
            done += 1
            if done == count:
                return


class DramatiqPrefetch(Dramatiq):
    """Sixteen fetched by one script; acknowledged one by one."""

    settings = "prefetch 16"
    prefetch = 16


class DramatiqWorker(Dramatiq):
    """Its worker, with the threads and the prefetch it has by itself."""

    works = ("send", "drain")
    settings = "8 threads, as it comes"
    fetch = 0

    def arrivals(self, count: int) -> list[float]:
        enough = threading.Event()
        tally = Tally(count, enough.set)

        def work(body: str, **_: Any) -> None:
            tally(body)

        dramatiq.actor(work, actor_name="work", queue_name=QUEUE, broker=self.broker)
        worker = dramatiq.Worker(self.broker, worker_threads=8)
        worker.queue_prefetch = self.fetch or worker.queue_prefetch
        worker.start()
        enough.wait()
        worker.stop()
        return tally.times


class DramatiqWorkerPrefetch(DramatiqWorker):
    """Tuned: 500 fetched at once."""

    settings = "8 threads, prefetch 500"
    fetch = 500
