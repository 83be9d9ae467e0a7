"""``commit_many``: one call commits several locks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import mqredis
import mqredis.asyncio
from mqredis import BrokerUnavailable, Grouping, InvalidArgument, InvalidHandle, LockLost, Outgoing, Settings
from mqredis.operations import earlier_locks
from mqredis.operations.settle import settle_segments
from tests.support.backend import Backend

SETTINGS = Settings(allow_volatile=True, test_clock=True)


@pytest.fixture
def queue(backend: Backend) -> Iterator[Any]:
    with mqredis.connect(backend.client(), settings=SETTINGS) as qm:
        qm.create_queue("q")
        qm.create_queue("t", transactional=True)
        with qm.open("q") as queue:
            yield queue
        assert qm.doctor().healthy


def left(queue: Any) -> int:
    return int(queue._manager.queue_info("q").messages)


def test_commit_many_commits_all_given_locks(queue: Any) -> None:
    queue.send_many([b"%d" % n for n in range(10)])
    together, single = queue.lock_many(4), [queue.lock(), queue.lock()]
    queue.commit_many([*single, *together[1:]])
    assert [lock.settled for lock in together] == [False, True, True, True]
    assert (left(queue), len(queue._handle.locks)) == (5, 1)
    queue.commit_many(together[:1])
    queue.commit_many(())
    assert (left(queue), queue._handle.locks) == (4, {})


def test_more_locks_than_one_call_takes_are_committed(queue: Any) -> None:
    queue.send_many([b"x"] * 700)
    held = [lock for _ in range(3) for lock in queue.lock_many(200)]
    queue.commit_many(tuple(held))
    assert all(lock.settled for lock in held)
    assert left(queue) == 100


def test_lost_lock_is_reported_and_the_others_are_committed(queue: Any) -> None:
    queue.send_many([b"x"] * 600)
    held = [lock for _ in range(3) for lock in queue.lock_many(200)]
    held[1].abort()
    with pytest.raises(
        LockLost, match=f"{held[1].lookup_id:#018x} of queue .q. is lost: .* is available again"
    ):
        queue.commit_many(held)
    assert [lock.lookup_id for lock in held if not lock.settled] == [held[1].lookup_id]
    assert left(queue) == 1


def test_lock_named_twice_is_committed_once(queue: Any) -> None:
    queue.send_many([b"x", b"y"])
    one, other = queue.lock_many(2)
    queue.commit_many([one, other, one])
    assert (one.settled, other.settled, left(queue)) == (True, True, 0)
    queue.send_group([b"x" * 40], segment_bytes=10)
    whole = queue.lock(0, grouping=Grouping.COMPLETE_MESSAGE)
    queue.commit_many([whole, whole])
    assert (whole.settled, left(queue)) == (True, 0)


@pytest.mark.parametrize("newest_first", [False, True])
@pytest.mark.parametrize("call", ["commit_many", "lock_many"])
def test_two_locks_of_one_message_of_which_the_older_one_has_lapsed(
    queue: Any, newest_first: bool, call: str
) -> None:
    queue.send(b"x")
    older = queue.lock(0, lease=5)
    queue._manager.advance_clock(6)
    newer = queue.lock(0)
    assert newer.lookup_id == older.lookup_id
    locks = [newer, older] if newest_first else [older, newer]
    if call == "commit_many":
        with pytest.raises(LockLost):
            queue.commit_many(locks)
    else:
        queue.send(b"y")
        assert queue.lock_many(1, settle=locks)[0].body == b"y"
    assert (older.settled, newer.settled) == (False, True)


def test_refused_commit_many_commits_nothing(queue: Any) -> None:
    queue.send_many([b"x"] * 2)
    held = queue.lock_many(2)
    qm = queue._manager
    with qm.transaction() as unit, qm.open("t") as other:
        other.send(b"x", transaction=unit)
    with qm.open("t") as other, qm.transaction() as unit:
        within = other.lock(0, transaction=unit)
        for wrong in ([*held, within], [*held, "x"], 5, [None]):
            with pytest.raises(InvalidArgument, match="locks"):
                queue.commit_many(wrong)
        with pytest.raises(InvalidArgument, match="locks"):
            other.commit_many([within])
        with pytest.raises(InvalidArgument, match="locks"):
            other.commit_many(held)
    assert not any(lock.settled for lock in held)
    handle = qm.open("q")
    handle.send(b"y")
    locks = handle.lock_many(1)
    handle.close()
    with pytest.raises(InvalidHandle):
        handle.commit_many(locks)
    queue.commit_many(held)


def test_lock_of_a_segmented_message_commits_all_segments(queue: Any) -> None:
    queue.send_group([b"x" * 40], segment_bytes=10)
    whole = queue.lock(0, grouping=Grouping.COMPLETE_MESSAGE)
    assert len(whole.body) == 40
    queue.commit_many([whole])
    assert (whole.settled, left(queue)) == (True, 0)


def test_failure_between_two_calls_commits_no_part_of_a_segmented_message(
    queue: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the other segments would stay in the queue as a message that is never complete."""
    for _ in range(90):  # three segments each: the limit of a call is inside the 86th message
        queue.send_group([b"x" * 30], segment_bytes=10)
    held = [queue.lock(0, grouping=Grouping.COMPLETE_MESSAGE) for _ in range(90)]
    calls = 0

    def second_fails(*given: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise BrokerUnavailable("no")
        return settle_segments(*given)

    monkeypatch.setattr(earlier_locks, "settle_segments", second_fails)
    with pytest.raises(BrokerUnavailable):
        queue.commit_many(held)
    assert (calls, left(queue)) == (2, 15)
    queue.commit_many(held[85:])
    assert left(queue) == 0


def test_message_of_more_segments_than_one_call_takes_locks_is_committed_whole(queue: Any) -> None:
    queue.send(b"x")
    queue.send_group([b"x" * 600], segment_bytes=2)
    queue.send(b"x")
    first = queue.lock(0)
    whole = queue.lock(0, grouping=Grouping.COMPLETE_MESSAGE)
    assert queue.lock_many(1, settle=[first, whole])[0].lookup_id > whole.lookup_id
    assert (whole.settled, left(queue)) == (True, 1)


async def test_asyncio_commit_many_reports_a_lost_lock_and_commits_the_others(backend: Backend) -> None:
    async with mqredis.asyncio.connect(backend.async_client(), settings=SETTINGS) as qm:
        await qm.create_queue("q")
        async with qm.open("q") as queue:
            await queue.send_many([Outgoing(body=b"%d" % n, correlation_id="c") for n in range(300)])
            held = [*await queue.lock_many(200), *await queue.lock_many(99)]
            await held[5].abort()
            with pytest.raises(LockLost):
                await queue.commit_many(held)
            assert sum(lock.settled for lock in held) == 298
            await queue.commit_many(await queue.lock_many(9))
            assert (await qm.queue_info("q")).messages == 0
            assert not queue._handle.locks
