"""Waiting at the broker: directly, or in a thread that tells kombu's event loop through a socket."""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mqredis.errors import IoTimeout, MqError, OperationCancelled, QueueNotAvailable, QueueNotFound
from mqredis.kombu.store import Store
from mqredis.operations import giveback, several
from mqredis.operations.receive import Locks

if TYPE_CHECKING:
    from mqredis.kombu.transport import Transport

log = logging.getLogger("mqredis.kombu")

#: Queue, channel, how many messages.
Wants = list[tuple[str, Any, int]]
#: Queue, channel, what was locked.
Found = tuple[str, Any, Locks]

#: Longest wait of one call.
_WAIT_SECONDS = 30.0


def fetch(
    store: Store, wants: Wants, timeout: float | None, scope: object, stop: Callable[[], bool]
) -> Found | None:
    """Lock messages of the first of these queues that has any; None: the time is over, or it was cancelled."""
    for _ in range(2):
        try:
            handles = [store.queue(queue).handle for queue, _, _ in wants]
        except QueueNotFound:
            _revive(store, wants)
            continue
        operation = several.lock(handles, [n for _, _, n in wants], timeout, store.lease, (), (scope,), stop)
        try:
            at, locks = store.manager.run(operation)
        except (IoTimeout, OperationCancelled):
            return None
        except QueueNotAvailable:
            _revive(store, wants)
        else:
            return wants[at][0], wants[at][1], locks
    return None


def _revive(store: Store, wants: Wants) -> None:
    """Make the queues anew that were deleted under their consumers."""
    for queue, channel, _ in wants:
        try:
            store.ready(queue)
            store.forget(queue)
        except QueueNotFound:
            log.info("queue %r was deleted under its consumer; it is made anew", queue)
            channel.connection.recreate(queue)


class Fetcher:
    """A thread that waits for messages, as many as may be delivered, and wakes the event loop when it has some."""

    def __init__(self, transport: Transport, loop: Any) -> None:
        self._transport = transport
        self._loop = loop
        self._scope = object()
        self._wants: Wants = []
        self._inbox: deque[Found | MqError] = deque()
        self._changed = threading.Condition()
        self._asleep = False
        self._closed = False
        self._outdated = False
        self._reading, self._writing = socket.socketpair()
        self._reading.setblocking(False)
        self._writing.setblocking(False)
        loop.add_reader(self._reading.fileno(), self._on_readable)
        loop.on_tick.add(self.update)
        self._thread = threading.Thread(target=self._run, name="mqredis-kombu", daemon=True)
        self._thread.start()

    def update(self) -> None:
        """What may be delivered may have changed; called by the event loop's thread, at every turn."""
        if self._closed or self._inbox:
            return
        wants = self._transport.wants()
        with self._changed:
            if wants == self._wants:
                return
            wider = {want[0] for want in wants} != {want[0] for want in self._wants}
            self._wants = wants
            self._changed.notify()
            if self._asleep and wider:
                self._outdated = True
                self._transport.store.manager.driver.cancel(self._scope)

    def deliver(self) -> bool:
        """Deliver what has been fetched. Raises what the thread met."""
        delivered = False
        while self._inbox:
            found = self._inbox.popleft()
            if isinstance(found, MqError):
                raise found
            self._transport.deliver(*found)
            delivered = True
        return delivered

    def close(self) -> None:
        """End the thread; what was fetched and not delivered is given back."""
        with self._changed:
            if self._closed:
                return
            self._closed = self._outdated = True
            self._changed.notify()
        self._loop.on_tick.discard(self.update)
        with contextlib.suppress(Exception):  # the hub may be closed, with all that was registered
            self._loop.remove_reader(self._reading.fileno())
        for _ in range(40):  # where the broker is away it ends by itself later
            if not self._thread.is_alive():
                break
            self._transport.store.manager.driver.cancel(self._scope)
            self._thread.join(0.05)
        for found in self._inbox:
            if not isinstance(found, MqError):
                queue, _, locks = found
                with contextlib.suppress(MqError):  # else their leases end
                    every = self._transport.store.queue(queue).locked_messages(locks)
                    self._transport.locks.settle_many(every, giveback.orderly())
        self._inbox.clear()
        self._reading.close()
        self._writing.close()

    def _is_outdated(self) -> bool:
        return self._outdated

    def _on_readable(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while self._reading.recv(4096):
                pass
        self.deliver()
        self.update()

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._closed and (not self._wants or self._inbox):
                    self._changed.wait(1.0)
                if self._closed:
                    return
                wants, self._asleep, self._outdated = self._wants, True, False
            found: Found | MqError | None
            try:
                found = fetch(self._transport.store, wants, _WAIT_SECONDS, self._scope, self._is_outdated)
            except MqError as error:
                found = error
            with self._changed:
                self._asleep = False
                if found is None:
                    continue
                self._wants = []  # the event loop says what comes next
                self._inbox.append(found)
            with contextlib.suppress(OSError):
                self._writing.send(b"x")
