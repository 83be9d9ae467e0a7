"""Published cases for IBM MQ D2, M9, M15, O10, O11, O13, O14: order, poison messages, reports and restarts."""

from __future__ import annotations

import pytest

import mqredis
from mqredis import (
    DEAD_LETTER,
    Access,
    Acknowledge,
    InvalidArgument,
    IoTimeout,
    Match,
    MessageClass,
    Outgoing,
    RetryPolicy,
    Settings,
)
from tests.matching.kit import bodies, drain
from tests.support.facade import Pending

ibm = pytest.mark.ibm
RECEIVED = {"acknowledge": Acknowledge.POSITIVE_RECEIVE, "administration_queue": "reports"}


@ibm("D2")
def test_transactional_queue_ignores_priorities(broker):
    mixed = [(b"A", 0), (b"B", 7), (b"C", 5), (b"D", 7)]
    t = broker.queue("t", transactional=True)
    with broker.qm.transaction() as tx:
        t.send_many([Outgoing(body=body, priority=priority) for body, priority in mixed], transaction=tx)
    assert [(m.body, m.priority) for m in t.browse()] == mixed


@ibm("M9")
@pytest.mark.parametrize("final", ["dead_letter", "drop"])
def test_message_is_dead_lettered_or_dropped_after_its_last_attempt(broker, final):
    q = broker.queue(retry=RetryPolicy(immediate=0, final=final))
    q.send("A")
    q.lock(0).abort()
    assert drain(q) == []
    if final == "dead_letter":
        assert bodies(broker.qm.open(DEAD_LETTER).browse()) == ["A"]
    else:
        assert broker.qm.info().messages == 0


@ibm("O10", "O11")
def test_receive_acknowledgement_is_sent_at_commit(broker):
    broker.queue("reports")
    t, reports = broker.queue("t", transactional=True), broker.qm.open("reports")
    with broker.qm.transaction() as tx:
        sent = t.send("A", transaction=tx, correlation_id="mine", **RECEIVED)
    assert bodies(t.browse()) == ["A"]
    for outcome in ("abort", "commit"):
        tx = broker.qm.transaction()
        t.receive(0, transaction=tx)
        assert drain(reports) == []
        getattr(tx, outcome)()
    report = reports.receive(0)
    assert report.message_class == MessageClass.ACK_RECEIVE
    assert report.correlation_id == sent.message_id
    assert drain(reports) == []


PASSED = {
    "the default": (Acknowledge.NONE, None, "m1"),
    "pass-correl-id": (Acknowledge.PASS_CORRELATION_ID, None, "c1"),
    "pass-msg-id": (Acknowledge.PASS_MESSAGE_ID, "m1", "m1"),
    "both": (Acknowledge.PASS_MESSAGE_ID | Acknowledge.PASS_CORRELATION_ID, "m1", "c1"),
}


@ibm("O10")
@pytest.mark.parametrize("passed, message_id, correlation_id", PASSED.values(), ids=PASSED.keys())
def test_reports_and_replies_carry_the_ids_passed_to_them(broker, passed, message_id, correlation_id):
    broker.queue("reports")
    q, reports = broker.queue(), broker.qm.open("reports")
    asked = {"message_id": "m1", "correlation_id": "c1", "response_queue": "reports"}
    wanted = passed | Acknowledge.FULL_RECEIVE | Acknowledge.POSITIVE_ARRIVAL
    q.send("A", acknowledge=wanted, administration_queue="reports", **asked)
    broker.qm.reply(q.receive(0), "answer")
    q.send("B", acknowledge=wanted, administration_queue="reports", **asked)
    q.purge()
    found = list(reports.browse())
    kinds = [MessageClass.ACK_REACH_QUEUE, MessageClass.ACK_RECEIVE, MessageClass.NORMAL]
    assert [m.message_class for m in found] == [*kinds, kinds[0], MessageClass.NACK_QUEUE_PURGED]
    assert {m.correlation_id for m in found} == {correlation_id}
    if message_id is None:
        assert len({m.message_id for m in found} - {"m1"}) == 5
    else:
        assert {m.message_id for m in found} == {message_id}
    assert len(drain(reports, match=Match(correlation_id=correlation_id))) == 5


