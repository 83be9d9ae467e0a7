"""Published cases for IBM MQ, A to C: message, correlation and group ids, sequence, offset, token."""

from __future__ import annotations

import pytest

from mqredis import (
    Acknowledge,
    InvalidArgument,
    IoTimeout,
    Match,
    MatchOptionsError,
    MessageAlreadyReceived,
    Outgoing,
)
from tests.matching.kit import bodies, drain, in_group, put
from tests.support.facade import Pending

ibm = pytest.mark.ibm


def missing(queue, **wanted):
    with pytest.raises(IoTimeout) as caught:
        queue.receive(0, **wanted)
    assert caught.value.mqrc == 2033


def named(queue, *names):
    """``A m1 c2``: body, message id, correlation id; "-" for none."""
    for name in names:
        body, message, correlation = name.split()
        queue.send(
            body.encode(),
            message_id=None if message == "-" else message,
            correlation_id=None if correlation == "-" else correlation,
        )


@ibm("A1")
def test_receive_by_message_id(broker):
    q = broker.queue()
    named(q, "A m1 -", "B m2 -")
    assert q.receive(0, match=Match(message_id="m2")).body == b"B"
    assert q.receive(0, match=Match()).body == b"A"


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_match_takes_the_same_types_of_bytes_as_a_send(broker, kind):
    q = broker.queue()
    q.send(b"A", correlation_id="x")
    q.send(b"B", correlation_id=kind(b"x"))
    assert q.receive(0, match=Match(correlation_id=kind(b"x"))).body == b"B"


@ibm("A2", "A7", "A8")
def test_missing_and_null_ids_match_any_message(broker):
    q = broker.queue()
    named(q, "A - c1", "B - -", "C - -")
    assert q.receive(0, match=Match()).body == b"A"
    assert q.receive(0, match=Match(correlation_id=bytes(24))).body == b"B"
    assert q.receive(0, match=Match(correlation_id="")).body == b"C"


@ibm("A4", "A5", "A26")
def test_message_id_and_correlation_id_must_both_match(broker):
    q = broker.queue()
    named(q, "A m1 c1", "B m1 c2", "C m2 c2")
    missing(q, match=Match(message_id="m2", correlation_id="c1"))
    assert bodies(q.browse()) == ["A", "B", "C"]
    assert q.receive(0, match=Match(message_id="m1", correlation_id="c2")).body == b"B"


@ibm("A10", "A11")
def test_duplicate_message_ids_are_both_received(broker):
    q = broker.queue()
    named(q, "A m1 -", "B m1 -")
    assert drain(q, match=Match(message_id="m1")) == ["A", "B"]


@ibm("A13", "A14")
def test_byte_ids_match_with_zero_padding_and_not_by_prefix(broker):
    q = broker.queue()
    for _ in range(2):
        q.send(b"A", correlation_id=b"12345")
    assert q.receive(0, match=Match(correlation_id=b"12345" + bytes(19))).body == b"A"
    assert q.receive(0, match=Match(correlation_id=b"12345")).correlation_id == b"12345"
    q.send(b"B", correlation_id=b"123456789012345678901234")
    missing(q, match=Match(correlation_id=b"123456789012"))
    missing(q, match=Match(correlation_id="123456789012345678901234"))  # text is not bytes


@ibm("A16", "A17")
def test_generated_message_ids_are_unique_and_searchable(broker):
    q = broker.queue()
    sent = [q.send(b"A"), q.send(b"B"), q.send(b"C", message_id="m1")]
    assert len({s.message_id for s in sent}) == 3
    assert sent[2].message_id == "m1"
    assert q.peek(0, match=Match(message_id=sent[1].message_id)).body == b"B"
    assert [m.message_id for m in q.browse()] == [s.message_id for s in sent]


NONES = [bytes(24), bytes(1), b"", ""]
nones = pytest.mark.parametrize("none", NONES, ids=repr)


@ibm("A16")
@nones
def test_null_message_id_is_generated(broker, none):
    q = broker.queue()
    sent = [q.send(b"A", message_id=none), q.send(b"B", message_id=none)]
    sent += q.send_many([Outgoing(body=b"C", message_id=none), Outgoing(body=b"D", message_id=none)])
    assert len({s.message_id for s in sent}) == 4
    assert all(s.message_id == f"mq-{s.lookup_id:016x}" for s in sent)
    assert [m.message_id for m in q.browse()] == [s.message_id for s in sent]
    assert q.receive(0, match=Match(message_id=sent[1].message_id)).body == b"B"


