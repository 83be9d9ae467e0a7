"""How health checks see that a worker lives: it touches a file, and notes when it last read its queues.

``run`` makes one. The threads of the loops call it after their reads, and the thread of ``Worker.run`` while they wait
or handle. ``mqredis health --consumer`` looks at the time of the file's last change (``command.health_file_age``);
docs/worker.md (Health) says what users may conclude.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from mqredis.client import QueueManager
from mqredis.errors import InvalidArgument
from mqredis.worker.consumer import Consumer
from mqredis.worker.lease_renewer import LeaseRenewer

log = logging.getLogger("mqredis.worker")


class Liveness:
    """The health file, if there is one, and the driver's poll for all waiting reads."""

    def __init__(
        self,
        manager: QueueManager,
        health_file: str | None,
        consumers: Sequence[Consumer],
        renewer: LeaseRenewer,
    ) -> None:
        self._driver = manager.driver
        self._consumers = consumers
        self._renewer = renewer
        self._file = Path(health_file) if health_file else None
        if self._file is not None and not self._file.parent.is_dir():
            raise InvalidArgument(f"health_file {health_file!r} cannot be written: its folder does not exist")
        # time.monotonic() of the last touch. Several threads set it, without a lock: one touch too many does no harm.
        self._touched = 0.0
        # That of the last poll that was noted. Only the main thread uses it.
        self._last_poll = 0.0

    def touch(self) -> None:
        """Touch the health file, since a queue was read successfully, or a handler runs."""
        now = time.monotonic()
        if self._file is not None and now - self._touched >= 1.0 and not self._stuck():
            self._touched = now
            try:
                self._file.touch()
            # A full disk is no reason to stop handling: health checks see that the file is old.
            except OSError as error:
                log.warning("the health file cannot be touched: %s", error)

    def _stuck(self) -> bool:
        """Does some consumer read nothing any more, since all its handlers were given up and have not ended?"""
        handlers = self._renewer.handlers().items()
        given_up = Counter(handling.consumer for held, handling in handlers if held.given_up)
        return any(given_up[consumer] >= consumer.concurrency for consumer in self._consumers)

    def note(self, waiting: Iterable[Consumer]) -> None:
        """Note a successful poll of the driver for all waits as a read of each of these consumers, which wait.

        A handler that still has its messages shows life, too, since no loop reads while all handlers are busy.
        """
        now = time.monotonic()
        if any(held.reason is None and now < held.until for held in self._renewer.handlers()):
            self.touch()
        last_poll = self._driver.last_poll
        if last_poll <= self._last_poll:
            return
        self._last_poll = last_poll
        for consumer in waiting:
            consumer.last_read = max(consumer.last_read, last_poll)
            self.touch()
