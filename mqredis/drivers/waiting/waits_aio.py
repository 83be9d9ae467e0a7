# mqredis/drivers/waiting/waits.py is generated from this file: run `make format` after a change.
"""The steps of waiting operations in asyncio: listen, wait, find out how the server notifies, poll for all waits.

``calls_aio`` runs steps with it. ``registry_aio``, which is a subclass, makes the subscription that notifies the
operations and keeps it alive.
"""

from __future__ import annotations

import logging
import secrets
import time
from abc import ABC, abstractmethod
from typing import Any

from redis import exceptions as rx

from mqredis.drivers.greeting import refusal
from mqredis.drivers.net.wire import REDIS_ERRORS
from mqredis.drivers.session import Run, Slot
from mqredis.drivers.waiting.base import BaseRegistry
from mqredis.drivers.waiting.mode import TRIAL, choose_wake_mode
from mqredis.drivers.waiting.table import EVENT, PROBE_SECONDS, F, WakeChannel, poll_all
from mqredis.errors import MqError
from mqredis.steps import Reply, Wait, Woken

log = logging.getLogger("mqredis")


class AsyncWaits(BaseRegistry[F], ABC):
    """The part of :class:`~mqredis.drivers.waiting.registry_aio.AsyncWaiterRegistry` that does not depend on how its
    subscription is read."""

    _probing: Any
    """Lock under which one operation finds out the mode."""

    # ---- steps -----------------------------------------------------------------------------------

    async def listen(self, run: Run) -> str:
        """Subscribe to the wake channel of the run's slot, unless that has happened."""
        self._start_listening(run)
        mode = await self._mode()
        if mode != "poll":
            wake = await self._wake_channel(run.slot)
            wake.notified.clear()
            wake.handoff = None
            self._use(run, wake)
            if not wake.confirmed.is_set() and not await self._sleep(
                wake.confirmed, self._settings.reply_timeout_seconds
            ):
                wake.used_early = True
        return self._notify_mode(run, mode)

    async def redirect(self, run: Run, old: Slot) -> None:
        """The operation continues in another slot than ``old``."""
        if await self._mode() == "poll":
            return
        wake = await self._wake_channel(run.slot)
        wake.used_early = True
        with self._lock:
            self.table.redirect(old, run.slot)
        self._use(run, wake)

    async def wait(self, run: Run, step: Wait) -> Woken | Reply:
        """Sleep until the operation is notified or cancelled, or its time is over."""
        began = time.monotonic()
        flag = self._flag_of(run)
        limit, silent = self.table.sleep_limit(step, run.polling)
        with self._lock:
            self.table.waits[run] = (step, flag)
        try:
            notified = self._over(run, step) or await self._sleep(flag, limit)
        finally:
            with self._lock:
                self.table.waits.pop(run, None)
        flag.clear()
        return self._answer(run, step, began, Woken.NOTIFIED if notified else silent)

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
        """Answer the questions of ``choose_wake_mode``, and note the mode that it returns."""
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
            answer = await self._try(question[1]) if question[0] == TRIAL else await self._ask(question)

    async def _ask(self, command: tuple[str, ...]) -> Any:
        try:
            return await self._driver.command(*command)
        except (*REDIS_ERRORS, MqError):
            return None

    async def _try(self, mode: str) -> bool | None:
        """Does a notification in this mode arrive? None: it cannot be told now."""
        keys, slot = self._driver.core.keys, f"probe-{secrets.token_hex(8)}"
        channel = self._channel_name(slot)
        with self._lock:
            wake, _ = self.table.wake_channel(slot, channel)
            if self._closed.is_set():
                return None
        await self._subscribe(channel)
        try:
            if not await self._sleep(wake.confirmed, self._settings.reply_timeout_seconds):
                return None
            if self._closed.is_set():
                return None
            if self.table.denied:
                return False
            if mode == "publish":
                await self._driver.command("PUBLISH", channel, EVENT)
            else:
                await self._driver.command("SADD", keys.wake_key(slot), "1")
                await self._driver.command("DEL", keys.wake_key(slot))
            return await self._sleep(wake.notified, PROBE_SECONDS)
        except rx.ResponseError as error:
            return None if refusal(error) is None else False
        except (*REDIS_ERRORS, MqError):
            return None
        finally:
            with self._lock:
                self.table.remove(slot)
            await self._send("UNSUBSCRIBE", channel)

    # ---- the subscription ------------------------------------------------------------------------

    async def _wake_channel(self, slot: Slot) -> WakeChannel[F]:
        found = self.table.by_slot.get(slot.name)
        if found is not None and found.confirmed.is_set():
            return found
        session, channel = slot.session.number, self._channel_name(slot.name)
        with self._lock:
            wake, new = self.table.wake_channel(slot.name, channel, session)
            stale = self.table.remove_stale(session) if new else []
            if self._closed.is_set():
                self.table.confirm_all()  # nothing is subscribed any more
        if stale:
            await self._send("UNSUBSCRIBE", *stale)
        if not wake.confirmed.is_set():  # it is new, or an interrupt came before it was subscribed
            await self._subscribe(channel)
        return wake

    async def _keep_forever(self) -> None:
        """Keep a subscription until the driver closes: a lost one is replaced after a pause."""
        while not self._closed.is_set():
            try:
                await self._keep()
            # Whatever the error is: without this loop the client would get no notifications any more.
            except Exception as error:  # noqa: BLE001
                if isinstance(error, (rx.AuthenticationError, rx.NoPermissionError)):
                    self.table.deny(str(error))
                log.debug("the subscription was lost: %s", type(error).__name__)
            if await self._closes_within(self._next_pause()):
                return
            self._driver.backend.moved()

    @abstractmethod
    async def _sleep(self, flag: F, seconds: float) -> bool:
        """Sleep until the flag is set, at most so many seconds. Returns whether it is set."""

    @abstractmethod
    async def _closes_within(self, seconds: float) -> bool:
        """Sleep until the driver closes, at most so many seconds. Returns whether it closes."""

    @abstractmethod
    async def _keep(self) -> None:
        """Make a subscription to all channels of the table, and serve it until it is lost. Raises why it was lost."""

    @abstractmethod
    async def _subscribe(self, channel: str) -> None:
        """Subscribe to a channel that was added to the table. Called without the lock, which the registry of threads
        takes here."""

    @abstractmethod
    async def _send(self, *command: str) -> None:
        """Send a command over the subscription. If it is lost, the next one subscribes to all channels of the table.
        Called without the lock, as ``_subscribe``."""

    # ---- polling for all waits -------------------------------------------------------------------

    async def _recheck_forever(self) -> None:
        while not await self._closes_within(self.table.until_recheck()):
            try:
                await self.recheck()
            except (*REDIS_ERRORS, MqError):
                self.notify_all()  # each operation gets the error from a call of its own

    async def recheck(self) -> None:
        """Poll once for all waits, since a notification may be lost."""
        self.table.until_timer = None
        with self._lock:
            queues, runs = self.table.queues(), self.table.handoff_candidates()
        if not queues:
            return
        await self._driver.backend.confirm()
        self.table.until_timer = await self._driver.run(poll_all(self._driver.core.keys, queues, runs))
        self.last_poll = time.monotonic()
