"""Celery with its Redis transport. Its receiving side cannot be had without the worker."""

from __future__ import annotations

from typing import Any

import celery
import celery.worker.state

from bench.messages import LABEL, check, correlation_id, properties
from bench.peers.base import Peer, Tally


class CeleryWorker(Peer):
    """The worker with the solo pool, which costs least; acknowledged late, so that a crash loses nothing."""

    def open(self) -> None:
        self.app: Any = celery.Celery("bench", broker=self.url)
        self.app.conf.update(
            task_ignore_result=True,
            broker_connection_retry_on_startup=True,
            task_acks_late=True,
            worker_hijack_root_logger=False,
        )
        self.tally: Any = None

        def work(body: str, label: str, properties: Any) -> None:
            check(body, self.text, label, "c-", properties)
            self.tally()

        self.work = self.app.task(name="bench.work", ignore_result=True)(work)

    def close(self) -> None:
        self.app.close()

    def send(self, first: int, count: int) -> None:
        for number in range(first, first + count):
            values = {"label": LABEL, "properties": properties(number)}
            self.work.apply_async((self.text,), values, correlation_id=correlation_id(number))

    def drain(self, count: int) -> list[float]:
        state: Any = celery.worker.state
        self.tally = Tally(count, lambda: setattr(state, "should_stop", 0))
        worker = self.app.WorkController(
            pool="solo", without_gossip=True, without_mingle=True, without_heartbeat=True, loglevel="ERROR"
        )
        worker.start()
        state.should_stop = None
        times: list[float] = self.tally.times
        return times
