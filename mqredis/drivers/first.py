"""The first try of a call, which mostly is all it takes: no account of tries is kept before it has failed."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from mqredis.drivers.acks import Ack
from mqredis.drivers.attempt import ENDED, Attempt, Spent, interrupted, request
from mqredis.drivers.early import Early, begun
from mqredis.drivers.known import Known
from mqredis.drivers.links import Backend
from mqredis.drivers.session import Run
from mqredis.drivers.wire import pack_way
from mqredis.errors import MqError
from mqredis.steps import CUT_OFF, Answer, Call, Way


class First(Known):
    """The part of the blocking driver that makes it."""

    backend: Backend

    def _carry(self, attempt: Attempt, early: Early | Spent | None = None, patient: bool = True) -> Answer:
        raise NotImplementedError

    def straight(self, way: Way[Any], differing: Sequence[bytes]) -> Answer | None:
        """Make a call that goes a way, where nothing has to be done before; None: it was not made.

        No operation runs for it, so nobody holds its slot between two calls.
        """
        core, backend = self.core, self.backend
        session = core.session
        if session is None or (form := core.forms.get(way.script) or core.first(way)) is None:
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
                backend.release(link)
            return None
        floor = core.history
        spent: Spent | None = None
        try:
            try:
                reply = link.behind(packed) if way.rings and link.rested else link.exchange(packed)
            except BaseException as error:  # noqa: BLE001 - raised again among the tries
                spent = Spent(link, error, floor, link.used)
            else:
                backend.release(link)
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
            interrupted(core, way.call(differing), run, link.used, backend.address)
            run.slot.session.give(run.slot)  # its own stays away: this is what an operation would go on with
            # For the caller of this method, since no operation is there that could clean up.
            vars(raised)[CUT_OFF] = run.unknown
            raise
        return self._again(way.call(differing), Run(slot), spent)

    def _again(self, call: Call[Any], run: Run, spent: Spent | None) -> Answer:
        """The tries that are left of a call that is made without an operation."""
        try:
            return self._tries(call, run, early=spent)
        except BaseException as raised:
            if not isinstance(raised, Exception):
                vars(raised)[CUT_OFF] = run.unknown
            raise
        finally:
            run.slot.session.give(run.slot)

    def _call(self, call: Call[Any], run: Run) -> Answer:
        """The same of a call of an operation."""
        core, backend, slot = self.core, self.backend, run.slot
        if run.early is not None or slot.session is not core.session:
            return self._tries(call, run)
        if run.listening:
            run.keys = call.keys
        spent: Spent | None = None
        floor = core.history if not run.listening else core.floor(run)
        packed = request(core, call, slot)
        if (link := backend.take()) is None:
            return self._tries(call, run)
        if link.run_id != core.run_id:
            backend.release(link)
            return self._tries(call, run)
        try:
            try:
                rings = link.rested and call.script == "send"
                reply = link.behind(packed) if rings else link.exchange(packed)
            except BaseException as error:  # noqa: BLE001 - raised again among the tries
                spent = Spent(link, error, floor, link.used)
            else:
                backend.release(link)
                found = core.accept(reply, floor)
                if found[0] not in ENDED:
                    if call.changes:
                        slot.last += 1
                    return found
        except MqError:
            raise
        except BaseException:
            interrupted(core, call, run, link.used, backend.address)
            raise
        # Nothing ran where the session or the slot has ended: that is told again there, and mended.
        return self._tries(call, run, early=spent)

    def _tries(
        self, call: Call[Any], run: Run, ack: Ack | None = None, early: Early | Spent | None = None
    ) -> Answer:
        """All tries of a call; the first may have been made, or sent, before."""
        if run.early is not None:
            early = begun(run, call)
        if early is None:
            attempt = Attempt(self.core, call, run, time.monotonic(), self.backend.address, ack)
        elif isinstance(early, Early):
            attempt = early.attempt
        else:
            attempt = Attempt(self.core, call, run, early.began, self.backend.address)
            attempt.floor = early.floor
        if run.listening:
            run.keys = call.keys
        if run.deadline is not None:
            attempt.deadline = run.deadline
        return self._carry(attempt, early)