def test_reply_passing_a_missing_correlation_id_has_none(broker):
    broker.queue("reports")
    q, reports = broker.queue(), broker.qm.open("reports")
    q.send("A", acknowledge=Acknowledge.PASS_CORRELATION_ID, response_queue="reports")
    broker.qm.reply(q.receive(0), "answer")
    assert reports.receive(0).correlation_id is None


def test_request_passing_its_correlation_id_gets_the_reply(broker):
    q = broker.queue()
    asked = {"acknowledge": Acknowledge.PASS_CORRELATION_ID, "correlation_id": "c1"}
    waiting = Pending(lambda: broker.qm.request(q, "question", timeout=30, **asked))
    broker.qm.reply(q.receive(30), "answer")
    reply = waiting.result()
    assert (reply.body, reply.correlation_id) == (b"answer", "c1")


@ibm("O13")
def test_negative_receive_report_is_not_sent_for_a_received_message(broker):
    broker.queue("reports")
    q, reports = broker.queue(), broker.qm.open("reports")
    q.send("A", acknowledge=Acknowledge.NEGATIVE_RECEIVE, administration_queue="reports")
    q.receive(0)
    assert drain(reports) == []


def test_documented_differences_behave_as_their_reasons_say(broker):
    """The reasons in cases.py that describe other behaviour: D5, D6, F9, O4, O8, O14, P5."""
    q = broker.queue(quota_messages=1)
    with pytest.raises(InvalidArgument):
        q.send("A", priority=10)
    q.send("A", time_to_be_received=5)
    assert q.peek(0).priority == 3
    broker.qm.advance_clock(6)
    q.send("B", time_to_be_received=5, correlation_id="c1")  # the expired one does not fill the queue
    with broker.qm.open("q", Access.RECEIVE) as receiver, receiver.browser() as browser:
        assert browser.next().body == b"B"
    broker.qm.advance_clock(6)
    with pytest.raises(IoTimeout):
        q.receive(0, match=Match(correlation_id="none"))
    assert broker.qm.queue_info("q").messages == 0
    q.send("C", time_to_be_received=0)
    assert drain(q) == []
    q.send("D", acknowledge=Acknowledge.POSITIVE_RECEIVE)
    assert drain(q) == ["D"]
    assert broker.qm.info().messages == 0


@ibm("M15")
@pytest.mark.parametrize("how", ["kill", "stop"])
def test_abort_count_survives_a_restart(start_server, how):
    server = start_server(aof=True, options={"appendfsync": "always"})
    with mqredis.connect(server.url, manager="restart") as qm:
        qm.create_queue("t", transactional=True)
        t = qm.open("t")
        with qm.transaction() as tx:
            t.send("A", transaction=tx)
        for _ in range(2):
            tx = qm.transaction()
            t.receive(0, transaction=tx)
            tx.abort()
    server.restart(kill=how == "kill")
    with mqredis.connect(server.url, manager="restart", settings=Settings()) as qm, qm.open("t") as t:
        message = t.peek(0)
        assert (message.abort_count, message.delivery_count) == (2, 2)
        with qm.transaction() as tx:
            assert t.receive(0, transaction=tx).abort_count == 2
        with pytest.raises(IoTimeout):
            t.peek(0)


def test_every_combination_of_acknowledge_flags_is_read_as_sent(broker):
    q = broker.queue()
    wanted = [Acknowledge(bits | passed) for bits in range(16) for passed in (0, 64, 128, 192)]
    q.send_many([Outgoing(body=b"A", acknowledge=one) for one in wanted])
    assert [m.acknowledge for m in q.browse()] == wanted
