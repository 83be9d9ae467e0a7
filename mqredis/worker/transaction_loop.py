"""A loop over transactional queues: each run of the handler is a transaction.

``run`` makes one for each thread of a consumer, and ``threads`` calls it there. Messages of a batch that cannot be
handled get verdicts of their own in the call that ends the transaction (``operations.transaction.End``), whether it
commits the others or aborts them.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial

from mqredis.client import Queue, Transaction
from mqredis.errors import MqError, OutcomeUnknown, SealBroken, TransactionSequence
from mqredis.models import Message
from mqredis.models.lookup_ids import format_id
from mqredis.operations import giveback, several
from mqredis.operations.transaction import End
from mqredis.worker.loop import Loop, Shared
from mqredis.worker.outcomes import accept_lower_durability


class TransactionLoop(Loop):
    """The loop for transactional queues."""

    def __init__(self, shared: Shared, queues: Sequence[Queue], lapsed: Sequence[Queue] = ()) -> None:
        super().__init__(shared, queues, lapsed)
        # That of the handler that runs. The renewer removes the one that it gives back, perhaps when the next one has
        # begun, and the thread that ends the worker reads them.
        self._transactions: set[Transaction] = set()

    def _give_back_all(self) -> None:
        for transaction in list(self._transactions):
            self._abort(transaction, giveback.unattempted())

    def _read_and_handle(self, queues: list[Queue], regular: int, timeout: float | None) -> None:
        consumer = self.consumer
        transaction = self.manager.transaction(lease=self.shared.lease)
        operation = several.receive(
            [queue.handle for queue in queues],
            [consumer.batch if n < regular else 1 for n in range(len(queues))],
            timeout,
            transaction.unit,
            (self.shared.reads.scope,),
            self._interrupted,
        )
        try:
            at, messages = self._read(operation)
        except SealBroken as error:
            self._not_opened(error, partial(self._abort, transaction))
            return
        consumer.last_read = time.monotonic()
        self._transactions.add(transaction)
        try:
            self._handle_received(queues[at], messages, transaction)
        finally:
            self._transactions.discard(transaction)

    def _handle_received(self, queue: Queue, messages: list[Message], transaction: Transaction) -> None:
        good, arguments, bad = self.shared.attempts.accept(messages)
        verdicts = {
            format_id(message.lookup_id): self.shared.failed.return_instruction(refusal, [message])
            for message, refusal in bad
        }
        commit = End(transaction.unit, "commit", verdicts=verdicts)
        if not good:
            self._end(transaction, commit)
            self.shared.failed.pause_without_policy(queue.name, bad[0][1])
            return

        def give_back(instruction: str) -> None:
            self._transactions.discard(transaction)
            self._abort(transaction, instruction, verdicts)

        unit = self.shared.attempts.unit(good, transaction)
        try:
            error = self._run(
                unit,
                arguments,
                lambda: transaction.extend(self.shared.lease),
                lambda: transaction.end(commit),
                give_back,
            )
        except MqError as problem:
            if isinstance(problem, OutcomeUnknown) and problem is not unit.broker_error:
                raise  # it may be committed; if not, it is aborted when its lease ends
            give_back(giveback.unattempted())
            raise
        if error is not None:
            self.shared.failed.give_back(queue.name, error, good, give_back)

    def _abort(
        self, transaction: Transaction, instruction: str, verdicts: dict[str, str] | None = None
    ) -> None:
        self._end(transaction, End(transaction.unit, "abort", given=instruction, verdicts=verdicts))

    def _end(self, transaction: Transaction, operation: End) -> None:
        try:
            accept_lower_durability(lambda: transaction.end(operation))
        except TransactionSequence as error:
            self._lost(error)
