"""Channels: AMQP's methods on queues of the broker. ``transport`` makes one for each channel that kombu opens.

Methods with an underscore override those of kombu's virtual channel, which calls them. Consumers get their messages
from the transport, which reads ``qos``, ``_consumers`` and ``_active_queues``, and calls ``needs_ack``.

docs/celery.md lists the transport options (those of the channel: ``from_transport_options``; the others are read by
``transport``) and the arguments of queues. kombu's own tests run against this (tests/transport/test_kombu_suite.py).
"""

from __future__ import annotations

import logging
import weakref
from contextlib import suppress
from typing import Any

from kombu.transport import virtual
from kombu.transport.base import to_rabbitmq_queue_arguments

from mqredis.client import LockedMessage
from mqredis.commands.settlement import ABORT, COMMIT, REJECT
from mqredis.errors import IoTimeout, QueueNotAvailable, QueueNotFound
from mqredis.kombu.arguments import Declared
from mqredis.kombu.bindings import Row
from mqredis.kombu.envelope import pack, unpack
from mqredis.kombu.locks import Locks
from mqredis.kombu.names import quote
from mqredis.kombu.store import Store

log = logging.getLogger("mqredis.kombu")

# Messages that one fetch takes at most, whatever the prefetch limit; the broker allows 256 (``commands.read.BATCH``).
MOST_PER_FETCH = 32
# Queue managers and queues of which the log says that only one queue gets their dead letters.
_WARNED: set[tuple[str, str]] = set()


class QoS(virtual.QoS):  # type: ignore[misc]  # kombu has no types
    """Quality of service of a channel: acknowledgements commit locks."""

    def ack(self, delivery_tag: str) -> None:
        """Acknowledge: the message leaves its queue."""
        self._settle(delivery_tag, COMMIT)

    def reject(self, delivery_tag: str, requeue: bool = False) -> None:
        """Return the message to its place, or remove it from the queue as rejected."""
        self._settle(delivery_tag, ABORT if requeue else REJECT)

    def _settle(self, delivery_tag: str, action: str) -> None:
        """End a delivery. It does not count against the limit any more, also if the broker did not answer: the message
        is delivered again then, unless the broker has carried the action out."""
        try:
            self.channel.locks.settle(delivery_tag, action)
        finally:
            self._quick_ack(delivery_tag)
            self.channel.credit_changed()

    def restore_unacked(self) -> list[Any]:
        """Give all messages back at once."""
        self._flush()
        tags = list(self._delivered)
        self._delivered.clear()
        self.channel.locks.give_back(tags)
        return []

    def credit(self) -> int:
        """How many messages may be delivered now."""
        if not self.can_consume():
            return 0
        if "can_consume" in self.__dict__:
            return 1  # Celery's --disable-prefetch has replaced the method: it is asked before each message
        estimate: int | None = self.can_consume_max_estimate()
        return MOST_PER_FETCH if estimate is None else min(estimate, MOST_PER_FETCH)


