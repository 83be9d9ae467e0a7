"""Enqueue Message (MS-MQDMPR 3.1.7.1.9) and the lookup identifier."""

from __future__ import annotations

from typing import Any

import pytest

from mqredis.errors import (
    IoTimeout,
    ManagerQuotaExceeded,
    MessageTimedOut,
    MessageTooLarge,
    QueueQuotaExceeded,
    TransactionUsage,
)
from mqredis.models import Outgoing
from tests.support.facade import bodies, drain, send, send_in

case = pytest.mark.case
SEQUENCE = (1 << 56) - 1


@case("A1", "F1")
def test_A1_first_lookup_id(broker):
    sent = broker.queue().send(b"A", priority=3)
    assert sent.lookup_id == 0x0400000000000001


@case("A2", "F1")
def test_A2_priority_order(broker):
    q = broker.queue()
    for body, priority in ((b"A", 0), (b"B", 7), (b"C", 3), (b"D", 7)):
        q.send(body, priority=priority)
    assert drain(q) == [b"B", b"D", b"C", b"A"]


@case("A4", "L")
def test_A4_one_counter_per_manager(broker):
    q1, q2 = broker.queue("q1"), broker.queue("q2")
    ids = [q1.send(b"A").lookup_id, q2.send(b"B").lookup_id, q1.send(b"C").lookup_id]
    assert [i & SEQUENCE for i in ids] == [1, 2, 3]


@case("A5", "L")
def test_A5_priority_is_ignored_in_transactions(broker):
    t = broker.transactional()
    ids = []
    for body, priority in ((b"A", 7), (b"B", 0), (b"C", 3)):
        with broker.qm.transaction() as tx:
            ids.append(t.send(body, priority=priority, transaction=tx).lookup_id)
    assert drain(t) == [b"A", b"B", b"C"]
    assert len({i >> 56 for i in ids}) == 1


@case("A7", "L")
def test_A7_ids_are_never_used_again(broker):
    q = broker.queue()
    first = q.send(b"A").lookup_id
    q.receive(0)
    assert q.send(b"B").lookup_id > first


@case("A8", "L")
def test_A8_a_refusal_uses_no_id(broker):
    q, full = broker.queue(), broker.queue("full", quota_messages=0)
    first = q.send(b"A").lookup_id
    with pytest.raises(QueueQuotaExceeded):
        full.send(b"X")
    assert q.send(b"B").lookup_id & SEQUENCE == (first & SEQUENCE) + 1


@case("A10", "L")
def test_A10_place_is_that_of_the_send(broker):
    t = broker.transactional()
    x1, x2 = broker.qm.transaction(), broker.qm.transaction()
    t.send(b"A", transaction=x1)
    t.send(b"B", transaction=x2)
    x2.commit()
    assert t.peek(0).body == b"B"
    x1.commit()
    assert t.peek(0).body == b"A"


@case("A11", "L")
def test_A11_send_order_not_commit_order(broker):
    t = broker.transactional()
    x1, x2 = broker.qm.transaction(), broker.qm.transaction()
    t.send(b"A", transaction=x1)
    t.send(b"B", transaction=x2)
    t.send(b"C", transaction=x1)
    x2.commit()
    x1.commit()
    assert drain(t) == [b"A", b"B", b"C"]


@case("A14", "F")
def test_A14_ids_keep_all_64_bits(broker):
    q = broker.queue()
    ids = [q.send(b"", priority=p).lookup_id for p in (7, 3, 0)]
    assert ids == [0x0000000000000001, 0x0400000000000002, 0x0700000000000003]
    assert [m.lookup_id for m in q.browse()] == ids


@case("K8", "F26")
def test_K8_time_to_reach_queue_has_passed(broker):
    q = broker.queue()
    with pytest.raises(MessageTimedOut) as caught:
        q.send(b"A", sent_seconds_ago=10, time_to_reach_queue=5)
    assert caught.value.enqueue_status == 3
    assert broker.qm.queue_info("q").messages == 0
    q.send(b"B", sent_seconds_ago=4, time_to_reach_queue=5)
    assert drain(q) == [b"B"]


