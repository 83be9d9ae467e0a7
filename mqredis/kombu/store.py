"""The transport's view of the broker: queues by kombu's names, bindings, and locks with their renewal.

``transport`` makes one for each connection; its channels and the fetcher share it.
"""

from __future__ import annotations

import logging
import math
import re
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from kombu.utils.json import dumps, loads

from mqredis.client import LockedMessage, Queue, QueueManager
from mqredis.commands.settlement import ABORT, COMMIT, REJECT, RENEW
from mqredis.errors import LockLost, MessageNotFound, QueueExists, QueueNotAvailable, QueueNotFound
from mqredis.keys import RESERVED
from mqredis.kombu.arguments import Declared, read_label, retry_policy, split
from mqredis.models import Journal, Outgoing
from mqredis.operations import giveback, settle
from mqredis.operations.broker_time import broker_time

log = logging.getLogger("mqredis.kombu")

# Names of the queues that hold the bindings of exchanges.
BINDINGS = "_kombu.bindings."
# Seconds between two searches for queues that have expired.
_SWEEP_SECONDS = 60.0
_MAX_BODY = 67_108_864
_BATCH = 256

# A binding: routing key, pattern, and the queue by kombu's name. kombu has bindings in this form.
Row = tuple[str, str, str]


def quote(name: str) -> str:
    """A queue name of kombu as one that the broker allows."""
    return "".join(f"%{ord(c):02X}" if c in f"%,{RESERVED}" or ord(c) < 33 else c for c in name)


def unquote(name: str) -> str:
    """The inverse of :func:`quote`."""
    return re.sub("%([0-9A-F]{2})", lambda match: chr(int(match[1], 16)), name)


class Store:
    """One client of the broker, for one kombu connection."""

    def __init__(self, manager: QueueManager, lease: float) -> None:
        self.manager = manager
        self.lease = lease
        # Open handles by the broker's names of their queues.
        self._handles: dict[str, Queue] = {}
        self._opening = threading.Lock()
        # In the following, queues have kombu's names.
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
            found = self._handles.get(quote(name))
            if found is None:
                opened = self.manager.open(quote(name))
                self._declared[name] = read_label(self.manager.queue_info(quote(name)).label)
                found = self._handles[quote(name)] = opened
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
        self._forget(quote(name))

    def _forget(self, broker_name: str) -> None:
        with self._opening:
            self._handles.pop(broker_name, None)

    def declare(self, name: str, arguments: Mapping[str, Any] | None = None) -> None:
        """Create a queue, or change an existing one to these arguments."""
        own, properties = split(arguments or {})
        if arguments:
            self._arguments[name] = arguments
        if own.expires_ms is not None:
            self.sweep(name)
        try:
            created = {"retry": retry_policy(own.dead_exchange is not None), **properties}
            self.manager.create_queue(quote(name), label=own.label(), max_message_bytes=_MAX_BODY, **created)
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
        for info in self.manager.queues(BINDINGS + "*"):
            self.unbind(info.name.removeprefix(BINDINGS), queue=name, quoted=True)
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

    # ---- bindings --------------------------------------------------------------------------------

    def bind(self, exchange: str, row: Row) -> None:
        """Add a binding."""
        if row in self.table(exchange):
            return
        name = BINDINGS + quote(exchange)
        try:
            self.manager.create_queue(name)
        except QueueExists:
            pass
        self._bindings(exchange).send(dumps(row))

    def table(self, exchange: str) -> list[Row]:
        """All bindings of an exchange."""
        for _ in range(2):
            try:
                return [self._row(message.body) for message in self._bindings(exchange).browse()]
            except QueueNotAvailable:
                self._forget(BINDINGS + quote(exchange))
            except QueueNotFound:
                break
        return []

    def unbind(
        self, exchange: str, *, queue: str, routing_key: str | None = None, quoted: bool = False
    ) -> None:
        """Remove the bindings of a queue, or one of them. ``quoted``: the exchange is given by the broker's name."""
        try:
            table = self._bindings(exchange, quoted)
            for message in table.browse():
                row = self._row(message.body)
                if row[2] == queue and (routing_key is None or row[0] == routing_key):
                    try:
                        table.receive_by_lookup_id(message.lookup_id)
                    except MessageNotFound:
                        continue
        except (QueueNotFound, QueueNotAvailable):
            return

    def _bindings(self, exchange: str, quoted: bool = False) -> Queue:
        """The queue with the bindings of an exchange. ``quoted``: the exchange is given by the broker's name."""
        name = BINDINGS + (exchange if quoted else quote(exchange))
        with self._opening:
            found = self._handles.get(name)
            if found is None:
                found = self._handles[name] = self.manager.open(name)
            return found

    def _row(self, body: bytes) -> Row:
        key, pattern, queue = loads(body)[:3]
        return str(key), str(pattern or ""), str(queue)

    def close(self) -> None:
        """End the client."""
        self.manager.close()


