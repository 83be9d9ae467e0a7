"""A loop over queues that are not transactional: it locks messages, runs the handler, and commits the locks.

``run`` makes one for each thread of a consumer, and ``threads`` calls it there.

The call that reads the next messages commits the locks of those that were handled: one round trip per batch. So a
handler that has ended well may run again if the process dies before that call, and what it sent with ``tx`` has been
sent (``unit``). tests/contract/test_cost.py counts the calls.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial

from mqredis.client import LockedMessage, Queue
from mqredis.commands.settlement import COMMIT, RENEW, Lost, Settled
from mqredis.errors import LockLost, MqError, QueueNotAvailable, SealBroken
from mqredis.models import Message
from mqredis.models.lookup_ids import format_id
from mqredis.operations import giveback, several
from mqredis.operations.earlier_locks import EarlierLocks, earlier_locks
from mqredis.operations.locked import mark_renewed, mark_settled
from mqredis.operations.settle import lock_lost, settle, settle_locks
from mqredis.steps import Operation
from mqredis.worker.loop import Loop, Shared
from mqredis.worker.outcomes import accept_lower_durability

log = logging.getLogger("mqredis.worker")


class HandledLocks:
    """The locks of handled messages whose commit is still to be sent, in the order in which these were handled.

    The thread of a loop adds them, and another thread may take them when the worker ends. A lock is in one place at a
    time: here, or with the caller of ``take``. So no lock is committed twice.
    """

    def __init__(self) -> None:
        # Used under the mutex.
        self._locks: list[LockedMessage] = []
        self._mutex = threading.Lock()

    def add(self, locks: Iterable[LockedMessage]) -> None:
        """Add locks of messages that were handled."""
        with self._mutex:
            self._locks.extend(locks)

    def take(self) -> list[LockedMessage]:
        """Remove and return all, in order to commit them."""
        with self._mutex:
            taken, self._locks = self._locks, []
        return taken

    def restore(self, locks: list[LockedMessage]) -> None:
        """Put locks that could not be committed back in front."""
        with self._mutex:
            self._locks = [*locks, *self._locks]

    def copy(self) -> list[LockedMessage]:
        """The locks that were not taken yet."""
        with self._mutex:
            return [*self._locks]


class LockLoop(Loop):
    """The loop for queues that are not transactional."""

    def __init__(self, shared: Shared, queues: Sequence[Queue], lapsed: Sequence[Queue] = ()) -> None:
        super().__init__(shared, queues, lapsed)
        self._handled = HandledLocks()
        # The messages of the handler that runs. The thread that ends the worker reads it, too.
        self._held: list[LockedMessage] = []

    def flush(self) -> None:
        """Commit the handled messages without a read. If that fails, they are kept for the next commit."""
        # At most 256, as one call takes: these come from one read, which has committed the earlier ones.
        left: dict[Queue, list[LockedMessage]] = {}
        for lock in self._handled.take():
            left.setdefault(lock.queue, []).append(lock)
        try:
            for queue, locks in list(left.items()):
                try:
                    self._end(queue, locks, COMMIT)
                except QueueNotAvailable as error:  # the queue was deleted with its messages
                    log.warning(
                        "%s: %d handled message(s) are gone: %s", self.consumer.name, len(locks), error
                    )
                del left[queue]
        finally:
            self._handled.restore([lock for locks in left.values() for lock in locks])

    def _give_back_all(self) -> None:
        """Called by the thread that ends the worker, while the handler of this loop may still run, or end."""
        self.flush()
        for lock in list(self._held):
            if not lock.settled and lock not in self._handled.copy():
                self._end(lock.queue, [lock], giveback.unattempted())
        self.flush()  # what was handled meanwhile

    def _read_and_handle(self, queues: list[Queue], regular: int, timeout: float | None) -> None:
        consumer = self.consumer
        if any(lock.queue not in queues for lock in self._handled.copy()):
            self.flush()  # commit now, not when a message arrives in another queue
        done = self._handled.take()
        commits = [
            earlier_locks(queue.handle, [lock for lock in done if lock.queue is queue]) for queue in queues
        ]
        several_at_once = consumer.batch if consumer.payload.many else self.prefetch.count
        operation = several.lock(
            [queue.handle for queue in queues],
            # The queues behind the regular ones are ;lapsed, from which one message is taken at a time.
            [several_at_once if n < regular else 1 for n in range(len(queues))],
            timeout,
            self.shared.lease,
            settling=commits,
            scopes=(self.shared.reads.scope,),
            stop=self._interrupted,
        )
        try:
            at, found = self._read(operation)
        except SealBroken as error:
            self._not_opened(error, partial(self._give_back_unopened, queues, error.messages))
            return
        finally:
            self._take_commits(commits, done)
        consumer.last_read = time.monotonic()
        queue = queues[at]
        locks = queue.locked_messages(found.with_messages())
        if self.prefetch.most > 1 and at < regular:
            handle = partial(self._handle_one, queue)
            self.prefetch.run(queue, locks, handle, self._handled.copy, self.flush, self._must_stop)
        else:
            self._handle_locks(queue, locks)

    def _take_commits(self, commits: Sequence[EarlierLocks], done: Sequence[LockedMessage]) -> None:
        """Warn of locks that were lost. Keep the locks that the read should have committed and has not."""
        for group in commits:
            self._all_lost((lookup_id, "") for _, lookup_id in group.lost)
            if group.pending():
                pending = {*group.ids[group.settled :]}
                self._handled.restore([lock for lock in done if lock.key in pending])

    def _must_stop(self) -> bool:
        return self.shared.shutdown.stopping.is_set() or self.paused

    def _handle_one(self, queue: Queue, lock: LockedMessage) -> bool:
        return self._handle_locks(queue, [lock])

    def _handle_locks(self, queue: Queue, locks: list[LockedMessage]) -> bool:
        """Run the handler. False: it failed, and the messages were given back."""
        self._held = locks
        try:
            return self._handle_held(queue, locks)
        finally:
            self._held = []

    def _handle_held(self, queue: Queue, locks: list[LockedMessage]) -> bool:
        # Compared by identity, since reading the lookup id would parse the message before its handler begins.
        lock_of: dict[int, LockedMessage] = {}
        messages: list[Message] = []
        for lock in locks:
            lock_of[id(lock.message)] = lock
            messages.append(lock.message)
        good, arguments, bad = self.shared.attempts.accept(messages)
        for message, refusal in bad:
            instruction = self.shared.failed.return_instruction(refusal, [message])
            self._end(queue, [lock_of.pop(id(message))], instruction)
        if not good:
            self.shared.failed.pause_without_policy(queue.name, bad[0][1])
            return False
        rest = list(lock_of.values())
        give_back_rest = partial(self._end, queue, rest)
        unit = self.shared.attempts.unit(good, None)
        try:
            error = self._run(unit, arguments, partial(self._renew, queue, rest), unit.flush, give_back_rest)
        except MqError:
            give_back_rest(giveback.unattempted())
            raise
        except BaseException as failure:  # such as SystemExit, which ends the worker
            with suppress(MqError):
                give_back_rest(self.shared.failed.return_instruction(failure, good))
            raise
        if error is not None:
            self.shared.failed.give_back(queue.name, error, good, give_back_rest)
            return False
        self._handled.add(rest)
        return True

    def _renew(self, queue: Queue, locks: list[LockedMessage]) -> None:
        """Renew these locks of the queue. Raises LockLost if one of them is lost."""
        lease = self.shared.lease
        until = time.monotonic() + lease
        operation = settle_locks(queue, RENEW, locks, lease)
        lost = accept_lower_durability(partial(self.manager.run, operation)).lost
        if lost:
            raise lock_lost(queue.handle.path, lost[0])
        for lock in locks:
            mark_renewed(lock, until)

    def _end(self, queue: Queue, locks: list[LockedMessage], action: str) -> None:
        """Commit these locks of the queue, or give their messages back. Warns of each that is lost."""
        self._settle(settle_locks(queue, action, locks))
        for lock in locks:
            mark_settled(lock)

    def _give_back_unopened(
        self, queues: Sequence[Queue], messages: Sequence[Message], instruction: str
    ) -> None:
        queue = next(queue for queue in queues if queue.handle.path == messages[0].queue)
        locks = queue.handle.locks
        keys = [format_id(message.lookup_id) for message in messages]
        each = [(instruction, locks[key], key) for key in keys if key in locks]
        self._settle(settle(queue.handle, each))

    def _settle(self, operation: Operation[Settled]) -> None:
        self._all_lost(accept_lower_durability(partial(self.manager.run, operation)).lost)

    def _all_lost(self, lost: Iterable[Lost]) -> None:
        for lookup_id, _ in lost:
            self._lost(LockLost(f"the lock on message 0x{lookup_id} was lost before it was settled"))
