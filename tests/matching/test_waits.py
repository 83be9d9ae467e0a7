"""Published cases for IBM MQ, K to Q: options, waits, units of work, expiry, quotas, selectors."""

from __future__ import annotations

import functools
import itertools
from concurrent.futures import FIRST_COMPLETED, wait

import pytest

from mqredis import (
    Access,
    GetInhibited,
    Grouping,
    InvalidArgument,
    IoTimeout,
    Match,
    MatchOptionsError,
    MessageNotFound,
    MessageTooLarge,
    OperationCancelled,
    Outgoing,
    PutInhibited,
    QueueQuotaExceeded,
    Seek,
    SelectorSyntaxError,
    Share,
    SharingViolation,
)
from mqredis.commands import read
from mqredis.commands.filters import Filter
from mqredis.commands.waiting import Waiter
from mqredis.steps import perform
from tests.matching.kit import bodies, drain, put
from tests.support.facade import PATIENCE, Pending

ibm = pytest.mark.ibm


def by_correlation(correlation):
    return Match(correlation_id=correlation)


# ---- K: invalid options -------------------------------------------------------------------------------------


@ibm("K10")
def test_open_denying_receive_is_refused_while_others_receive(broker):
    broker.queue()
    with pytest.raises(SharingViolation) as caught:
        broker.qm.open("q", Access.RECEIVE, Share.DENY_RECEIVE)
    assert caught.value.mqrc == 2042


@ibm("K11")
def test_refused_call_changes_nothing(broker):
    q = broker.queue()
    put(q, "A", "Y1", "Y2/2", "B")
    assert q.receive(0, match=Match(group_id="y"), grouping=Grouping.LOGICAL_ORDER).body == b"Y1"
    with q.browser() as browser:
        browser.first(lock=True)
        for how in ({"match": 1}, {"selector": "a ="}, {"mark": 7}, {"timeout": "x"}, {"lease": -1}):
            with pytest.raises(InvalidArgument):
                browser.next(**{"lock": True, **how})
        assert browser.current().body == b"A"
        with pytest.raises(MatchOptionsError):
            q.receive(0, match=Match(group_id="z"), grouping=Grouping.LOGICAL_ORDER)
        assert bodies(q.browse()) == ["Y2", "B"]
    assert q.receive(0, grouping=Grouping.LOGICAL_ORDER).body == b"Y2"


# ---- L: waiting ----------------------------------------------------------------------------------------------


@ibm("L2")
def test_receive_without_timeout_returns_an_available_message(broker):
    q = broker.queue()
    put(q, "A:c1", "B:c2")
    assert q.receive(None, match=by_correlation("c2")).body == b"B"


@ibm("L3")
def test_reader_with_a_match_is_preferred(broker):
    q = broker.queue()
    any_reader = broker.wait(lambda: q.receive(10))
    special = broker.wait(lambda: q.receive(10, match=by_correlation("c1")))
    put(q, "A:c1")
    assert special.result().body == b"A"
    put(q, "B:c2")
    assert any_reader.result().body == b"B"


@ibm("L5")
def test_one_message_ends_one_wait(broker):
    q = broker.queue()
    handle = broker.qm.open("q")
    readers = [broker.wait(lambda: handle.receive(None)) for _ in range(6)]
    put(q, "A")
    first, others = wait([reader.future for reader in readers], PATIENCE, FIRST_COMPLETED)
    assert [future.result().body for future in first] == [b"A"]
    assert broker.qm.queue_info("q").waiters == len(others) == 5
    handle.close()
    assert all(isinstance(future.exception(PATIENCE), OperationCancelled) for future in others)


@ibm("L6")
def test_message_without_a_match_does_not_end_a_wait(broker):
    q = broker.queue()
    reader = broker.wait(lambda: q.receive(None, match=by_correlation("c1")))
    put(q, *[f"{letter}:c2" for letter in "ABCDE"], "F:c1")
    assert reader.result().body == b"F"
    assert drain(q) == list("ABCDE")


@ibm("L8", "L9")
def test_inhibited_queue_refuses_calls_but_not_commits(broker):
    t = broker.queue("t", transactional=True)
    with broker.qm.transaction() as tx:
        put(t, "A:c1", transaction=tx)
    gets, puts = broker.qm.transaction(), broker.qm.transaction()
    t.receive(0, transaction=gets, match=by_correlation("c1"))
    put(t, "B:c1", transaction=puts)
    broker.qm.update_queue("t", get_inhibited=True, put_inhibited=True)
    for reading in (
        lambda: t.peek(0, match=by_correlation("c1")),
        lambda: t.browser().first(),
        lambda: t.receive_group(0),
    ):
        with pytest.raises(GetInhibited):
            reading()
    with broker.qm.transaction() as tx, pytest.raises(PutInhibited):
        put(t, "C", transaction=tx)
    gets.commit()
    puts.commit()
    broker.qm.update_queue("t", get_inhibited=False)
    assert bodies(t.browse()) == ["B"]


