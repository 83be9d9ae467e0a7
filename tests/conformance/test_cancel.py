"""Cancel Waiting Message Read Request (MS-MQDMPR 3.1.7.1.17), and closing under a wait (3.1.7.1.6)."""

from __future__ import annotations

import pytest

from mqredis.errors import InvalidHandle, OperationCancelled, QueueNotAvailable, WaiterNotFound
from tests.support.facade import drain, send

case = pytest.mark.case


@case("F10", "L")
def test_F10_cancel_by_tag(broker):
    q = broker.queue()
    waiting = broker.wait(lambda: q.receive(None, tag="seven"))
    q.cancel("seven")
    assert isinstance(waiting.error(), OperationCancelled)
    with pytest.raises(WaiterNotFound):
        q.cancel("seven")
    send(q, "A")
    assert drain(q) == [b"A"]


@case("F12", "L")
def test_F12_too_late_to_cancel(broker):
    q = broker.queue()
    waiting = broker.wait(lambda: q.receive(None, tag="seven"))
    send(q, "A")
    assert waiting.result().body == b"A"
    with pytest.raises(WaiterNotFound):
        q.cancel("seven")


def test_cancel_by_another_client_ends_the_wait(broker):
    q = broker.queue()
    waiting = broker.wait(lambda: q.receive(None, tag="seven"))
    broker.client().open("q").cancel("seven")
    assert isinstance(waiting.error(), OperationCancelled)


def test_cancel_ends_only_waits_with_the_tag(broker):
    q = broker.queue()
    first = broker.wait(lambda: q.receive(30, tag="one"))
    second = broker.wait(lambda: q.receive(30, tag="two"))
    third = broker.wait(lambda: q.receive(30))
    with pytest.raises(WaiterNotFound):
        q.cancel("three")
    q.cancel("one")
    assert isinstance(first.error(), OperationCancelled)
    broker.waiting(2)
    send(q, "AB")
    assert {second.result().body, third.result().body} == {b"A", b"B"}


def test_cancel_ends_a_waiting_lock(broker):
    q = broker.queue()
    waiting = broker.wait(lambda: q.lock(None, tag="seven"))
    q.cancel("seven")
    assert isinstance(waiting.error(), OperationCancelled)
    broker.waiting(0)


@case("F24", "L")
def test_F24_closing_a_cursor_ends_only_its_wait(broker):
    q = broker.queue()
    c = q.cursor()
    other = broker.wait(lambda: q.receive(30))
    mine = broker.wait(lambda: c.peek(None))
    c.close()
    assert isinstance(mine.error(), OperationCancelled)
    broker.waiting(1)
    send(q, "A")
    assert other.result().body == b"A"


@pytest.mark.parametrize("read", ["receive", "peek", "lock"])
def test_close_of_a_handle_ends_only_its_waits(broker, read):
    """D23: waits with and without a tag end."""
    q = broker.queue()
    still = broker.client().open("q")
    mine = broker.wait(lambda: getattr(q, read)(None))
    other = broker.wait(lambda: still.receive(30))
    q.close()
    assert isinstance(mine.error(), OperationCancelled)
    broker.waiting(1)
    send(still, "A")
    assert other.result().body == b"A"
    with pytest.raises(InvalidHandle):
        q.receive(0)


def test_close_of_a_client_ends_its_waits(broker):
    broker.queue()
    client = broker.client()
    q = client.open("q")
    waiting = broker.wait(lambda: q.receive(None))
    client.close()
    assert isinstance(waiting.error(), OperationCancelled)
    broker.waiting(0)


@pytest.mark.parametrize("read", ["receive", "peek", "lock"])
def test_cancel_with_a_hyphen_does_not_end_untagged_waits(broker, read):
    """A reader without a tag has "-" in the queue's list of readers."""
    q = broker.queue()
    untagged = broker.wait(lambda: getattr(q, read)(None))
    with pytest.raises(WaiterNotFound):
        q.cancel("-")
    send(q, "A")
    untagged.result()


def test_cancel_with_a_hyphen_ends_the_wait_with_that_tag(broker):
    q = broker.queue()
    untagged = broker.wait(lambda: q.receive(None))
    tagged = broker.wait(lambda: q.receive(None, tag="-"))
    q.cancel("-")
    assert isinstance(tagged.error(), OperationCancelled)
    send(q, "A")
    assert untagged.result().body == b"A"


def test_deletion_of_a_queue_ends_the_waits_of_its_readers_at_once(broker):
    q = broker.queue()
    patient = broker.client(recheck_seconds=60).open("q")  # it asks again later than this test waits
    waits = [broker.wait(lambda: patient.receive(None)), broker.wait(lambda: patient.peek(None))]
    broker.qm.delete_queue("q")
    assert [type(wait.error()) for wait in waits] == [QueueNotAvailable, QueueNotAvailable]
    with pytest.raises(QueueNotAvailable):
        q.peek(0)
