"""The hub: all waits of the threads of one driver, woken by one subscription, which they read in turns (``shift``)."""

from __future__ import annotations

import logging
import secrets
import threading
import time
from typing import TYPE_CHECKING, Any

from redis import exceptions as rx

from mqredis.drivers import handed
from mqredis.drivers.bells import (
    HEALTH_SECONDS,
    LEAVE_SECONDS,
    PROBE_SECONDS,
    Bell,
    Board,
    Pulse,
    Ringer,
    choose,
    glance,
    letter,
)
from mqredis.drivers.net.blocking import SocketConnection
from mqredis.drivers.session import Run, Slot
from mqredis.drivers.shift import Shift
from mqredis.drivers.wire import REDIS_ERRORS
from mqredis.errors import MqError
from mqredis.steps import Reply, Wait, Woken

if TYPE_CHECKING:
    from mqredis.drivers.sync import Driver

log = logging.getLogger("mqredis")


class Hub:
    """Waits of threads. One thread keeps the subscription, one looks for all waits now and then."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._settings = driver.settings
        self._lost = threading.Event()
        self._shift = Shift(self._lost.set)
        self.board = Board(driver.settings, self._shift.alarm)
        self._shift.heard = self.board.heard
        self._lock = threading.Lock()
        self._probing = threading.Lock()
        self._closed = threading.Event()
        #: The same, without a call to ask.
        self._ended = False
        self._threads: list[threading.Thread] = []
        self._conn: Any = None
        driver.backend.on_move = self._lost.set
        self.mode_name = ""
        self._probed: str | None = None
        self._again = 0.0
        #: When a glance for all who wait last worked (time.monotonic()); 0.0: none yet.
        self.glanced = 0.0

    # ---- steps -----------------------------------------------------------------------------------

    def listen(self, run: Run) -> Ringer:
        """Subscribe to the bell of the run's slot, unless that has happened."""
        if not run.listening:
            run.listening, run.floor = True, self._driver.core.history
        self.board.listeners.add(run)
        run.mark = self.board.journal.position
        mode = self._mode()
        if mode != "poll":
            bell = self._bell(run.slot)
            bell.rung.clear()
            bell.said = None
            run.bell, run.flag = bell, bell.rung
            if not bell.confirmed.is_set() and not self._shift.sleep(
                bell.confirmed, self._settings.reply_timeout_seconds
            ):
                bell.late = True  # its confirmation will ring, since something may have been missed
            if self.board.denied:
                mode = self.mode_name = "poll"
        run.polling = mode == "poll"
        if run.polling:
            run.flag = self._shift.alarm()
        return Ringer(letter(mode), run.slot.name, self._driver.backend.database)

    def follow(self, run: Run, old: Slot) -> None:
        """The operation goes on in another slot."""
        if self._mode() == "poll":
            return
        bell = self._bell(run.slot)
        bell.late = True
        with self._lock:
            self.board.follow(old, run.slot)
        run.bell, run.flag = bell, bell.rung

    def wait(self, run: Run, step: Wait) -> Woken | Reply:
        """Sleep until something happens."""
        board, begun = self.board, time.monotonic()
        flag = run.flag
        if flag is None:
            flag = run.flag = self._shift.alarm()
        nap, silent = board.nap(step, run.polling)
        with self._lock:
            board.waits[run] = (step, flag)
        try:
            over = self._ended or board.journal.since(run.mark, step.scopes)
            rung = over or self._shift.sleep(flag, nap)
        finally:
            with self._lock:
                board.waits.pop(run, None)
        flag.clear()
        if self._ended:
            return Woken.CANCELLED
        if run.mark != board.journal.position:
            cancelled = board.journal.since(run.mark, step.scopes)
            run.mark = board.journal.position
            if cancelled:
                return Woken.CANCELLED
        answer = handed.answer(self._driver.core, run, step.call, max(begun, self.glanced))
        return answer or (Woken.RUNG if rung else silent)

    def cancel(self, scope: object) -> None:
        """End the waits of this scope."""
        with self._lock:
            self.board.cancel(scope)

    def ring_all(self) -> None:
        """Let every wait look again."""
        with self._lock:
            self.board.ring_all()

    def close(self) -> None:
        """End the threads and the waits."""
        self._ended = True
        self._closed.set()
        self.ring_all()
        end = time.monotonic() + LEAVE_SECONDS
        while self.board.listeners and time.monotonic() < end:
            time.sleep(0.002)  # they take back their registrations
        self._send("PING")  # its answer lets a thread that reads see that it is over
        self._lost.set()
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(1.0)
        self._shift.close()

    def after_fork(self) -> None:
        """This is a child, and another hub serves it."""
        self._shift.forget()

    # ---- how to be woken -------------------------------------------------------------------------

    def _mode(self) -> str:
        """The mode, probed once for each server process."""
        if self._probed == self._driver.core.run_id and self.mode_name:
            return self.mode_name
        if self._again > time.monotonic():
            return "poll"
        with self._probing:
            if self._probed != self._driver.core.run_id or not self.mode_name:
                self._probe()
        return self.mode_name or "poll"

    def _probe(self) -> None:
        probed = self._driver.core.run_id
        self.board.denied = ""
        questions = choose(self._settings)
        answer: Any = None
        while True:
            try:
                question = questions.send(answer)
            except StopIteration as stop:
                self.mode_name = stop.value
                break
            answer = self._trial(question[1]) if question[0] == "trial" else self._ask(question)
        if self.mode_name:
            self._probed = probed
            log.debug("waits on %s are woken by %s", self._driver.backend.address, self.mode_name)
        else:
            self._again = time.monotonic() + self._settings.recheck_seconds

    def _ask(self, command: tuple[str, ...]) -> Any:
        try:
            return self._driver.command(*command)
        except (*REDIS_ERRORS, MqError):
            return None

    def _trial(self, mode: str) -> bool | None:
        """Does an event of ours arrive?"""
        keys, name = self._driver.core.keys, f"probe-{secrets.token_hex(8)}"
        channel = keys.channel(name, self._driver.backend.database)
        with self._lock:
            bell, _ = self.board.bell(name, channel)
        self._subscribe(channel)
        try:
            if not self._shift.sleep(bell.confirmed, self._settings.reply_timeout_seconds):
                return None
            if self.board.denied:
                return False
            if mode == "publish":
                self._driver.command("PUBLISH", channel, "sadd")
            else:
                self._driver.command("SADD", keys.bell(name), "1")
                self._driver.command("DEL", keys.bell(name))
            return self._shift.sleep(bell.rung, PROBE_SECONDS)
        except rx.ResponseError:
            return False
        except (*REDIS_ERRORS, MqError):
            return None
        finally:
            with self._lock:
                self.board.forget(name)
            self._send("UNSUBSCRIBE", channel)

    # ---- the subscription ------------------------------------------------------------------------

    def _bell(self, slot: Slot) -> Bell:
        found = self.board.by_slot.get(slot.name)
        if found is not None:
            return found
        number = slot.session.number
        channel = self._driver.core.keys.channel(slot.name, self._driver.backend.database)
        with self._lock:
            bell, new = self.board.bell(slot.name, channel, number)
            stale = self.board.stale(number) if new else []
        if stale:
            self._send("UNSUBSCRIBE", *stale)
        if new:
            self._subscribe(channel)
        return bell

    def _subscribe(self, channel: str) -> None:
        if not self._threads:
            with self._lock:
                if not self._threads and not self._closed.is_set():
                    for name, target in (("bells", self._keep_for_ever), ("recheck", self._recheck_for_ever)):
                        self._threads.append(
                            threading.Thread(target=target, name=f"mqredis-{name}", daemon=True)
                        )
                    for thread in self._threads:
                        thread.start()
        self._send("SUBSCRIBE", channel)

    def _send(self, *command: str) -> None:
        """Send over the subscription. If it is down: a new one subscribes to everything that is known."""
        with self._lock:
            if self._conn is not None:
                try:
                    self._conn.send_command(*command, check_health=False)
                except (*REDIS_ERRORS, AttributeError):
                    self._lost.set()

    def _keep_for_ever(self) -> None:
        pause = self._settings.retry_pause_seconds
        while not self._closed.is_set():
            try:
                self._lost.clear()
                conn = self._driver.backend.pubsub_connection()
                try:
                    with self._lock:
                        for some in self.board.channels():
                            conn.send_command("SUBSCRIBE", *some, check_health=False)
                        self._conn = conn
                    pause = self._settings.retry_pause_seconds
                    self._keep(conn)
                finally:
                    with self._lock:
                        self._conn = None
                    self._shift.detach()
                    conn.disconnect()
            # A send of another thread that fails closes the connection under the reader, and then redis-py may stumble
            # over anything it has set to None. A keeper that ended would leave this client deaf.
            except Exception as error:  # noqa: BLE001
                if isinstance(error, (rx.AuthenticationError, rx.NoPermissionError)):
                    self.board.deny(str(error))
                log.debug("the subscription was lost: %s", type(error).__name__)
            if self._closed.wait(pause):
                return
            pause = min(pause * 2, self._settings.retry_pause_max_seconds)
            self._driver.backend.moved()

    def _keep(self, conn: Any) -> None:
        """See to it that the connection lives, until it is lost."""
        pulse = Pulse()
        shared = isinstance(conn, SocketConnection) and conn.pollable
        if shared:
            self._shift.attach(conn)
        while not self._closed.is_set() and not self._lost.is_set():
            if pulse.beat(self._overhear() if shared else self._read(conn)):
                self._send("PING")

    def _overhear(self) -> bool:
        """Let those who sleep read in turns; did anything come?"""
        self._lost.wait(HEALTH_SECONDS)
        self._shift.glean()
        return self._shift.fresh()

    def _read(self, conn: Any) -> bool:
        """Read a connection that threads cannot share (TLS, redis-py's); did anything come?"""
        if not conn.can_read(timeout=HEALTH_SECONDS):
            return False
        try:
            self.board.heard(conn.read_response())
        except rx.ResponseError as error:
            self.board.heard(error)
        return True

    # ---- looking for all -------------------------------------------------------------------------

    def _recheck_for_ever(self) -> None:
        while not self._closed.wait(self.board.recheck()):
            try:
                self.recheck()
            except (*REDIS_ERRORS, MqError):
                self.ring_all()  # each finds out for itself what is wrong

    def recheck(self) -> None:
        """Look once for everybody who waits: a wake may have been lost, whatever was done to prevent it."""
        with self._lock:
            queues, looks = self.board.queues(), self.board.looks()
        if not queues:
            return
        self._driver.backend.confirm()
        self._driver.run(glance(self._driver.core.keys, queues, looks))
        self.glanced = time.monotonic()
