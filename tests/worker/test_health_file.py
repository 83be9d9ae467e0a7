"""A health file that cannot be written: at the start of a worker, and later."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

import mqredis
from mqredis.worker import Worker
from tests.support.until import until

WAIT = 60.0


def test_health_file_in_a_folder_that_does_not_exist_is_refused(
    qm: mqredis.QueueManager, tmp_path: Path
) -> None:
    worker = Worker(health_file=str(tmp_path / "none" / "alive"))
    worker.consumer("q", create={})(lambda _message: None)
    with pytest.raises(mqredis.InvalidArgument, match="its folder does not exist"):
        worker.run(manager=qm, signals=False)


def test_worker_whose_health_file_cannot_be_touched_any_more_goes_on(
    qm: mqredis.QueueManager,
    tmp_path: Path,
    started: Callable[[Worker], object],
    caplog: pytest.LogCaptureFixture,
) -> None:
    path = tmp_path / "folder" / "alive"
    path.parent.mkdir()
    worker = Worker(shutdown_seconds=5, health_file=str(path))
    seen = threading.Semaphore(0)

    @worker.consumer("q", create={})
    def handle(_message: mqredis.Message) -> None:
        seen.release()

    started(worker)
    until(path.exists)
    path.unlink()
    path.parent.rmdir()
    until(lambda: "the health file cannot be touched" in caplog.text)
    with qm.open("q") as queue:
        queue.send(b"x")
    assert seen.acquire(timeout=WAIT)
