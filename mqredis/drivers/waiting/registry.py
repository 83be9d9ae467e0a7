"""The waits of the threads of one driver, woken by one subscription, which the sleeping threads read in turns.

``drivers.sync`` has one; ``calls`` runs the steps Listen and Wait with it. Two threads of its own begin with the first
wait: ``mqredis-subscription`` runs ``_keep_forever``, ``mqredis-recheck`` runs ``_recheck_forever``. The other methods
run in the threads of callers.

``registry_aio`` does the same for tasks. What both do is in ``waits_aio``; a change of a method that is here has to be
made there, too, as far as it is about the subscription: its names, its heartbeat, its end.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

from redis import exceptions as rx

from mqredis.drivers.net.blocking import SocketConnection
from mqredis.drivers.net.wire import REDIS_ERRORS
from mqredis.drivers.waiting.reader import SubscriptionReader, WakeFlag
from mqredis.drivers.waiting.table import HEALTH_SECONDS, LEAVE_SECONDS, Heartbeat
from mqredis.drivers.waiting.waits import Waits

if TYPE_CHECKING:
    from mqredis.drivers.sync import Driver


class WaiterRegistry(Waits[WakeFlag]):
    """Waits of threads. One thread keeps the subscription alive, another one polls for all waits now and then.

    What follows is not generated: threads share the table under a lock, and a thread cannot be cancelled.
    """

    def __init__(self, driver: Driver) -> None:
        # Set when the subscription has to be replaced.
        self._lost = threading.Event()
        self._reader = SubscriptionReader(self._lost.set)
        # Re-entrant, as the other locks of a driver, since a signal handler may end waits, or wait itself.
        super().__init__(driver, self._reader.flag, threading.RLock())
        self._reader.received = self.table.received
        self._probing = threading.RLock()
        self._closed = threading.Event()
        self._threads = [
            threading.Thread(target=self._keep_forever, name="mqredis-subscription", daemon=True),
            threading.Thread(target=self._recheck_forever, name="mqredis-recheck", daemon=True),
        ]
        # The subscription. Threads send over it under the lock.
        self._conn: Any = None
        driver.backend.on_move = self._lost.set

    def close(self) -> None:
        """End the threads and the waits."""
        self._end_waits()
        end = time.monotonic() + LEAVE_SECONDS
        while self.table.registered_runs and time.monotonic() < end:
            time.sleep(0.002)  # the operations take back their registrations
        self._send("PING")  # its reply lets a thread that reads notice the end
        self._lost.set()
        for thread in self._threads:
            if thread.is_alive() and thread is not threading.current_thread():
                thread.join(1.0)
        self._reader.close()

    def after_fork(self) -> None:
        """Release what a child process must not use; it gets a registry of its own."""
        self._reader.close_pipe()

    def _sleep(self, flag: WakeFlag, seconds: float) -> bool:
        return self._reader.sleep(flag, seconds)

    def _closes_within(self, seconds: float) -> bool:
        return bool(self._closed.wait(seconds))

    # ---- the subscription ------------------------------------------------------------------------

    def _subscribe(self, channel: str) -> None:
        # An earlier call may have failed to start one of the threads.
        if not all(thread.ident for thread in self._threads):
            with self._lock:
                for thread in self._threads:
                    if thread.ident is None and not self._closed.is_set():
                        thread.start()
        self._send("SUBSCRIBE", channel)

    def _send(self, *command: str) -> None:
        with self._lock:
            if self._conn is not None:
                try:
                    self._conn.send_command(*command, check_health=False)
                except (*REDIS_ERRORS, AttributeError):
                    self._lost.set()

    def _keep(self) -> None:
        """As declared. If a send of another thread fails, redis-py closes the connection that this thread reads, and
        the read may raise any error."""
        self._lost.clear()
        conn = self._driver.backend.pubsub_connection()
        try:
            with self._lock:
                for names in self.table.names():
                    conn.send_command("SUBSCRIBE", *names, check_health=False)
                self._conn = conn
            self._reset_pause()
            heartbeat, shared = Heartbeat(), isinstance(conn, SocketConnection) and conn.pollable
            if shared:
                self._reader.attach(conn)
            while not self._closed.is_set() and not self._lost.is_set():
                if heartbeat.next_period(self._watch() if shared else self._read(conn)):
                    self._send("PING")
        finally:
            with self._lock:
                self._conn = None
            self._reader.detach()
            conn.disconnect()

    def _watch(self) -> bool:
        """Let the sleeping threads read for one period. Has anything arrived?"""
        self._lost.wait(HEALTH_SECONDS)
        self._reader.drain_pending()
        return self._reader.received_any()

    def _read(self, conn: Any) -> bool:
        """Read a connection that threads cannot share (TLS, or one of redis-py). Has anything arrived?"""
        if not conn.can_read(timeout=HEALTH_SECONDS):
            return False
        with self._lock:  # under TLS no other thread may send meanwhile
            try:
                message = conn.read_response()
            except rx.ResponseError as error:
                message = error
        self.table.received(message)
        return True
