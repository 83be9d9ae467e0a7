"""Messages of operators' actions, and what their queues hold."""

from __future__ import annotations

from mqredis import QueueManager


def bodies(qm: QueueManager, name: str = "orders") -> list[bytes]:
    """Bodies of the available messages, in delivery order."""
    with qm.open(name) as queue:
        return [message.body for message in queue.browse()]


def send(qm: QueueManager, *texts: str, name: str = "orders", **fields: object) -> list[int]:
    """Send messages whose label is their body; return their lookup ids."""
    with qm.open(name) as queue:
        return [queue.send(text, label=text, **fields).lookup_id for text in texts]  # type: ignore[arg-type]


def counts(qm: QueueManager, name: str = "orders") -> tuple[int, int, int]:
    """Number of available, delayed and locked messages of a queue."""
    info = qm.queue_info(name)
    return info.ready, info.delayed, info.locked