@case("H23", "P")
def test_H23_transactional_message_to_a_plain_queue(broker):
    q = broker.queue()
    with broker.qm.transaction() as tx, pytest.raises(TransactionUsage):
        q.send(b"A", transaction=tx)
    assert broker.qm.queue_info("q").messages == 0


def test_send_without_transaction_to_a_transactional_queue_is_refused(broker):
    t = broker.transactional()
    with pytest.raises(TransactionUsage):
        t.send(b"A")
    assert broker.qm.queue_info("t").messages == 0


@case("H25", "P")
def test_H25_single_message_transaction(broker):
    t = broker.transactional()
    send_in(broker.qm, t, "A")
    assert t.receive(0).body == b"A"


def test_timed_out_message_is_refused_before_the_quotas_are_checked(broker):
    q = broker.queue(quota_messages=0)
    with pytest.raises(MessageTimedOut):
        q.send(b"A", sent_seconds_ago=2, time_to_reach_queue=1)


def test_manager_quota_is_checked_before_the_queue_quota(broker):
    q = broker.queue(quota_messages=0)
    broker.qm.throttle(True)
    with pytest.raises(ManagerQuotaExceeded) as caught:
        q.send(b"A")
    assert caught.value.enqueue_status == 2
    broker.qm.throttle(False)
    with pytest.raises(QueueQuotaExceeded) as refused:
        q.send(b"A")
    assert refused.value.enqueue_status == 1


def test_message_over_the_size_limit_is_refused(broker):
    q = broker.queue(max_message_bytes=8192)
    with pytest.raises(MessageTooLarge):
        q.send(b"x" * 8193)
    assert broker.qm.queue_info("q").messages == 0
    q.send(b"x" * 5000)
    assert q.receive(0).body == b"x" * 5000


@pytest.mark.parametrize(
    "fields", [{}, {"correlation_id": "c"}, {"time_to_be_received": 60.0}], ids=["plain", "named", "special"]
)
@pytest.mark.parametrize("size", [100, 20_000])
def test_message_of_exactly_the_size_limit_is_accepted(broker, size, fields):
    q = broker.queue()
    q.send(b"x" * size, **fields)
    broker.qm.update_queue("q", max_message_bytes=broker.qm.queue_info("q").bytes)
    q.send(b"y" * size, **fields)
    with pytest.raises(MessageTooLarge):
        q.send(b"z" * (size + 1), **fields)
    assert bodies(q.browse()) == [b"x" * size, b"y" * size]


LARGE: dict[str, Any] = {
    "short": lambda q, tx: q.send(b"x" * 500, transaction=tx),
    "large": lambda q, tx: q.send(b"x" * 5000, transaction=tx),
    "with-more": lambda q, tx: q.send(b"x" * 500, label="x", transaction=tx),
    "an-outgoing": lambda q, tx: q.send(Outgoing(body=b"x" * 5000), transaction=tx),
    "many": lambda q, tx: q.send_many([Outgoing(body=b"x"), Outgoing(body=b"y" * 500)], transaction=tx),
    "an-iterator": lambda q, tx: q.send_many(iter([Outgoing(body=b"y" * 5000)]), transaction=tx),
    "a-group": lambda q, tx: q.send_group([Outgoing(body=b"x" * 500)], group_id="g", transaction=tx),
}


@pytest.mark.parametrize("send", LARGE.values(), ids=LARGE.keys())
@pytest.mark.parametrize("transactional", [False, True], ids=["plain", "transactional"])
def test_raised_size_limit_applies_to_open_handles(broker, send, transactional):
    q = broker.queue(max_message_bytes=100, transactional=transactional)
    tx = broker.qm.transaction() if transactional else None
    for bound in (100, 200):
        broker.qm.update_queue("q", max_message_bytes=bound)
        with pytest.raises(MessageTooLarge):
            send(q, tx)
    assert broker.qm.queue_info("q").messages == 0
    broker.client().update_queue("q", max_message_bytes=10_000)
    send(q, tx)
    with pytest.raises(MessageTooLarge):
        q.send(b"x" * 10_001, transaction=tx)
    if tx is not None:
        tx.commit()
    assert len(q.receive(0).body) > 0


