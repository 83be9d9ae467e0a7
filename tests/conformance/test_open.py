"""Create Queue (MS-MQDMPR 3.1.7.1.3), Open Queue (3.1.7.1.5), Close Queue (3.1.7.1.6)."""

from __future__ import annotations

import pytest

from mqredis.errors import (
    AccessDenied,
    InvalidArgument,
    InvalidHandle,
    InvalidName,
    QueueExists,
    QueueNotFound,
    SharingViolation,
    UnsupportedAccess,
)
from mqredis.models import Access, Share
from tests.support.facade import drain, send

case = pytest.mark.case
NONE, DENY = Share.DENY_NONE, Share.DENY_RECEIVE


def opened(broker, first, second):
    """Open twice; the first handle belongs to another client."""
    broker.qm.create_queue("q")
    broker.client().open("q", *first)
    return broker.qm.open("q", *second)


@case("I3", "L")
def test_I3_deny_receive_against_deny_peek(broker):
    with pytest.raises(SharingViolation):
        opened(broker, (Access.RECEIVE, DENY), (Access.PEEK, DENY))


@case("I4", "L")
def test_I4_deny_receive_against_receive(broker):
    with pytest.raises(SharingViolation):
        opened(broker, (Access.RECEIVE, DENY), (Access.RECEIVE, NONE))


@case("I6", "L")
def test_I6_deny_receive_admits_peek(broker):
    assert opened(broker, (Access.RECEIVE, DENY), (Access.PEEK, NONE)).name == "q"


@case("I7", "L")
def test_I7_deny_peek_against_receive(broker):
    with pytest.raises(SharingViolation):
        opened(broker, (Access.PEEK, DENY), (Access.RECEIVE, NONE))


@case("I9", "L")
def test_I9_receive_against_deny_receive(broker):
    with pytest.raises(SharingViolation):
        opened(broker, (Access.RECEIVE, NONE), (Access.RECEIVE, DENY))


@case("I10", "L")
def test_I10_peek_admits_deny_receive(broker):
    assert opened(broker, (Access.PEEK, NONE), (Access.RECEIVE, DENY)).name == "q"


# The whole sharing table of 3.1.7.1.5 and of section 2.1: first handle, second handle, is it allowed?
SHARING = [
    ((Access.RECEIVE, DENY), (Access.RECEIVE, DENY), False),
    ((Access.RECEIVE, DENY), (Access.MOVE, NONE), True),
    ((Access.RECEIVE, DENY), (Access.SEND, NONE), True),
    ((Access.PEEK, DENY), (Access.RECEIVE, DENY), False),
    ((Access.PEEK, DENY), (Access.PEEK, NONE), True),
    ((Access.PEEK, DENY), (Access.SEND, NONE), True),
    ((Access.RECEIVE, NONE), (Access.PEEK, DENY), False),
    ((Access.RECEIVE, NONE), (Access.RECEIVE, NONE), True),
    ((Access.RECEIVE, NONE), (Access.PEEK, NONE), True),
    ((Access.PEEK, NONE), (Access.PEEK, DENY), True),
    ((Access.SEND, NONE), (Access.RECEIVE, DENY), True),
    ((Access.SEND, NONE), (Access.SEND, NONE), True),
    ((Access.ALL, NONE), (Access.ALL, NONE), True),
    ((Access.ALL, NONE), (Access.RECEIVE, DENY), False),
    ((Access.RECEIVE, DENY), (Access.ALL, NONE), False),
]


@pytest.mark.parametrize("first, second, allowed", SHARING)
def test_open_follows_the_sharing_table(broker, first, second, allowed):
    if allowed:
        assert opened(broker, first, second).name == "q"
    else:
        with pytest.raises(SharingViolation):
            opened(broker, first, second)


def test_close_of_the_first_handle_ends_the_sharing_violation(broker):
    broker.qm.create_queue("q")
    first = broker.client().open("q", Access.RECEIVE, DENY)
    with pytest.raises(SharingViolation):
        broker.qm.open("q", Access.RECEIVE)
    first.close()
    broker.qm.open("q", Access.RECEIVE)


@case("I12", "L")
@pytest.mark.parametrize("access", list(Access))
def test_I12_unknown_queue(broker, access):
    with pytest.raises(QueueNotFound):
        broker.qm.open("nowhere", access)


@case("I13", "L")
def test_I13_send_with_deny_receive(broker):
    broker.qm.create_queue("q")
    with pytest.raises(UnsupportedAccess):
        broker.qm.open("q", Access.SEND, DENY)


@case("I15", "P")
def test_I15_create_twice_and_create_a_subqueue(broker):
    broker.qm.create_queue("q", label="first")
    with pytest.raises(QueueExists):
        broker.qm.create_queue("q", label="second")
    assert broker.qm.queue_info("q").label == "first"
    with pytest.raises(InvalidName):
        broker.qm.create_queue("q;sub")


@case("I18", "L")
def test_I18_active_while_open(broker):
    broker.qm.create_queue("q")
    assert broker.qm.queue_info("q").active is False
    handle = broker.qm.open("q")
    other = broker.client().open("q", Access.PEEK)
    assert broker.qm.queue_info("q").active is True
    handle.close()
    assert broker.qm.queue_info("q").active is True
    other.close()
    assert broker.qm.queue_info("q").active is False


