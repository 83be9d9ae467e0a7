"""Which reads operators have paused, and how a read that waits is made to begin again.

``run`` makes a ``WaitingReads``. The loops read with it, the heartbeat tells it the pauses, and ``threads`` cancels
waits at the end. The loops compare ``pauses`` by identity, so it is replaced and never changed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from mqredis.client import QueueManager
from mqredis.commands.workers import pause_field
from mqredis.models.worker import Pause
from mqredis.steps import Listen, Steps, procedure


@dataclass(frozen=True, slots=True)
class Pauses:
    """What operators have paused."""

    fields: frozenset[str] = frozenset()
    """As ``commands.workers.pause_field`` names them."""

    @classmethod
    def of(cls, pauses: Iterable[Pause]) -> Pauses:
        """What these pauses, which the broker lists, say."""
        return cls(frozenset(pause_field(pause.kind, pause.name) for pause in pauses))

    def __bool__(self) -> bool:
        return bool(self.fields)

    def consumer(self, name: str) -> bool:
        """Is this consumer paused?"""
        return pause_field("consumer", name) in self.fields

    def queue(self, name: str) -> bool:
        """Is this queue paused? The messages in ``;lapsed`` belong to their queue."""
        return pause_field("queue", name.removesuffix(";lapsed")) in self.fields


class WaitingReads:
    """The waiting reads of all loops of a worker."""

    def __init__(self, manager: QueueManager) -> None:
        self._driver = manager.driver
        self.scope = object()
        """What all reads are given, so that ``cancel`` finds them."""
        self.pauses = Pauses()
        """What operators have paused. The thread of the heartbeat replaces it; in a burst the main thread does."""

    def set_pauses(self, pauses: Pauses) -> None:
        """An operator has set or ended a pause: waiting reads begin again with the queues that they may read."""
        if pauses != self.pauses:
            self.pauses = pauses  # before the cancellation, since a reader that is about to wait checks it
            self.cancel()

    def cancel(self) -> None:
        """Let the reads that wait now return at once, with nothing. Every thread may call it."""
        self._driver.cancel(self.scope)

    def unlimited(self) -> bool:
        """Can readers be notified, so that a read may wait without a limit? Raises MqError."""
        if not self._driver.wake_mode:
            self._driver.run(_listen())
        return self._driver.wake_mode in ("keyspace", "publish")


@procedure
def _listen() -> Steps[None]:
    """Find out how readers are woken."""
    yield Listen()
