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

from mqredis.client import Queue, QueueManager
from mqredis.errors import QueueExists, QueueNotAvailable, QueueNotFound
from mqredis.kombu.arguments import Declared, read_label, retry_policy, split
from mqredis.kombu.bindings import Bindings
from mqredis.kombu.names import quote, unquote
from mqredis.models import Outgoing
from mqredis.models.queue import LARGEST_MESSAGE
from mqredis.operations.broker_time import broker_time

log = logging.getLogger("mqredis.kombu")

# Seconds between two searches for queues that have expired.
_SWEEP_SECONDS = 60.0


class Store:
    """One client of the broker, for one kombu connection."""

    def __init__(self, manager: QueueManager, lease: float) -> None:
        self.manager = manager
        self.lease = lease
        self.bindings = Bindings(manager)
        # In the following, queues have kombu's names. The lock protects the open handles.
        self._opening = threading.Lock()
        self._handles: dict[str, Queue] = {}
        # The declared arguments of the queues that are open in this client.
        self._declared: dict[str, Declared] = {}
        # The arguments with which this client has declared queues.
        self._arguments: dict[str, Mapping[str, Any]] = {}
        # When the expiry of a queue was last renewed, on the monotonic clock.
        self._renewed: dict[str, float] = {}
        self._swept = 0.0

    # ---- queues ----------------------------------------------------------------------------------

    def queue(self, name: str) -> Queue:
        """An open handle, one for all channels. Raises QueueNotFound."""
        with self._opening:
            found = self._handles.get(name)
            if found is None:
                opened = self.manager.open(quote(name))
                self._declared[name] = read_label(self.manager.queue_info(quote(name)).label)
                found = self._handles[name] = opened
            return found

    def declared(self, name: str) -> Declared:
        """The declared arguments of a queue, by any client; none if the queue does not exist."""
        try:
            self.queue(name)
        except QueueNotFound:
            return Declared()
        return self._declared[name]

    def forget(self, name: str) -> None:
        """Forget the handle of a deleted queue. The next use opens the queue with its name, if there is one."""
        with self._opening:
            self._handles.pop(name, None)

    def declare(self, name: str, arguments: Mapping[str, Any] | None = None) -> None:
        """Create a queue, or change an existing one to these arguments."""
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
            self.forget(name)
        elif own.expires_ms is not None:
            self._renew_expiry(name)

    def used(self, name: str) -> None:
        """Note that an open queue is read: the time after which it expires begins again."""
        expires_ms = self._declared[name].expires_ms
        if (
            expires_ms is not None
            and time.monotonic() - self._renewed.get(name, -math.inf) >= expires_ms / 3000
        ):
            self._renew_expiry(name)

    def _renew_expiry(self, name: str) -> None:
        """Set the time of the last change of a queue, from which ``sweep`` counts."""
        self._renewed[name] = time.monotonic()
        self.manager.update_queue(quote(name), label=self.manager.queue_info(quote(name)).label)

    def recreate(self, name: str) -> None:
        """Create a queue that was deleted, with the arguments of its last declaration by this client."""
        self.forget(name)
        self.declare(name, self._arguments.get(name))

    def ready(self, name: str) -> int:
        """How many messages are available. Raises QueueNotFound."""
        return self.manager.queue_info(quote(name)).ready

    def waiters(self, name: str) -> int:
        """How many readers wait for messages of this queue; 0 if there is no such queue."""
        try:
            return self.manager.queue_info(quote(name)).waiters
        except QueueNotFound:
            return 0

    def send(self, name: str, message: Outgoing) -> bool:
        """Send; False if there is no such queue, as AMQP drops what cannot be routed."""
        for _ in range(2):
            try:
                self.queue(name).send(message)
            except QueueNotAvailable:
                self.forget(name)
            except QueueNotFound:
                break
            else:
                return True
        log.debug("a message for queue %r was dropped: there is no such queue", name)
        return False

    def delete(self, name: str) -> None:
        """Delete a queue and its bindings."""
        self.forget(name)
        self.bindings.remove_queue(name)
        try:
            self.manager.delete_queue(quote(name))
        except QueueNotFound:
            return

    def sweep(self, declared: str = "") -> None:
        """Delete queues that were not used for the time of their x-expires; not the one that is ``declared`` now."""
        now = time.monotonic()
        if self._swept and now - self._swept < _SWEEP_SECONDS:
            return
        self._swept = now
        present, _ = self.manager.run(broker_time(self.manager.context))
        for info in self.manager.queues():
            expires_ms = read_label(info.label).expires_ms
            if expires_ms is None or info.active or info.waiters or info.name == quote(declared):
                continue
            age = (present - info.modified_at).total_seconds()
            if age * 1000 > expires_ms:
                log.info("queue %s has expired", info.name)
                self.delete(unquote(info.name))

    def close(self) -> None:
        """End the client."""
        self.manager.close()
