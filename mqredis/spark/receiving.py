"""How a streaming query receives its finished claims: each in one step, after which a thread removes its messages page
by page while Spark works."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from mqredis.errors import QueueNotAvailable
from mqredis.operations import pipelines
from mqredis.spark.batch_id import split_key
from mqredis.spark.connection import address, manager_of, run
from mqredis.spark.crash import point
from mqredis.spark.offsets import Offset, Plan
from mqredis.spark.options import Options
from mqredis.spark.watch import ONE_CALL, Beside, Pair
from mqredis.steps import Operation

R = TypeVar("R", int, bool)


class Receiving:
    """Of one query: what it has received of each queue, and what is still to be removed."""

    def __init__(self, options: Options, pair: Pair) -> None:
        self.options = options
        self.beside = Beside()
        self._pair = pair
        self._received: dict[str, int] = {}  # sequences
        self._begun: dict[str, int] = {}  # what is received beside Spark's work, or was

    def receive(self, offset: Offset, key: str, plan: Plan, upto: int | None = None) -> None:
        """Receive the claims of a queue up to a sequence (that of ``plan`` by default), and remove their messages."""
        sequence = plan.sequence if upto is None else upto
        if sequence <= self._done(key, plan):
            return

        def receive() -> int:
            return self._commit(offset, key, plan, sequence, pipelines.commit, _between_pages)

        self._pair.run(receive, plan.wanted <= ONE_CALL)
        self._received[key] = sequence

    def begin(self, offset: Offset) -> None:
        """Receive the claims up to ``offset`` in a thread, while Spark writes its log and plans. A call receives a
        whole claim and removes a page of it; between two pages, urgent calls go first."""
        late = {key: plan for key, plan in offset.queues.items() if plan.sequence > self._done(key, plan)}
        left: dict[str, Plan] = {}

        def receive() -> None:
            for key, plan in late.items():
                if self._commit(offset, key, plan, plan.sequence, pipelines.receive, _between_pages):
                    left[key] = plan
                    _between_pages()
                self._received[key] = plan.sequence

        def give_way() -> None:
            _between_pages()
            self.beside.give_way()

        def remove() -> None:
            for key, plan in left.items():
                self.beside.give_way()
                self._commit(offset, key, plan, plan.sequence, pipelines.commit, give_way)

        if late:
            self.beside.start(receive, remove)
            self._begun.update({key: plan.sequence for key, plan in late.items()})

    def rest(self, offset: Offset) -> None:
        """Receive what ``offset`` covers and ``begin`` was not told of."""
        for key, plan in offset.queues.items():
            if plan.sequence > self._begun.get(key, 0):
                self.receive(offset, key, plan)

    def _done(self, key: str, plan: Plan) -> int:
        return max(plan.first, self._received.get(key, 0))

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
        queue = address(manager, path, plan.generation)
        try:
            return run(manager, operation(queue, offset.owner, offset.lineage, sequence, between))
        except QueueNotAvailable:
            if self.options.failOnDataLoss:
                raise
            return False


def _between_pages() -> None:
    point("mid-commit")
