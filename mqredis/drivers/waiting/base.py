"""The part of the waiter registries that threads and tasks share, and that needs no sleep and no connection.

``waits`` and ``waits_aio`` derive from it, and from these the registries. ``calls`` asks for waits, and
``drivers.base`` for ``cancel``, ``notify_all`` and how waits are woken.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Generic

from mqredis.drivers.session import Run
from mqredis.drivers.waiting import handoff
from mqredis.drivers.waiting.mode import LETTERS
from mqredis.drivers.waiting.table import F, WaiterTable, WakeChannel
from mqredis.steps import Reply, Wait, Woken

if TYPE_CHECKING:
    from mqredis.drivers.base import BaseDriver

log = logging.getLogger("mqredis")


class BaseRegistry(Generic[F]):
    """The waits of one driver, and how its server notifies them."""

    _closed: Any
    """Event that is set when the driver closes."""

    def __init__(
        self, driver: BaseDriver, flag: Callable[[], F], lock: AbstractContextManager[object]
    ) -> None:
        """``flag``: makes a flag to sleep on. ``lock``: guards the table; in one event loop nothing does."""
        self._driver: Any = driver  # of another type in the two subclasses
        self._settings = driver.settings
        self._lock = lock
        self._flag = flag
        self.table: WaiterTable[F] = WaiterTable(driver.settings, flag)
        # "keyspace", "publish" or "poll"; "" until that was found out.
        self.mode_name = ""
        self._probed_run_id: str | None = None
        self._probe_again_at = 0.0
        # When the last poll for all waits succeeded, on the clock of ``time.monotonic()``; 0.0 before the first one.
        self.last_poll = 0.0
        self._reset_pause()

    def cancel(self, scope: object) -> None:
        """End the waits of this scope."""
        with self._lock:
            self.table.cancel(scope)

    def notify_all(self) -> None:
        """Let every waiting operation fetch again."""
        with self._lock:
            self.table.notify_all()

    def _end_waits(self) -> None:
        """Let every operation go on, to find that the driver is closed."""
        self._closed.set()
        with self._lock:
            self.table.confirm_all()
        self.notify_all()

    # ---- the subscription ------------------------------------------------------------------------

    def _reset_pause(self) -> None:
        """A subscription works: the next one that is lost is replaced after the shortest pause."""
        self._pause = self._settings.retry_pause_seconds

    def _next_pause(self) -> float:
        """Seconds until a lost subscription is replaced; the next pause is twice as long."""
        pause: float = self._pause
        self._pause = min(pause * 2, self._settings.retry_pause_max_seconds)
        return pause

    # ---- listening -------------------------------------------------------------------------------

    def _start_listening(self, run: Run) -> None:
        if not run.listening:
            run.listening, run.floor = True, self._driver.core.history
        self.table.registered_runs.add(run)
        run.mark = self.table.cancellations.position

    def _use(self, run: Run, wake: WakeChannel[F]) -> None:
        run.wake, run.flag = wake, wake.notified

    def _notify_mode(self, run: Run, mode: str) -> str:
        """The letter of the mode, for scripts. An operation that polls gets a flag of its own."""
        if self.table.denied and mode != "poll":
            mode = self.mode_name = "poll"
        run.polling = mode == "poll"
        if run.polling:
            run.flag = self._flag()
        return LETTERS.get(mode, "")

    # ---- waiting ---------------------------------------------------------------------------------

    def _flag_of(self, run: Run) -> Any:
        if run.flag is None:
            run.flag = self._flag()
        return run.flag

    def _over(self, run: Run, step: Wait) -> bool:
        """Is the wait over before it begins?"""
        return self._closed.is_set() or self.table.cancellations.since(run.mark, step.scopes)

    def _answer(self, run: Run, step: Wait, began: float, woken: Woken) -> Woken | Reply:
        """Why the wait ended, or the reply that a handoff has brought. ``began``: monotonic time of its start."""
        if self._closed.is_set():
            return Woken.CANCELLED
        cancellations = self.table.cancellations
        if run.mark != cancellations.position:
            cancelled = cancellations.since(run.mark, step.scopes)
            run.mark = cancellations.position
            if cancelled:
                return Woken.CANCELLED
        reply = handoff.take_reply(self._driver.core, run, step.call, max(began, self.last_poll))
        return reply or woken

    # ---- the mode --------------------------------------------------------------------------------

    def _known_mode(self) -> str:
        """The mode, which is found out once for each server process; "" if it has to be found out now."""
        if self.mode_name and self._probed_run_id == self._driver.core.run_id:
            return self.mode_name
        return "poll" if self._probe_again_at > time.monotonic() else ""

    def _note_mode(self, mode: str, run_id: str) -> None:
        """Note the mode of the server process ``run_id``; with "" operations poll until it is tried again."""
        self.mode_name = mode
        if mode:
            self._probed_run_id = run_id
            log.debug("waits on %s are woken by %s", self._driver.backend.address, mode)
        else:
            self._probe_again_at = time.monotonic() + self._settings.recheck_seconds

    def _channel_name(self, slot: str) -> str:
        name: str = self._driver.core.keys.channel(slot, self._driver.backend.database)
        return name