class Held(NamedTuple):
    """A message that was delivered, and when its lease is renewed next, on the monotonic clock."""

    lock: LockedMessage
    renew_at: float


class Locks:
    """Messages that were delivered and not yet acknowledged; their leases are renewed by a thread."""

    def __init__(self, lease: float) -> None:
        self._lease = lease
        self._held: dict[str, Held] = {}  # by delivery tag
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closed = False

    def add(self, tag: str, lock: LockedMessage) -> None:
        """A message was delivered under this tag."""
        with self._changed:
            self._held[tag] = self._until_renewal(lock)
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._renew, name="mqredis-kombu-leases", daemon=True)
                self._thread.start()

    def take(self, tag: str) -> LockedMessage | None:
        """Remove and return a message that is settled now; None if its lock was lost."""
        with self._changed:
            found = self._held.pop(tag, None)
        return found.lock if found else None

    def settle(self, tag: str, action: str) -> bool:
        """Acknowledge (COMMIT), give back (ABORT) or reject (REJECT) a message. False: its lock was lost.

        A rejected message goes to its dead letter exchange, or else to the queue's ``;poison``, as in workers.
        """
        lock = self.take(tag)
        if lock is None:
            log.warning("message %s is not held any more: it was or will be delivered again", tag)
            return False
        if action == REJECT and Journal.DEAD_LETTER not in lock.message.journal:
            self.settle_many([lock], giveback.ended("rejected", {}))
            return True
        try:
            {COMMIT: lock.commit, ABORT: lock.abort, REJECT: lock.reject}[action]()
        except (LockLost, QueueNotAvailable) as error:
            log.warning("message %s: %s", tag, error)
            return False
        return True

    def settle_many(self, locks: Sequence[LockedMessage], action: str) -> None:
        """Settle messages of one or more queues, in batches (see :meth:`settle`)."""
        for queue in {lock.queue for lock in locks}:
            own = settle.ends(action, locks, queue)
            for start in range(0, len(own), _BATCH):
                operation = settle.settle(queue.handle, own[start : start + _BATCH])
                try:
                    queue.manager.run(operation)
                except QueueNotAvailable as error:
                    log.warning("messages of %s: %s", queue.name, error)

    def close(self) -> None:
        """Stop renewing. Messages that are still locked return when their leases end."""
        with self._changed:
            self._closed = True
            self._held.clear()
            self._changed.notify()

    def _renew(self) -> None:
        while True:
            with self._changed:
                self._changed.wait(self._lease / 6)
                if self._closed:
                    return
                now = time.monotonic()
                due = {tag: held.lock for tag, held in self._held.items() if held.renew_at <= now}
            for queue in {lock.queue for lock in due.values()}:
                try:
                    self._extend(queue, {tag: lock for tag, lock in due.items() if lock.queue is queue})
                except Exception as error:  # noqa: BLE001 - the thread renews other leases, too
                    log.warning("leases of queue %s could not be renewed: %r", queue.name, error)

    def _until_renewal(self, lock: LockedMessage) -> Held:
        return Held(lock, time.monotonic() + self._lease / 3)

    def _extend(self, queue: Queue, due: dict[str, LockedMessage]) -> None:
        """Renew the leases of these messages of one queue, by their tags. Those that were lost are forgotten."""
        every = list(due.items())
        for start in range(0, len(every), _BATCH):
            batch = every[start : start + _BATCH]
            renewals = [(RENEW, lock.fence, lock.key) for _, lock in batch]
            settled = queue.manager.run(settle.settle(queue.handle, renewals, self._lease))
            lost = {lookup_id for lookup_id, _ in settled.lost}
            with self._changed:
                for tag, lock in batch:
                    if tag not in self._held:
                        continue  # settled meanwhile
                    if lock.key in lost:
                        del self._held[tag]
                        log.warning("message %s was lost: its lease had lapsed", tag)
                    else:
                        self._held[tag] = self._until_renewal(lock)
