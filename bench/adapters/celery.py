"""Celery: only the sending side; its receiving side cannot be had without its worker."""

from __future__ import annotations

from typing import Any

import celery

from bench.adapters.base import Peer
from bench.payload import BODY, correlation_id, properties


class Celery(Peer):
    """``apply_async`` of a task whose result is ignored."""

    works = ("send",)
    settings = "ignore_result"

    def open(self) -> None:
        self.app: Any = celery.Celery("bench", broker=self.url)
        self.app.conf.update(task_ignore_result=True, broker_connection_retry_on_startup=True)

        def work(body: str, **_: Any) -> None:
            """Does nothing."""

        self.work = self.app.task(name="bench.work", ignore_result=True)(work)

    def close(self) -> None:
        self.app.close()

    def send(self, first: int, count: int) -> None:
        for number in range(first, first + count):
            self.work.apply_async(
                (BODY,), {"properties": properties(number)}, correlation_id=correlation_id(number)
            )