@ibm("A8")
@nones
def test_null_correlation_id_is_stored_as_none(broker, none):
    q = broker.queue()
    q.send(b"A", correlation_id=none)
    q.send("B", correlation_id=none)
    q.send(b"C" * 5000, correlation_id=none, label="large")
    items = [Outgoing(body=b"D", correlation_id=none), Outgoing(body=b"E", correlation_id="e")]
    q.send_many([*items, Outgoing(body=b"F", correlation_id=none, properties={"a": 1})])
    with q.group() as group:
        group.send(b"G", correlation_id=none, last=True)
    for selector in ("JMSCorrelationID IS NULL", "Root.MQMD.CorrelId IS NULL"):
        found = list(q.browse(selector=selector))
        assert [m.body[:1] for m in found] == [b"A", b"B", b"C", b"D", b"F", b"G"]
        assert {m.correlation_id for m in found} == {None}


def test_id_with_trailing_zeros_is_returned_as_sent(broker):
    q = broker.queue()
    given = b"a" + bytes(23)
    q.send(b"A", message_id=given, correlation_id=given, group_id="\0")
    message = q.receive(0, match=Match(message_id=b"a", correlation_id=b"a"))
    assert (message.message_id, message.correlation_id, message.group_id) == (given, given, "\0")


def test_request_passing_a_null_correlation_id_gets_the_reply(broker):
    q = broker.queue()
    how = {"correlation_id": bytes(24), "acknowledge": Acknowledge.PASS_CORRELATION_ID}
    asking = Pending(lambda: broker.qm.request(q, b"ask", timeout=30, **how))
    broker.qm.reply(q.receive(30), b"told", message_id="", correlation_id=b"")
    reply = asking.result()
    assert (reply.body, reply.correlation_id) == (b"told", None)
    assert reply.message_id == f"mq-{reply.lookup_id:016x}"


def test_given_id_equal_to_a_generated_one_matches_both_messages(broker):
    q = broker.queue()
    first = q.send(b"A")
    q.send(b"B", message_id=first.message_id)
    assert drain(q, match=Match(message_id=first.message_id)) == ["A", "B"]


def test_given_id_equal_to_the_own_generated_id_is_found_once(broker):
    """This happens when messages are copied between managers with their ids, since every manager counts from 1."""
    q = broker.queue()
    spare = q.send(b"-")
    q.receive(0)
    ids = [f"mq-{spare.lookup_id + n:016x}" for n in range(1, 6)]
    a, b = q.send(b"A", message_id=ids[0]), q.send(b"B", message_id=ids[0])
    assert a.message_id == f"mq-{a.lookup_id:016x}" == b.message_id
    same = Match(message_id=ids[0])
    assert bodies(q.browse(match=same)) == ["A", "B"]
    assert q.peek(0, match=same).body == b"A"
    with q.browser(match=same) as browser:
        assert bodies(browser) == ["A", "B"]
    locks = q.lock_many(5, 0, match=same)
    assert bodies(locks) == ["A", "B"]
    q.commit_many(locks)
    assert broker.qm.queue_info("q").messages == 0
    for n in (2, 3):
        assert q.send(b"%d" % n, message_id=ids[n]).message_id == ids[n]
    assert bodies(q.receive_many(5, 0, match=Match(message_id=ids[2]))) == ["2"]
    assert q.purge(match=Match(message_id=ids[3])) == 1
    assert broker.qm.queue_info("q").messages == 0


def test_id_equal_to_a_generated_one_is_found_once_at_every_page_position(broker):
    """The message is the first, the last or another one of a page, and its id is given or generated."""
    q = broker.queue()
    for place in (0, 63, 64, 129):
        for given in (True, False):
            own = f"mq-{q.send(b'-').lookup_id + 1 + place:016x}"
            q.receive(0)
            q.send_many(
                [
                    Outgoing(body=b"%d" % n, message_id=None if n == place and not given else own)
                    for n in range(130)
                ]
            )
            assert bodies(q.browse(match=Match(message_id=own))) == [str(n) for n in range(130)]
            selector = f"JMSMessageID IN ('{own}', 'other')"
            assert bodies(q.browse(selector=selector)) == [str(n) for n in range(130)]
            assert q.purge(match=Match(message_id=own)) == 130
    assert broker.qm.queue_info("q").messages == 0


