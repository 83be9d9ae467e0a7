"""What one call has locked is one entry or text in the store (lua/core/locks.lua), which no caller notices."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import pytest

import mqredis
from mqredis.operations import settle
from tests.support.backend import Backend
from tests.support.counts import (
    MOST,
    ROOM,
    Packed,
    count,
    line,
    lock_texts,
    meta_of,
    packed_locks,
    set_count,
    set_line,
)

Held = list[mqredis.LockedMessage]


@dataclass
class Kit:
    """Five messages, of which the first three were locked: by one call, or by one each, in the line or beside it."""

    queue: mqredis.Queue
    raw: Any
    held: Held

    def key(self, part: str) -> str:
        (key,) = self.raw.keys(f"mq:*:q:q:{part}")
        return str(key.decode())

    def locks(self) -> list[Packed]:
        """The packed locks; of those beside the line it counts, and there are no others."""
        found = packed_locks(self.raw, self.key("q"))
        beside = sorted(b"lock:" + lock.fence for lock in found if lock.beside)
        assert beside == sorted(lock_texts(self.raw, self.key("q")))
        assert len(beside) == self.count("marks") // 4
        return found

    def packed(self) -> list[int]:
        """How many messages each packed lock has."""
        return [len(lock.ids) for lock in self.locks()]

    def beside(self) -> list[int]:
        """How many messages each of those has that stand beside the line."""
        return [len(lock.ids) for lock in self.locks() if lock.beside]

    def separate(self) -> None:
        """Call a script that needs each lock by itself, so that no lock is packed afterwards."""
        self.queue._manager.update_queue("q", label="with separate locks")

    @contextmanager
    def cramped(self) -> Iterator[None]:
        """Meanwhile the line has no room: what one call locks stands beside it, though it be one message."""
        others = []
        while line(self.raw, self.key("q")).room():
            self.queue.send(b"other", priority=7)
            others.append(self.queue.lock(0, lease=600))
        yield
        for lock in others:
            assert lock.body == b"other"
            lock.commit()

    def lock(self, room: bool) -> mqredis.LockedMessage:
        """One more, in the line or beside it."""
        with nullcontext() if room else self.cramped():
            lock = self.queue.lock(0)
            assert self.locks()[-1].beside is not room
        return lock

    def count(self, name: str) -> int:
        return count(self.raw, self.key("q"), name)

    def commit(self, locks: Held, fence: str = "") -> int:
        """In one call, by their own fence or another; how many of them are lost."""
        settlements = [("c", fence or lock.fence, lock._key) for lock in locks]
        return len(self.queue._run(settle.settle(self.queue._handle, settlements)).lost)

    def codes(self, **how: bool) -> list[str]:
        """Of what the doctor finds."""
        return [finding.code for finding in self.queue._manager.doctor(**how).findings]

    def bodies(self) -> bytes:
        return b"".join(message.body for message in self.queue.browse())


@pytest.fixture
def kit(backend: Backend, request: pytest.FixtureRequest) -> Iterator[Kit]:
    how = getattr(request, "param", "together")
    with mqredis.connect(backend.client(), settings=mqredis.Settings(allow_volatile=True)) as qm:
        qm.create_queue("q")
        with qm.open("q") as queue:
            queue.send(b"0")  # a session's first call goes the long way
            queue.receive(0)
            queue.send_many(
                [mqredis.Outgoing(body=b"%d" % n, correlation_id=str(n % 2)) for n in range(1, 6)]
            )
            kit = Kit(queue, backend.client(), [])
            with kit.cramped() if how == "beside" else nullcontext():
                kit.held = queue.lock_many(3) if how == "together" else [queue.lock(0) for _ in range(3)]
            assert kit.packed() == ([3] if how == "together" else [1, 1, 1])
            assert kit.beside() == ([] if how == "apart" else kit.packed())
            assert [lock.body for lock in kit.held] == [b"1", b"2", b"3"]
            yield kit
            assert qm.doctor().healthy


EACH = pytest.mark.parametrize("kit", ["together", "apart", "beside"], indirect=True)
WHERE = pytest.mark.parametrize("room", [True, False], ids=["in the line", "beside it"])


def test_it_goes_as_it_came(kit: Kit) -> None:
    last = kit.queue.lock_many(3, settle=kit.held)
    assert ([lock.body for lock in last], kit.packed()) == ([b"4", b"5"], [2])
    assert kit.queue._manager.queue_info("q").messages == 2
    kit.separate()
    assert kit.packed() == []
    for lock in last:
        lock.commit()
    assert kit.queue._manager.queue_info("q").messages == 0


@pytest.mark.parametrize("bodies", [[b"22", b"333"], [b"22", b"33", b"44"]], ids=["differ", "equal"])
def test_the_size_is_told_once_if_all_have_it(kit: Kit, bodies: list[bytes]) -> None:
    kit.queue.lock_many(2, settle=kit.held)
    kit.queue.send_many(bodies)
    kit.queue.lock_many(3)
    found = kit.locks()[-1]
    sizes = [len(kit.raw.hget(kit.key("m"), lid)) for lid in found.ids]
    assert len(sizes) == len(bodies)
    assert found.total == sum(sizes)
    assert found.size == (sizes[0] if len(bodies) == 3 else 0)


def test_sends_and_single_readers_leave_it_as_it_is(kit: Kit) -> None:
    kit.queue.send(b"6", correlation_id="a")
    kit.queue.send_many([mqredis.Outgoing(body=b"7", correlation_id="b"), b"8"])
    assert kit.queue.receive(0).body == b"4"
    with kit.queue.lock(0) as lock:
        assert lock.body == b"5"
        assert (kit.packed(), kit.beside()) == ([3, 1], [3])
    second = kit.queue.lock_many(2)
    assert kit.packed() == [3, 2]
    kit.queue.lock_many(1, settle=kit.held)
    assert all(lock.settled for lock in kit.held)
    assert [lock.body for lock in second] == [b"6", b"7"]


def test_what_two_calls_locked_ends_with_the_next(kit: Kit) -> None:
    second = kit.queue.lock_many(2)
    kit.queue.send_many([b"6", b"7"])
    last = kit.queue.lock_many(2, settle=[*second, *kit.held])
    assert [lock.body for lock in last] == [b"6", b"7"]
    assert kit.queue._manager.queue_info("q").messages == 2


def _commit(kit: Kit) -> bytes:
    kit.held[1].commit()
    return b"45"


def _commit_some(kit: Kit) -> bytes:
    kit.queue.lock_many(1, settle=kit.held[1:])[0].abort()
    return b"45"


def _commit_backwards(kit: Kit) -> bytes:
    kit.queue.lock_many(1, settle=kit.held[::-1])[0].abort()
    return b"45"


def _abort(kit: Kit) -> bytes:
    kit.held[0].abort()
    return b"145"


def _reject(kit: Kit) -> bytes:
    kit.held[0].reject("no")
    return b"45"


def _extend(kit: Kit) -> bytes:
    kit.held[2].extend(60)
    return b"45"


def _purge(kit: Kit) -> bytes:
    kit.queue.purge()
    return b""


def _look(kit: Kit) -> bytes:
    with pytest.raises(mqredis.MessageNotFound):
        kit.queue.receive_by_lookup_id(kit.held[0].lookup_id)
    return b"45"


def _match(kit: Kit) -> bytes:
    assert kit.queue.receive(0, match=mqredis.Match(correlation_id="1")).body == b"5"
    return b"4"


def _move(kit: Kit) -> bytes:
    with kit.queue._manager.open("q;s") as other:
        kit.queue.move(kit.queue.peek(0).lookup_id, other)
    return b"5"


@EACH
@pytest.mark.parametrize(
    "act",
    [_commit, _commit_some, _commit_backwards, _abort, _reject, _extend, _purge, _look, _match, _move],
    ids=lambda act: act.__name__[1:],
)
def test_any_other_call_finds_the_locks_one_by_one(kit: Kit, act: Callable[[Kit], bytes]) -> None:
    left = act(kit)
    kit.separate()
    assert (kit.bodies(), kit.packed()) == (left, [])
    lost = []
    for lock in kit.held:
        try:
            if not lock.settled:
                lock.commit()
        except mqredis.LockLost:
            lost.append(lock.body)
    assert lost == []
    assert kit.queue._manager.queue_info("q").messages == len(left)


@EACH
def test_closing_gives_them_back(kit: Kit) -> None:
    kit.queue.close()
    with kit.queue._manager.open("q") as queue:
        assert [message.body for message in queue.receive_many(9, 0)] == [b"1", b"2", b"3", b"4", b"5"]


@EACH
@pytest.mark.parametrize(
    "fence, named, lost",
    [("", 3, 0), ("1", 3, 3), ("", 2, 0), ("", 4, 1)],
    ids=["all", "of somebody else", "some", "one twice"],
)
def test_one_call_ends_them(kit: Kit, fence: str, named: int, lost: int) -> None:
    locks = [*kit.held, kit.held[0]][:named]
    assert (kit.commit(locks, fence), kit.packed()) == (lost, [])
    left = 5 if fence else 5 - min(named, 3)
    assert kit.queue._manager.queue_info("q").messages == left
    assert kit.commit(locks, fence) == named


@pytest.mark.parametrize("kit", ["apart", "beside"], indirect=True)
def test_a_commit_of_one_leaves_the_others_as_they_are(kit: Kit) -> None:
    one, _, three = kit.locks()
    kit.held[1].commit()
    assert kit.locks() == [one, three]
    kit.held[2].commit()
    kit.held[0].commit()
    assert (kit.locks(), kit.count("marks")) == ([], 1)
    assert not kit.raw.exists(kit.key("a")[:-1] + "l", kit.key("a")[:-1] + "s")


@pytest.mark.parametrize("kit", ["apart", "beside"], indirect=True)
def test_a_lock_takes_the_place_of_one_before_it(kit: Kit) -> None:
    one, _, three = kit.locks()
    (last,) = kit.queue.lock_many(1, 0, settle=[kit.held[1]])
    assert kit.locks()[:2] == [one, three]
    assert (kit.packed(), kit.locks()[2].beside) == ([1, 1, 1], False)
    last.abort()


def test_a_text_that_no_line_names_is_nobodys(kit: Kit) -> None:
    """The queue after the doctor has given the messages back."""
    texts = lock_texts(kit.raw, kit.key("q"))
    assert texts
    kit.held[0].abort()
    with kit.queue._manager.open("q") as other, other.lock(0) as lock:
        assert lock.body == b"1"
        kit.raw.hset(meta_of(kit.key("q")), mapping=texts)
        kit.queue.lock_many(1, settle=kit.held)
        lock.extend()
        kit.queue.send_many([b"6", b"7"])
    assert kit.codes(repair=True) == ["queue.locks"]


@WHERE
def test_one_text_that_no_line_names_is_nobodys(kit: Kit, room: bool) -> None:
    """Neither a commit nor the next lock with the old fence ends the lock of another reader."""
    lock = kit.lock(room)
    packed = kit.locks()[-1]
    lock.abort()
    with kit.queue._manager.open("q") as other, other.lock(0) as again:
        assert again.body == b"4"
        kit.raw.hset(meta_of(kit.key("q")), packed.field, packed.text)
        assert kit.commit([lock]) == 1
        lock._settled = False
        (last,) = kit.queue.lock_many(1, 0, settle=[lock])
        assert (last.body, lock.settled) == (b"5", False)
        again.extend()
        last.commit()
    assert kit.queue._manager.queue_info("q").messages == 3
    assert kit.codes(repair=True) == ["queue.locks"]


@pytest.mark.parametrize("count", [1, 2])
def test_who_ends_one_of_several_with_the_next_counts_what_is_left(kit: Kit, count: int) -> None:
    last = kit.queue.lock_many(count, 0, settle=[kit.held[0]])
    assert kit.packed() == [count]
    assert kit.beside() == [2] * (count - 1)
    assert kit.count("marks") == 4 * (count - 1) + 1, "and special messages came"
    assert kit.commit(last) == 0
    assert (kit.packed(), kit.count("marks")) == ([], 1)
    for lock in kit.held[1:]:
        lock.commit()


@pytest.mark.parametrize("size", [1, 2])
def test_there_are_only_so_many_texts(kit: Kit, size: int) -> None:
    """Who opens the queue must not have to unpack any number of them. Single ones fill the line before any is one."""
    kit.queue.lock_many(2)
    kit.queue.send_many([b"x"] * 150)
    batches = [kit.queue.lock_many(size) for _ in range(60)]
    entries = line(kit.raw, kit.key("q")).locks
    single = [at for at, entry in enumerate(entries) if b"," in entry]
    assert sorted(kit.beside()) == sorted([3, 2] + [size] * (MOST - 2))
    assert kit.raw.zcard(kit.key("l")) == (30 - len(single)) * size, "each by itself"
    if size == 1:
        lengths = [len(entry) + 1 for entry in entries]
        assert single == [*range(2, 2 + len(single))]
        assert sum(lengths[: single[-1]]) < ROOM <= sum(lengths[: single[-1] + 1])
    else:
        assert not single
    text = len(single) + 5
    for at in [0, text, -1] * 3:  # one goes and one comes, whether it was in the line, a text or neither
        batches[at] = kit.queue.lock_many(size, settle=batches[at])
        assert len(kit.beside()) == MOST
        assert len(kit.packed()) == MOST + max(0, len(single) - 1), "the line is too long for another"
    for batch in batches:
        assert kit.commit(batch) == 0
    assert sorted(kit.packed()) == [2, 3]


def test_one_lock_stands_in_the_line_as_soon_as_that_has_room(kit: Kit) -> None:
    with kit.cramped():
        lock = kit.queue.lock(0)
        assert kit.locks()[-1].beside
    (last,) = kit.queue.lock_many(1, 0, settle=[lock])
    assert (kit.packed(), kit.beside()) == ([3, 1], [3])
    last.commit()


def test_one_that_is_left_is_packed_as_well(kit: Kit) -> None:
    kit.queue.receive(0)
    (last,) = kit.queue.lock_many(2)
    assert (last.body, kit.packed()) == (b"5", [3, 1])
    assert kit.beside() == [3], "one message fits into the header"


@WHERE
def test_a_lock_that_was_lost_is_not_ended_by_the_next(kit: Kit, room: bool) -> None:
    """Another reader has locked the message by now: the text of the old fence is gone."""
    lock = kit.lock(room)
    kit.queue._run(settle.settle(kit.queue._handle, [("a", lock.fence, lock._key)]))
    with kit.queue._manager.open("q") as other:
        again = other.lock(0)
        assert (again.body, kit.packed()) == (b"4", [])
        (last,) = kit.queue.lock_many(1, 0, settle=[lock])
        assert (last.body, lock.settled) == (b"5", False)
        with pytest.raises(mqredis.LockLost):
            lock.commit()
        again.commit()
        last.commit()
    assert kit.queue._manager.queue_info("q").messages == 3


@WHERE
def test_whose_text_names_another_ends_nothing(kit: Kit, room: bool) -> None:
    """A fence with the id of a message that was locked under another one."""
    one, two = kit.lock(room), kit.lock(room)
    assert kit.commit([two], one.fence) == 1
    assert kit.commit([one, two]) == 0


@EACH
def test_a_lease_that_is_over_gives_them_back(kit: Kit) -> None:
    """Packed locks set the queue's next timer, as any lock does; the next call serves it."""
    key, locks = kit.key("q"), kit.locks()
    assert kit.count("due") == min(int(lock.deadline) for lock in locks)
    over, changed = [replace(lock, deadline=b"1000") for lock in locks], line(kit.raw, key)
    changed.locks = [lock.entry for lock in over]
    set_line(kit.raw, key, changed)
    for lock in over:
        if lock.beside:
            kit.raw.hset(meta_of(key), lock.field, lock.text)
    assert kit.locks() == over
    set_count(kit.raw, key, "due", 1000)
    assert [message.body for message in kit.queue.receive_many(9, 0)] == [b"1", b"2", b"3", b"4", b"5"]
    with pytest.raises(mqredis.LockLost):
        kit.held[0].commit()
