"""The waits of the threads of one driver, woken by one subscription, which the sleeping threads read in turns."""

from __future__ import annotations

import logging
import secrets
import threading
import time
from typing import TYPE_CHECKING, Any

from redis import exceptions as rx

from mqredis.drivers.net.blocking import SocketConnection
from mqredis.drivers.net.wire import REDIS_ERRORS
from mqredis.drivers.session import Run, Slot
from mqredis.drivers.waiting.base import BaseRegistry
from mqredis.drivers.waiting.mode import NotifyMode, choose_wake_mode
from mqredis.drivers.waiting.reader import SubscriptionReader, WakeFlag
from mqredis.drivers.waiting.table import (
    HEALTH_SECONDS,
    LEAVE_SECONDS,
    PROBE_SECONDS,
    Heartbeat,
    WakeChannel,
    poll_all,
)
from mqredis.errors import MqError
from mqredis.steps import Reply, Wait, Woken

if TYPE_CHECKING:
    from mqredis.drivers.sync import Driver

log = logging.getLogger("mqredis")


class WaiterRegistry(BaseRegistry[WakeFlag]):
    """Waits of threads. One thread keeps the subscription alive, another one polls for all waits now and then."""

    def __init__(self, driver: Driver) -> None:
        self._lost = threading.Event()
        self._reader = SubscriptionReader(self._lost.set)
        super().__init__(driver, self._reader.flag, threading.Lock())
        self._reader.received = self.table.received
        self._probing = threading.Lock()
        self._closed = threading.Event()
        self._threads: list[threading.Thread] = []
        self._conn: Any = None
        driver.backend.on_move = self._lost.set

    # ---- steps -----------------------------------------------------------------------------------

    def listen(self, run: Run) -> NotifyMode:
        """Subscribe to the wake channel of the run's slot, unless that has happened."""
        self._start_listening(run)
        mode = self._mode()
        if mode != "poll":
            wake = self._wake_channel(run.slot)
            wake.notified.clear()
            wake.handoff = None
            self._use(run, wake)
            if not wake.confirmed.is_set() and not self._reader.sleep(
                wake.confirmed, self._settings.reply_timeout_seconds
            ):
                wake.used_early = True
        return self._notify_mode(run, mode)

    def redirect(self, run: Run, old: Slot) -> None:
        """The operation goes on in another slot than ``old``."""
        if self._mode() == "poll":
            return
        wake = self._wake_channel(run.slot)
        wake.used_early = True
        with self._lock:
            self.table.redirect(old, run.slot)
        self._use(run, wake)

    def wait(self, run: Run, step: Wait) -> Woken | Reply:
        """Sleep until the operation is notified or cancelled, or its time is over."""
        began = time.monotonic()
        flag = self._flag_of(run)
        limit, silent = self.table.sleep_limit(step, run.polling)
        with self._lock:
            self.table.waits[run] = (step, flag)
        try:
            notified = self._over(run, step) or self._reader.sleep(flag, limit)
        finally:
            with self._lock:
                self.table.waits.pop(run, None)
        flag.clear()
        return self._answer(run, step, began, Woken.NOTIFIED if notified else silent)

    def close(self) -> None:
        """End the threads and the waits."""
        self.ended = True
        self._closed.set()
        self.notify_all()
        end = time.monotonic() + LEAVE_SECONDS
        while self.table.registered_runs and time.monotonic() < end:
            time.sleep(0.002)  # the operations take back their registrations
        self._send("PING")  # its reply lets a thread that reads notice the end
        self._lost.set()
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(1.0)
        self._reader.close()

    def after_fork(self) -> None:
        """Release what a child process must not use; it gets a registry of its own."""
        self._reader.close_pipe()

    # ---- the mode --------------------------------------------------------------------------------

    def _mode(self) -> str:
        known = self._known_mode()
        if known:
            return known
        with self._probing:
            if not self._known_mode():
                self._probe()
        return self.mode_name or "poll"

    def _probe(self) -> None:
        run_id = self._driver.core.run_id
        self.table.denied = ""
        questions = choose_wake_mode(self._settings)
        answer: Any = None
        while True:
            try:
                question = questions.send(answer)
            except StopIteration as stop:
                self._note_mode(stop.value, run_id)
                return
            answer = self._try(question[1]) if question[0] == "trial" else self._ask(question)

    def _ask(self, command: tuple[str, ...]) -> Any:
        try:
            return self._driver.command(*command)
        except (*REDIS_ERRORS, MqError):
            return None

    def _try(self, mode: str) -> bool | None:
        """Does a notification in this mode arrive? None: the connection failed."""
        keys, slot = self._driver.core.keys, f"probe-{secrets.token_hex(8)}"
        channel = self._channel_name(slot)
        with self._lock:
            wake, _ = self.table.wake_channel(slot, channel)
        self._subscribe(channel)
        try:
            if not self._reader.sleep(wake.confirmed, self._settings.reply_timeout_seconds):
                return None
            if self.table.denied:
                return False
            if mode == "publish":
                self._driver.command("PUBLISH", channel, "sadd")
            else:
                self._driver.command("SADD", keys.wake_key(slot), "1")
                self._driver.command("DEL", keys.wake_key(slot))
            return self._reader.sleep(wake.notified, PROBE_SECONDS)
        except rx.ResponseError:
            return False
        except (*REDIS_ERRORS, MqError):
            return None
        finally:
            with self._lock:
                self.table.remove(slot)
            self._send("UNSUBSCRIBE", channel)

    # ---- the subscription ------------------------------------------------------------------------

    def _wake_channel(self, slot: Slot) -> WakeChannel[WakeFlag]:
        found = self.table.by_slot.get(slot.name)
        if found is not None:
            return found
        session, channel = slot.session.number, self._channel_name(slot.name)
        with self._lock:
            wake, new = self.table.wake_channel(slot.name, channel, session)
            stale = self.table.remove_stale(session) if new else []
        if stale:
            self._send("UNSUBSCRIBE", *stale)
        if new:
            self._subscribe(channel)
        return wake

    def _subscribe(self, channel: str) -> None:
        if not self._threads:
            with self._lock:
                if not self._threads and not self._closed.is_set():
                    for name, target in (
                        ("subscription", self._keep_forever),
                        ("recheck", self._recheck_forever),
                    ):
                        self._threads.append(
                            threading.Thread(target=target, name=f"mqredis-{name}", daemon=True)
                        )
                    for thread in self._threads:
                        thread.start()
        self._send("SUBSCRIBE", channel)

    def _send(self, *command: str) -> None:
        """Send a command over the subscription. If it is lost, the next one subscribes to all channels of the table."""
        with self._lock:
            if self._conn is not None:
                try:
                    self._conn.send_command(*command, check_health=False)
                except (*REDIS_ERRORS, AttributeError):
                    self._lost.set()

    def _keep_forever(self) -> None:
        pause = self._settings.retry_pause_seconds
        while not self._closed.is_set():
            try:
                self._lost.clear()
                conn = self._driver.backend.pubsub_connection()
                try:
                    with self._lock:
                        for names in self.table.names():
                            conn.send_command("SUBSCRIBE", *names, check_health=False)
                        self._conn = conn
                    pause = self._settings.retry_pause_seconds
                    self._keep(conn)
                finally:
                    with self._lock:
                        self._conn = None
                    self._reader.detach()
                    conn.disconnect()
            # When a send of another thread fails, redis-py closes the connection while this thread reads it, and may
            # raise any error. If this thread ended, the client would get no notifications any more.
            except Exception as error:  # noqa: BLE001
                if isinstance(error, (rx.AuthenticationError, rx.NoPermissionError)):
                    self.table.deny(str(error))
                log.debug("the subscription was lost: %s", type(error).__name__)
            if self._closed.wait(pause):
                return
            pause = min(pause * 2, self._settings.retry_pause_max_seconds)
            self._driver.backend.moved()

    def _keep(self, conn: Any) -> None:
        """Send PINGs over a silent connection until it is lost."""
        heartbeat = Heartbeat()
        shared = isinstance(conn, SocketConnection) and conn.pollable
        if shared:
            self._reader.attach(conn)
        while not self._closed.is_set() and not self._lost.is_set():
            if heartbeat.next_period(self._watch() if shared else self._read(conn)):
                self._send("PING")

    def _watch(self) -> bool:
        """Let the sleeping threads read for one period. Has anything arrived?"""
        self._lost.wait(HEALTH_SECONDS)
        self._reader.drain_pending()
        return self._reader.received_any()

    def _read(self, conn: Any) -> bool:
        """Read a connection that threads cannot share (TLS, or one of redis-py). Has anything arrived?"""
        if not conn.can_read(timeout=HEALTH_SECONDS):
            return False
        try:
            self.table.received(conn.read_response())
        except rx.ResponseError as error:
            self.table.received(error)
        return True

    # ---- polling for all waits -------------------------------------------------------------------

    def _recheck_forever(self) -> None:
        while not self._closed.wait(self.table.recheck_period()):
            try:
                self.recheck()
            except (*REDIS_ERRORS, MqError):
                self.notify_all()  # each operation gets the error from a call of its own

    def recheck(self) -> None:
        """Poll once for all waits, since a notification may be lost."""
        with self._lock:
            queues, runs = self.table.queues(), self.table.handoff_candidates()
        if not queues:
            return
        self._driver.backend.confirm()
        self._driver.run(poll_all(self._driver.core.keys, queues, runs))
        self.last_poll = time.monotonic()
