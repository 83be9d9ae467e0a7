"""The wait loop (fetch, sleep, fetch), run step by step: its calls, and the registrations it removes at its end."""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from mqredis.commands.address import Address
from mqredis.commands.read import Found
from mqredis.commands.waiting import Waiter
from mqredis.errors import (
    BrokerUnavailable,
    IoTimeout,
    MqError,
    OperationCancelled,
    OutcomeUnknown,
    QueueNotAvailable,
    TransactionSequence,
)
from mqredis.keys import KeySet, ManagerKeys
from mqredis.operations import pipelines
from mqredis.operations.wait import Reader, until_any, until_found
from mqredis.status import Status
from mqredis.steps import Call, Interrupted, Listen, Wait, Woken

KEYS = ManagerKeys("waits")
# Answer of a queue to its n-th registering fetch; n is 0 for a fetch that does not register.
Answer = Callable[[str, int], "Found | MqError"]


class Queues:
    """Queues whose fetches are answered by a function, with a log of the calls."""

    def __init__(self, answer: Answer, names: str = "ab") -> None:
        self.log: list[str] = []
        self._answer = answer
        self._fetches = dict.fromkeys(names, 0)
        self._now = 0.0
        self.readers = [Reader(self.handle(name), self.fetch(name)) for name in names]

    def handle(self, name: str) -> Any:
        address = Address(KEYS, name)
        context = SimpleNamespace(database=0, clock=lambda: self._now)
        return SimpleNamespace(path=name, address=address, topic=False, waited=False, context=context)

    def fetch(self, name: str) -> Callable[..., Call[Found]]:
        def fetch(waiter: Waiter | None, place: str = "") -> Call[Found]:
            self._fetches[name] += waiter is not None
            self.log.append(f"{name} {waiter.ticket if waiter else 'plain'}".rstrip())
            answer = self._answer(name, self._fetches[name])

            def parse(_: int, __: object) -> Found:
                if isinstance(answer, MqError):
                    raise answer
                return answer

            return Call("receive", KeySet((name,)), [], parse)

        return fetch

    def run(self, operation: Any, woken: Woken = Woken.NOTIFIED, clock: float = 0.0) -> Any:
        """Answer its steps; each sleep takes ``clock`` seconds."""
        self._now = 0.0
        answer: Any = None
        while True:
            try:
                step = operation.send(answer)
            except StopIteration as stop:
                return stop.value
            if isinstance(step, Call):
                if step.script == "stop_waiting":
                    self.log.append(f"leave {step.keys.keys[2].split(':')[-2]}")
                answer = (0, [])
            elif isinstance(step, Listen):
                answer = "k"
            else:
                assert isinstance(step, Wait)
                self.log.append("sleep")
                self._now += clock
                answer = woken


def nothing(_name: str, number: int) -> Found:
    return Found.nothing(f"t{number}:rest") if number else Found()


MESSAGE = Found(messages=[(b"1", b"", b"")])


@pytest.mark.parametrize(
    "error, left",
    [
        (TransactionSequence(), ["leave a", "leave b"]),
        (OperationCancelled(), ["leave a"]),
        (QueueNotAvailable(), ["leave a"]),
        (BrokerUnavailable(), []),
        (OutcomeUnknown(), []),
    ],
    ids=lambda value: type(value).__name__,
)
def test_error_of_a_fetch_removes_remaining_registrations(error: MqError, left: list[str]) -> None:
    queues = Queues(lambda name, number: error if (name, number) == ("b", 2) else nothing(name, number))
    with pytest.raises(type(error)):
        queues.run(until_any(queues.readers, None))
    assert queues.log == ["a plain", "b plain", "a", "b", "sleep", "a t1:rest", "b t1:rest", *left]


def test_error_in_the_wait_on_one_queue_removes_its_registration() -> None:
    queues = Queues(lambda name, number: TransactionSequence() if number == 2 else nothing(name, number), "a")
    reader = queues.readers[0]
    with pytest.raises(TransactionSequence):
        queues.run(until_found(reader, "D", None))
    assert queues.log == ["a plain", "a", "sleep", "a t1:rest", "leave a"]


