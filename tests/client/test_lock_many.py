"""``lock_many(settle=...)``: one call commits the previous batch and locks the next."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import mqredis
from mqredis.commands.settlement import COMMIT
from mqredis.operations import settle, several
from mqredis.operations.earlier_locks import EarlierLocks, earlier_locks
from tests.support.backend import Backend


@pytest.fixture
def queue(backend: Backend) -> Iterator[mqredis.Queue]:
    with mqredis.connect(backend.client(), settings=mqredis.Settings(allow_volatile=True)) as qm:
        qm.create_queue("q")
        with qm.open("q") as queue:
            yield queue


def test_settled_locks_are_forgotten(queue):
    queue.send_many([b"x"] * 30)
    held = queue.lock_many(10)
    for _ in range(2):
        held = queue.lock_many(10, settle=held)
    assert len(queue._handle.locks) == 10


def test_locks_are_settled_if_no_message_is_found(queue):
    queue.send(b"x")
    held = queue.lock_many(1)
    with pytest.raises(mqredis.IoTimeout):
        queue.lock_many(1, timeout=0, settle=held)
    assert held[0].settled
    assert queue._manager.queue_info("q").messages == 0


def test_lost_locks_are_left_unsettled(queue):
    queue.send_many([b"a", b"b", b"c"])
    first, second = queue.lock_many(2)
    first.abort()
    held = queue.lock_many(1, settle=[first, second])
    assert (held[0].body, second.settled) == (b"a", True)
    with pytest.raises(mqredis.LockLost):
        first.commit()


def test_more_locks_than_one_call_takes_are_settled(queue):
    queue.send_many([b"x"] * 700)
    held = [lock for _ in range(3) for lock in queue.lock_many(200)]
    last = queue.lock_many(100, settle=held)
    assert all(lock.settled for lock in held)
    assert len(last) == 100 == queue._manager.queue_info("q").messages


def test_close_releases_any_number_of_locks(queue):
    queue.send_many([b"x"] * 9_000)
    for _ in range(36):
        queue.lock_many(250)
    queue.close()
    assert queue._manager.queue_info("q").ready == 9_000


def test_damaged_message_is_refused_and_not_lost(queue, backend: Backend):
    for body in (b"a", b"b", b"c"):
        queue.send(body)
    held = queue.lock_many(1)
    raw: Any = backend.client()
    (key,) = raw.keys("mq:*:q:q:m")
    (damaged,) = (lid for lid, record in raw.hgetall(key).items() if record.endswith(b"\0b"))
    record = raw.hget(key, damaged)
    raw.hset(key, damaged, record.replace(b"\0", b"\x01broken\0"))
    with pytest.raises(mqredis.InvariantBroken, match="damaged"):
        queue.lock_many(2, 0, settle=held)
    assert held[0].settled
    assert len(queue._handle.locks) == 2, "closing the handle releases both"
    raw.hset(key, damaged, record)
    with queue._manager.open("q") as other:
        queue.close()
        assert [lock.body for lock in other.lock_many(2, 0)] == [b"b", b"c"]


def test_locks_are_returned_if_a_queue_with_locks_to_commit_was_deleted(queue):
    """Otherwise these locks have no holder until their leases end."""
    manager = queue._manager
    manager.create_queue("gone")
    gone = manager.open("gone")
    gone.send(b"x")
    queue.send(b"y")
    earlier = earlier_locks(gone.handle, [gone.lock(0)])
    manager.delete_queue("gone")
    operation = several.lock([queue.handle, gone.handle], 1, 0, None, [EarlierLocks(), earlier])
    at, locks = manager.run(operation)
    assert (at, [message.body for message in locks.messages]) == (0, [b"y"])
    assert earlier.pending() == 1


def test_settle_takes_any_number_of_locks_and_says_which_were_lost(queue, monkeypatch):
    queue.send_many([b"x"] * 300)
    held = [*queue.lock_many(200), *queue.lock_many(100)]
    held[0].abort()
    held[299].abort()
    sizes, one_call = [], settle.settle_segments

    def counted(handle, settlements, lease):
        sizes.append(len(settlements))
        return one_call(handle, settlements, lease)

    monkeypatch.setattr(settle, "settle_segments", counted)
    settled = queue.manager.run(settle.settle_locks(queue, COMMIT, held))
    assert (sizes, [lookup_id for lookup_id, _ in settled.lost]) == ([256, 44], [held[0].key, held[299].key])
    assert queue.manager.queue_info("q").messages == 2


def test_silent_server_is_asked_once_to_settle_what_no_fetch_has_settled(queue):
    tried: list[Any] = []

    class Unsettled(EarlierLocks):
        def pending(self) -> int:
            return 1

        def settle_some(self, handle: Any) -> Any:
            tried.append(handle)
            raise mqredis.BrokerUnavailable

    queue.send(b"x")
    manager, handle = queue._manager, queue._handle
    reading = several.lock([handle] * 3, 1, 0, None, [Unsettled() for _ in range(3)])
    assert manager.run(reading)[1].messages[0].body == b"x"
    assert tried == [handle]