@ibm("L12")
def test_commit_ends_a_wait_with_a_match(broker):
    t = broker.queue("t", transactional=True)
    reader = broker.wait(lambda: t.peek(10, match=by_correlation("c1")), "t")
    with broker.qm.transaction() as tx:
        put(t, "B:c2", "A:c1", transaction=tx)
    assert reader.result().body == b"A"


def test_abort_ends_waits_with_a_match(broker):
    q = broker.queue()
    token = q.send("A", correlation_id="c1", group_id="g").message_id
    lock = q.lock(0)
    matches = [
        by_correlation("c1"),
        Match(message_id=token),
        Match(group_id="g", sequence=1),
        Match(sequence=1),
    ]
    readers = [broker.wait(lambda m=m: q.peek(10, match=m)) for m in matches]
    lock.abort()
    assert [reader.result().body for reader in readers] == [b"A"] * 4


@ibm("L14")
def test_receive_that_times_out_loses_no_message(broker):
    q = broker.queue()
    for n in range(15):
        reader = Pending(lambda: q.receive(0.02, match=by_correlation("c1")))
        put(q, "A:c1")
        error = reader.error()
        left = drain(q)
        assert (error is None) != (left == ["A"]), n


@ibm("L15")
def test_dead_reader_with_a_match_does_not_consume_a_notification(broker):
    q = broker.queue()
    with broker.client() as dead:
        text = Filter(match=by_correlation("c1")).text()
        address = dead.open("q")._handle.address
        dead.run(perform(read.receive(address, "take", waiter=Waiter("D k0 -"), match=text)))
    assert broker.qm.queue_info("q").waiters == 1
    alive = broker.wait(lambda: q.receive(10))
    put(q, "A:c1")
    assert alive.result().body == b"A"


def test_cancelled_waits_are_deregistered(broker):
    q = broker.queue()
    handle = broker.qm.open("q")
    first = broker.wait(lambda: handle.receive(10, match=by_correlation("c1")))
    second = broker.wait(lambda: q.receive(10, match=by_correlation("c1"), tag="two"))
    handle.close()
    assert isinstance(first.error(), OperationCancelled)
    q.cancel("two")
    assert isinstance(second.error(), OperationCancelled)
    assert broker.qm.queue_info("q").waiters == 0


def test_cancelled_reader_with_a_match_leaves_nothing_in_the_index(kit):
    """A later message with this identifier would be offered to it before others."""
    queue = kit.qm.open("q")
    text = Filter(match=by_correlation("c1")).text()
    call = read.receive(queue.handle.address, "take", waiter=Waiter("D k0 seven"), match=text)
    kit.qm.run(perform(call))
    index = kit.key("q", "i")
    assert kit.raw.zrangebylex(index, b"[w", b"(x")
    queue.cancel("seven")
    assert kit.raw.zrangebylex(index, b"[w", b"(x") == []


def test_every_requester_gets_its_own_reply(broker):
    q = broker.queue()
    waits = [broker.wait(lambda n=n: q.receive(10, match=by_correlation(f"c{n}"))) for n in range(8)]
    q.send_many([numbered(n) for n in reversed(range(8))])
    assert [wait.result().body for wait in waits] == [b"%d" % n for n in range(8)]


def test_reader_still_waits_after_a_purge(broker):
    q = broker.queue()
    put(q, "A", "B")
    q.send("X")
    reader = broker.wait(lambda: q.receive(10, match=by_correlation("c1")))
    assert q.purge() == 3
    put(q, "C:c1")
    assert reader.result().body == b"C"


def numbered(n):
    return Outgoing(body=b"%d" % n, correlation_id=f"c{n}")


def test_message_notified_to_a_reader_that_took_another_wakes_the_next(broker):
    """The reader without a match is notified of the second message and may take the first one."""
    q = broker.queue()
    special = broker.wait(lambda: q.receive(None, match=by_correlation("c1")))
    general = [broker.wait(lambda: q.receive(None)) for _ in range(2)]
    q.send_many([numbered(1), numbered(2)])
    left = {special.future, *(reader.future for reader in general)}
    found: list[bytes] = []
    while len(found) < 2:
        done, left = wait(left, PATIENCE, FIRST_COMPLETED)
        assert done, found
        found += [future.result().body for future in done]
    assert sorted(found) == [b"1", b"2"]
    put(q, "C:c1")  # a stale waiter would take it
    (last,) = left
    assert last.result(PATIENCE).body == b"C"


# ---- M: units of work ----------------------------------------------------------------------------------------