def test_selector_finds_a_message_behind_many_others_with_its_identifier(broker):
    q = broker.queue()
    q.send_many([Outgoing(body=b"%d" % n, message_id="m", properties={"n": n}) for n in range(200)])
    assert q.receive(0, selector="JMSMessageID IN ('m', 'other') AND n = 199").body == b"199"
    assert q.receive(0, match=Match(message_id="m"), selector="n = 198").body == b"198"


@pytest.mark.parametrize("correlation_id", [b"\xff" * 200, "c" * 255])
def test_selector_may_name_identifiers_of_any_length(broker, correlation_id):
    """JMS shows an identifier of 200 bytes as a text of 403 characters; no identifier is longer than 255 bytes."""
    q = broker.queue()
    q.send(b"1", correlation_id=correlation_id)
    shown = correlation_id if isinstance(correlation_id, str) else f"ID:{correlation_id.hex()}"
    assert bodies(q.browse(selector=f"JMSCorrelationID = '{shown}'")) == ["1"]
    assert bodies(q.browse(selector=f"JMSCorrelationID IN ('{'é' * 200}', '{shown}')")) == ["1"]
    assert bodies(q.browse(selector=f"JMSCorrelationID = '{shown * 2}'")) == []


@ibm("A20")
def test_reply_is_received_by_the_request_message_id(broker):
    requests, replies = broker.queue("requests"), broker.queue("replies")
    ids = [requests.send(b"one").message_id, requests.send(b"two").message_id]
    for request in (requests.receive(0), requests.receive(0)):
        replies.send(request.body.upper(), correlation_id=request.message_id)
    assert replies.receive(0, match=Match(correlation_id=ids[1])).body == b"TWO"
    assert bodies(replies.browse()) == ["ONE"]


@ibm("A22")
def test_one_of_fifty_concurrent_receives_gets_the_message(broker):
    q = broker.queue()
    put(q, "A:c1", "B:c2")
    getters = [Pending(lambda: q.receive(0, match=Match(correlation_id="c1"))) for _ in range(50)]
    errors = [getter.error() for getter in getters]
    assert sum(error is None for error in errors) == 1
    assert all(error is None or isinstance(error, IoTimeout) for error in errors)


@ibm("A23", "B8", "J8")
@pytest.mark.parametrize(
    "fields, mqrc",
    [
        ({"colour": 1}, 2247),
        ({"sequence": 0}, 2250),
        ({"sequence": 1_000_000_000}, 2250),
        ({"offset": -1}, 2251),
        ({"offset": 1_000_000_000}, 2251),
        ({"message_id": 7}, 2247),
    ],
)
def test_invalid_match_options_are_refused(fields, mqrc):
    with pytest.raises(MatchOptionsError) as caught:
        Match(**fields)
    assert caught.value.mqrc == mqrc
    assert isinstance(caught.value, InvalidArgument)


def test_match_that_is_not_a_match_object_is_refused(broker):
    q = broker.queue()
    with pytest.raises(MatchOptionsError):
        q.receive(0, match={"message_id": "m1"})


@ibm("A25", "C10", "C11")
def test_message_received_in_an_open_transaction_does_not_match(broker):
    t = broker.queue("t", transactional=True)
    with broker.qm.transaction() as tx:
        token = t.send(b"A", correlation_id="c1", transaction=tx).token
    other = broker.handle("t")
    tx = broker.qm.transaction()
    assert t.receive(0, transaction=tx, match=Match(correlation_id="c1")).token == token
    missing(other, match=Match(token=token), transaction=None)
    with pytest.raises(IoTimeout):
        other.peek(0, match=Match(correlation_id="c1"))
    tx.abort()
    assert other.peek(0, match=Match(token=token)).body == b"A"
    assert other.peek(0, match=Match(correlation_id="c1")).body == b"A"


