from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import mqredis
from mqredis.steps import Operation
from mqredis.worker import Worker
from tests.support.backend import Backend


@pytest.fixture
def qm(backend: Backend) -> Iterator[mqredis.QueueManager]:
    settings = mqredis.Settings(allow_volatile=True, test_clock=True, recheck_seconds=0.5)
    with mqredis.connect(backend.client(), manager="w", settings=settings) as manager:
        yield manager


@pytest.fixture
def worker() -> Worker:
    return Worker(shutdown_seconds=5)


@pytest.fixture
def started(qm: mqredis.QueueManager) -> Iterator[Callable[[Worker], threading.Thread]]:
    """Return a function that runs a worker in a thread until the end of the test."""
    running: list[tuple[Worker, threading.Thread]] = []

    def start(worker: Worker) -> threading.Thread:
        thread = threading.Thread(target=lambda: worker.run(manager=qm, signals=False))
        thread.start()
        running.append((worker, thread))
        return thread

    yield start
    for worker, thread in running:
        with contextlib.suppress(Exception):
            worker.stop()
        thread.join(30)
        assert not thread.is_alive()


@pytest.fixture(params=[False, True], ids=["locks", "transactions"])
def transactional(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
def fail_operations(qm: mqredis.QueueManager) -> Any:
    """``fail_operations(chosen, *errors)``: the first operations that ``chosen`` accepts raise these errors; None
    lets the operation run."""
    original = qm.run

    def fail(chosen: Callable[[Operation[Any]], bool], *errors: Exception | None) -> None:
        left = list(errors)

        def run(operation: Operation[Any]) -> Any:
            if left and chosen(operation) and (error := left.pop(0)) is not None:
                raise error
            return original(operation)

        qm.run = run  # type: ignore[method-assign]

    yield fail
    qm.run = original  # type: ignore[method-assign]
