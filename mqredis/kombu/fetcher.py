"""Fetches messages for kombu: directly, or in a thread that notifies kombu's event loop through a socket.

``transport`` has one ``Fetcher`` for each connection with an event loop, and calls ``fetch`` itself without one.
Callbacks of consumers run in the thread of the event loop; the other thread only locks messages, and gives them back if
it was closed meanwhile. Other threads of the application may acknowledge messages, and so change limits (``update``).
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mqredis.errors import (
    InvalidHandle,
    IoTimeout,
    MqError,
    OperationCancelled,
    QueueNotAvailable,
    QueueNotFound,
)
from mqredis.operations import several

if TYPE_CHECKING:
    from mqredis.kombu.transport import Transport

# Queues, and how many messages each may deliver.
Requests = list[tuple[str, int]]
# A queue, and the tags of the messages that were locked in it.
Found = tuple[str, list[str]]

# Longest wait of one call, in seconds.
_WAIT_SECONDS = 30.0


def fetch(
    transport: Transport,
    requests: Requests,
    timeout: float | None,
    scope: object,
    stop: Callable[[], bool],
) -> Found | None:
    """Lock messages of the first non-empty queue; None: the time is over, or the wait was cancelled.

    ``timeout``: seconds. The wait ends when ``scope`` is cancelled, and does not begin if ``stop`` says so.
    ``Locks`` renews their leases from now on: they may have to wait for their delivery. Raises QueueNotFound or
    QueueNotAvailable if one of the queues was deleted.
    """
    store = transport.store
    sources = [store.source(queue) for queue, _ in requests]
    for source in sources:
        store.used(source)
    handles, counts = [source.handle for source in sources], [n for _, n in requests]
    try:
        at, found = store.manager.run(several.lock(handles, counts, timeout, store.lease, (), (scope,), stop))
    except (IoTimeout, OperationCancelled):
        return None
    except InvalidHandle:
        if any(handle.closed for handle in handles):
            return None  # a consumer has ended meanwhile (``Store.stop_reading``)
        raise
    return requests[at][0], transport.locks.add(sources[at].locked_messages(found))


class Fetcher:
    """A thread that waits for messages, as many as may be delivered, and notifies the event loop when it has some."""

    def __init__(self, transport: Transport, loop: Any) -> None:
        self._transport = transport
        self._loop = loop
        self._scope = object()
        # It guards what follows, and is not held during calls of the broker.
        self._changed = threading.Condition()
        # What the thread fetches; empty while the event loop has not set it since the last fetch.
        self._requests: Requests = []
        # What the thread has fetched and the event loop has not delivered, or the error of the thread.
        self._inbox: deque[Found | Exception] = deque()
        # Does the thread wait at the broker? Must that wait end, since it has other queues now?
        self._asleep = self._outdated = False
        self._closed = False
        self._reading, self._writing = socket.socketpair()
        self._reading.setblocking(False)
        self._writing.setblocking(False)
        loop.add_reader(self._reading.fileno(), self._on_readable)
        loop.on_tick.add(self.update)
        self._thread = threading.Thread(target=self._run, name="mqredis-kombu", daemon=True)
        self._thread.start()

    def update(self) -> None:
        """Update the queues and limits. The event loop's thread calls this in every turn, and
        ``Transport.credit_changed`` in the thread that changed them.

        A wait ends only if the queues are others now. One with the limits of before may lock more messages than may be
        delivered, and ``Transport.deliver`` gives these back.
        """
        with self._changed:
            if self._closed or self._inbox:
                return
            requests = self._transport.requests()
            if requests == self._requests:
                return
            changed_queues = {queue for queue, _ in requests} != {queue for queue, _ in self._requests}
            self._requests = requests
            self._changed.notify()
            if self._asleep and changed_queues:
                self._outdated = True
                self._transport.store.manager.driver.cancel(self._scope)

    def deliver(self) -> bool:
        """Deliver the fetched messages. Raises the error of the thread."""
        delivered = False
        while self._inbox:
            found = self._inbox.popleft()
            if isinstance(found, QueueNotFound | QueueNotAvailable):
                self._transport.recreate_deleted()
            elif isinstance(found, Exception):
                raise found
            else:
                self._transport.deliver(*found)
                delivered = True
        return delivered

    def close(self) -> None:
        """End the thread, and give fetched messages back that were not delivered."""
        with self._changed:
            if self._closed:
                return
            self._closed = self._outdated = True
            self._changed.notify()
        self._loop.on_tick.discard(self.update)
        with contextlib.suppress(Exception):  # the hub may be closed, with all that was registered
            self._loop.remove_reader(self._reading.fileno())
        for _ in range(40):  # if the broker does not answer, the thread ends later
            if not self._thread.is_alive():
                break
            self._transport.store.manager.driver.cancel(self._scope)
            self._thread.join(0.05)
        with self._changed:
            fetched = [*self._inbox]
            self._inbox.clear()
        for found in fetched:
            self._give_back(found)
        self._reading.close()
        self._writing.close()

    def _give_back(self, found: Found | Exception | None) -> None:
        if found is None or isinstance(found, Exception):
            return
        with contextlib.suppress(MqError):  # else their leases end
            self._transport.locks.give_back(found[1])

    def _on_readable(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while self._reading.recv(4096):
                pass
        self.deliver()
        self.update()

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._closed and (not self._requests or self._inbox):
                    self._changed.wait(1.0)
                if self._closed:
                    return
                requests, self._asleep, self._outdated = self._requests, True, False
            found: Found | Exception | None
            try:
                found = fetch(self._transport, requests, _WAIT_SECONDS, self._scope, lambda: self._outdated)
            except Exception as error:  # noqa: BLE001 - ``deliver`` raises it in the event loop's thread
                found = error
            self._fetched(found)

    def _fetched(self, found: Found | Exception | None) -> None:
        """Pass the messages or the error of the thread to the event loop."""
        with self._changed:
            self._asleep, closed = False, self._closed
            if found is not None and not closed:
                self._requests = []  # the event loop sets the next ones
                self._inbox.append(found)
        if closed:
            self._give_back(found)
        elif found is not None:
            with contextlib.suppress(OSError):
                self._writing.send(b"x")
