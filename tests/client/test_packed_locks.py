"""Packed locks: the locks of one call are stored as one entry (lua/core/locks.lua), invisible to callers.

The entry is in the queue header, or in a field of its own ("beside" the header) if it is too long.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import pytest

import mqredis
from mqredis.operations import settle
from tests.client.locked_queue import LockedQueue
from tests.support.backend import Backend
from tests.support.counts import MOST, ROOM, header, lock_texts, meta_of, set_count, set_header


@pytest.fixture
def locked_queue(backend: Backend, request: pytest.FixtureRequest) -> Iterator[LockedQueue]:
    how = getattr(request, "param", "together")
    with mqredis.connect(backend.client(), settings=mqredis.Settings(allow_volatile=True)) as qm:
        qm.create_queue("q")
        with qm.open("q") as queue:
            queue.send(b"0")  # the first call of a session takes another path
            queue.receive(0)
            queue.send_many(
                [mqredis.Outgoing(body=b"%d" % n, correlation_id=str(n % 2)) for n in range(1, 6)]
            )
            locked_queue = LockedQueue(queue, backend.client(), [])
            with locked_queue.header_full() if how == "beside" else nullcontext():
                locked_queue.held = (
                    queue.lock_many(3) if how == "together" else [queue.lock(0) for _ in range(3)]
                )
            assert locked_queue.packed() == ([3] if how == "together" else [1, 1, 1])
            assert locked_queue.beside() == ([] if how == "apart" else locked_queue.packed())
            assert [lock.body for lock in locked_queue.held] == [b"1", b"2", b"3"]
            yield locked_queue
            assert qm.doctor().healthy


def test_locks_stay_packed_when_a_subqueue_is_read_or_a_timer_is_due(locked_queue: LockedQueue) -> None:
    with locked_queue.queue._manager.open("q;aside") as aside, pytest.raises(mqredis.IoTimeout):
        aside.receive(0)
    assert locked_queue.packed() == [3]
    set_count(locked_queue.raw, locked_queue.key("q"), "due", 0)
    locked_queue.queue.send(b"6")
    assert locked_queue.count("due") > 0
    assert locked_queue.packed() == [3]


EACH = pytest.mark.parametrize("locked_queue", ["together", "apart", "beside"], indirect=True)
WHERE = pytest.mark.parametrize("room", [True, False], ids=["in header", "beside header"])


def test_next_lock_many_settles_a_packed_lock(locked_queue: LockedQueue) -> None:
    last = locked_queue.queue.lock_many(3, settle=locked_queue.held)
    assert ([lock.body for lock in last], locked_queue.packed()) == ([b"4", b"5"], [2])
    assert locked_queue.queue._manager.queue_info("q").messages == 2
    locked_queue.separate()
    assert locked_queue.packed() == []
    for lock in last:
        lock.commit()
    assert locked_queue.queue._manager.queue_info("q").messages == 0


@pytest.mark.parametrize("bodies", [[b"22", b"333"], [b"22", b"33", b"44"]], ids=["differ", "equal"])
def test_packed_lock_stores_a_common_message_size_once(
    locked_queue: LockedQueue, bodies: list[bytes]
) -> None:
    locked_queue.queue.lock_many(2, settle=locked_queue.held)
    locked_queue.queue.send_many(bodies)
    locked_queue.queue.lock_many(3)
    found = locked_queue.locks()[-1]
    sizes = [len(locked_queue.raw.hget(locked_queue.key("m"), lid)) for lid in found.ids]
    assert len(sizes) == len(bodies)
    assert found.total == sum(sizes)
    assert found.size == (sizes[0] if len(bodies) == 3 else 0)


def test_sends_and_single_reads_leave_packed_locks_unchanged(locked_queue: LockedQueue) -> None:
    locked_queue.queue.send(b"6", correlation_id="a")
    locked_queue.queue.send_many([mqredis.Outgoing(body=b"7", correlation_id="b"), b"8"])
    assert locked_queue.queue.receive(0).body == b"4"
    with locked_queue.queue.lock(0) as lock:
        assert lock.body == b"5"
        assert (locked_queue.packed(), locked_queue.beside()) == ([3, 1], [3])
    second = locked_queue.queue.lock_many(2)
    assert locked_queue.packed() == [3, 2]
    locked_queue.queue.lock_many(1, settle=locked_queue.held)
    assert all(lock.settled for lock in locked_queue.held)
    assert [lock.body for lock in second] == [b"6", b"7"]


def test_lock_many_settles_the_packed_locks_of_two_calls(locked_queue: LockedQueue) -> None:
    second = locked_queue.queue.lock_many(2)
    locked_queue.queue.send_many([b"6", b"7"])
    last = locked_queue.queue.lock_many(2, settle=[*second, *locked_queue.held])
    assert [lock.body for lock in last] == [b"6", b"7"]
    assert locked_queue.queue._manager.queue_info("q").messages == 2


def _commit(locked_queue: LockedQueue) -> bytes:
    locked_queue.held[1].commit()
    return b"45"


def _commit_some(locked_queue: LockedQueue) -> bytes:
    locked_queue.queue.lock_many(1, settle=locked_queue.held[1:])[0].abort()
    return b"45"


def _commit_backwards(locked_queue: LockedQueue) -> bytes:
    locked_queue.queue.lock_many(1, settle=locked_queue.held[::-1])[0].abort()
    return b"45"


def _abort(locked_queue: LockedQueue) -> bytes:
    locked_queue.held[0].abort()
    return b"145"


def _reject(locked_queue: LockedQueue) -> bytes:
    locked_queue.held[0].reject("no")
    return b"45"


def _extend(locked_queue: LockedQueue) -> bytes:
    locked_queue.held[2].extend(60)
    return b"45"


def _purge(locked_queue: LockedQueue) -> bytes:
    locked_queue.queue.purge()
    return b""


def _receive_locked_id(locked_queue: LockedQueue) -> bytes:
    with pytest.raises(mqredis.MessageNotFound):
        locked_queue.queue.receive_by_lookup_id(locked_queue.held[0].lookup_id)
    return b"45"


def _match(locked_queue: LockedQueue) -> bytes:
    assert locked_queue.queue.receive(0, match=mqredis.Match(correlation_id="1")).body == b"5"
    return b"4"


def _move(locked_queue: LockedQueue) -> bytes:
    with locked_queue.queue._manager.open("q;s") as other:
        locked_queue.queue.move(locked_queue.queue.peek(0).lookup_id, other)
    return b"5"


@EACH
@pytest.mark.parametrize(
    "act",
    [
        _commit,
        _commit_some,
        _commit_backwards,
        _abort,
        _reject,
        _extend,
        _purge,
        _receive_locked_id,
        _match,
        _move,
    ],
    ids=lambda act: act.__name__[1:],
)
def test_other_calls_treat_packed_locks_as_single_locks(
    locked_queue: LockedQueue, act: Callable[[LockedQueue], bytes]
) -> None:
    left = act(locked_queue)
    locked_queue.separate()
    assert (locked_queue.bodies(), locked_queue.packed()) == (left, [])
    lost = []
    for lock in locked_queue.held:
        try:
            if not lock.settled:
                lock.commit()
        except mqredis.LockLost:
            lost.append(lock.body)
    assert lost == []
    assert locked_queue.queue._manager.queue_info("q").messages == len(left)


@EACH
def test_close_releases_packed_locks(locked_queue: LockedQueue) -> None:
    locked_queue.queue.close()
    with locked_queue.queue._manager.open("q") as queue:
        assert [message.body for message in queue.receive_many(9, 0)] == [b"1", b"2", b"3", b"4", b"5"]


@EACH
@pytest.mark.parametrize(
    "fence, named, lost",
    [("", 3, 0), ("1", 3, 3), ("", 2, 0), ("", 4, 1)],
    ids=["all", "other fence", "some", "one twice"],
)
def test_one_commit_settles_packed_locks_of_its_fence(
    locked_queue: LockedQueue, fence: str, named: int, lost: int
) -> None:
    locks = [*locked_queue.held, locked_queue.held[0]][:named]
    assert (locked_queue.commit(locks, fence), locked_queue.packed()) == (lost, [])
    left = 5 if fence else 5 - min(named, 3)
    assert locked_queue.queue._manager.queue_info("q").messages == left
    assert locked_queue.commit(locks, fence) == named


@WHERE
def test_commit_with_the_fence_of_one_lock_settles_that_one_alone(
    locked_queue: LockedQueue, room: bool
) -> None:
    for _ in range(10):  # so that fences have two digits
        locked_queue.queue.send(b"x")
    one, other = locked_queue.lock(room), locked_queue.lock(room)
    assert locked_queue.commit([one, other], one.fence) == 1
    assert locked_queue.queue._manager.queue_info("q").messages == 14
    assert [locked_queue.commit([lock]) for lock in (one, other)] == [1, 0]


def test_unpacked_lock_is_stored_once_if_the_call_fails_after_that(locked_queue: LockedQueue) -> None:
    queue, states = locked_queue.queue, locked_queue.key("q")[:-1] + "s"
    one, *_ = locked_queue.queue.lock_many(1, settle=locked_queue.held)
    other = f"{queue.peek(0).lookup_id:016x}"
    locked_queue.raw.hset(states, other, "damaged")
    settlements = [("c", one.fence, one._key), ("c", one.fence, other)]
    with pytest.raises(mqredis.MqError):
        queue.manager.run(settle.settle(queue.handle, settlements))
    locked_queue.raw.hdel(states, other)
    assert locked_queue.packed() == []
    assert locked_queue.commit([one]) == 0


@pytest.mark.parametrize("locked_queue", ["apart", "beside"], indirect=True)
def test_commit_of_one_lock_leaves_the_others_packed(locked_queue: LockedQueue) -> None:
    one, _, three = locked_queue.locks()
    locked_queue.held[1].commit()
    assert locked_queue.locks() == [one, three]
    locked_queue.held[2].commit()
    locked_queue.held[0].commit()
    assert (locked_queue.locks(), locked_queue.count("marks")) == ([], 1)
    assert not locked_queue.raw.exists(locked_queue.key("a")[:-1] + "l", locked_queue.key("a")[:-1] + "s")


@pytest.mark.parametrize("locked_queue", ["apart", "beside"], indirect=True)
def test_new_lock_replaces_a_settled_one(locked_queue: LockedQueue) -> None:
    one, _, three = locked_queue.locks()
    (last,) = locked_queue.queue.lock_many(1, 0, settle=[locked_queue.held[1]])
    assert locked_queue.locks()[:2] == [one, three]
    assert (locked_queue.packed(), locked_queue.locks()[2].beside) == ([1, 1, 1], False)
    last.abort()


def test_packed_lock_fields_without_header_entry_are_ignored(locked_queue: LockedQueue) -> None:
    """Such fields can remain after the doctor has released the messages."""
    texts = lock_texts(locked_queue.raw, locked_queue.key("q"))
    assert texts
    locked_queue.held[0].abort()
    with locked_queue.queue._manager.open("q") as other, other.lock(0) as lock:
        assert lock.body == b"1"
        locked_queue.raw.hset(meta_of(locked_queue.key("q")), mapping=texts)
        locked_queue.queue.lock_many(1, settle=locked_queue.held)
        lock.extend()
        locked_queue.queue.send_many([b"6", b"7"])
    assert locked_queue.codes(repair=True) == ["queue.locks"]


@WHERE
def test_packed_lock_field_without_header_entry_does_not_end_another_lock(
    locked_queue: LockedQueue, room: bool
) -> None:
    """Neither commit nor lock with the old fence ends the lock that another reader has by now."""
    lock = locked_queue.lock(room)
    packed = locked_queue.locks()[-1]
    lock.abort()
    with locked_queue.queue._manager.open("q") as other, other.lock(0) as again:
        assert again.body == b"4"
        locked_queue.raw.hset(meta_of(locked_queue.key("q")), packed.field, packed.text)
        assert locked_queue.commit([lock]) == 1
        lock._settled = False
        (last,) = locked_queue.queue.lock_many(1, 0, settle=[lock])
        assert (last.body, lock.settled) == (b"5", False)
        again.extend()
        last.commit()
    assert locked_queue.queue._manager.queue_info("q").messages == 3
    assert locked_queue.codes(repair=True) == ["queue.locks"]


@pytest.mark.parametrize("count", [1, 2])
def test_settling_one_of_a_packed_lock_keeps_the_count_of_packed_locks(
    locked_queue: LockedQueue, count: int
) -> None:
    last = locked_queue.queue.lock_many(count, 0, settle=[locked_queue.held[0]])
    assert locked_queue.packed() == [count]
    assert locked_queue.beside() == [2] * (count - 1)
    assert locked_queue.count("marks") == 4 * (count - 1) + 1, "and special messages came"
    assert locked_queue.commit(last) == 0
    assert (locked_queue.packed(), locked_queue.count("marks")) == ([], 1)
    for lock in locked_queue.held[1:]:
        lock.commit()


@pytest.mark.parametrize("size", [1, 2])
def test_number_of_packed_locks_is_limited(locked_queue: LockedQueue, size: int) -> None:
    """A call that unpacks all of them has bounded work. Locks of single messages fill the header first."""
    locked_queue.queue.lock_many(2)
    locked_queue.queue.send_many([b"x"] * 150)
    batches = [locked_queue.queue.lock_many(size) for _ in range(60)]
    entries = header(locked_queue.raw, locked_queue.key("q")).locks
    single = [at for at, entry in enumerate(entries) if b"," in entry]
    assert sorted(locked_queue.beside()) == sorted([3, 2] + [size] * (MOST - 2))
    assert locked_queue.raw.zcard(locked_queue.key("l")) == (30 - len(single)) * size, "each by itself"
    if size == 1:
        lengths = [len(entry) + 1 for entry in entries]
        assert single == [*range(2, 2 + len(single))]
        assert sum(lengths[: single[-1]]) < ROOM <= sum(lengths[: single[-1] + 1])
    else:
        assert not single
    text = len(single) + 5
    for at in [0, text, -1] * 3:  # replace one in the header, one beside it, and one not packed
        batches[at] = locked_queue.queue.lock_many(size, settle=batches[at])
        assert len(locked_queue.beside()) == MOST
        assert len(locked_queue.packed()) == MOST + max(0, len(single) - 1), (
            "the header is too long for another"
        )
    for batch in batches:
        assert locked_queue.commit(batch) == 0
    assert sorted(locked_queue.packed()) == [2, 3]


def test_single_lock_is_stored_in_the_header_when_there_is_room(locked_queue: LockedQueue) -> None:
    with locked_queue.header_full():
        lock = locked_queue.queue.lock(0)
        assert locked_queue.locks()[-1].beside
    (last,) = locked_queue.queue.lock_many(1, 0, settle=[lock])
    assert (locked_queue.packed(), locked_queue.beside()) == ([3, 1], [3])
    last.commit()


def test_lock_of_the_only_message_left_is_packed(locked_queue: LockedQueue) -> None:
    locked_queue.queue.receive(0)
    (last,) = locked_queue.queue.lock_many(2)
    assert (last.body, locked_queue.packed()) == (b"5", [3, 1])
    assert locked_queue.beside() == [3], "one message fits into the header"


@pytest.mark.parametrize(
    "fields, packed",
    [({"time_to_be_received": 600.0}, [3, 1]), ({"dedup_key": "k"}, [3])],
    ids=["life", "key"],
)
def test_lock_is_packed_if_its_end_need_not_look_at_what_the_message_asks_for(
    locked_queue: LockedQueue, fields: dict[str, Any], packed: list[int]
) -> None:
    locked_queue.queue.send(b"6", priority=7, **fields)
    lock = locked_queue.queue.lock(0)
    assert (lock.body, locked_queue.packed()) == (b"6", packed)
    lock.commit()


@WHERE
def test_lost_lock_is_not_settled_by_lock_many(locked_queue: LockedQueue, room: bool) -> None:
    """Another reader has locked the message by now, so the packed lock of the old fence is gone."""
    lock = locked_queue.lock(room)
    locked_queue.queue.manager.run(settle.settle(locked_queue.queue._handle, [("a", lock.fence, lock._key)]))
    with locked_queue.queue._manager.open("q") as other:
        again = other.lock(0)
        assert (again.body, locked_queue.packed()) == (b"4", [])
        (last,) = locked_queue.queue.lock_many(1, 0, settle=[lock])
        assert (last.body, lock.settled) == (b"5", False)
        with pytest.raises(mqredis.LockLost):
            lock.commit()
        again.commit()
        last.commit()
    assert locked_queue.queue._manager.queue_info("q").messages == 3


@WHERE
def test_commit_with_the_fence_of_another_lock_is_lost(locked_queue: LockedQueue, room: bool) -> None:
    """The fence is valid, but the message was locked under another one."""
    one, two = locked_queue.lock(room), locked_queue.lock(room)
    assert locked_queue.commit([two], one.fence) == 1
    assert locked_queue.commit([one, two]) == 0


def test_messages_with_one_state_are_committed_by_their_own_fence_only(locked_queue: LockedQueue) -> None:
    """The state of a message that was just committed must not pass for the fence that a call names for the next one."""
    locked_queue.separate()
    one, two, three = locked_queue.held
    settlements = [("c", str(int(lock.fence) - (lock is two)), lock._key) for lock in (one, two, three)]
    outcome = locked_queue.queue.manager.run(settle.settle(locked_queue.queue._handle, settlements))
    assert len(outcome.lost) == 1
    assert locked_queue.commit([one, two, three]) == 2, "the second one was still locked"


@EACH
def test_expired_lease_releases_packed_locks(locked_queue: LockedQueue) -> None:
    """PackedLock locks set the queue's next timer, as single locks do; the next call ends them."""
    key, locks = locked_queue.key("q"), locked_queue.locks()
    earliest = min(int(lock.deadline) for lock in locks)
    # A bucket of the queue's statistics, of 5 minutes, may end before the lease does.
    assert locked_queue.count("due") in (earliest, earliest - earliest % 300_000)
    over, changed = [replace(lock, deadline=b"1000") for lock in locks], header(locked_queue.raw, key)
    changed.locks = [lock.entry for lock in over]
    set_header(locked_queue.raw, key, changed)
    for lock in over:
        if lock.beside:
            locked_queue.raw.hset(meta_of(key), lock.field, lock.text)
    assert locked_queue.locks() == over
    set_count(locked_queue.raw, key, "due", 1000)
    assert [message.body for message in locked_queue.queue.receive_many(9, 0)] == [
        b"1",
        b"2",
        b"3",
        b"4",
        b"5",
    ]
    with pytest.raises(mqredis.LockLost):
        locked_queue.held[0].commit()