def test_only_handles_that_may_take_messages_are_counted_as_receivers(broker):
    broker.qm.create_queue("q")
    handles = [broker.qm.open("q", access) for access in Access]
    assert broker.qm.queue_info("q").receivers == 3
    for handle in handles:
        handle.close()
    assert broker.qm.queue_info("q").receivers == 0


@case("B10", "P")
def test_B10_peek_access_may_not_receive(broker):
    q = broker.queue()
    sent = send(q, "A")[0]
    viewer = broker.qm.open("q", Access.PEEK)
    calls = (
        lambda: viewer.receive(0),
        lambda: viewer.lock(0),
        lambda: viewer.receive_many(2, 0),
        lambda: viewer.receive_by_lookup_id(sent.lookup_id),
        lambda: viewer.lock_by_lookup_id(sent.lookup_id),
        lambda: viewer.cursor().receive(0),
        viewer.purge,
        lambda: viewer.send(b"B"),
    )
    for call in calls:
        with pytest.raises(AccessDenied):
            call()
    assert viewer.peek(0).body == b"A"
    assert viewer.peek_by_lookup_id(sent.lookup_id).body == b"A"
    assert drain(q) == [b"A"]


@case("B11", "P")
def test_B11_send_access_may_not_peek(broker):
    broker.qm.create_queue("q")
    sender = broker.qm.open("q", Access.SEND)
    sent = sender.send(b"A")
    calls = (
        lambda: sender.peek(0),
        lambda: sender.receive(0),
        lambda: list(sender.browse()),
        lambda: sender.peek_by_lookup_id(sent.lookup_id),
        lambda: sender.cursor().peek(0),
    )
    for call in calls:
        with pytest.raises(AccessDenied):
            call()
    assert broker.qm.queue_info("q").messages == 1


def test_send_with_receive_access_is_denied(broker):
    broker.qm.create_queue("q")
    with pytest.raises(AccessDenied):
        broker.qm.open("q", Access.RECEIVE).send(b"A")
    assert broker.qm.queue_info("q").messages == 0


def test_closed_handle_refuses_calls(broker):
    q = broker.queue()
    sent = send(q, "A")[0]
    q.close()
    calls = (
        lambda: q.send(b"B"),
        lambda: q.receive(0),
        lambda: q.peek(0),
        lambda: q.lock(0),
        lambda: q.peek_by_lookup_id(sent.lookup_id),
        lambda: list(q.browse()),
        q.cursor,
        q.purge,
    )
    for call in calls:
        with pytest.raises(InvalidHandle):
            call()
    q.close()  # closing twice is no error
    assert broker.qm.queue_info("q").messages == 1


def test_context_manager_closes_the_handle(broker):
    broker.qm.create_queue("q")
    with broker.qm.open("q") as q:
        send(q, "A")
    assert broker.qm.queue_info("q").active is False


PROPERTIES = {
    "label": "Bestellungen ☃",
    "transactional": True,
    "quota_bytes": 10_000,
    "quota_messages": 7,
    "max_message_bytes": 2048,
    "base_priority": -5,
    "type_id": "5a5ab6c3-0000-4000-8000-000000000000",
}


def test_created_queue_has_the_given_properties(broker):
    made = broker.qm.create_queue("q", **PROPERTIES)
    for info in (made, broker.qm.queue_info("q"), broker.qm.queues()[0]):
        assert {name: getattr(info, name) for name in PROPERTIES} == PROPERTIES
        assert (info.ready, info.delayed, info.locked, info.messages, info.bytes) == (0, 0, 0, 0, 0)


def test_update_queue_changes_only_the_given_properties(broker):
    broker.qm.create_queue("q", **PROPERTIES)
    broker.qm.advance_clock(5)
    changed = broker.qm.update_queue("q", label="", quota_bytes=None, quota_messages=0)
    assert (changed.label, changed.quota_bytes, changed.quota_messages) == ("", None, 0)
    assert changed.max_message_bytes == 2048
    assert changed.modified_at > changed.created_at
    assert broker.qm.queue_info("q") == changed


def test_update_of_transactional_is_refused(broker):
    broker.qm.create_queue("q")
    with pytest.raises(InvalidArgument):
        broker.qm.update_queue("q", transactional=True)
    assert broker.qm.queue_info("q").transactional is False


def test_calls_with_an_unknown_queue_name_are_refused(broker):
    for call in (
        broker.qm.queue_info,
        broker.qm.delete_queue,
        lambda name: broker.qm.update_queue(name, label="x"),
    ):
        with pytest.raises(QueueNotFound):
            call("nowhere")


def test_queues_lists_all_or_those_that_match_a_pattern(broker):
    for name in ("b", "a", "über/straße", "orders.eu", "orders.us"):
        broker.qm.create_queue(name)
    assert sorted(i.name for i in broker.qm.queues()) == sorted(
        ["b", "a", "über/straße", "orders.eu", "orders.us"]
    )
    assert sorted(i.name for i in broker.qm.queues("orders.*")) == ["orders.eu", "orders.us"]
    assert broker.qm.info().queues == 5


def test_similar_names_are_different_queues(broker):
    names = ["a", "A", "a:q", "a%3Aq", "a b", "ä", "a.", "a-", "q:a", "日本語"]
    handles = [broker.queue(name) for name in names]
    for name, handle in zip(names, handles, strict=True):
        handle.send(name.encode())
    for name, handle in zip(names, handles, strict=True):
        message = handle.receive(0)
        assert (message.queue, message.text) == (name, name)
