"""Locks of earlier reads that a call commits: on the way of the next read, or several at once.

``Queue.lock_many``, ``Queue.commit_many`` and ``worker.lock_loop`` make them. ``receive`` and ``several`` send the
commits with their fetches; ``settle`` has all other ends of locks. Who has made an ``EarlierLocks`` for an operation
reads from it what was committed, also if the operation has raised an error.

Locks are kept in columns, fences beside ids, since batches of hundreds of messages pass here. For the same reason
``note_settled`` and ``pending_runs`` have a short way for what is mostly the case.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING

from mqredis.commands import read, settlement
from mqredis.commands.read import Found
from mqredis.commands.settlement import COMMIT, Lost
from mqredis.errors import InvalidArgument
from mqredis.operations import checks
from mqredis.operations.open_queue import Handle
from mqredis.operations.settle import (
    forget,
    forget_all,
    lock_lost,
    settle_segments,
    still_open,
    with_segments,
)
from mqredis.steps import Call, Payload, Steps, procedure

if TYPE_CHECKING:
    from mqredis.operations.locked import Locked
    from mqredis.operations.receive import Locks


@dataclass(slots=True)
class EarlierLocks:
    """Locks of one queue that calls commit from the front. A message that was joined from segments has several."""

    fences: Sequence[str] = ()
    ids: Sequence[str] = ()
    """The lookup id of each lock, in hex; its fence is at the same place of ``fences``."""
    segments: Mapping[str, Sequence[str]] | None = None
    """The ids of each message that was joined, by that of its first segment; None if there is no such message."""
    settled: int = 0
    """How many of the locks a call has committed or found lost."""
    lost: frozenset[tuple[str, str]] = frozenset()
    """The fences and ids of those that were lost."""

    def pending(self) -> int:
        """How many are still to be committed."""
        return len(self.ids) - self.settled

    def pending_runs(self) -> Sequence[str]:
        """The commits of those as the scripts take them (:func:`mqredis.commands.settlement.runs`)."""
        fences, ids = self.fences, self.ids
        if self.settled:
            fences, ids = fences[self.settled :], ids[self.settled :]
        if not ids:
            return ()
        if fences.count(fences[0]) == len(ids):  # as of what was locked together
            return COMMIT, fences[0], "".join(ids)
        return settlement.runs([*zip(repeat(COMMIT), fences, ids)])

    def sent_with(self, handle: Handle, call: Call[Found]) -> Call[Found]:
        """The read ``call``, whose arguments have the pending runs: its reply is noted here when it is parsed."""
        call.parse = partial(self._parse, handle, call.parse, len(self.ids))
        return call

    def _parse(
        self,
        handle: Handle,
        parse: Callable[[int, Payload], Found],
        stop: int,
        status: int,
        payload: Payload,
    ) -> Found:
        found = parse(status, payload)
        self.note_settled(handle, stop, found.lost)
        return found

    def settle_some(self, handle: Handle) -> Steps[Sequence[Lost]]:
        """Commit as many as one call takes, by themselves. Returns those of them that were lost."""
        stop = self._batch_stop()
        batch = [*zip(repeat(COMMIT), self.fences[self.settled : stop], self.ids[self.settled : stop])]
        answer = yield from settle_segments(handle, batch)
        self.note_settled(handle, self.settled + len(batch), answer.lost)
        return answer.lost

    def _batch_stop(self) -> int:
        """The end of the next batch. All segments of a message are in one: if the next call failed, the rest of the
        message would become available again, and never be complete."""
        stop = self.settled + read.BATCH
        if not self.segments:
            return stop
        end = self.settled
        while end < len(self.ids):
            following = end + len(self.segments.get(self.ids[end], (1,)))
            if following > stop and end > self.settled:
                break
            end = following
        return end

    def note_settled(self, handle: Handle, stop: int, lost: Sequence[Lost]) -> None:
        """A call has settled those up to place ``stop``, of which it found ``lost``. They are noted once, also if its
        reply is parsed twice."""
        locks, position, count = handle.locks, handle.group_position, stop - self.settled
        if not count:
            return
        fences, ids = self.fences, self.ids
        if count < len(ids):  # else nothing was settled before
            fences, ids = fences[self.settled : stop], ids[self.settled : stop]
        if count == 1 and not lost:
            forget(handle, COMMIT, fences[0], ids[0])
        elif not handle.parts and not position.log and [*locks] == ids and [*locks.values()] == fences:
            # All that are held, in their order, as mostly; another thread may have locked more since.
            deque(map(locks.pop, ids, repeat(None)), maxlen=0)
        else:
            forget_all(handle, [*zip(repeat(COMMIT), fences, ids)], lost)
        self.settled = stop
        if lost:
            self.lost = self.lost.union(_lost_locks(fences, ids, [lookup_id for lookup_id, _ in lost]))


def _lost_locks(fences: Sequence[str], ids: Sequence[str], lost: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Those of these locks, given in columns, that were lost: the script names only their messages, each as often as it
    lost a lock.

    Of several locks of one message only the newest can be held, and its fence is the greatest.
    """
    of_message: dict[str, list[str]] = {}
    for fence, lookup_id in zip(fences, ids, strict=True):
        of_message.setdefault(lookup_id, []).append(fence)
    for lookup_id, count in Counter(lost).items():
        for fence in sorted(of_message[lookup_id], key=int)[:count]:
            yield fence, lookup_id


