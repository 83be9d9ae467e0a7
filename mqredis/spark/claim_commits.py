"""How a streaming query receives its finished claims: one call receives a whole claim, and its messages are removed a
page at a time afterwards.

``receive_reader`` uses it in Spark's thread. ``start`` runs its two parts in another thread (``threads``). What is kept
here is lost with the process: a restarted query receives a claim again that was received before, which does no harm.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TypeVar

from mqredis.commands.address import Address
from mqredis.errors import QueueNotAvailable
from mqredis.operations import pipelines
from mqredis.spark.batch_id import split_key
from mqredis.spark.connection import manager_of
from mqredis.spark.kill_points import kill_point
from mqredis.spark.offsets import Offset, Plan
from mqredis.spark.options import Options
from mqredis.spark.targets import deleted
from mqredis.spark.threads import BackgroundWork, TwoThreads
from mqredis.steps import Operation

R = TypeVar("R", int, bool)


class ClaimCommits:
    """Of one query: what it has received of each queue, and what is still to be removed."""

    def __init__(self, options: Options, threads: TwoThreads) -> None:
        self.options = options
        self.background = BackgroundWork()
        self._threads = threads
        # Sequences by queue. Both threads write the first, never for one queue at a time: the reader waits for what was
        # started (``wait_until_received``) before it claims or receives more of that queue.
        self._received: dict[str, int] = {}
        # Sequences that the background work receives, or has received. Spark's thread writes it.
        self._started: dict[str, int] = {}

    def receive(self, offset: Offset, key: str, plan: Plan, upto: int | None = None) -> None:
        """Receive the claims of a queue up to a sequence (that of ``plan`` by default), and remove their messages."""
        sequence = plan.sequence if upto is None else upto
        if sequence <= self._done(key, plan):
            return

        def receive() -> int:
            return self._commit(offset, key, plan, sequence, pipelines.commit, _between_pages)

        self._threads.run(receive, plan.wanted)
        self._received[key] = sequence

    def start(self, offset: Offset) -> None:
        """Receive the claims up to ``offset`` in a thread, while Spark writes its log and plans. A call receives a
        whole claim and removes a page of it; the removal of the other pages pauses for urgent calls."""
        finished = {key: plan for key, plan in offset.queues.items() if plan.sequence > self._done(key, plan)}
        to_remove: dict[str, Plan] = {}

        def receive() -> None:
            for key, plan in finished.items():
                if self._commit(offset, key, plan, plan.sequence, pipelines.receive, _between_pages):
                    to_remove[key] = plan
                    _between_pages()
                self._received[key] = plan.sequence

        def pause() -> None:
            _between_pages()
            self.background.pause()

        def remove() -> None:
            for key, plan in to_remove.items():
                self.background.pause()
                self._commit(offset, key, plan, plan.sequence, pipelines.commit, pause)

        if finished:
            self.background.start(receive, remove)
            self._started.update({key: plan.sequence for key, plan in finished.items()})

    def receive_others(self, offset: Offset) -> None:
        """Receive those claims up to ``offset`` that no ``start`` has covered."""
        for key, plan in offset.queues.items():
            if plan.sequence > self._started.get(key, 0):
                self.receive(offset, key, plan)

    def wait_until_received(self) -> None:
        """Wait until the claims of ``start`` are received; their messages may still be there. Raises its error."""
        self.background.wait_for_first()

    def urgent(self) -> AbstractContextManager[None]:
        """Pause the removal of messages meanwhile."""
        return self.background.urgent()

    def finish(self) -> bool:
        """Wait until the messages are removed. False if there was nothing to wait for. Raises its error."""
        return self.background.finish()

    def _done(self, key: str, plan: Plan) -> int:
        return max(plan.initial, self._received.get(key, 0))

    def _commit(
        self,
        offset: Offset,
        key: str,
        plan: Plan,
        sequence: int,
        operation: Callable[..., Operation[R]],
        between: Callable[[], None],
    ) -> R:
        """Run one of the two operations that commit a claim. Returns its result; 0 if the queue was deleted and
        ``failOnDataLoss`` is false."""
        name, path = split_key(key)
        manager = manager_of(self.options.address, name)
        queue = Address(manager.context.keys, path, plan.generation)
        try:
            return manager.run(operation(queue, offset.owner, offset.lineage, sequence, between))
        except QueueNotAvailable:
            if self.options.failOnDataLoss:
                raise deleted(name, path) from None
            return False


def _between_pages() -> None:
    kill_point("mid-commit")
