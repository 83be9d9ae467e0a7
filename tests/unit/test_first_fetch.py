"""A read that makes its first fetch itself makes the same calls, and has the same result, as the wait loop alone."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from mqredis.commands.address import Address
from mqredis.errors import MqError
from mqredis.keys import ManagerKeys
from mqredis.models import Access, Share
from mqredis.operations import receive
from mqredis.operations.context import Context
from mqredis.operations.earlier_locks import EarlierLocks
from mqredis.operations.open_queue import Handle
from mqredis.operations.unit_of_work import UnitOfWork
from mqredis.operations.wait import Reader, until_found
from mqredis.settings import Settings
from mqredis.status import Status
from mqredis.steps import Call, Listen, Operation, Procedure, Steps, Wait, Woken

CONTEXT = Context(ManagerKeys("first"), Settings())
RECORD = b"1795414131274h\3csc-1\0body"
IDS = [b"0400000000000001", b"0400000000000002"]
HELD = [("c", "15", "0400000000000000"), ("c", "15", "0300000000000000")]

Payload = list[Any]
Answer = tuple[int, Payload]


def found(*ids: bytes, lost: Payload | None = None) -> Answer:
    lost = lost or [0]
    messages = [b"".join(ids), b"1 0 0 0", *[RECORD] * len(ids)] if ids else []
    return 0, [b"16", b"1795414161337", 1795414131337, *lost, *messages]


NOTHING: Answer = int(Status.WAITING), [b"", -1, 0]
WAITING: Answer = int(Status.WAITING), [b"t1:1", 70, 0]
# A timer is due: there is more to serve.
DUE: Answer = int(Status.WAITING), [b"", 0, 0]
BEHIND: Answer = int(Status.CONTINUE), [b"", -1, 0, IDS[0]]
LOST = [2, b"0400000000000000", b"f"]
KEYS: Answer = int(Status.KEYS_CHANGED), [b"q;journal"]
REFUSED: Answer = int(Status.QUEUE_NOT_AVAILABLE), []

ANSWERS: list[list[Answer]] = [
    [found(IDS[0])],
    [found(*IDS)],
    [found(IDS[0], lost=LOST)],
    [found(), found(IDS[1])],
    [NOTHING],
    [NOTHING, WAITING, found(IDS[0])],
    [(int(Status.WAITING), [b"", -1, *LOST]), WAITING, found(IDS[0])],
    [DUE, DUE, found(IDS[1])],
    [BEHIND, found(IDS[1])],
    [KEYS, (0, []), found(IDS[0])],
    [KEYS, (0, []), NOTHING],
    [REFUSED],
    [(0, [b"16"])],
    [(0, None)],  # type: ignore[list-item]
]


def settling(held: list[tuple[str, str, str]]) -> EarlierLocks:
    return EarlierLocks([fence for _, fence, _ in held], [key for _, _, key in held])


def handle(waited: bool) -> Handle:
    queue_handle = Handle(
        CONTEXT, Address(CONTEXT.keys, "q", "1"), "1", Access.ALL, Share.DENY_NONE, "", 10_000
    )
    queue_handle.waited = waited
    queue_handle.locks = {key: fence for _, fence, key in HELD}
    return queue_handle


def run(operation: Operation[Any], answers: list[Answer]) -> list[Any]:
    """Return every step and the result. A read without further answers finds nothing until it times out."""
    log: list[Any] = []
    left, steps = iter(answers), iter(operation)
    now = itertools.count(1.0)
    CONTEXT.clock = lambda: next(now)
    answer: Any = None
    try:
        while True:
            step: Any = steps.send(answer)
            if type(step) is Call:
                log.append((step.script, step.keys.keys, [*step.args], step.changes))
                answer = (0, []) if step.script == "stop_waiting" else next(left, NOTHING)
            else:
                log.append(type(step))
                answer = "k" if type(step) is Listen else Woken.NOTIFIED
                assert type(step) in (Listen, Wait)
    except StopIteration as stop:
        found = stop.value
        if type(found) is receive.Locks:
            found = found.messages, found.keys, found.fence, found.until
        log.append(found)
    except MqError as error:
        log.append((type(error), str(error)))
    return log


def loop_receive(handle: Handle, timeout: Any, unit: UnitOfWork | None) -> Steps[Any]:
    """The reference: the loop makes all fetches."""
    fetch = partial(receive.fetch, handle=handle, mode="tx" if unit else "take", unit=unit)
    answer = yield from until_found(Reader(handle, fetch, steady=unit is None), "D", timeout)
    if unit:
        unit.touched(answer.fence, handle)
    return CONTEXT.messages("q", answer.messages, taken=unit is None)


def loop_lock(handle: Handle, timeout: Any, earlier: EarlierLocks, count: int) -> Steps[Any]:
    fetch = partial(
        receive.fetch, handle=handle, mode="lock", count=count, lease=CONTEXT.lease, earlier=earlier
    )
    reader = Reader(handle, fetch, steady=True, lease=CONTEXT.lease, locks=True)
    return receive.record_locks(handle, (yield from until_found(reader, "D", timeout)), CONTEXT.lease)


def assert_same(make: Callable[[bool], tuple[Operation[Any], list[Any]]], answers: list[Answer]) -> None:
    """Assert that assert_same variants make the same steps and leave the same state."""
    logs = []
    for optimised in (True, False):
        operation, state = make(optimised)
        logs.append((run(operation, answers), state))
    assert logs[0] == logs[1]


@pytest.mark.parametrize("answers", ANSWERS)
@pytest.mark.parametrize("timeout", [0, -1.0, 2.5, 9])
@pytest.mark.parametrize("waited", [False, True])
@pytest.mark.parametrize("settles", [0, 1, 2])
@pytest.mark.parametrize("count", [1, 2])
def test_first_lock_call_equals_that_of_the_wait_loop(
    answers: list[Answer], timeout: float, waited: bool, settles: int, count: int
) -> None:
    def make(optimised: bool) -> tuple[Operation[Any], list[Any]]:
        queue_handle, earlier = handle(waited), settling(HELD[:settles])
        if optimised:
            return receive.Lock(queue_handle, count, timeout, None, None, earlier), [
                queue_handle.locks,
                earlier,
            ]
        return Procedure(loop_lock(queue_handle, timeout, earlier, count)), [queue_handle.locks, earlier]

    assert_same(make, answers)


@pytest.mark.parametrize("answers", ANSWERS)
@pytest.mark.parametrize("timeout", [0, -1.0, 2.5, 9])
@pytest.mark.parametrize("waited", [False, True])
@pytest.mark.parametrize("transaction", [False, True])
def test_first_receive_call_equals_that_of_the_wait_loop(
    answers: list[Answer], timeout: float, waited: bool, transaction: bool
) -> None:
    def make(optimised: bool) -> tuple[Operation[Any], list[Any]]:
        queue_handle, unit = handle(waited), UnitOfWork(CONTEXT, "t1", 1000) if transaction else None
        state = [unit and unit.paths, queue_handle.locks]
        if optimised:
            return receive.Receive(queue_handle, 1, timeout, unit), state
        return Procedure(loop_receive(queue_handle, timeout, unit)), state

    assert_same(make, answers)


@pytest.mark.parametrize("waited", [False, True])
@pytest.mark.parametrize("timeout, tag", [("1", None), (True, None), (float("nan"), None), (0, ""), (0, 7)])
def test_invalid_arguments_are_refused_before_the_first_call(timeout: Any, tag: Any, waited: bool) -> None:
    taking = partial(receive.fetch, handle=handle(waited), mode="take")
    for operation in (
        receive.Receive(handle(waited), 1, timeout, None, tag),
        receive.Lock(handle(waited), 1, timeout, None, tag),
        Procedure(until_found(Reader(handle(waited), taking), "D", timeout, tag)),
    ):
        [(kind, _)] = run(operation, [])
        assert kind.__name__ == "InvalidArgument"
