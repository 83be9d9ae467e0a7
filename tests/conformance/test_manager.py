"""The queue manager as a whole: its counter, its clients, its clock."""

from __future__ import annotations

import pytest

from tests.support.facade import drain, send

case = pytest.mark.case


@case("N22", "L")
def test_N22_the_counter_survives_its_clients(broker):
    q = broker.queue()
    last = send(q, "AB")[1].lookup_id
    again = broker.client()
    broker.qm.close()
    broker.qm = again
    assert send(again.open("q"), "C")[0].lookup_id > last
    assert drain(again.open("q")) == [b"A", b"B", b"C"]


def test_clients_of_one_manager_share_queues_and_incarnation(broker):
    q = broker.queue()
    other = broker.client()
    send(q, "A")
    assert other.open("q").receive(0).body == b"A"
    assert other.info().name == broker.manager
    assert other.info().incarnation == broker.qm.info().incarnation


def test_info_counts_queues_messages_and_transactions(broker):
    q, t = broker.queue(), broker.transactional()
    send(q, "AB")
    tx = broker.qm.transaction()
    t.send(b"C", transaction=tx)
    info = broker.qm.info()
    assert (info.queues, info.messages, info.transactions) == (2, 3, 1)
    tx.commit()
    assert broker.qm.info().transactions == 0


def test_lease_lapses_only_when_the_test_clock_is_advanced(broker):
    q = broker.queue()
    send(q, "A")
    q.lock(0, lease=3600)
    broker.qm.advance_clock(1800)
    broker.qm.maintain()
    assert broker.qm.queue_info("q").locked == 1
    broker.qm.advance_clock(1801)
    broker.qm.maintain()
    assert broker.qm.queue_info("q").ready == 1
