"""The asyncio hub: the twin of ``hub``."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import time
from typing import TYPE_CHECKING, Any

from redis import exceptions as rx

from mqredis.drivers import handed
from mqredis.drivers.alinks import hang_up
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
from mqredis.drivers.net.aio import Subscription
from mqredis.drivers.session import Run, Slot
from mqredis.drivers.wire import REDIS_ERRORS
from mqredis.errors import MqError
from mqredis.steps import Reply, Wait, Woken

if TYPE_CHECKING:
    from mqredis.drivers.aio import AsyncDriver

log = logging.getLogger("mqredis")


class AsyncHub:
    """Waits of tasks. One task reads the subscription, one looks for all waits now and then."""

    def __init__(self, driver: AsyncDriver) -> None:
        self._driver = driver
        self._settings = driver.settings
        self.board = Board(driver.settings, asyncio.Event)
        self._probing = asyncio.Lock()
        self._closed = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._conn: Any = None
        driver.backend.on_move = self._hang_up
        self.mode_name = ""
        self._probed: str | None = None
        self._again = 0.0
        #: When a glance for all who wait last worked (time.monotonic()); 0.0: none yet.
        self.glanced = 0.0

    # ---- steps -----------------------------------------------------------------------------------

    async def listen(self, run: Run) -> Ringer:
        """Subscribe to the bell of the run's slot, unless that has happened."""
        if not run.listening:
            run.listening, run.floor = True, self._driver.core.history
        self.board.listeners.add(run)
        run.mark = self.board.journal.position
        mode = await self._mode()
        if mode != "poll":
            bell = await self._bell(run.slot)
            bell.rung.clear()
            bell.said = None
            run.bell, run.flag = bell, bell.rung
            if not bell.confirmed.is_set() and not await _raised(
                bell.confirmed, self._settings.reply_timeout_seconds
            ):
                bell.late = True  # its confirmation will ring, since something may have been missed
            if self.board.denied:
                mode = self.mode_name = "poll"
        run.polling = mode == "poll"
        if run.polling:
            run.flag = asyncio.Event()
        return Ringer(letter(mode), run.slot.name, self._driver.backend.database)

    async def follow(self, run: Run, old: Slot) -> None:
        """The operation goes on in another slot."""
        if await self._mode() == "poll":
            return
        bell = await self._bell(run.slot)
        bell.late = True
        self.board.follow(old, run.slot)
        run.bell, run.flag = bell, bell.rung

    async def wait(self, run: Run, step: Wait) -> Woken | Reply:
        """Sleep until something happens."""
        board, begun = self.board, time.monotonic()
        flag = run.flag
        if flag is None:
            flag = run.flag = asyncio.Event()
        nap, silent = board.nap(step, run.polling)
        board.waits[run] = (step, flag)
        try:
            over = self._closed.is_set() or board.journal.since(run.mark, step.scopes)
            rung = over or await _raised(flag, nap)
        finally:
            board.waits.pop(run, None)
        flag.clear()
        if self._closed.is_set():
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
        self.board.cancel(scope)

    def ring_all(self) -> None:
        """Let every wait look again."""
        self.board.ring_all()

    async def close(self) -> None:
        """End the tasks and the waits."""
        self._closed.set()
        self.ring_all()
        end = time.monotonic() + LEAVE_SECONDS
        while self.board.listeners and time.monotonic() < end:  # noqa: ASYNC110 - at most a second, once
            await asyncio.sleep(0.002)  # they take back their registrations
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # ---- how to be woken -------------------------------------------------------------------------

    async def _mode(self) -> str:
        """The mode, probed once for each server process."""
        if self._probed == self._driver.core.run_id and self.mode_name:
            return self.mode_name
        if self._again > time.monotonic():
            return "poll"
        async with self._probing:
            if self._probed != self._driver.core.run_id or not self.mode_name:
                await self._probe()
        return self.mode_name or "poll"

    async def _probe(self) -> None:
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
            answer = await self._trial(question[1]) if question[0] == "trial" else await self._ask(question)
        if self.mode_name:
            self._probed = probed
            log.debug("waits on %s are woken by %s", self._driver.backend.address, self.mode_name)
        else:
            self._again = time.monotonic() + self._settings.recheck_seconds

    async def _ask(self, command: tuple[str, ...]) -> Any:
        try:
            return await self._driver.command(*command)
        except (*REDIS_ERRORS, MqError):
            return None

    async def _trial(self, mode: str) -> bool | None:
        """Does an event of ours arrive?"""
        keys, name = self._driver.core.keys, f"probe-{secrets.token_hex(8)}"
        channel = keys.channel(name, self._driver.backend.database)
        bell, _ = self.board.bell(name, channel)
        await self._subscribe(channel)
        try:
            if not await _raised(bell.confirmed, self._settings.reply_timeout_seconds):
                return None
            if self.board.denied:
                return False
            if mode == "publish":
                await self._driver.command("PUBLISH", channel, "sadd")
            else:
                await self._driver.command("SADD", keys.bell(name), "1")
                await self._driver.command("DEL", keys.bell(name))
            return await _raised(bell.rung, PROBE_SECONDS)
        except rx.ResponseError:
            return False
        except (*REDIS_ERRORS, MqError):
            return None
        finally:
            self.board.forget(name)
            await self._send("UNSUBSCRIBE", channel)

    # ---- the subscription ------------------------------------------------------------------------

    async def _bell(self, slot: Slot) -> Bell:
        found = self.board.by_slot.get(slot.name)
        if found is not None:
            return found
        number = slot.session.number
        channel = self._driver.core.keys.channel(slot.name, self._driver.backend.database)
        bell, new = self.board.bell(slot.name, channel, number)
        stale = self.board.stale(number) if new else []
        if stale:
            await self._send("UNSUBSCRIBE", *stale)
        if new:
            await self._subscribe(channel)
        return bell

    async def _subscribe(self, channel: str) -> None:
        if not self._tasks and not self._closed.is_set():
            self._tasks = [
                asyncio.create_task(self._keep_for_ever(), name="mqredis-bells"),
                asyncio.create_task(self._recheck_for_ever(), name="mqredis-recheck"),
            ]
        await self._send("SUBSCRIBE", channel)

    async def _send(self, *command: str) -> None:
        """Send over the subscription. If it is down: a new one subscribes to everything that is known."""
        if self._conn is not None:
            try:
                await self._conn.send_command(*command, check_health=False)
            except (*REDIS_ERRORS, AttributeError):
                return  # the reader finds out

    async def _hang_up(self) -> None:
        """The manager is on another node now: close the connection, so that its keeper makes a new one."""
        if self._conn is not None:
            await hang_up(self._conn)

    async def _keep_for_ever(self) -> None:
        pause = self._settings.retry_pause_seconds
        while not self._closed.is_set():
            try:
                conn = await self._driver.backend.subscription(self.board.heard)
                try:
                    self._conn = conn  # first, so that a bell made meanwhile is subscribed by its maker
                    for some in self.board.channels():
                        await conn.send_command("SUBSCRIBE", *some, check_health=False)
                    pause = self._settings.retry_pause_seconds
                    await self._keep(conn)
                finally:
                    self._conn = None
                    await hang_up(conn)
            except Exception as error:  # noqa: BLE001 - see ``Hub``: a reader that ended would leave this client deaf
                if isinstance(error, (rx.AuthenticationError, rx.NoPermissionError)):
                    self.board.deny(str(error))
                log.debug("the subscription was lost: %s", type(error).__name__)
            if await _raised(self._closed, pause):
                return
            pause = min(pause * 2, self._settings.retry_pause_max_seconds)
            self._driver.backend.moved()

    async def _keep(self, conn: Any) -> None:
        """See to it that the connection lives, until it is lost."""
        pulse = Pulse()
        while True:
            own = isinstance(conn, Subscription)
            if pulse.beat(await (conn.news(HEALTH_SECONDS) if own else self._read(conn))):
                await self._send("PING")

    async def _read(self, conn: Any) -> bool:
        """Hear the next message of a redis-py connection; did any come?"""
        try:
            async with asyncio.timeout(HEALTH_SECONDS):
                self.board.heard(await conn.read_response(disconnect_on_error=False))
        except (TimeoutError, rx.TimeoutError):
            return False
        except rx.ResponseError as error:
            self.board.heard(error)
        return True

    # ---- looking for all -------------------------------------------------------------------------

    async def _recheck_for_ever(self) -> None:
        while not await _raised(self._closed, self.board.recheck()):
            try:
                await self.recheck()
            except (*REDIS_ERRORS, MqError):
                self.ring_all()  # each finds out for itself what is wrong

    async def recheck(self) -> None:
        """Look once for everybody who waits: a wake may have been lost, whatever was done to prevent it."""
        queues = self.board.queues()
        if not queues:
            return
        await self._driver.backend.confirm()
        await self._driver.run(glance(self._driver.core.keys, queues, self.board.looks()))
        self.glanced = time.monotonic()


async def _raised(flag: asyncio.Event, seconds: float) -> bool:
    """Wait until the flag is up, at most so many seconds."""
    if flag.is_set():
        return True
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            return await flag.wait()
    return flag.is_set()
