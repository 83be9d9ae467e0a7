"""Request and reply, redrive, statistics."""

from __future__ import annotations

import time

import pytest

from mqredis import (
    DEAD_LETTER,
    Access,
    InvalidArgument,
    InvalidHandle,
    IoTimeout,
    Journal,
    Match,
    MessageNotFound,
    QueueNotFound,
    RetryPolicy,
)
from mqredis.operations import queue, redrive
from mqredis.operations.open_queue import Handle
from mqredis.steps import Wait, Woken, procedure
from tests.msmq.kit import drain, make
from tests.support.facade import Pending
from tests.support.standing_clock import StandingClock


def test_request_and_reply(qm, connect):
    q = make(qm, "service")
    served = connect()

    def serve():
        with served.open("service") as requests:
            for _ in range(3):
                message = requests.receive(10)
                served.reply(message, message.body.upper(), label="done")

    server = Pending(serve)
    for _ in range(3):
        reply = qm.request(q, b"hello", timeout=10)
        assert (reply.body, reply.label) == (b"HELLO", "done")
    server.result(30)
    names = [info.name for info in qm.queues("reply$*")]
    assert len(names) == 1
    qm.close()
    assert [info.name for info in served.queues("reply$*")] == []


def test_request_to_several_queues_gets_the_first_reply_of_any(qm, connect):
    make(qm, "first")
    make(qm, "second")
    served = connect()
    server = Pending(lambda: served.reply(served.open("second").receive(30), b"of the second"))
    assert qm.request(qm.open("first,second", Access.SEND), b"hello", timeout=30).body == b"of the second"
    server.result(30)


def test_request_without_a_reply_times_out_and_is_removed(qm):
    q = make(qm, "service")
    with pytest.raises(IoTimeout, match="no reply"):
        qm.request(q, b"hello", timeout=0.05)
    qm.advance_clock(1)
    with pytest.raises(IoTimeout):
        q.receive(0)
    assert qm.queues("reply$*") == []


def test_request_expires_at_its_deadline_although_its_reply_queue_took_long(qm, monkeypatch):
    q = make(qm, "service")
    create = queue.create

    def slow(context, *given):
        context.clock = lambda: time.monotonic() + 9
        return create(context, *given)

    monkeypatch.setattr(queue, "create", slow)
    asked = Pending(lambda: qm.request(q, b"hello", timeout=10))
    q.peek(30)
    qm.advance_clock(2)
    with pytest.raises(IoTimeout):
        q.receive(0)
    with pytest.raises(IoTimeout, match="no reply"):
        asked.result(30)


def test_late_reply_finds_no_queue(qm):
    q = make(qm, "service")
    with pytest.raises(IoTimeout):
        qm.request(q, b"hello", timeout=0.05, time_to_be_received=60)
    message = q.receive(0)
    with pytest.raises(QueueNotFound):
        qm.reply(message, b"late")
    q.send(b"x")
    message = q.receive(0)
    with pytest.raises(MessageNotFound):
        qm.reply(message, b"late")
    with pytest.raises(InvalidArgument):
        qm.request(q, b"x", timeout=1, response_queue="mine")


def test_reply_queue_is_deleted_with_its_session(qm, connect):
    session = qm._driver.session
    qm.create_queue(f"reply$.{session}.99")
    qm.create_queue("reply$.99999.1")
    qm.maintain()
    assert [info.name for info in qm.queues("reply$*")] == [f"reply$.{session}.99"]


def test_maintain_deletes_the_reply_queue_of_a_client_that_died(qm, connect):
    died = connect(session_ttl_seconds=10)
    died.create_queue(f"reply$.{died._driver.session}.1")
    qm.advance_clock(11)
    qm.maintain()
    assert qm.queues("reply$*") == []


@pytest.mark.parametrize("requests_before", [0, 1])
def test_request_of_a_client_that_was_idle_gets_its_reply(qm, connect, requests_before):
    service = make(qm, "service")
    client = connect(session_ttl_seconds=10)
    q = client.open("service")

    def ask():
        asked = Pending(lambda: client.request(q, b"hello", timeout=30))
        message = service.receive(30)
        qm.maintain()
        qm.reply(message, b"HELLO")
        return asked.result(30).body

    for _ in range(requests_before):
        assert ask() == b"HELLO"
    qm.advance_clock(11)
    getattr(client, "target", client).context.clock = lambda: time.monotonic() + 11
    qm.maintain()
    assert ask() == b"HELLO"
    assert len(qm.queues("reply$*")) == 1