@ibm("B2", "B3", "B6", "B9")
def test_match_by_group_and_sequence(broker):
    q = broker.queue()
    put(q, "A", "Y1/2", "Y2/2", "Z1/1", "Z2")
    assert q.receive(0, match=Match(group_id="z", sequence=2)).body == b"Z2"
    assert q.peek(0, match=Match(sequence=2)).body == b"Y2"
    assert q.peek(0, match=Match(group_id=bytes(24))).body == b"A"
    assert q.peek(0, match=Match(group_id="z")).body == b"Z1"
    seen = [(m.group_id is not None, m.last_in_group) for m in q.browse()]
    assert seen == [(False, False), (True, False), (True, True), (True, True)]


def test_browser_shows_each_message_of_a_sequence_once(broker):
    q = broker.queue()
    put(q, "Y1", "A", "Y1", "Y2/2")
    with q.browser(match=Match(group_id="y", sequence=1)) as browser:
        assert bodies(browser) == ["Y1", "Y1"]


@ibm("B5")
def test_match_by_group_sequence_and_offset(broker):
    q = broker.queue()
    q.send_group([b"a" * 10 + b"b" * 10 + b"c" * 5], group_id="y", segment_bytes=10)
    assert q.receive(0, match=Match(group_id="y", sequence=1, offset=10)).body == b"b" * 10


@ibm("C1", "C2", "C8")
def test_match_by_token(broker):
    q = broker.queue()
    put(q, "A")
    token = q.send(b"B").token
    assert [m.token for m in q.browse()][1] == token
    assert q.receive(0, match=Match(token=token)).body == b"B"
    put(q, "C")
    for wrong in (token, "nonsense", "", token[:-1]):
        missing(q, match=Match(token=wrong))


@ibm("C4")
def test_receive_by_token_with_a_timeout_is_refused(broker):
    q = broker.queue()
    for timeout in (None, 1):
        with pytest.raises(MatchOptionsError) as caught:
            q.receive(timeout, match=Match(token=q.send(b"A").token))
        assert caught.value.mqrc == 2331


@ibm("C5")
def test_token_and_correlation_id_must_both_match(broker):
    q = broker.queue()
    token = q.send(b"B", correlation_id="c1").token
    missing(q, match=Match(token=token, correlation_id="c2"))
    assert q.peek(0, match=Match(token=token, correlation_id="c1")).body == b"B"


@ibm("C7")
def test_take_does_not_match_again(broker):
    q = broker.queue()
    put(q, "A", "B")
    with q.browser(match=Match(token=q.peek(0).token)) as browser:
        browser.first(match=Match())
        browser.next(match=Match())
        assert browser.take().body == b"B"
        with pytest.raises(MessageAlreadyReceived):
            browser.take()


def test_index_follows_moves_purges_and_expiry(broker):
    q = broker.queue()
    put(q, "A:c1", "B:c1", "C:c2")
    q.send(b"D", correlation_id="c1", time_to_be_received=5)
    aside = broker.qm.open("q;aside")
    q.move(q.peek(0, match=Match(correlation_id="c1")).lookup_id, aside)
    assert aside.receive(0, match=Match(correlation_id="c1")).body == b"A"
    broker.qm.advance_clock(6)
    assert bodies(q.browse(match=Match(correlation_id="c1"))) == ["B"]
    q.purge()
    missing(q, match=Match(correlation_id="c1"))


def test_delayed_message_matches_after_its_delay(broker):
    q = broker.queue()
    q.send(b"A", correlation_id="c1", delay=5)
    missing(q, match=Match(correlation_id="c1"))
    broker.qm.advance_clock(6)
    assert q.receive(0, match=Match(correlation_id="c1")).body == b"A"


@pytest.mark.parametrize("odd", ["a\0b", "\4@", "x" * 255, "é", "c1\1", b"\0\1", b"\xff" * 200])
def test_identifiers_with_unusual_characters_match(broker, odd):
    q = broker.queue()
    q.send(b"no", correlation_id="a")
    q.send(b"A", correlation_id=odd, message_id=odd, group_id=odd)
    wanted = Match(correlation_id=odd, message_id=odd, group_id=odd, sequence=1)
    assert q.receive(0, match=wanted).correlation_id == odd


def test_match_of_1200_messages_returns_the_requested_number(broker):
    q = broker.queue()
    q.send_many([in_group("Y1")] * 1200)
    assert len(q.receive_many(200, 0, match=Match(group_id="y"))) == 200
    assert len(list(q.browse(match=Match(group_id="y", offset=0)))) == 1000
    assert len(q.lock_many(5, 0, match=Match(group_id="y"))) == 5
