"""Helpers that use a kombu connection. They are not in conftest, which must not require kombu."""

from __future__ import annotations

from typing import Any

import kombu

import mqredis
import mqredis.kombu

WAIT = 60.0


def publish(connection: Any, body: Any, queue: kombu.Queue, **options: Any) -> None:
    with connection.channel() as channel:
        kombu.Producer(channel).publish(
            body, exchange=queue.exchange, routing_key=queue.routing_key, declare=[queue], **options
        )


def get(connection: Any, queue: str) -> Any:
    return connection.default_channel.basic_get(queue)


def info(connection: Any, queue: str) -> mqredis.QueueInfo:
    connection.connect()
    found: mqredis.QueueInfo = connection.transport.store.manager.queue_info(queue)
    return found