def dead(qm, count=5, **fields):
    q = make(qm)
    for n in range(count):
        q.send(b"%d" % n, journal=Journal.DEAD_LETTER, time_to_be_received=1, **fields)
    qm.advance_clock(2)
    qm.maintain()
    return q


def test_redrive_returns_all_dead_letters_to_their_queue(qm):
    q = dead(qm, correlation_id="c", priority=6)
    assert qm.redrive() == 5
    found = list(q.browse())
    assert [m.body for m in found] == [b"0", b"1", b"2", b"3", b"4"]
    assert {m.correlation_id for m in found} == {"c"}
    assert found[0].priority == 6
    assert (found[0].message_class, found[0].original_queue, found[0].reason) == (0, None, None)
    assert found[0].delivery_count == 0
    qm.advance_clock(2)
    qm.maintain()
    assert qm.queue_info(DEAD_LETTER).ready == 5
    assert qm.statistics("q").dead == 10


def test_redrive_with_filter_limit_and_target(qm):
    q = dead(qm)
    assert qm.redrive(where=lambda m: int(m.body) % 2 == 1) == 2
    assert [m.body for m in q.browse()] == [b"1", b"3"]
    assert qm.redrive(limit=1) == 1
    make(qm, "other")
    assert qm.redrive(to="other") == 2
    assert [m.body for m in drain(qm, "other")] == [b"2", b"4"]
    assert qm.redrive() == 0


@pytest.mark.parametrize("lost", ["poison", "expired"])
def test_reply_to_a_redriven_request_has_the_message_id_that_its_sender_knows(qm, lost):
    q, answers = make(qm, retry=RetryPolicy(immediate=0)), make(qm, "answers")
    sent = q.send(b"a", response_queue="answers", journal=Journal.DEAD_LETTER, time_to_be_received=60)
    if lost == "poison":
        q.lock(0).abort()
    else:
        qm.advance_clock(61)
        qm.maintain()
    assert qm.redrive("q;poison" if lost == "poison" else DEAD_LETTER) == 1
    assert q.peek(0, match=Match(message_id=sent.message_id)).body == b"a"
    qm.reply(q.receive(0), b"yes")
    assert answers.receive(0, match=Match(correlation_id=sent.message_id)).body == b"yes"


def test_redrive_keeps_messages_that_their_queue_refuses(qm):
    dead(qm)
    qm.update_queue("q", quota_messages=2)
    assert qm.redrive() == 2
    qm.delete_queue("q")
    assert qm.redrive() == 0
    assert qm.queue_info(DEAD_LETTER).ready == 3
    assert qm.redrive(rate=1000) == 0


def test_redrive_finds_the_queue_whatever_its_name_and_keeps_messages_of_unknown_origin(qm):
    q = make(qm, "é ü%", retry=RetryPolicy(immediate=0))
    q.send(b"a", journal=Journal.DEAD_LETTER)
    q.lock(0).reject("no")
    assert qm.redrive() == 1
    assert qm.redrive("é ü%") == 0
    assert [m.body for m in drain(qm, "é ü%")] == [b"a"]


def test_redrive_with_a_rate_returns_all_messages(qm):
    dead(qm, 3)
    assert qm.redrive(rate=50) == 3


def test_redrive_with_a_rate_ends_with_its_client(qm):
    dead(qm, 2)
    waits = []

    @procedure
    def closed_in_a_wait(operation):
        steps, answer = iter(operation), None
        while True:
            step = steps.send(answer)
            if type(step) is Wait:
                waits.append(step)
                assert len(waits) == 1
                (handle,) = step.scopes
                assert isinstance(handle, Handle)
                handle.close()
                answer = Woken.CANCELLED
            else:
                answer = yield step

    context = getattr(qm, "target", qm).context
    with pytest.raises(InvalidHandle, match="closed"):
        qm.run(closed_in_a_wait(redrive.redrive(context, DEAD_LETTER, None, None, None, 0.001)))
    assert len(waits) == 1