def test_lowered_size_limit_applies_to_open_handles(broker):
    q = broker.queue(max_message_bytes=10_000)
    broker.qm.update_queue("q", max_message_bytes=100)
    with pytest.raises(MessageTooLarge):
        q.send(b"x" * 500)
    broker.qm.update_queue("q", max_message_bytes=1_000)
    q.send(b"x" * 500)


def test_message_sent_in_a_transaction_is_recoverable(broker):
    """MQMQ PROPID_M_DELIVERY: a message sent in a transaction is recoverable, even if the sender says otherwise."""
    t, q = broker.queue("t", transactional=True), broker.queue()
    express = Outgoing(body=b"B", recoverable=False)
    with broker.qm.transaction() as tx:
        t.send(b"A", transaction=tx, recoverable=False)
        t.send_many([express, express], transaction=tx)
        t.send_group([express], group_id="g", transaction=tx)
    assert [m.recoverable for m in t.browse()] == [True] * 4
    q.send(b"A", recoverable=False)
    q.send_many([express])
    assert [m.recoverable for m in q.browse()] == [False] * 2


@pytest.mark.parametrize(
    "body", [b"", b"\0", b"\0\1\2\3\4", b"\r\n", bytes(range(256)), b"x" * 4096, b"y" * 4097, b"z" * 70_000],
    ids=["empty", "nul", "separators", "crlf", "every-byte", "4096", "4097", "big"],
)  # fmt: skip
def test_received_body_equals_the_sent_body(broker, body):
    q = broker.queue()
    q.send(body)
    assert q.peek(0).body == body
    assert q.receive(0).body == body
    assert broker.qm.queue_info("q").bytes == 0


def test_received_properties_equal_the_sent_properties(broker):
    q = broker.queue()
    fields: dict[str, Any] = {
        "label": "Größe ☃ \x01\x02\x04",
        "content_type": "text/plain",
        "message_id": b"\x00\xff\x03",
        "correlation_id": "c-1\x00\x04",
        "group_id": "g",
        "sequence": 7,
        "offset": 3,
        "last_in_group": True,
        "segment": True,
        "app_tag": 0xFFFFFFFF,
        "body_type": 8209,
        "extension": b"\x00\x01\x02",
        "response_queue": "answers",
        "recoverable": False,
        "properties": {
            "text": "ünï\x00\x01\x02\x03\x04",
            "empty": "",
            "whole": -(2**62),
            "big": 2**53 + 1,
            "real": 0.1,
            "yes": True,
            "no": False,
            "none": None,
            "bytes": b"\x00\xfe",
            "näme\x02": 1,
        },
    }
    q.send(b"A", priority=6, **fields)
    message = q.receive(0)
    assert {name: getattr(message, name) for name in fields} == fields
    assert message.priority == 6
    kinds = {name: type(value) for name, value in message.properties.items()}
    assert kinds == {name: type(value) for name, value in fields["properties"].items()}


def test_send_accepts_an_outgoing_message(broker):
    q = broker.queue()
    q.send(Outgoing(body=b"A", label="one", priority=5))
    message = q.receive(0)
    assert (message.body, message.label, message.priority) == (b"A", "one", 5)


def test_every_message_has_a_unique_identifier(broker):
    q = broker.queue()
    sent = send(q, "AB")
    assert sent[0].message_id != sent[1].message_id
    assert [m.message_id for m in q.browse()] == [s.message_id for s in sent]
    assert [m.token for m in q.browse()] == [s.token for s in sent]


def test_send_many_numbers_messages_in_the_order_of_the_call(broker):
    q = broker.queue()
    sent = q.send_many(
        [Outgoing(body=b"A", priority=0), Outgoing(body=b"B", priority=7), Outgoing(body=b"C")]
    )
    assert [s.lookup_id & SEQUENCE for s in sent] == [1, 2, 3]
    assert bodies(q.browse()) == [b"B", b"C", b"A"]


def test_send_many_over_the_quota_stores_no_message(broker):
    q = broker.queue(quota_messages=2)
    with pytest.raises(QueueQuotaExceeded):
        q.send_many([Outgoing(body=b"A"), Outgoing(body=b"B"), Outgoing(body=b"C")])
    with pytest.raises(IoTimeout):
        q.peek(0)
    assert len(q.send_many([Outgoing(body=b"A"), Outgoing(body=b"B")])) == 2
