"""mqredis.worker: handlers that do nothing, in one process."""

from __future__ import annotations

from bench.adapters.base import Tally
from bench.adapters.mqredis_sync import Mqredis
from mqredis import Message
from mqredis.worker import Worker


class MqredisWorker(Mqredis):
    """One handler at a time, one message for each call: as it comes."""

    works = ("send", "send_batch", "drain")
    settings = "one thread, as it comes (prefetch=1, the default)"
    many = True

    def arrivals(self, count: int, waiters: int = 1) -> list[float]:
        worker = Worker()
        tally = Tally(count, worker.stop)

        def handle(message: Message) -> None:
            tally(message.body)

        self.register(worker, waiters, handle)
        worker.run(manager=self.qm, signals=False)
        return tally.times

    def register(self, worker: Worker, waiters: int, handle: object) -> None:
        """Add the consumer."""
        worker.consumer("bench", concurrency=waiters)(handle)  # type: ignore[type-var]


class MqredisWorkerPrefetch(MqredisWorker):
    """One handler at a time, one message for each call of it, up to 32 for each call to Redis."""

    settings = "one thread, prefetch=32"

    def register(self, worker: Worker, waiters: int, handle: object) -> None:
        worker.consumer("bench", concurrency=waiters, prefetch=32)(handle)  # type: ignore[type-var]


class MqredisWorkerList(MqredisWorker):
    """A handler that takes lists of up to 100."""

    settings = "one thread, a handler that takes up to 100 messages"

    def register(self, worker: Worker, waiters: int, handle: object) -> None:
        def every(messages: list[Message]) -> None:
            for message in messages:
                handle(message)  # type: ignore[operator]

        worker.consumer("bench", concurrency=waiters, batch=100)(every)