@pytest.mark.parametrize("bad", [{"rate": 0}, {"rate": "x"}, {"limit": 0}, {"where": 5}, {"to": "a;b"}])
def test_redrive_refuses_invalid_arguments(qm, bad):
    with pytest.raises(InvalidArgument):
        qm.redrive(**bad)


def test_redrive_of_a_transactional_dead_letter(qm):
    t = make(qm, "t", transactional=True, retry=RetryPolicy(immediate=0, final="dead_letter"))
    with qm.transaction() as tx:
        t.send(b"x" * 5000, transaction=tx)
    tx = qm.transaction()
    t.receive(0, transaction=tx)
    tx.abort()
    assert qm.redrive("system$;deadxact") == 1
    with qm.transaction() as tx:
        assert t.receive(0, transaction=tx).body == b"x" * 5000


def test_message_redriven_to_a_transactional_queue_is_part_of_a_transaction(qm):
    dead(qm, 1)
    t = make(qm, "t", transactional=True)
    assert qm.redrive(to="t") == 1
    assert t.peek(0).transaction_id == "redrive"


def test_statistics_count_messages_rates_and_ages(qm):
    start = time.monotonic()
    q = make(qm, journaling=True, retry=RetryPolicy(immediate=0, cycles=1, delay=100))
    q.send(b"a", priority=5)
    qm.advance_clock(3)
    q.send_many([b"b", b"c", b"d"])
    q.send(b"later", delay=100)
    q.receive(0)
    q.lock(0).abort()
    lock = q.lock(0)
    qm.advance_clock(2)
    s = qm.statistics("q")
    passed = time.monotonic() - start  # the test clock also runs in real time
    assert (s.ready, s.locked, s.delayed, s.messages) == (1, 1, 1, 3)
    assert (s.journal_messages, s.retry_messages, s.poison_messages) == (1, 1, 0)
    assert s.journal_bytes > 0
    assert (s.total_in, s.total_out) == (5, 2)
    assert set(s.oldest_seconds) == {3}
    assert 2 <= s.oldest_seconds[3] < 2.1 + passed
    assert 5 <= s.rate_seconds < 6.1 + passed
    assert s.rate_in == pytest.approx(5 / s.rate_seconds)
    lock.commit()
    qm.advance_clock(15)
    qm.statistics("q")
    qm.advance_clock(15)
    s = qm.statistics("q")
    assert (s.total_in, s.total_out) == (5, 3)
    assert s.rate_in == 0
    with pytest.raises(QueueNotFound):
        qm.statistics("nowhere")


def test_statistics_count_messages_in_the_lapsed_subqueue_as_retried_ones(qm):
    q = make(qm, retry=RetryPolicy(immediate=0, cycles=3, delay=10, isolate=True))
    q.send_many([b"a", b"b"])
    q.lock_many(2, 0, lease=5)
    qm.advance_clock(6)
    qm.maintain()
    resting = qm.statistics("q").retry_bytes
    qm.advance_clock(11)
    qm.maintain()
    assert qm.queue_info("q;lapsed").messages == qm.queue_info("q").delayed == 2
    statistics = qm.statistics("q")
    assert (statistics.retry_messages, statistics.retry_bytes) == (2, resting)


def test_rates_count_what_came_and_left_since_the_sample(standing_clock: StandingClock) -> None:
    clock, qm = standing_clock, standing_clock.qm
    q = make(qm)
    q.send_many([b"a", b"b", b"c"])
    q.receive(0)
    for rates in (0.3, 0.1), (0.1, 0.2):
        clock.move(10)
        found = qm.statistics("q")
        assert (found.rate_in, found.rate_out) == rates
        q.send(b"d")
        q.receive_many(2, 0)


def test_rates_begin_with_a_sample_that_is_ten_seconds_old(standing_clock: StandingClock) -> None:
    clock, qm = standing_clock, standing_clock.qm
    q = make(qm)
    clock.move(5)
    qm.statistics("q")
    q.send(b"a")
    for seconds, since in (9.999, 14.999), (0.001, 10), (1, 11), (8.999, 19.999), (0.001, 10):
        clock.move(seconds)
        assert qm.statistics("q").rate_seconds == since
