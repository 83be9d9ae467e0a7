"""kombu: SimpleQueue on its Redis transport."""

from __future__ import annotations

from typing import Any

import kombu

from bench.messages import LABEL, check, correlation_id, properties
from bench.peers.base import Peer


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
            headers = {**properties(number), "label": LABEL}
            self.queue.put(
                self.text, serializer="json", headers=headers, correlation_id=correlation_id(number)
            )

    def receive(self, count: int) -> None:
        for _ in range(count):
            message = self.queue.get(block=True, timeout=5)
            values, identity = message.headers, message.properties["correlation_id"]
            check(message.payload, self.text, values["label"], identity, values)
            message.ack()
