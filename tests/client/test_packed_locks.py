"""What one call has locked is one text in the store (lua/lib/packed_locks.lua), and nobody need know it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

import mqredis
from mqredis.keys import QUEUE_COUNTS
from mqredis.operations import settle
from tests.support.backend import Backend
from tests.support.counts import set_count

Held = list[mqredis.LockedMessage]


@dataclass
class Kit:
    """Five messages, of which the first three were locked, by one call or by one each."""

    queue: mqredis.Queue
    raw: Any
    held: Held

    def key(self, part: str) -> str:
        (key,) = self.raw.keys(f"mq:*:q:q:{part}")
        return str(key.decode())

    def texts(self) -> dict[bytes, bytes]:
        """The packed locks, by their fields."""
        fields = self.raw.hgetall(self.key("q"))
        return {name: text for name, text in fields.items() if name.startswith(b"lock:")}

    def packed(self) -> list[int]:
        """How many messages each packed lock has."""
        texts = sorted(self.texts().items(), key=lambda item: int(item[0][5:]))
        return [len(text.split(b" ")[4]) // 16 for _, text in texts]

    def count(self, name: str) -> int:
        return int(self.raw.hget(self.key("q"), "counts").split()[QUEUE_COUNTS.index(name)])

    def commit(self, locks: Held, fence: str = "") -> int:
        """In one call, by their own fence or another; how many of them are lost."""
        settlements = [("c", fence or lock.fence, lock._key) for lock in locks]
        return len(self.queue._run(settle.settle(self.queue._handle, settlements)).lost)

    def bodies(self) -> bytes:
        return b"".join(message.body for message in self.queue.browse())


@pytest.fixture
def kit(backend: Backend, request: pytest.FixtureRequest) -> Iterator[Kit]:
    apart = getattr(request, "param", "together") == "apart"
    with mqredis.connect(backend.client(), settings=mqredis.Settings(allow_volatile=True)) as qm:
        qm.create_queue("q")
        with qm.open("q") as queue:
            queue.send(b"0")  # a session's first call goes the long way
            queue.receive(0)
            queue.send_many(
                [mqredis.Outgoing(body=b"%d" % n, correlation_id=str(n % 2)) for n in range(1, 6)]
            )
            held = [queue.lock(0) for _ in range(3)] if apart else queue.lock_many(3)
            kit = Kit(queue, backend.client(), held)
            assert kit.packed() == ([1, 1, 1] if apart else [3])
            yield kit
            assert qm.doctor().healthy


BOTH = pytest.mark.parametrize("kit", ["together", "apart"], indirect=True)


def test_it_goes_as_it_came(kit: Kit) -> None:
    last = kit.queue.lock_many(3, settle=kit.held)
    assert ([lock.body for lock in last], kit.packed()) == ([b"4", b"5"], [2])
    assert kit.queue._manager.queue_info("q").messages == 2
    assert kit.packed() == []  # who looks at a queue sees its locks one by one
    for lock in last:
        lock.commit()
    assert kit.queue._manager.queue_info("q").messages == 0


@pytest.mark.parametrize("bodies", [[b"22", b"333"], [b"22", b"33", b"44"]], ids=["differ", "equal"])
def test_the_size_is_told_once_if_all_have_it(kit: Kit, bodies: list[bytes]) -> None:
    kit.queue.lock_many(2, settle=kit.held)
    kit.queue.send_many(bodies)
    kit.queue.lock_many(3)
    found = {int(name[5:]): text for name, text in kit.texts().items()}
    _, size, each, _, ids = found[max(found)].split(b" ")
    sizes = [len(kit.raw.hget(kit.key("m"), ids[at : at + 16])) for at in range(0, len(ids), 16)]
    assert int(size) == sum(sizes)
    assert int(each) == (sizes[0] if len(bodies) == 3 else 0)


def test_sends_and_single_readers_leave_it_as_it_is(kit: Kit) -> None:
    kit.queue.send(b"6", correlation_id="a")
    kit.queue.send_many([mqredis.Outgoing(body=b"7", correlation_id="b"), b"8"])
    assert kit.queue.receive(0).body == b"4"
    with kit.queue.lock(0) as lock:
        assert lock.body == b"5"
        assert kit.packed() == [3, 1]
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


@BOTH
@pytest.mark.parametrize(
    "act",
    [_commit, _commit_some, _commit_backwards, _abort, _reject, _extend, _purge, _look, _match, _move],
    ids=lambda act: act.__name__[1:],
)
def test_any_other_call_finds_the_locks_one_by_one(kit: Kit, act: Callable[[Kit], bytes]) -> None:
    left = act(kit)
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


@BOTH
def test_closing_gives_them_back(kit: Kit) -> None:
    kit.queue.close()
    with kit.queue._manager.open("q") as queue:
        assert [message.body for message in queue.receive_many(9, 0)] == [b"1", b"2", b"3", b"4", b"5"]


@BOTH
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


def test_a_text_that_the_queue_does_not_count_is_nobodys(kit: Kit) -> None:
    """As a client of before leaves it, whose doctor has given the messages back."""
    texts = kit.texts()
    kit.held[0].abort()
    with kit.queue._manager.open("q") as other, other.lock(0) as lock:
        assert lock.body == b"1"
        kit.raw.hset(kit.key("q"), mapping=texts)
        kit.queue.lock_many(1, settle=kit.held)
        lock.extend()
        kit.queue.send_many([b"6", b"7"])
    assert kit.queue._manager.doctor(repair=True).findings


def test_one_text_that_the_queue_does_not_count_is_nobodys(kit: Kit) -> None:
    """Neither a commit nor the next lock ends by it what is somebody else's by now."""
    lock = kit.queue.lock(0)
    texts = kit.texts()
    lock.abort()
    with kit.queue._manager.open("q") as other, other.lock(0) as again:
        assert again.body == b"4"
        kit.raw.hset(kit.key("q"), mapping=texts)
        assert kit.commit([lock]) == 1
        lock._settled = False
        (last,) = kit.queue.lock_many(1, 0, settle=[lock])
        assert (last.body, lock.settled) == (b"5", False)
        again.extend()
        last.commit()
    assert kit.queue._manager.queue_info("q").messages == 3
    assert kit.queue._manager.doctor(repair=True).findings


