"""What an operator sees and does of pipelines: claims that are open, and a way to end them.

Users call it as ``mqredis.spark``, and ``mqredis pipeline`` does for publications. docs/spark.md describes it
(Exactly once, Operating). The functions need no Spark session, but importing them needs PySpark.
"""

from __future__ import annotations

from contextlib import suppress

from mqredis.client import QueueManager
from mqredis.errors import QueueNotFound
from mqredis.models.inspection import ClaimInfo
from mqredis.operations import pipelines
from mqredis.operations import publications as operations
from mqredis.operations.publications import Publication


def claims(manager: QueueManager, queue: str | None = None) -> list[ClaimInfo]:
    """Readers of one queue or of all queues, with the claim of each. Raises QueueNotFound."""
    if queue is not None:
        return manager.claims(queue)
    found = []
    for info in manager.queues():
        with suppress(QueueNotFound):  # it was deleted meanwhile
            found += manager.claims(info.name)
    return found


def release(manager: QueueManager, queue: str, owner: str, *, forget: bool = False) -> int:
    """Return the messages of a reader's open claim to the queue. Returns their number.

    A query with the reader's checkpoint is refused from now on, since it would claim other messages for a batch that a
    sink may have already. ``forget`` also removes the record of the reader, and with it this protection. Raises
    WaiterNotFound.
    """
    return manager.run(pipelines.release(manager.context, queue, owner, forget))


def publications(manager: QueueManager) -> list[Publication]:
    """Writes that are published in part: their driver is still at work, or has stopped."""
    return manager.run(operations.publications(manager.context))


def recover(manager: QueueManager, name: str) -> int:
    """Publish the rest of an open publication. Returns the number of these messages.

    A streaming query that is started again does the same by itself, and so does a batch write with the same
    ``txnAppId`` and ``txnVersion``. Raises ClaimLost if the messages that are left have expired.

    :param name: as :func:`publications` shows it.
    """
    return manager.run(operations.finish(manager.context, name))


def withdraw(manager: QueueManager, name: str) -> int:
    """Discard the messages of an open publication that are not in the queues yet. Returns their number.

    Messages in the queues stay there. The version counts as written: a job that writes it again writes nothing. Raises
    ClaimLost while the driver of the publication is at work.

    :param name: as :func:`publications` shows it.
    """
    return manager.run(operations.withdraw(manager.context, name))
