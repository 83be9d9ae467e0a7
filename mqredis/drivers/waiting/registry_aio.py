"""The waits of the tasks of one driver, woken by one subscription. ``registry`` does the same for threads."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import time
from typing import TYPE_CHECKING, Any

from redis import exceptions as rx

from mqredis.drivers.net.aio import Subscription
from mqredis.drivers.net.pool_aio import hang_up
from mqredis.drivers.net.wire import REDIS_ERRORS
from mqredis.drivers.session import Run, Slot
from mqredis.drivers.waiting.base import BaseRegistry
from mqredis.drivers.waiting.mode import NotifyMode, choose_wake_mode
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
    from mqredis.drivers.aio import AsyncDriver

log = logging.getLogger("mqredis")


class AsyncWaiterRegistry(BaseRegistry[asyncio.Event]):
    """Waits of tasks. One task reads the subscription, another one polls for all waits now and then."""

    def __init__(self, driver: AsyncDriver) -> None:
        super().__init__(driver, asyncio.Event, contextlib.nullcontext())
        self._probing = asyncio.Lock()
        self._closed = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._conn: Any = None
        driver.backend.on_move = self._hang_up

    # ---- steps -----------------------------------------------------------------------------------

    async def listen(self, run: Run) -> NotifyMode:
        """Subscribe to the wake channel of the run's slot, unless that has happened."""
        self._start_listening(run)
        mode = await self._mode()
        if mode != "poll":
            wake = await self._wake_channel(run.slot)
            wake.notified.clear()
            wake.handoff = None
            self._use(run, wake)
            if not wake.confirmed.is_set() and not await _raised(
                wake.confirmed, self._settings.reply_timeout_seconds
            ):
                wake.used_early = True
        return self._notify_mode(run, mode)

    async def redirect(self, run: Run, old: Slot) -> None:
        """The operation goes on in another slot than ``old``."""
        if await self._mode() == "poll":
            return
        wake = await self._wake_channel(run.slot)
        wake.used_early = True
        self.table.redirect(old, run.slot)
        self._use(run, wake)

    async def wait(self, run: Run, step: Wait) -> Woken | Reply:
        """Sleep until the operation is notified or cancelled, or its time is over."""
        began = time.monotonic()
        flag = self._flag_of(run)
        limit, silent = self.table.sleep_limit(step, run.polling)
        self.table.waits[run] = (step, flag)
        try:
            notified = self._over(run, step) or await _raised(flag, limit)
        finally:
            self.table.waits.pop(run, None)
        flag.clear()
        return self._answer(run, step, began, Woken.NOTIFIED if notified else silent)

    async def close(self) -> None:
        """End the tasks and the waits."""
        self.ended = True
        self._closed.set()
        self.notify_all()
        end = time.monotonic() + LEAVE_SECONDS
        while self.table.registered_runs and time.monotonic() < end:  # noqa: ASYNC110 - at most a second, once
            await asyncio.sleep(0.002)  # the operations take back their registrations
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # ---- the mode --------------------------------------------------------------------------------

    async def _mode(self) -> str:
        known = self._known_mode()
        if known:
            return known
        async with self._probing:
            if not self._known_mode():
                await self._probe()
        return self.mode_name or "poll"

    async def _probe(self) -> None:
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
            answer = await self._try(question[1]) if question[0] == "trial" else await self._ask(question)

    async def _ask(self, command: tuple[str, ...]) -> Any:
        try:
            return await self._driver.command(*command)
        except (*REDIS_ERRORS, MqError):
            return None

    async def _try(self, mode: str) -> bool | None:
        """Does a notification in this mode arrive? None: the connection failed."""
        keys, slot = self._driver.core.keys, f"probe-{secrets.token_hex(8)}"
        channel = self._channel_name(slot)
        wake, _ = self.table.wake_channel(slot, channel)
        await self._subscribe(channel)
        try:
            if not await _raised(wake.confirmed, self._settings.reply_timeout_seconds):
                return None
            if self.table.denied:
                return False
            if mode == "publish":
                await self._driver.command("PUBLISH", channel, "sadd")
            else:
                await self._driver.command("SADD", keys.wake_key(slot), "1")
                await self._driver.command("DEL", keys.wake_key(slot))
            return await _raised(wake.notified, PROBE_SECONDS)
        except rx.ResponseError:
            return False
        except (*REDIS_ERRORS, MqError):
            return None
        finally:
            self.table.remove(slot)
            await self._send("UNSUBSCRIBE", channel)

    # ---- the subscription ------------------------------------------------------------------------

    async def _wake_channel(self, slot: Slot) -> WakeChannel[asyncio.Event]:
        found = self.table.by_slot.get(slot.name)
        if found is not None:
            return found
        session, channel = slot.session.number, self._channel_name(slot.name)
        wake, new = self.table.wake_channel(slot.name, channel, session)
        stale = self.table.remove_stale(session) if new else []
        if stale:
            await self._send("UNSUBSCRIBE", *stale)
        if new:
            await self._subscribe(channel)
        return wake

    async def _subscribe(self, channel: str) -> None:
        if not self._tasks and not self.ended:
            self._tasks = [
                asyncio.create_task(self._keep_forever(), name="mqredis-subscription"),
                asyncio.create_task(self._recheck_forever(), name="mqredis-recheck"),
            ]
        await self._send("SUBSCRIBE", channel)

    async def _send(self, *command: str) -> None:
        """Send a command over the subscription. If it is lost, the next one subscribes to all channels of the table."""
        if self._conn is not None:
            try:
                await self._conn.send_command(*command, check_health=False)
            except (*REDIS_ERRORS, AttributeError):
                return  # the task that reads notices the loss

    async def _hang_up(self) -> None:
        """Close the connection, since the manager has moved to another node; its task then makes a new one."""
        if self._conn is not None:
            await hang_up(self._conn)

    async def _keep_forever(self) -> None:
        pause = self._settings.retry_pause_seconds
        while not self._closed.is_set():
            try:
                conn = await self._driver.backend.subscription(self.table.received)
                try:
                    self._conn = (
                        conn  # before the names are read: a channel made later is subscribed by its maker
                    )
                    for names in self.table.names():
                        await conn.send_command("SUBSCRIBE", *names, check_health=False)
                    pause = self._settings.retry_pause_seconds
                    await self._keep(conn)
                finally:
                    self._conn = None
                    await hang_up(conn)
            # If this task ended, the client would get no notifications any more.
            except Exception as error:  # noqa: BLE001
                if isinstance(error, (rx.AuthenticationError, rx.NoPermissionError)):
                    self.table.deny(str(error))
                log.debug("the subscription was lost: %s", type(error).__name__)
            if await _raised(self._closed, pause):
                return
            pause = min(pause * 2, self._settings.retry_pause_max_seconds)
            self._driver.backend.moved()

    async def _keep(self, conn: Any) -> None:
        """Send PINGs over a silent connection until it is lost."""
        heartbeat = Heartbeat()
        while True:
            own = isinstance(conn, Subscription)
            if heartbeat.next_period(await (conn.news(HEALTH_SECONDS) if own else self._read(conn))):
                await self._send("PING")

    async def _read(self, conn: Any) -> bool:
        """Read the next message of a redis-py connection. Has one arrived?"""
        try:
            async with asyncio.timeout(HEALTH_SECONDS):
                self.table.received(await conn.read_response(disconnect_on_error=False))
        except (TimeoutError, rx.TimeoutError):
            return False
        except rx.ResponseError as error:
            self.table.received(error)
        return True

    # ---- polling for all waits -------------------------------------------------------------------

    async def _recheck_forever(self) -> None:
        while not await _raised(self._closed, self.table.recheck_period()):
            try:
                await self.recheck()
            except (*REDIS_ERRORS, MqError):
                self.notify_all()  # each operation gets the error from a call of its own

    async def recheck(self) -> None:
        """Poll once for all waits, since a notification may be lost."""
        queues = self.table.queues()
        if not queues:
            return
        await self._driver.backend.confirm()
        await self._driver.run(poll_all(self._driver.core.keys, queues, self.table.handoff_candidates()))
        self.last_poll = time.monotonic()


async def _raised(flag: asyncio.Event, seconds: float) -> bool:
    """Wait until the flag is up, at most so many seconds."""
    if flag.is_set():
        return True
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            return await flag.wait()
    return flag.is_set()
