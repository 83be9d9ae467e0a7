"""Reads of messages that stay in their queue, also by clients that may change nothing.

``messages`` and ``transfer`` use it. Here ``read_only`` decides between ``Queue.browse`` and pages of
``QueueManager.messages``; both have to give whole bodies, hence ``complete=True``.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from functools import partial
from typing import Any

from mqredis.cli.common import Arguments, existing, given_settings
from mqredis.cli.form import to_json
from mqredis.cli.show import pages
from mqredis.client import QueueManager
from mqredis.models import Access, Message


def browse(arguments: Arguments, qm: QueueManager, **how: Any) -> Iterator[Message]:
    """The available messages of ``arguments.queue`` in delivery order.

    A browse opens the queue, which a read-only client may not do. ``how``: ``match=`` and ``selector=``.
    """
    if given_settings(arguments).read_only:
        for stored in pages(partial(qm.messages, arguments.queue, complete=True, **how)):
            yield stored.message
        return
    with qm.open(existing(qm, arguments.queue), Access.PEEK) as queue:
        yield from queue.browse(**how)


def exported(arguments: Arguments, qm: QueueManager, **how: Any) -> Generator[dict[str, Any]]:
    """The lines of ``export``: delayed and resting messages with the time when that ends, then the available ones.

    In this order a message whose delay ends meanwhile is not missed.
    """
    written = set()
    for stored in pages(partial(qm.scheduled, arguments.queue, complete=True, **how)):
        written.add(stored.message.lookup_id)
        yield {**to_json(stored.message), "available_at": stored.due_at}
    for message in browse(arguments, qm, **how):
        if message.lookup_id not in written:
            yield to_json(message)
