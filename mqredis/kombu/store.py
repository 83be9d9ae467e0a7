"""The queues of the broker by kombu's names: open handles, declared arguments, expiry.

``transport`` makes a ``Store`` for each connection; its channels and the fetcher share it, and call it from several
threads. Queues that kombu did not declare have no arguments and no expiry here. Only ``declare`` looks for expired
queues (docs/celery.md, x-expires).
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Mapping
from typing import Any
from weakref import WeakKeyDictionary

from mqredis.client import Queue, QueueManager
from mqredis.errors import QueueExists, QueueNotAvailable, QueueNotFound
from mqredis.handles import Handles, close_handle
from mqredis.kombu.arguments import Declared, read_label, retry_policy, split
from mqredis.kombu.bindings import Bindings
from mqredis.kombu.names import quote, unquote
from mqredis.models import Access, Outgoing
from mqredis.models.queue import LARGEST_MESSAGE
from mqredis.operations.broker_time import broker_time
from mqredis.operations.handle import still_there
from mqredis.operations.queue import touch

log = logging.getLogger("mqredis.kombu")

# Seconds between two searches for queues that have expired.
_SWEEP_SECONDS = 60.0


class Store:
    """One client of the broker, for one kombu connection. ``lease``: of each message that it reads, in seconds."""

    def __init__(self, manager: QueueManager, lease: float) -> None:
        self.manager = manager
        self.lease = lease
        self.bindings = Bindings(manager)
        # The queues to which this client sends. These handles do not keep a queue from its expiry (``sweep``).
        self._targets = Handles(manager, Access.SEND)
        # The queues that it reads, by kombu's names. It is no ``Handles``, since these handles hold locks. ``_lock``
        # guards the table, and is not held during calls of the broker.
        self._sources: dict[str, Queue] = {}
        self._lock = threading.Lock()
        # What follows has no lock. Its tables are changed by single steps, and two threads at worst do the same twice.
        # The arguments with which this client has declared queues, by kombu's names.
        self._arguments: dict[str, Mapping[str, Any]] = {}
        # The declared arguments of open queues, by any client.
        self._declared: WeakKeyDictionary[Queue, Declared] = WeakKeyDictionary()
        # When the expiry of a queue that is read was last renewed, on the monotonic clock.
        self._renewed: WeakKeyDictionary[Queue, float] = WeakKeyDictionary()
        self._swept = 0.0

    # ---- queues ----------------------------------------------------------------------------------

    def source(self, name: str) -> Queue:
        """The handle that reads a queue, one for all channels. Raises QueueNotFound."""
        with self._lock:
            found = self._sources.get(name)
        if found is not None:
            return found
        opened = self.manager.open(quote(name), Access.RECEIVE)
        with self._lock:
            found = self._sources.setdefault(name, opened)
        if found is not opened:  # another thread has opened the queue meanwhile
            close_handle(opened)
        return found

    def stop_reading(self, name: str) -> None:
        """A queue has no consumer here any more. If it has an x-expires, close the handle, so that the time begins.

        Not while messages are unacknowledged: the close of their handle would give them back. Handles of other queues
        stay open, so that the end of a consumer need not wait for a server that does not answer.
        """
        with self._lock:
            source = self._sources.get(name)
            if source is None or source.handle.locks:
                return
            if self._declared.get(source, Declared()).expires_ms is None:
                return
            del self._sources[name]
        close_handle(source)

    def reopen_deleted(self, name: str) -> None:
        """Open a queue that was deleted and created again. Raises QueueNotFound if it was only deleted."""
        try:
            self.manager.run(still_there(self.source(name).handle))
        except QueueNotAvailable:
            self.forget(name)
            self.source(name)

    def forget(self, name: str) -> None:
        """A queue that this client reads was deleted. The broker has closed its handles."""
        with self._lock:
            self._sources.pop(name, None)

    def declared(self, name: str) -> Declared:
        """The declared arguments of a queue to which this client sends; none if the queue does not exist."""
        try:
            return self._arguments_of(self._targets.open(quote(name)))
        except QueueNotFound:
            return Declared()

    def _arguments_of(self, opened: Queue) -> Declared:
        """The declared arguments of an open queue, read once for each handle. Raises QueueNotFound."""
        found = self._declared.get(opened)
        if found is None:
            found = self._declared[opened] = read_label(self.manager.queue_info(opened.name).label)
        return found

    def declare(self, name: str, arguments: Mapping[str, Any] | None = None) -> bool:
        """Create a queue, or change an existing one to these arguments. Was it created?"""
        own, properties = split(arguments or {})
        if arguments:
            self._arguments[name] = arguments
        if own.expires_ms is not None:
            self.sweep(name)
        try:
            created = {"retry": retry_policy(own.dead_exchange is not None), **properties}
            self.manager.create_queue(
                quote(name), label=own.label(), max_message_bytes=LARGEST_MESSAGE, **created
            )
        except QueueExists:
            self._change(name, own, properties)
            return False
        return True

    def _change(self, name: str, own: Declared, properties: Mapping[str, Any]) -> None:
        """Give an existing queue what a declaration says, if it says anything."""
        if own == Declared() and not properties:
            return
        present = self.manager.queue_info(quote(name))
        changed: dict[str, Any] = {
            key: value for key, value in properties.items() if getattr(present, key) != value
        }
        if own != Declared() and read_label(present.label) != own:
            changed["label"] = own.label()
            final = "poison" if own.dead_exchange is None else "dead_letter"
            policy = present.retry
            if "retry" not in properties and policy and policy.final in ("poison", "dead_letter"):
                changed["retry"] = policy.model_copy(update={"final": final})
        if changed:
            self.manager.update_queue(quote(name), **changed)
            self._declared.clear()  # of all queues, since this is rare
        elif own.expires_ms is not None:
            self._renew_expiry(quote(name))

    def used(self, source: Queue) -> None:
        """Note that a queue is read: the time after which it expires begins again. Raises QueueNotFound."""
        expires_ms = self._arguments_of(source).expires_ms
        now = time.monotonic()
        if expires_ms is not None and now - self._renewed.get(source, -math.inf) >= expires_ms / 3000:
            self._renewed[source] = now
            self._renew_expiry(source.name)

    def _renew_expiry(self, quoted: str) -> None:
        """Set the time of the last change of a queue, from which ``sweep`` counts."""
        self.manager.run(touch(self.manager.context, quoted))

    def recreate(self, name: str) -> None:
        """Create a queue that was deleted, with the arguments of its last declaration by this client."""
        self.forget(name)
        self.declare(name, self._arguments.get(name))

    def ready(self, name: str) -> int:
        """How many messages are available. Raises QueueNotFound."""
        return self.manager.queue_info(quote(name)).ready

    def others_read(self, name: str) -> bool:
        """Has another client opened this queue to read it?"""
        try:
            receivers = self.manager.queue_info(quote(name)).receivers
        except QueueNotFound:
            return False
        return receivers > (1 if name in self._sources else 0)

    def send(self, name: str, message: Outgoing) -> bool:
        """Send; False if there is no such queue, as AMQP drops what cannot be routed."""
        try:
            self._targets.use(quote(name), lambda target: target.send(message))
        except (QueueNotFound, QueueNotAvailable):
            log.debug("a message for queue %r was dropped: there is no such queue", name)
            return False
        return True

    def purge(self, name: str) -> int:
        """Remove the messages that are available; returns how many."""
        try:
            with self.manager.open(quote(name), Access.RECEIVE) as opened:
                return opened.purge()
        except (QueueNotFound, QueueNotAvailable):
            return 0

    def delete(self, name: str) -> None:
        """Delete a queue and its bindings."""
        self.forget(name)
        self._arguments.pop(name, None)
        self.bindings.remove_queue(name)
        try:
            self.manager.delete_queue(quote(name))
        except QueueNotFound:
            return

    def sweep(self, declared: str = "") -> None:
        """Delete queues that were not used for the time of their x-expires; not the one that is ``declared`` now.

        A queue is used by clients that have opened it to read it, also if they do not wait for a message now.
        """
        now = time.monotonic()
        if self._swept and now - self._swept < _SWEEP_SECONDS:
            return
        self._swept = now
        present, _ = self.manager.run(broker_time(self.manager.context))
        for info in self.manager.queues():
            expires_ms = read_label(info.label).expires_ms
            if expires_ms is None or info.receivers or info.waiters or info.name == quote(declared):
                continue
            age = (present - info.modified_at).total_seconds()
            if age * 1000 > expires_ms:
                log.info("queue %s has expired", info.name)
                self.delete(unquote(info.name))

    def close(self) -> None:
        """End the client."""
        self._sources.clear()
        self.manager.close()
