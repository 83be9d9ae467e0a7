"""kombu: SimpleQueue on our transport instead of its own for Redis."""

from __future__ import annotations

import kombu

import mqredis.kombu  # noqa: F401 (adds the transport)
from bench.adapters.kombu import Kombu


class MqredisKombu(Kombu):
    """The same calls as kombu on Redis; only the address differs."""

    settings = "mqredis:// transport"

    def open(self) -> None:
        self.connection = kombu.Connection(
            self.url.replace("redis://", "mqredis://"),
            transport_options={"settings": {"allow_volatile": True}},
        )
        self.queue = self.connection.SimpleQueue("bench")