# It is never changed, since nothing of it is pending.
NO_LOCKS = EarlierLocks()


def earlier_locks(handle: Handle, locks: Sequence[Locked], name: str = "settle") -> EarlierLocks:
    """The commits of these locked messages, which must be of the queue of ``handle``.

    ``name``: of the caller's argument, for errors. Raises InvalidArgument.
    """
    fences: list[str] = []
    ids: list[str] = []
    checked: object = None  # messages that were locked together share a grant, which is checked once
    fence = ""
    for lock in checks.sequence(locks, name):
        try:
            grant = lock._grant
            if grant is not checked:
                _check_grant(lock, grant, handle, name)
                checked, fence = grant, grant.fence
            ids.append(lock._key)
            fences.append(fence)
        except AttributeError:  # not a locked message
            raise _foreign(lock, handle, name) from None
    if len({*ids}) < len(ids):  # the same lock may be named twice: it is committed once
        pairs = dict.fromkeys(zip(fences, ids, strict=True))
        fences, ids = [fence for fence, _ in pairs], [lookup_id for _, lookup_id in pairs]
    if not handle.parts:
        return EarlierLocks(fences, ids)
    parts = handle.parts
    segments = {lock[1]: parts[lock] for lock in zip(fences, ids, strict=True) if lock in parts}
    all_parts = with_segments(handle, [*zip(repeat(COMMIT), fences, ids)])
    return EarlierLocks([fence for _, fence, _ in all_parts], [part for _, _, part in all_parts], segments)


def _check_grant(lock: object, grant: Locks, handle: Handle, name: str) -> None:
    """Raise InvalidArgument if the grant is of another queue, or if its locks end with a transaction."""
    if grant.handle is not handle and grant.handle.address.path != handle.path:
        raise _foreign(lock, handle, name)
    if grant.unit is not None:
        raise InvalidArgument(
            f"a message that was locked in a transaction ends with that: {name} cannot have it"
        )


def _foreign(lock: object, handle: Handle, name: str) -> InvalidArgument:
    return InvalidArgument(f"{name} takes locked messages of queue {handle.path!r}, not {lock!r:.80}")


def note_outcome(earlier: EarlierLocks, locks: Sequence[Locked]) -> None:
    """Set ``settled`` of these locked messages, of which ``earlier`` was made: were they committed?"""
    if not earlier.lost and not earlier.pending():
        for lock in locks:
            lock._settled = True
        return
    done = {*zip(earlier.fences[: earlier.settled], earlier.ids, strict=False)}
    for lock in locks:
        own = [(lock._grant.fence, part) for part in (earlier.segments or {}).get(lock._key, (lock._key,))]
        if done.issuperset(own):
            lock._settled = earlier.lost.isdisjoint(own)


@procedure
def settle_all(handle: Handle, earlier: EarlierLocks) -> Steps[None]:
    """Commit all of these locks. Raises LockLost for the first that was not held any more; the others are committed."""
    still_open(handle)
    first: Lost | None = None
    while earlier.pending():
        lost = yield from earlier.settle_some(handle)
        if lost and first is None:
            first = lost[0]
    if first is not None:
        raise lock_lost(handle.path, first)
