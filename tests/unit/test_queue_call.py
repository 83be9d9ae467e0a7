"""What a call on queues does if the script wants to be called again, and has done nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from mqredis.commands.common import Address
from mqredis.errors import QueueNotAvailable
from mqredis.keys import ManagerKeys
from mqredis.operations.queue_call import ROUNDS, QueueCall
from mqredis.status import Status
from mqredis.steps import Call

KEYS = ManagerKeys("m")


def run(answers: Iterator[tuple[int, list[bytes]]]) -> tuple[Any, list[int]]:
    """The result, and with how many keys each call was made."""
    address = Address(KEYS, "q")
    call: Call[str] = Call("receive", address.call, [], lambda status, payload: f"{status} {len(payload)}")
    work, asked = iter(QueueCall(address, call)), []
    step: Any = next(work)
    try:
        while True:
            asked.append(len(step.keys))
            step = work.send(next(answers))
    except StopIteration as end:
        return end.value, asked


def test_who_is_asked_for_no_queue_comes_again_as_often_as_it_takes() -> None:
    again: list[tuple[int, list[bytes]]] = [(int(Status.KEYS_CHANGED), [])] * (3 * ROUNDS)
    assert run(iter([*again, (0, [])])) == ("0 0", [10] * (3 * ROUNDS + 1))


def test_who_is_asked_for_more_queues_all_the_time_gives_up() -> None:
    with pytest.raises(QueueNotAvailable, match="too fast"):
        run(iter([(int(Status.KEYS_CHANGED), [b"r%d" % n]) for n in range(ROUNDS)]))
