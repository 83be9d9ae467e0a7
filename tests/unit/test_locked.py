"""A lock decodes its message at the first access, with no visible difference."""

from __future__ import annotations

import copy
import gc
import pickle
import threading
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from mqredis import codec
from mqredis.client.locked import LockedMessage
from mqredis.commands.address import Address
from mqredis.commands.read import Found
from mqredis.errors import InvalidArgument, InvariantBroken
from mqredis.keys import ManagerKeys
from mqredis.models import Access, Message, Share
from mqredis.operations.context import Context
from mqredis.operations.open_queue import Handle
from mqredis.operations.receive import record_locks
from mqredis.operations.settle import settle_locks
from mqredis.settings import Settings

CONTEXT = Context(ManagerKeys("m"), Settings(), incarnation="life")
CONTEXT.clock = lambda: 100.0
RAW = [
    (b"04000000000000a%x" % n, b"%d 0 0 0" % (n + 1), b"1795422666290h\x01a\x02i%d\x03csc-%d\0%d" % (n, n, n))
    for n in range(3)
]


class Queue:
    """The attributes of a queue object that a lock uses."""

    def __init__(self) -> None:
        self.handle = self._handle = Handle(
            CONTEXT, Address(CONTEXT.keys, "q", "1"), "1", Access.ALL, Share.DENY_NONE, "", 10_000
        )


def locked(raw: list[Any], queue: Any = None) -> list[LockedMessage]:
    queue = queue or Queue()
    found = Found(raw, "7", 1_000_500, 1_000_000)
    return LockedMessage._each(queue, record_locks(queue._handle, found, "500"))


@pytest.mark.parametrize("use", [pickle.dumps, copy.copy, copy.deepcopy])
def test_lock_cannot_be_pickled_or_copied(use: Callable[[object], object]) -> None:
    (lock,) = locked(RAW[:1])
    with pytest.raises(
        InvalidArgument, match="cannot be pickled or copied, since only its client can end the lock"
    ):
        use(lock)
    assert use(lock.message)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_fields_before_decoding_equal_those_of_the_message(count: int) -> None:
    for lock, raw in zip(locked(RAW[:count]), RAW, strict=False):
        expected = codec.decode("q", "life", *raw)
        before = lock.body, lock.lookup_id
        assert before == (expected.body, expected.lookup_id)
        assert "message" not in vars(lock)
        assert lock.message == expected
        assert lock.message is lock.message
        assert (lock.body, lock.lookup_id) == before
        assert (lock.fence, lock.expires_at, lock.settled) == ("7", 100.5, False)


def test_messages_decoded_together_equal_those_decoded_singly() -> None:
    queue: Any = Queue()
    locks = record_locks(queue._handle, Found(RAW, "7", 1_000_500, 1_000_000), "500")
    messages = locks.with_messages().messages
    assert messages == [codec.decode("q", "life", *raw) for raw in RAW]
    each = LockedMessage._each(queue, locks)
    assert all(lock.message is message for lock, message in zip(each, messages, strict=True))
    assert [(lock.body, lock.lookup_id) for lock in each] == [(m.body, m.lookup_id) for m in messages]


def test_damaged_message_raises_before_locks_are_returned() -> None:
    damaged = (RAW[1][0], RAW[1][1], b"no record")
    for raw in ([damaged], [RAW[0], damaged, RAW[2]]):
        queue: Any = Queue()
        with pytest.raises(InvariantBroken, match="04000000000000a1 of queue 'q' is damaged"):
            locked(raw, queue)
        assert [*queue._handle.locks] == [one[0].decode() for one in raw]  # so that they are released


def test_concurrent_threads_get_the_same_message_object() -> None:
    for _ in range(50):
        (lock,) = locked(RAW[:1])
        found: list[Message] = []
        barrier = threading.Barrier(4)

        def read_message(lock: LockedMessage = lock, found: list[Message] = found, b: Any = barrier) -> None:
            b.wait()
            found.append(lock.message)

        threads = [threading.Thread(target=read_message) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(found) == 4
        assert all(each is found[0] for each in found)


def test_lock_does_not_keep_others_in_memory() -> None:
    first, *others = locked(RAW)
    gone = [weakref.ref(lock) for lock in others]
    del others
    gc.collect()
    assert [lock() for lock in gone] == [None, None]
    # The raw data of the others is not kept either.
    assert (first._grant.found, first._grant.keys, first._grant.made) == ((), (), None)


def test_settlements_are_selected_by_queue() -> None:
    one, other = Queue(), Queue()
    mixed = [*locked(RAW[:2], one), *locked(RAW[2:], other)]
    for action, queue, raw in (("a", one, RAW[:2]), ("c", other, RAW[2:])):
        call: Any = next(iter(settle_locks(queue, action, mixed)))
        assert call.args[2:] == [action, "7", "".join(each[0].decode() for each in raw)]