@ibm("M2", "M3", "M5")
def test_aborted_transactions_undo_send_and_receive(broker):
    t = broker.queue("t", transactional=True)
    tx = broker.qm.transaction()
    put(t, "A:c1", transaction=tx)
    tx.abort()
    assert broker.qm.queue_info("t").messages == 0
    with broker.qm.transaction() as tx:
        put(t, "A:c1", transaction=tx)
    for times in (1, 2):
        tx = broker.qm.transaction()
        t.receive(0, transaction=tx, match=by_correlation("c1"))
        assert broker.qm.queue_info("t").ready == 0
        tx.abort()
        assert t.peek(0, match=by_correlation("c1")).abort_count == times


@ibm("M6", "M8")
def test_aborted_message_stays_in_its_queue_without_a_retry_policy(broker):
    q = broker.queue()
    put(q, "A:c1")
    for _ in range(5):
        q.lock(0, match=by_correlation("c1")).abort()
    assert q.receive(0, match=by_correlation("c1")).delivery_count >= 5


# ---- O, P ----------------------------------------------------------------------------------------------------


@ibm("O1", "O2", "O5")
def test_expired_messages_are_removed(broker):
    q = broker.queue()
    for n in range(5):
        q.send(str(n), correlation_id="c1", time_to_be_received=1)
    q.send("B", correlation_id="c1", time_to_be_received=10)
    broker.qm.advance_clock(3)
    found = q.peek(0, match=by_correlation("c1"))
    assert found.body == b"B"
    assert found.expires_at > found.arrived_at
    assert q.receive(0).body == b"B"
    assert broker.qm.queue_info("q").messages == 0


@ibm("P1", "P2", "P4")
def test_quota_and_message_size_are_enforced(broker):
    t = broker.queue("t", transactional=True, quota_messages=2)
    first, other = broker.qm.transaction(), broker.qm.transaction()
    put(t, "A", "B", transaction=first)
    with pytest.raises(QueueQuotaExceeded) as caught:
        put(t, "C", transaction=other)
    assert caught.value.mqrc == 2053
    first.commit()
    with broker.qm.transaction() as tx:
        t.receive(0, transaction=tx)
    put(t, "C", transaction=other)
    other.commit()
    small = broker.queue("small", max_message_bytes=100)
    with pytest.raises(MessageTooLarge) as too_large:
        small.send(b"x" * 101)
    assert too_large.value.mqrc == 2030


# ---- Q: selectors --------------------------------------------------------------------------------------------


@ibm("Q1", "Q2")
def test_selector_of_the_handle_applies_to_every_read(broker):
    q = broker.queue()
    for body, colour, correlation in (
        ("A", "red", "1"),
        ("B", "blue", "2"),
        ("C", "blue", "3"),
        ("D", "blue", "4"),
    ):
        q.send(body, properties={"color": colour}, correlation_id=correlation)
    blue = broker.qm.open("q", selector="color = 'blue'")
    assert blue.receive(0, match=by_correlation("3")).body == b"C"
    with pytest.raises(IoTimeout):
        blue.receive(0, match=by_correlation("1"))
    assert bodies(blue.browse(selector="JMSCorrelationID <> '2'")) == ["D"]
    assert drain(blue) == ["B", "D"]
    assert bodies(q.browse()) == ["A"]


def sought(read, lookup_id, seek):
    """The body that a read by lookup id returns, "" for none."""
    try:
        message = read(lookup_id, seek=seek)
    except MessageNotFound:
        return ""
    return getattr(message, "body", b"").decode()


def test_selector_of_the_handle_applies_to_reads_by_lookup_id(broker):
    q = broker.queue()
    ids = [q.send(body, properties={"n": n % 2}).lookup_id for n, body in enumerate("ABCDE")]
    odd = broker.qm.open("q", selector="n = 1")
    peek = functools.partial(sought, odd.peek_by_lookup_id)
    assert [peek(each, Seek.CURRENT) for each in ids] == ["", "B", "", "D", ""]
    assert [peek(each, Seek.NEXT) for each in ids] == ["B", "D", "D", "", ""]
    assert [peek(each, Seek.PREVIOUS) for each in ids] == ["", "", "B", "B", "D"]
    assert (peek(0, Seek.FIRST), peek(0, Seek.LAST)) == ("B", "D")
    assert sought(odd.receive_by_lookup_id, ids[2], Seek.CURRENT) == ""
    lock = odd.lock_by_lookup_id(0, seek=Seek.LAST)
    assert sought(odd.receive_by_lookup_id, 0, Seek.LAST) == "B"
    assert sought(odd.receive_by_lookup_id, ids[3], Seek.CURRENT) == ""
    lock.commit()
    assert bodies(q.browse()) == ["A", "C", "E"]


