"""Misspelt names of options and fields are refused. mypy finds them, too: it reports a ``type: ignore`` in vain."""

from __future__ import annotations

import pytest

import mqredis
from mqredis import Message
from mqredis.errors import InvalidArgument
from mqredis.worker import Unit, Worker


def test_misspelt_field_of_a_schedule_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="lable"):
        Worker().schedule("hourly", 3600.0, "jobs", lable="x")  # type: ignore[call-arg]


def test_misspelt_field_of_what_a_handler_sends_is_refused(qm: mqredis.QueueManager, worker: Worker) -> None:
    qm.create_queue("q")

    @worker.consumer("q")
    def handle(message: Message, tx: Unit) -> None:
        tx.send("q", message.body, lable="x")  # type: ignore[call-arg]

    with qm.open("q") as queue:
        queue.send(b"x")
    with pytest.raises(InvalidArgument, match="lable"):
        worker.run(burst=True, manager=qm, errors="raise")
