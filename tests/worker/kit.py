"""Queues and messages of the tests of workers."""

from __future__ import annotations

import mqredis
from mqredis.testing import drain
from mqredis.worker import Worker


def create(qm: mqredis.QueueManager, name: str, transactional: bool, *bodies: bytes) -> None:
    qm.create_queue(name, transactional=transactional)
    with qm.open(name) as queue, qm.transaction() as tx:
        queue.send_many(bodies, transaction=tx if transactional else None)


def burst(worker: Worker, qm: mqredis.QueueManager) -> int:
    return worker.run(burst=True, manager=qm, signals=False)


def bodies(qm: mqredis.QueueManager, name: str) -> list[bytes]:
    with qm.open(name) as queue:
        return [message.body for message in drain(queue)]


def ignore(message: mqredis.Message) -> None:
    """Handle a message successfully."""