def test_read_by_lookup_id_goes_on_where_one_call_ends(broker):
    q = broker.queue()
    q.send_many([Outgoing(body=b"%d" % n, properties={"n": n}) for n in range(2600)])
    rare = broker.qm.open("q", selector="n IN ('x') OR n = 1300")
    assert sought(rare.peek_by_lookup_id, 0, Seek.FIRST) == "1300"
    assert sought(rare.peek_by_lookup_id, q.peek(0).lookup_id, Seek.NEXT) == "1300"
    assert sought(rare.receive_by_lookup_id, 0, Seek.LAST) == "1300"
    assert sought(rare.receive_by_lookup_id, 0, Seek.LAST) == ""


@ibm("Q4")
def test_selector_that_never_matches_is_refused(broker):
    q = broker.queue()
    for call in (lambda: broker.qm.open("q", selector="1 = 2"), lambda: q.receive(0, selector="FALSE")):
        with pytest.raises(SelectorSyntaxError):
            call()
    with pytest.raises(InvalidArgument):
        broker.qm.open("q", Access.SEND, selector="a = 1")


def test_invalid_selector_is_refused(broker):
    q = broker.queue()
    for bad in ("a = ", "a = 'x", 7, "((((" * 200):
        for call in (q.receive, q.peek, q.lock):
            with pytest.raises(SelectorSyntaxError):
                call(0, selector=bad)
        with pytest.raises(SelectorSyntaxError):
            q.browser(selector=bad).first()


@ibm("Q7")
def test_receive_with_a_selector_waits_for_a_match(broker):
    q = broker.queue()
    reader = broker.wait(lambda: q.receive(10, selector="n BETWEEN 2 AND 3"))
    q.send("1", properties={"n": 1})
    assert broker.qm.queue_info("q").waiters == 1
    q.send("2", properties={"n": 2})
    assert reader.result().body == b"2"
    assert bodies(q.browse()) == ["1"]


@ibm("Q8")
def test_selector_with_a_type_error_does_not_match(broker):
    q = broker.queue()
    q.send("A", properties={"n": "text"})
    q.send("B", properties={"n": 1})
    assert drain(q, selector="n + 1 = 2") == ["B"]
    assert bodies(q.browse()) == ["A"]


@ibm("Q10")
def test_readers_with_overlapping_selectors_get_each_message_once(broker):
    q = broker.queue()
    q.send_many([Outgoing(body=b"%d" % n, properties={"n": n}) for n in range(120)])
    readers = [
        Pending(functools.partial(drain, q, selector=s))
        for s in itertools.chain(["n < 80"] * 3, ["n >= 40"] * 3)
    ]
    found = [body for reader in readers for body in reader.result()]
    assert sorted(map(int, found)) == list(range(120))


def test_match_in_a_later_page_is_found(broker):
    q = broker.queue()
    q.send_many([Outgoing(body=b"%d" % n, properties={"n": n}) for n in range(2600)])
    assert q.peek(0, selector="n = 2599").body == b"2599"
    assert [m.body for m in q.lock_many(2, 0, selector="n >= 1500")] == [b"1500", b"1501"]
    assert len(list(q.browse(selector="MOD = 1 OR n >= 2500"))) == 100
    with q.browser(selector="n > 2597") as browser:
        assert bodies(browser) == ["2598", "2599"]


@pytest.mark.parametrize(
    "selector, expected",
    [
        ("JMSCorrelationID = 'c1'", ["A", "C"]),
        ("JMSCorrelationID IN ('c1', 'c2')", ["A", "B", "C"]),
        ("JMSCorrelationID = 'ID:6162'", ["X"]),
        ("JMSXGroupID = 'g' AND JMSXGroupSeq = 2", ["B"]),
        ("JMSMessageID = 'm1' OR JMSCorrelationID = 'c2'", ["B", "C"]),
    ],
)
def test_selectors_on_identifiers(broker, selector, expected):
    q = broker.queue()
    q.send("A", correlation_id="c1")
    q.send("B", correlation_id="c2", group_id="g", sequence=2)
    q.send("C", correlation_id="c1", message_id="m1")
    q.send("X", correlation_id=b"ab")
    assert bodies(q.browse(selector=selector)) == expected
    assert drain(q, selector=selector) == expected


def test_error_of_a_read_says_whether_it_asked_for_particular_messages(broker):
    q = broker.queue()
    with pytest.raises(IoTimeout, match=r"^no message is available in queue"):
        q.receive(0)
    q.send(b"A", group_id="g", sequence=2)
    for how in (
        {"match": Match(correlation_id="c")},
        {"selector": "n = 1"},
        {"grouping": Grouping.LOGICAL_ORDER},
    ):
        with pytest.raises(IoTimeout, match=r"^no message that fits the read is available in queue"):
            q.receive(0, **how)
    with pytest.raises(
        IoTimeout, match=r"^no message that fits the read became available in queue .* within"
    ):
        q.receive(0.01, selector="n = 1")
