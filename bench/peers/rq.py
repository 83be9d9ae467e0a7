"""RQ: ``enqueue``; ``dequeue_any`` and the work of its SimpleWorker on a job with an empty function."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import redis
import rq

from bench.messages import LABEL, check, correlation_id, properties
from bench.peers.base import Peer, Tally

# What each job calls with its arguments, since RQ finds a job's function by its name.
_handler: list[Callable[..., None]] = []


def work(body: str, **values: Any) -> None:
    """The function of each job."""
    _handler[0](body, **values)


class RQ(Peer):
    """No results are kept."""

    def open(self) -> None:
        logging.getLogger("rq.worker").setLevel(logging.ERROR)
        self.client: Any = redis.Redis.from_url(self.url)
        self.queue: Any = rq.Queue("bench", connection=self.client)
        self.worker: Any = rq.SimpleWorker([self.queue], connection=self.client)
        _handler[:] = [self.handle]

    def handle(self, body: str, label: str, properties: Any) -> None:
        """An empty task."""
        check(body, self.text, label, "c-", properties)

    def close(self) -> None:
        self.client.close()

    def send(self, first: int, count: int) -> None:
        for number in range(first, first + count):
            self.queue.enqueue(
                work,
                self.text,
                result_ttl=0,
                job_id=correlation_id(number),
                label=LABEL,
                properties=properties(number),
            )

    def send_batch(self, first: int, count: int, size: int) -> None:
        for start in range(first, first + count, size):
            jobs = [
                rq.Queue.prepare_data(
                    work,
                    args=(self.text,),
                    kwargs={"label": LABEL, "properties": properties(number)},
                    result_ttl=0,
                    job_id=correlation_id(number),
                )
                for number in range(start, min(start + size, first + count))
            ]
            self.queue.enqueue_many(jobs)

    def receive(self, count: int) -> None:
        for _ in range(count):
            job, queue = rq.Queue.dequeue_any([self.queue], None, connection=self.client)
            self.worker.execute_job(job, queue)


class RQWorker(RQ):
    """SimpleWorker: jobs run in its own process."""

    def drain(self, count: int) -> list[float]:
        tally = Tally(count, lambda: setattr(self.worker, "_stop_requested", True))

        def handle(body: str, **values: Any) -> None:
            self.handle(body, **values)
            tally()

        _handler[:] = [handle]
        self.worker.work(logging_level="ERROR")
        return tally.times