def test_last_fetch_of_a_timed_out_wait_removes_its_registration() -> None:
    queues = Queues(nothing)
    with pytest.raises(IoTimeout, match="queues 'a', 'b' within 5"):
        queues.run(until_any(queues.readers, 5), clock=5.0)
    assert queues.log[4:] == ["sleep", "a t1:rest", "b t1:rest", "a leave:rest", "b leave:rest"]


def test_message_found_by_the_last_fetch_removes_the_other_registrations() -> None:
    queues = Queues(lambda name, number: MESSAGE if (name, number) == ("a", 3) else nothing(name, number))
    assert queues.run(until_any(queues.readers, 5), clock=5.0) == (0, MESSAGE)
    assert queues.log[-2:] == ["a leave:rest", "leave b"]


def test_reader_that_waited_before_registers_with_its_first_fetch() -> None:
    queues = Queues(lambda name, number: MESSAGE if number in (2, 3) else nothing(name, number), "a")
    reader = queues.readers[0]
    assert queues.run(until_found(reader, "D", None)) is MESSAGE
    assert reader.handle.waited
    assert queues.run(until_any([reader], None)) == (0, MESSAGE)
    assert queues.log == ["a plain", "a", "sleep", "a t1:rest", "a"]
    assert not reader.handle.waited


def test_cancelled_wait_removes_all_registrations() -> None:
    queues = Queues(nothing)
    with pytest.raises(OperationCancelled, match="was cancelled"):
        queues.run(until_any(queues.readers, None), Woken.CANCELLED)
    assert queues.log[-2:] == ["leave a", "leave b"]
    with pytest.raises(OperationCancelled, match="not begun"):
        queues.run(until_any(queues.readers, None, stop=lambda: True))
    assert queues.log[-2:] == ["leave a", "leave b"]


def pipeline_wait(names: str) -> Any:
    """The steps of the wait of a pipeline on these queues, which has begun to listen."""
    context: Any = SimpleNamespace(database=0, clock=lambda: 0.0)
    steps = iter(pipelines.wait(context, [(Address(KEYS, name), "") for name in names], 5))
    assert isinstance(next(steps), Listen)
    return steps


WAITING = (int(Status.WAITING), [b"t1", b"-1"])


def left(step: Any) -> str:
    """The queue whose registration this step removes."""
    assert step.script == "stop_waiting"
    return str(step.keys.keys[2].split(":")[-2])


def test_error_in_the_wait_of_a_pipeline_removes_its_registrations() -> None:
    steps = pipeline_wait("abc")
    for answer in ("k", WAITING, WAITING, WAITING, Woken.NOTIFIED, WAITING):
        steps.send(answer)
    gone: Any = (int(Status.QUEUE_NOT_AVAILABLE), [])
    assert [left(steps.send(gone)), left(steps.send((0, []))), left(steps.send((0, [])))] == ["a", "b", "c"]
    with pytest.raises(QueueNotAvailable):
        steps.send((0, []))


@pytest.mark.parametrize("answers", [["k"], ["k", WAITING]], ids=["in the call", "in the sleep"])
def test_interrupted_wait_of_a_pipeline_removes_its_registration(answers: list[Any]) -> None:
    steps = pipeline_wait("a")
    for answer in answers:
        steps.send(answer)
    step = steps.throw(CancelledError())
    if isinstance(step, Interrupted):
        step = steps.send("")
    assert left(step) == "a"
    with pytest.raises(CancelledError):
        steps.send((0, []))


def test_wait_of_a_pipeline_ends_when_its_client_is_closed() -> None:
    steps = pipeline_wait("ab")
    for answer in ("k", WAITING, WAITING):
        steps.send(answer)
    assert [left(steps.send(Woken.CANCELLED)), left(steps.send((0, [])))] == ["a", "b"]
    with pytest.raises(OperationCancelled, match="its client was closed"):
        steps.send((0, []))


def test_wait_of_a_pipeline_is_not_ended_again_at_a_server_that_does_not_answer() -> None:
    steps = pipeline_wait("a")
    steps.send("k")
    steps.send(WAITING)
    steps.send(Woken.NOTIFIED)
    with pytest.raises(BrokerUnavailable):
        steps.throw(BrokerUnavailable())
