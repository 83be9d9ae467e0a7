"""The first try of a call from a task: the twin of ``first``."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Sequence
from typing import Any

from mqredis.drivers.acks import Ack
from mqredis.drivers.alinks import AsyncBackend
from mqredis.drivers.attempt import ENDED, Attempt, Spent, interrupted, request
from mqredis.drivers.known import Known
from mqredis.drivers.session import Run
from mqredis.drivers.wire import REDIS_ERRORS, pack_way
from mqredis.errors import MqError
from mqredis.steps import CUT_OFF, Answer, Call, Way


class AsyncFirst(Known):
    """The part of the asyncio driver that makes it."""

    backend: AsyncBackend
    _loop: asyncio.AbstractEventLoop | None = None

    async def _carry(self, attempt: Attempt, spent: Spent | None = None, patient: bool = True) -> Answer:
        raise NotImplementedError

    async def straight(
        self, way: Way[Any], differing: Sequence[bytes], loop: asyncio.AbstractEventLoop | None = None
    ) -> Answer | None:
        """Make a call that goes a way, where nothing has to be done before; None: it was not made. ``loop``: that runs,
        for who knows it: to ask for it is a system call.

        No operation runs for it, so nobody holds its slot between two calls.
        """
        core, backend = self.core, self.backend
        session = core.session
        if session is None or (form := core.forms.get(way.script) or core.first(way)) is None:
            return None
        if (loop or asyncio.get_running_loop()) is not self._loop:
            return None
        try:
            slot = session.free.pop()  # as session.take, without its call
        except IndexError:
            return None
        if not slot.last and way.few:  # the first call of a slot is not plain
            session.give(slot)
            return None
        packed = (pack_way(way, form, slot.packed, slot.last + 1, differing),)
        if (link := backend.take()) is None or link.run_id != core.run_id:
            session.give(slot)
            if link is not None:
                await backend.release(link)
            return None
        floor, began = core.history, time.monotonic()
        spent: Spent | None = None
        try:
            try:
                reply = await (link.behind(packed) if way.rings else link.exchange(packed))
            except REDIS_ERRORS as error:
                spent = Spent(link, error, floor, began)
            except BaseException:
                await backend.abandon(link)
                raise
            else:
                if not backend.give(link):
                    await backend.discard(link)
                found = core.accept(reply, floor)
                if found[0] not in ENDED:
                    slot.last += 1
                    session.free.append(slot)
                    return found
        except MqError:
            session.give(slot)
            raise
        except BaseException as raised:
            run = Run(slot)
            interrupted(core, way.call(differing), run, began, backend.address)
            run.slot.session.give(run.slot)  # its own stays away: this is what an operation would go on with
            # For who makes the call, since no operation is there that could clean up.
            vars(raised)[CUT_OFF] = run.unknown
            raise
        run = Run(slot)
        try:
            return await self._tries(way.call(differing), run, spent=spent)
        finally:
            run.slot.session.give(run.slot)

    async def _call(self, call: Call[Any], run: Run) -> Answer:
        """The same of a call of an operation."""
        core, backend, slot = self.core, self.backend, run.slot
        if slot.session is not core.session:
            return await self._tries(call, run)
        floor, began = core.history if not run.listening else core.floor(run), time.monotonic()
        packed = request(core, call, slot)
        if (link := backend.take()) is None:
            return await self._tries(call, run)
        if link.run_id != core.run_id:
            await backend.release(link)
            return await self._tries(call, run)
        if run.listening:
            run.keys = call.keys
        spent: Spent | None = None
        try:
            try:
                reply = await (link.behind(packed) if call.script == "send" else link.exchange(packed))
            except REDIS_ERRORS as error:
                spent = Spent(link, error, floor, began)
            except BaseException:
                await backend.abandon(link)
                raise
            else:
                if not backend.give(link):
                    await backend.discard(link)
                found = core.accept(reply, floor)
                if found[0] not in ENDED:
                    if call.changes:
                        slot.last += 1
                    return found
        except MqError:
            raise
        except BaseException:
            interrupted(core, call, run, began, backend.address)
            raise
        # Nothing ran where the session or the slot has ended: that is told again there, and mended.
        return await self._tries(call, run, spent=spent)

    def _tries(
        self, call: Call[Any], run: Run, ack: Ack | None = None, spent: Spent | None = None
    ) -> Coroutine[Any, Any, Answer]:
        """All tries of a call; the first may have been made before."""
        began = time.monotonic() if spent is None else spent.began
        attempt = Attempt(self.core, call, run, began, self.backend.address, ack)
        if spent is not None:
            attempt.floor = spent.floor
        if run.listening:
            run.keys = call.keys
        if run.deadline is not None:
            attempt.deadline = run.deadline
        return self._carry(attempt, spent)
