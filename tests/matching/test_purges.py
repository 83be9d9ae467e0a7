"""Purge with a match or selector: only matching messages are purged, in pages."""

from __future__ import annotations

from mqredis import Acknowledge, Match, MessageClass, Outgoing
from tests.matching.kit import bodies, drain, put


def test_purge_removes_only_matching_available_messages(broker):
    q = broker.queue()
    put(q, "A:c1", "B:c2", "C:c1", "D:c1")
    lock = q.lock(0)
    assert q.purge(match=Match(correlation_id="c1")) == 2
    assert q.purge(match=Match(correlation_id="c1")) == 0
    lock.abort()
    assert bodies(q.browse()) == ["A", "B"]
    assert q.purge(match=Match(correlation_id="c1"), selector="JMSCorrelationID = 'c2'") == 0
    assert q.purge() == 2


def test_purge_through_a_handle_with_a_selector_removes_what_the_handle_sees(broker):
    q = broker.queue()
    q.send_many([Outgoing(body=b"%d" % n, properties={"n": n}) for n in range(4)])
    assert broker.qm.open("q", selector="n > 1").purge() == 2
    assert bodies(q.browse()) == ["0", "1"]


def test_purge_by_selector_works_across_pages(broker):
    q = broker.queue()
    q.send_many([Outgoing(body=b"%d" % n, properties={"n": n}) for n in range(2500)])
    assert q.purge(selector="n >= 2400 OR n BETWEEN 100 AND 999") == 1000
    assert broker.qm.queue_info("q").messages == 1500
    assert q.purge(selector="n < 0") == 0


def test_purge_by_match_sends_purge_acknowledgements_and_no_journal_copies(broker):
    broker.queue("admin")
    q, admin = broker.queue(journaling=True), broker.qm.open("admin")
    asked = {"acknowledge": Acknowledge.FULL_RECEIVE, "administration_queue": "admin"}
    q.send("A", correlation_id="c1", **asked)
    q.send("B", correlation_id="c2", **asked)
    assert q.purge(match=Match(correlation_id="c1")) == 1
    assert [m.message_class for m in admin.browse()] == [MessageClass.NACK_QUEUE_PURGED]
    assert drain(broker.qm.open("q;journal")) == []
    assert broker.qm.statistics("q").purged == 1


def test_purge_by_selector_includes_busy_groups(broker):
    q = broker.queue(group_exclusive=True)
    q.send_many([Outgoing(body=b"%d" % n, group_id="g", properties={"n": n}) for n in range(4)])
    lock = q.lock(0)
    assert q.purge(selector="n > 1") == 2
    lock.commit()
    assert drain(q) == ["1"]
