"""kombu: SimpleQueue on its Redis transport."""

from __future__ import annotations

from typing import Any

import kombu

from bench.adapters.base import Peer
from bench.payload import BODY, check, correlation_id, properties


class Kombu(Peer):
    """One connection, a durable queue, explicit acknowledgement."""

    def open(self) -> None:
        self.connection: Any = kombu.Connection(self.url)
        self.queue = self.connection.SimpleQueue("bench")

    def close(self) -> None:
        self.queue.close()
        self.connection.release()

    def send(self, first: int, count: int) -> None:
        for number in range(first, first + count):
            self.queue.put(
                BODY, serializer="json", headers=properties(number), correlation_id=correlation_id(number)
            )

    def receive(self, count: int) -> None:
        for _ in range(count):
            message = self.queue.get(block=True, timeout=5)
            check(message.payload)
            message.ack()
