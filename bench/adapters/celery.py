"""Celery: only the sending side; its receiving side cannot be had without its worker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import celery
import celery.worker.state

from bench.adapters.base import Peer, Tally
from bench.payload import BODY, check, correlation_id, properties


class Celery(Peer):
    """``apply_async`` of a task whose result is ignored."""

    works: ClassVar[tuple[str, ...]] = ("send",)
    settings = "ignore_result"
    tally: Callable[[object], None] = staticmethod(check)

    def open(self) -> None:
        self.app: Any = celery.Celery("bench", broker=self.url)
        self.app.conf.update(task_ignore_result=True, broker_connection_retry_on_startup=True)

        def work(body: str, **_: Any) -> None:
            self.tally(body)

        self.work = self.app.task(name="bench.work", ignore_result=True)(work)

    def close(self) -> None:
        self.app.close()

    def send(self, first: int, count: int) -> None:
        for number in range(first, first + count):
            self.work.apply_async(
                (BODY,), {"properties": properties(number)}, correlation_id=correlation_id(number)
            )


class CeleryWorker(Celery):
    """Its worker with the solo pool, which spends least; acknowledged late, so that a death loses nothing."""

    works = ("send", "drain")
    settings = "solo pool, acks_late"

    def arrivals(self, count: int) -> list[float]:
        state: Any = celery.worker.state
        tally = Tally(count, lambda: setattr(state, "should_stop", 0))
        self.tally = tally
        self.app.conf.update(task_acks_late=True, worker_hijack_root_logger=False)
        worker = self.app.WorkController(
            pool="solo", without_gossip=True, without_mingle=True, without_heartbeat=True, loglevel="ERROR"
        )
        worker.start()
        state.should_stop = None
        return tally.times
