"""Serving schedules: a worker asks which are due, and sends their messages (:mod:`mqredis.operations.schedules`).

``run`` starts it, and serves schedules itself in a burst. Of several workers that serve one, the broker accepts the
first (lua/schedule_write.lua). docs/worker.md (Schedules) tells users what follows.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable

from mqredis.client import QueueManager
from mqredis.codec.schedules import Definition
from mqredis.errors import MqError, QueueNotFound
from mqredis.operations import schedules as operations
from mqredis.operations.schedules import Wanted

log = logging.getLogger("mqredis.worker")

# Seconds between two reads of schedules that were created or resumed meanwhile, and after a failure. docs/worker.md and
# docs/operating.md (Schedules) tell users the number.
_LOOK_SECONDS = 5.0
# Seconds for which the end of the worker waits for a call that the thread makes.
_END_SECONDS = 5.0
# The next look comes earlier if another schedule was served or is due before.
_UNSERVED = "schedule %s cannot be served: %s; the next try is within %.0f s"


class Scheduler:
    """Sends the messages of schedules when they are due: of those that a worker declares, and of those of no worker.

    It has a thread of its own, so that the end of the worker does not wait for a broker that does not answer.
    """

    def __init__(self, manager: QueueManager, declared: Iterable[Wanted]) -> None:
        self._manager = manager
        self._declared = {wanted.name: wanted for wanted in declared}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._repeat, name="mqredis-schedules", daemon=True)

    def declare(self) -> None:
        """Store the schedules that the worker declares. Raises ScheduleExists and what Wanted.message raises."""
        for wanted in self._declared.values():
            _remove_ticks(self._manager, wanted.name)
            self._manager.run(operations.declare(self._manager.context, wanted))

    def begin(self) -> None:
        """Serve schedules until ``end``."""
        self._thread.start()

    def end(self) -> None:
        """Stop serving."""
        self._ended.set()
        self._thread.join(_END_SECONDS)

    def serve(self) -> tuple[int, float]:
        """Send the messages that are due. Returns how many were sent, and the seconds until the next call."""
        context, sent, changed = self._manager.context, 0, False
        found = self._manager.run(operations.due(context))
        for name, text, _ in found.rows:
            try:
                if Definition.parse(text).declared and name not in self._declared:
                    continue
                sent += self._manager.run(operations.fire(context, name, text, found.now_ms))
                changed = True
            except MqError as error:
                log.warning(_UNSERVED, name, error, _LOOK_SECONDS)
        if changed:
            return sent, 0.0  # the next times of the others are not known
        wait = _LOOK_SECONDS
        if found.first_ms:
            wait = min(wait, (found.first_ms - found.now_ms) / 1000)
        return sent, wait

    def _repeat(self) -> None:
        wait = 0.0
        while not self._ended.wait(wait):
            try:
                _, wait = self.serve()
            except MqError as error:
                wait = _LOOK_SECONDS
                # A worker that declares none tries, too: an operator may have created one.
                level = logging.WARNING if self._declared else logging.DEBUG
                log.log(level, "schedules cannot be served: %s; the next try begins in %.0f s", error, wait)


def _remove_ticks(manager: QueueManager, name: str) -> None:
    """Release 0.1.0 kept a schedule as a delayed message in a queue of its own: its workers would serve it, too."""
    queue = f"schedule.{name}"
    try:
        found = [*manager.scheduled(queue, limit=1), *manager.messages(queue, limit=1)]
    except QueueNotFound:
        return
    if any([*stored.message.properties] == ["slot"] for stored in found):
        manager.delete_queue(queue)
        log.info("queue %s of release 0.1.0 was deleted: its schedule is stored in the broker now", queue)
