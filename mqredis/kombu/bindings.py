"""The bindings of exchanges to queues, which all processes share: a queue of the broker for each exchange.

``channel`` reads and writes them through ``Store.bindings``. A binding is a message, whose body is its row as JSON.
Brokers of users hold these queues and rows, and processes of several releases share them, so PREFIX and the rows keep
their form.
"""

from __future__ import annotations

import contextlib
from functools import partial

from kombu.utils.json import dumps, loads

from mqredis.client import Queue, QueueManager
from mqredis.errors import MessageNotFound, QueueExists, QueueNotAvailable, QueueNotFound
from mqredis.handles import Handles
from mqredis.kombu.names import quote

# Names of these queues begin with it; the quoted name of the exchange follows.
PREFIX = "_kombu.bindings."

# A binding: routing key, pattern, and the queue by kombu's name. kombu has bindings in this form.
Row = tuple[str, str, str]


class Bindings:
    """The bindings of all exchanges."""

    def __init__(self, manager: QueueManager) -> None:
        self._manager = manager
        self._tables = Handles(manager)

    def add(self, exchange: str, row: Row) -> None:
        """Add a binding, unless the exchange has it. Two processes may add it at once: kombu delivers a message once to
        each queue, and ``remove`` removes both rows."""
        if row in self.table(exchange):
            return
        name = PREFIX + quote(exchange)
        with contextlib.suppress(QueueExists):
            self._manager.create_queue(name)
        self._tables.use(name, lambda table: table.send(dumps(row)))

    def table(self, exchange: str) -> list[Row]:
        """All bindings of an exchange."""
        try:
            return self._tables.use(PREFIX + quote(exchange), _rows)
        except (QueueNotFound, QueueNotAvailable):
            return []

    def remove(self, exchange: str, queue: str, routing_key: str | None = None) -> None:
        """Remove the bindings of a queue to an exchange. ``routing_key``: only that with this key."""
        self._remove(PREFIX + quote(exchange), queue, routing_key)

    def remove_queue(self, queue: str) -> None:
        """Remove the bindings of a queue to all exchanges."""
        for info in self._manager.queues(PREFIX + "*"):
            self._remove(info.name, queue, None)

    def _remove(self, name: str, queue: str, routing_key: str | None) -> None:
        with contextlib.suppress(QueueNotFound, QueueNotAvailable):
            self._tables.use(name, partial(_remove_rows, queue=queue, routing_key=routing_key))


def _rows(table: Queue) -> list[Row]:
    return [row for message in table.browse() if (row := _row(message.body))]


def _remove_rows(table: Queue, queue: str, routing_key: str | None) -> None:
    for message in table.browse():
        row = _row(message.body)
        if row and row[2] == queue and (routing_key is None or row[0] == routing_key):
            with contextlib.suppress(MessageNotFound):  # another process has removed it
                table.receive_by_lookup_id(message.lookup_id)


def _row(body: bytes) -> Row | None:
    """The row in a message; None if another program has sent the message."""
    try:
        key, pattern, queue = loads(body)[:3]
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    return str(key), str(pattern or ""), str(queue)