def test_who_ends_one_of_several_with_the_next_counts_what_is_left(kit: Kit) -> None:
    (last,) = kit.queue.lock_many(1, 0, settle=[kit.held[0]])
    assert kit.packed() == [1]
    assert kit.count("marks") == 2 * 1 + 1, "and special messages came"
    last.commit()
    assert (kit.packed(), kit.count("marks")) == ([], 1)
    for lock in kit.held[1:]:
        lock.commit()


@pytest.mark.parametrize("size", [1, 2])
def test_there_are_only_so_many_texts(kit: Kit, size: int) -> None:
    """Who opens the queue must not have to unpack any number of them."""
    kit.queue.lock_many(2)
    kit.queue.send_many([b"x"] * 90)
    batches = [kit.queue.lock_many(size) for _ in range(40)]
    assert sorted(kit.packed()) == sorted([3, 2] + [size] * 30)
    assert kit.raw.zcard(kit.key("l")) == 10 * size, "each by itself"
    for _ in range(3):  # one goes and one comes, whether it was a text or not
        for at in (0, 39):
            batches[at] = kit.queue.lock_many(1, settle=batches[at])
            assert len(kit.packed()) == 32
    for batch in batches:
        assert kit.commit(batch) == 0
    assert sorted(kit.packed()) == [2, 3]


def test_one_that_is_left_is_packed_as_well(kit: Kit) -> None:
    kit.queue.receive(0)
    (last,) = kit.queue.lock_many(2)
    assert (last.body, kit.packed()) == (b"5", [3, 1])


def test_a_lock_that_was_lost_is_not_ended_by_the_next(kit: Kit) -> None:
    """It is somebody else's by now: the text under the old fence is gone."""
    lock = kit.queue.lock(0)
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


def test_whose_text_names_another_ends_nothing(kit: Kit) -> None:
    """A fence with the id of a message that was locked under another one."""
    one, two = kit.queue.lock(0), kit.queue.lock(0)
    assert kit.commit([two], one.fence) == 1
    assert kit.commit([one, two]) == 0


@BOTH
def test_a_lease_that_is_over_gives_them_back(kit: Kit) -> None:
    """Whoever comes by then: it says when to look at it, as any lock."""
    key, dues = kit.key("q"), {}
    for name, text in kit.texts().items():
        dues[name] = text.split(b" ", 1)[0]
        kit.raw.hset(key, name, text.replace(dues[name], b"1000", 1))
    assert kit.raw.hget(key, "counts").split(b" ")[QUEUE_COUNTS.index("due")] == min(dues.values())
    set_count(kit.raw, key, "due", 1000)
    assert [message.body for message in kit.queue.receive_many(9, 0)] == [b"1", b"2", b"3", b"4", b"5"]
    with pytest.raises(mqredis.LockLost):
        kit.held[0].commit()
