"""A call on queues is repeated if the script replies that it needs other keys."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from mqredis.commands.address import MAX_BESIDE, Address
from mqredis.errors import QueueNotAvailable
from mqredis.keys import ManagerKeys
from mqredis.operations.queue_call import ROUNDS, QueueCall
from mqredis.status import Status
from mqredis.steps import Call

KEYS = ManagerKeys("m")


def run(answers: Iterator[tuple[int, list[bytes]]]) -> tuple[Any, list[int]]:
    """Return the result and the number of keys of each call."""
    address = Address(KEYS, "q")
    call: Call[str] = Call("receive", address.call, [], lambda status, payload: f"{status} {len(payload)}")
    work, key_counts = iter(QueueCall(address, call)), []
    step: Any = next(work)
    try:
        while True:
            key_counts.append(len(step.keys))
            step = work.send(next(answers))
    except StopIteration as end:
        return end.value, key_counts


def test_keys_changed_without_a_new_queue_is_retried_without_limit() -> None:
    retries: list[tuple[int, list[bytes]]] = [(int(Status.KEYS_CHANGED), [])] * (3 * ROUNDS)
    assert run(iter([*retries, (0, [])])) == ("0 0", [10] * (3 * ROUNDS + 1))


def test_a_call_that_needs_many_queues_in_turn_names_all_of_them_in_the_end() -> None:
    """Were those of the round before forgotten, each of the two groups would be asked for again and again."""
    groups = [[b"%c%d" % (letter, n) for n in range(MAX_BESIDE + 1)] for letter in b"ab"]
    asked = [(int(Status.KEYS_CHANGED), group) for group in groups]
    assert run(iter([*asked, (0, [])]))[1] == [2 + 8 * (1 + n * (MAX_BESIDE + 1)) for n in range(3)]


def test_ever_new_queues_raise_queue_not_available() -> None:
    with pytest.raises(QueueNotAvailable, match="too fast"):
        run(iter([(int(Status.KEYS_CHANGED), [b"r%d" % n]) for n in range(ROUNDS)]))