class Channel(virtual.Channel):  # type: ignore[misc]  # kombu has no types
    """A channel of the transport ``mqredis``."""

    QoS = QoS
    supports_fanout = True
    body_encoding = None  # bodies are bytes already
    native_delay = True
    """Let the broker hold tasks with an ETA or countdown back, instead of the worker."""
    from_transport_options = (*virtual.Channel.from_transport_options, "native_delay")

    def __init__(self, connection: Any, **kwargs: Any) -> None:
        super().__init__(connection, **kwargs)
        # Queues whose consumers take messages without acknowledgement, and those that end with their consumers.
        self._no_ack: set[str] = set()
        self._auto_delete: set[str] = set()
        self._owner = weakref.ref(connection)
        self.store: Store = connection.store
        self.locks: Locks = connection.locks

    # ---- publishing ------------------------------------------------------------------------------

    def _put(self, queue: str, message: dict[str, Any], **_: Any) -> None:
        self._send(queue, message)

    def _put_fanout(self, exchange: str, message: dict[str, Any], routing_key: str, **_: Any) -> None:
        for queue in {row[2] for row in self.get_table(exchange)}:
            if not self._send(queue, message):
                self.store.bindings.remove(exchange, queue)

    def _send(self, queue: str, message: dict[str, Any]) -> bool:
        declared = self.store.declared(queue)
        packed = pack(
            message,
            self._get_message_priority(message),
            native_delay=self.native_delay,
            queue_ttl=declared.ttl_ms / 1000 if declared.ttl_ms is not None else None,
            dead_letters=self._dead_letters(queue, declared, message),
        )
        return self.store.send(queue, packed)

    def _dead_letters(self, queue: str, declared: Declared, message: dict[str, Any]) -> str | None:
        """The queue for this message if it is rejected or expires. AMQP copies it to all queues that are bound to the
        dead letter exchange; the broker has one target, so it is the first of them by name."""
        exchange = declared.dead_exchange
        if exchange is None:
            return None
        key = declared.dead_key
        if key is None:
            key = message["properties"].get("delivery_info", {}).get("routing_key") or queue
        targets = sorted(set(self._lookup(exchange, key)) - {queue, None, ""})
        if len(targets) > 1:
            self._warn_of_one_target(queue, targets)
        return quote(targets[0]) if targets else None

    def _warn_of_one_target(self, queue: str, targets: list[str]) -> None:
        """Log which queue gets the dead letters, once for each queue in this process, and not for each message."""
        key = self.store.manager.context.keys.tag, queue
        if key not in _WARNED:
            _WARNED.add(key)
            text = "dead letters of %r go to %r, the first by name, and not to all of %r"
            log.warning(text, queue, targets[0], targets)

    # ---- queues and bindings ---------------------------------------------------------------------

    def prepare_queue_arguments(self, arguments: dict[str, Any] | None, **kwargs: Any) -> dict[str, Any]:
        """kombu's names of queue arguments as AMQP's."""
        prepared: dict[str, Any] = to_rabbitmq_queue_arguments(arguments, **kwargs)
        return prepared

    def _new_queue(
        self,
        queue: str,
        auto_delete: bool = False,
        arguments: dict[str, Any] | None = None,
        **_: Any,
    ) -> None:
        if self.store.declare(queue, arguments):
            self.state.queue_bindings_delete(queue)  # those of a queue that another process has deleted
        if auto_delete:
            self._auto_delete.add(queue)

    def _has_queue(self, queue: str, **_: Any) -> bool:
        try:
            self.store.ready(queue)
        except QueueNotFound:
            return False
        return True

    def _size(self, queue: str) -> int:
        try:
            return self.store.ready(queue)
        except QueueNotFound:
            return 0

    def _purge(self, queue: str) -> int:
        return self.store.purge(queue)

    def queue_delete(self, queue: str, if_unused: bool = False, if_empty: bool = False, **_: Any) -> None:
        """Delete a queue with its bindings."""
        if if_empty and self._size(queue):
            return
        if if_unused and (self._has_consumer(queue) or self.store.others_read(queue)):
            return
        self.store.delete(queue)
        self.state.queue_bindings_delete(queue)

    def _has_consumer(self, queue: str) -> bool:
        """Does a channel of this connection consume the queue?"""
        owner = self._owner()
        return owner is not None and any(queue in channel._active_queues for channel in owner.channels)

    def _queue_bind(self, exchange: str, routing_key: str, pattern: str | None, queue: str) -> None:
        self.store.bindings.add(exchange, (routing_key or "", pattern or "", queue))

    def queue_unbind(
        self,
        queue: str,
        exchange: str | None = None,
        routing_key: str = "",
        arguments: Any = None,
        **kwargs: Any,
    ) -> None:
        """Remove one binding."""
        exchange = exchange or "amq.direct"
        self.state.binding_delete(queue, exchange, routing_key)
        self.store.bindings.remove(exchange, queue, routing_key or "")

    def get_table(self, exchange: str) -> list[Row]:
        """All bindings of an exchange, of all processes."""
        return self.store.bindings.table(exchange)

    # ---- reading ---------------------------------------------------------------------------------

    def basic_consume(self, queue: str, no_ack: bool, *args: Any, **kwargs: Any) -> None:
        """Deliver messages of this queue."""
        (self._no_ack.add if no_ack else self._no_ack.discard)(queue)
        super().basic_consume(queue, no_ack, *args, **kwargs)
        # A queue that is open does not expire, also while no message may be delivered. A deleted one is created again
        # by the first fetch.
        with suppress(QueueNotFound):
            self.store.source(queue)
        self.credit_changed()

    def basic_cancel(self, consumer_tag: str) -> None:
        """End a consumer. A queue that lives only as long as its consumer is deleted."""
        queue = self._tag_to_queue.get(consumer_tag)
        super().basic_cancel(consumer_tag)
        self.credit_changed()
        if queue is None or self._has_consumer(queue):
            return
        self.store.stop_reading(queue)
        if queue in self._auto_delete:
            self._auto_delete.discard(queue)
            self.queue_delete(queue, if_unused=True)

    def basic_qos(self, prefetch_size: int = 0, prefetch_count: int = 0, apply_global: bool = False) -> None:
        """Limit the number of messages that are delivered and not acknowledged."""
        super().basic_qos(prefetch_size, prefetch_count, apply_global)
        self.credit_changed()

    def basic_get(self, queue: str, no_ack: bool = False, **_: Any) -> Any:
        """One message, or None."""
        lock = self._lock(queue)
        if lock is None:
            return None
        (tag,) = self.locks.add([lock])
        if no_ack and not self.locks.settle(tag, COMMIT):
            return None
        message = self.Message(unpack(lock.message, tag), channel=self)
        if not no_ack:
            self.qos.append(message, tag)
        return message

    def _lock(self, queue: str) -> LockedMessage | None:
        try:
            source = self.store.source(queue)
            self.store.used(source)
            return source.lock(timeout=0, lease=self.store.lease)
        except IoTimeout:
            return None
        except (QueueNotFound, QueueNotAvailable):
            self.store.forget(queue)
            return None

    def decode_body(self, body: Any, encoding: Any = None) -> Any:
        """A body as its sender had it; as it is if a sender without kombu names an encoding that it does not have."""
        try:
            return super().decode_body(body, encoding)
        except (AttributeError, ValueError):
            return body

    def needs_ack(self, queue: str) -> bool:
        """Was the consumer of this queue started with acknowledgements?"""
        return queue not in self._no_ack

    def credit_changed(self) -> None:
        """Consumers or limits have changed: a waiting fetch has to begin again."""
        owner = self._owner()
        if owner is not None:
            owner.credit_changed()
