"""``create_queue(exist_ok=True)`` accepts a queue that exists; what some queues do not have cannot be changed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import mqredis
from mqredis import DEAD_LETTER, InvalidArgument, QueueExists, QueueManager, Settings
from tests.support.backend import Backend


@pytest.fixture
def qm(backend: Backend) -> Iterator[QueueManager]:
    with mqredis.connect(backend.client(), settings=Settings(allow_volatile=True)) as qm:
        yield qm


def test_exist_ok_leaves_an_existing_queue_unchanged(qm: QueueManager) -> None:
    assert qm.create_queue("q", exist_ok=True, label="first").label == "first"
    with qm.open("q") as queue:
        queue.send(b"x")
    again = qm.create_queue("q", exist_ok=True, label="second")
    assert (again.label, again.messages) == ("first", 1)


def test_create_of_an_existing_queue_fails_with_advice(qm: QueueManager) -> None:
    qm.create_queue("q")
    with pytest.raises(QueueExists, match="queue 'q' exists already: open it, or create it with exist_ok"):
        qm.create_queue("q")


@pytest.mark.parametrize("fixed", ["transactional", "group_exclusive", "topic"])
def test_exist_ok_refuses_a_queue_with_other_fixed_properties(qm: QueueManager, fixed: str) -> None:
    qm.create_queue("q")
    with pytest.raises(QueueExists, match=f"exists already, and its property {fixed} is False"):
        qm.create_queue("q", exist_ok=True, **{fixed: True})  # type: ignore[arg-type]
    assert not getattr(qm.queue_info("q"), fixed)


def test_properties_that_a_system_queue_or_subqueue_lacks_are_refused(qm: QueueManager) -> None:
    with pytest.raises(
        InvalidArgument, match=r"max_message_bytes of a queue of the system cannot be changed, only "
    ):
        qm.update_queue(DEAD_LETTER, max_message_bytes=1, label="x")
    assert qm.update_queue(DEAD_LETTER, label="x").label == "x"
    qm.create_queue("q")
    with pytest.raises(InvalidArgument, match="update its queue"):
        qm.update_queue("q;sub", label="x")
