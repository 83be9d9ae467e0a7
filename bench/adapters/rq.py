"""RQ: ``enqueue``; ``dequeue_any`` and the work of its SimpleWorker on a job that does nothing."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import redis
import rq

from bench.adapters.base import Peer, Tally
from bench.payload import BODY, check, correlation_id, properties

#: What each body is shown to.
_tally: list[Callable[[object], None]] = [check]


def work(body: str, **_: Any) -> None:
    """What each job runs."""
    _tally[0](body)


class RQ(Peer):
    """No results are kept."""

    works = ("send", "receive", "send_batch")
    settings = "result_ttl=0; receive runs the job in SimpleWorker"

    def open(self) -> None:
        logging.getLogger("rq.worker").setLevel(logging.ERROR)
        self.client: Any = redis.Redis.from_url(self.url)
        self.queue: Any = rq.Queue("bench", connection=self.client)
        self.worker: Any = rq.SimpleWorker([self.queue], connection=self.client)

    def close(self) -> None:
        self.client.close()

    def send(self, first: int, count: int) -> None:
        for number in range(first, first + count):
            self.queue.enqueue(
                work,
                BODY,
                result_ttl=0,
                job_id=correlation_id(number),
                properties=properties(number),
            )

    def send_batch(self, first: int, count: int, size: int) -> None:
        for start in range(first, first + count, size):
            self.queue.enqueue_many(
                [
                    rq.Queue.prepare_data(
                        work,
                        args=(BODY,),
                        kwargs={"properties": properties(number)},
                        result_ttl=0,
                        job_id=correlation_id(number),
                    )
                    for number in range(start, min(start + size, first + count))
                ]
            )

    def receive(self, count: int) -> None:
        for _ in range(count):
            job, queue = rq.Queue.dequeue_any([self.queue], None, connection=self.client)
            self.worker.execute_job(job, queue)


class RQWorker(RQ):
    """SimpleWorker: jobs run in its own process."""

    works = ("send", "send_batch", "drain")
    settings = "SimpleWorker, result_ttl=0"

    def arrivals(self, count: int) -> list[float]:
        tally = Tally(count, lambda: setattr(self.worker, "_stop_requested", True))
        _tally[:] = [tally]
        self.worker.work(logging_level="ERROR")
        _tally[:] = [check]
        return tally.times
