"""Published cases for IBM MQ, D to G: order, browse cursor, message under the cursor, locks, marks."""

from __future__ import annotations

import functools
from concurrent.futures import FIRST_COMPLETED, wait

import pytest

from mqredis import (
    Access,
    AccessDenied,
    BrokerUnavailable,
    Grouping,
    IllegalCursorAction,
    InvalidArgument,
    IoTimeout,
    Mark,
    Match,
    MatchOptionsError,
    MessageAlreadyReceived,
    MessageNotFound,
)
from mqredis.operations import browser as operations
from tests.matching.kit import bodies, drain, put
from tests.support.facade import PATIENCE, Pending

ibm = pytest.mark.ibm


def at_end(browser, **how):
    with pytest.raises(IoTimeout) as caught:
        browser.next(0, **how)
    assert caught.value.mqrc == 2033


@ibm("D3")
def test_receive_with_match_takes_the_highest_priority_first(broker):
    q = broker.queue()
    for body, priority, correlation in (("A", 1, "c1"), ("B", 7, "c2"), ("C", 5, "c1")):
        q.send(body.encode(), priority=priority, correlation_id=correlation)
    assert drain(q, match=Match(correlation_id="c1")) == ["C", "A"]


@ibm("D8")
def test_aborted_message_returns_to_its_place(broker):
    t = broker.queue("t", transactional=True)
    with broker.qm.transaction() as tx:
        put(t, "A", "B", "C", transaction=tx)
    tx = broker.qm.transaction()
    t.receive(0, transaction=tx)
    tx.abort()
    assert bodies(t.browse()) == ["A", "B", "C"]


@ibm("D9")
def test_order_is_that_of_the_sends_not_of_the_commits(broker):
    t = broker.queue("t", transactional=True)
    first, second = broker.qm.transaction(), broker.qm.transaction()
    put(t, "A", transaction=first)
    put(t, "B", transaction=second)
    second.commit()
    first.commit()
    assert bodies(t.browse()) == ["A", "B"]


# ---- the cursor ----------------------------------------------------------------------------------------------


@ibm("E1", "E2", "E4", "E5")
def test_browser_first_next_and_end(broker):
    q = broker.queue()
    put(q, "A", "B", "C")
    with q.browser() as browser, broker.handle().browser() as other:
        assert bodies([browser.next(), browser.next(), browser.next()]) == ["A", "B", "C"]
        at_end(browser)
        assert other.next().body == b"A"
        assert browser.first().body == b"A"
        assert broker.qm.queue_info("q").messages == 3


@ibm("E7", "E8")
def test_next_sees_only_arrivals_after_the_cursor(broker):
    q = broker.queue()
    q.send(b"A", priority=5)
    with q.browser() as browser:
        browser.first()
        q.send(b"B", priority=5)
        q.send(b"C", priority=7)
        q.send(b"D", priority=1)
        assert bodies([browser.next(), browser.next()]) == ["B", "D"]
        at_end(browser)
        assert browser.first().body == b"C"


@ibm("E10", "E11")
def test_next_with_match_searches_forward_only(broker):
    q = broker.queue()
    put(q, "A:c1", "B:c2", "C:c2")
    with q.browser() as browser:
        assert browser.first(match=Match(correlation_id="c2")).body == b"B"
        at_end(browser, match=Match(correlation_id="c1"))
        assert browser.next(match=Match(correlation_id="c2")).body == b"C"
    with q.browser() as browser:
        found = browser.first()
        at_end(browser, match=Match(message_id=found.message_id, correlation_id=found.correlation_id))


@ibm("E13", "E28")
def test_cursor_keeps_its_place_when_its_message_is_removed(broker):
    q = broker.queue()
    put(q, "A", "B", "C")
    with q.browser() as browser:
        browser.first()
        assert bodies(q.receive_many(2, 0)) == ["A", "B"]
        assert browser.next().body == b"C"
        q.receive(0)
        at_end(browser)
        put(q, "D")
        assert browser.next().body == b"D"


@ibm("E14", "F10")
def test_browser_needs_peek_access_and_take_needs_receive_access(broker):
    put(broker.queue(), "A")
    with pytest.raises(AccessDenied) as refused:
        broker.qm.open("q", Access.SEND).browser().first()
    assert refused.value.mqrc == 2036
    with broker.qm.open("q", Access.PEEK).browser() as browser:
        assert browser.first().body == b"A"
        with pytest.raises(AccessDenied) as refused:
            browser.take()
        assert refused.value.mqrc == 2037
        with pytest.raises(AccessDenied):
            browser.first(lock=True)
    with pytest.raises(AccessDenied) as refused:
        broker.qm.open("q", Access.PEEK).send(b"x")
    assert refused.value.mqrc == 2039


@ibm("E16", "E23")
def test_browser_skips_uncommitted_messages(broker):
    t = broker.queue("t", transactional=True)
    with broker.qm.transaction() as tx:
        put(t, "B", "C", "D", transaction=tx)
    sends, receives = broker.qm.transaction(), broker.qm.transaction()
    put(t, "A", transaction=sends)
    t.receive(0, transaction=receives)
    assert bodies(broker.handle("t").browser()) == ["C", "D"]
    with t.browser() as browser:
        assert browser.first().body == b"C"
        receives.abort()
        assert browser.next().body == b"D"
        assert browser.first().body == b"B"
    sends.abort()


@ibm("E17")
def test_expired_message_is_not_browsed(broker):
    q = broker.queue()
    q.send(b"A", time_to_be_received=5)
    put(q, "B")
    broker.qm.advance_clock(6)
    with q.browser() as browser:
        assert browser.first().body == b"B"
    assert broker.qm.queue_info("q").messages == 1


@ibm("E19")
def test_next_waits_for_an_arrival(broker):
    q = broker.queue()
    put(q, "A")
    with q.browser() as browser:
        browser.first()
        waiting = broker.wait(lambda: browser.next(10))
        put(q, "B")
        assert waiting.result().body == b"B"
        assert browser.take().body == b"B"


def test_browser_of_complete_messages_waits_for_one_without_a_group(broker):
    q = broker.queue()
    with q.browser(grouping=Grouping.COMPLETE_MESSAGE) as browser:
        waiting = broker.wait(lambda: browser.next(30))
        put(q, "A")
        assert waiting.result().body == b"A"


@ibm("E20")
def test_arrival_before_the_cursor_does_not_end_a_wait(broker):
    q = broker.queue()
    q.send(b"A", priority=5)
    with q.browser() as browser:
        browser.first()
        waiting = broker.wait(lambda: browser.next(None))
        q.send(b"B", priority=7)
        q.send(b"C", priority=5)
        assert waiting.result().body == b"C"


@ibm("E22")
def test_message_ends_the_wait_of_one_receive_and_of_all_peeks(broker):
    q = broker.queue()
    browsers = [broker.wait(lambda: q.peek(None)) for _ in range(2)]
    getters = [broker.wait(lambda: q.receive(None)) for _ in range(2)]
    put(q, "A")
    first, (other,) = wait([getter.future for getter in getters], PATIENCE, FIRST_COMPLETED)
    assert [future.result().body for future in first] == [b"A"]
    put(q, "B")
    assert other.result(PATIENCE).body == b"B"
    put(q, "C")  # for those who came too late to see the others
    assert {browser.result().body for browser in browsers} <= {b"A", b"B", b"C"}


@ibm("E25", "E26", "Q5")
def test_browse_with_a_selector_and_between_receives(broker):
    q = broker.queue()
    for n in range(4):
        q.send(str(n), properties={"odd": bool(n % 2)})
    assert bodies(q.browse(selector="odd = TRUE")) == ["1", "3"]
    with q.browser(selector="odd = TRUE") as browser:
        assert bodies(browser) == ["1", "3"]
        assert browser.first().body == b"1"
    for left in range(4, 0, -1):
        assert len(list(q.browse())) == left
        q.receive(0)


# ---- under the cursor ----------------------------------------------------------------------------------------


@ibm("F1", "F3", "F4", "F7")
def test_take_and_current_use_the_message_under_the_cursor(broker):
    q = broker.queue()
    put(q, "A:c1", "B:c2", "C:c2")
    with q.browser() as browser:
        for under in (browser.take, browser.current):
            with pytest.raises(MessageAlreadyReceived) as caught:
                under()
            assert caught.value.mqrc == 2034
        browser.first(match=Match(correlation_id="c2"))
        assert bodies([browser.current(), browser.current(), browser.take()]) == ["B", "B", "B"]
        assert bodies(q.browse()) == ["A", "C"]
        browser.next()
        q.receive(0, match=Match(correlation_id="c2"))
        for under in (browser.take, browser.current):
            with pytest.raises(MessageAlreadyReceived):
                under()


def test_take_in_an_aborted_transaction_returns_the_message(broker):
    t = broker.queue("t", transactional=True)
    with broker.qm.transaction() as tx:
        put(t, "A", "B", transaction=tx)
    with t.browser() as browser:
        tx = broker.qm.transaction()
        browser.first(lock=True)
        assert browser.take(transaction=tx).delivery_count == 1
        tx.abort()
        assert browser.first().body == b"A"
        with broker.qm.transaction() as tx:
            browser.take(transaction=tx)
    assert bodies(t.browse()) == ["B"]


# ---- locks ---------------------------------------------------------------------------------------------------


@ibm("F6", "F12", "F13")
def test_browser_locks_takes_and_unlocks_the_message_under_the_cursor(broker):
    q = broker.queue()
    put(q, "A", "B")
    with q.browser() as browser, broker.handle().browser() as other:
        other.first()
        assert browser.first(lock=True).body == b"A"
        assert browser.current().body == b"A"
        with pytest.raises(MessageAlreadyReceived):
            other.take()
        assert bodies(q.browse()) == ["B"]
        browser.unlock()
        assert bodies(q.browse()) == ["A", "B"]
        with pytest.raises(MessageNotFound) as caught:
            browser.unlock()
        assert caught.value.mqrc == 2209
        browser.first(lock=True)
        assert browser.take().body == b"A"
    assert bodies(q.browse()) == ["B"]


@ibm("F15", "F16")
def test_browser_releases_its_lock_when_it_locks_the_next_message(broker):
    q = broker.queue()
    put(q, "A", "B")
    with q.browser() as browser:
        browser.first(lock=True)
        assert browser.next(lock=True).body == b"B"
        assert bodies(q.browse()) == ["A"]
        at_end(browser, lock=True)
        assert bodies(q.browse()) == ["A"]
    assert bodies(q.browse()) == ["A", "B"]


@ibm("F18")
def test_browser_lock_ends_with_its_lease(broker):
    q = broker.queue()
    put(q, "A")
    broker.handle().browser().first(lock=True, lease=10)
    with pytest.raises(IoTimeout):
        q.receive(0)
    broker.qm.advance_clock(11)
    assert q.receive(0).body == b"A"


def test_unlock_after_the_lease_says_that_nothing_is_locked(broker):
    q = broker.queue()
    put(q, "A")
    with q.browser() as browser:
        for taken in (False, True):
            browser.first(lock=True, lease=10)
            broker.qm.advance_clock(11)
            if taken:
                q.receive(0)
            for _ in range(2):
                with pytest.raises(MessageNotFound) as caught:
                    browser.unlock()
                assert caught.value.mqrc == 2209


@pytest.mark.parametrize("read", ["take", "current"])
def test_browser_whose_lease_is_over_does_not_get_a_message_that_another_reader_has_locked(broker, read):
    q = broker.queue()
    put(q, "A")
    with q.browser() as browser:
        browser.first(lock=True, lease=10)
        broker.qm.advance_clock(11)
        with broker.handle().lock(0) as lock:
            with pytest.raises(MessageAlreadyReceived):
                getattr(browser, read)()
            assert lock.body == b"A"
    assert broker.qm.queue_info("q").messages == 0


@ibm("F21", "F22")
def test_message_goes_to_one_of_locking_browsers_and_receivers(broker):
    q = broker.queue()
    with q.browser() as one, q.browser() as two:
        waiting = [broker.wait(lambda: one.first(None, lock=True)), broker.wait(lambda: q.receive(None))]
        put(q, "A")
        first, (other,) = wait([w.future for w in waiting], PATIENCE, FIRST_COMPLETED)
        assert [future.result().body for future in first] == [b"A"]
        put(q, "B")
        assert other.result(PATIENCE).body == b"B"
    q.purge()
    put(q, "B", "C")
    with q.browser() as one, q.browser() as two:
        found = [Pending(functools.partial(b.first, lock=True)) for b in (one, two)]
        assert sorted(bodies(f.result() for f in found)) == ["B", "C"]


# ---- marks ---------------------------------------------------------------------------------------------------


def mark_first(browser, mark):
    return browser.first(unmarked=True, mark=mark).body.decode()


@ibm("G1", "G2", "G10")
def test_handle_marks_hide_messages_from_their_browser_only(broker):
    q = broker.queue()
    put(q, "A", "B", "C")
    with q.browser() as browser:
        assert [mark_first(browser, Mark.HANDLE) for _ in range(2)] == ["A", "B"]
        q.send(b"D", priority=7)
        assert [mark_first(browser, Mark.HANDLE) for _ in range(2)] == ["D", "C"]
        with pytest.raises(IoTimeout):
            mark_first(browser, Mark.HANDLE)
        browser.unmark(q.peek(0, match=Match(message_id=browser.current().message_id)))
        assert mark_first(browser, Mark.HANDLE) == "C"
    with q.browser() as again:
        assert mark_first(again, Mark.HANDLE) == "D"


@ibm("G4", "G5", "G11")
def test_co_operative_marks_hide_messages_from_all_co_operating_browsers(broker):
    q = broker.queue()
    put(q, "A", "B", "C")
    with q.browser(co_op=True) as one, broker.handle().browser(co_op=True) as two, q.browser() as outside:
        assert [mark_first(b, Mark.CO_OP) for b in (one, two, one)] == ["A", "B", "C"]
        with pytest.raises(IoTimeout):
            mark_first(two, Mark.CO_OP)
        assert outside.first(unmarked=True).body == b"A"
        one.unmark(q.peek(0), Mark.CO_OP)
        assert mark_first(two, Mark.CO_OP) == "A"
    assert q.receive(0).body == b"A"


@pytest.mark.parametrize("mark", [Mark.HANDLE, Mark.CO_OP])
def test_browser_that_waits_marks_the_message_that_comes(broker, mark):
    q = broker.queue()
    with q.browser(co_op=True) as browser:
        waiting = broker.wait(lambda: browser.first(30, unmarked=True, mark=mark))
        put(q, "A")
        assert waiting.result().body == b"A"
        with pytest.raises(IoTimeout):
            browser.first(unmarked=True)


@ibm("G7", "G8")
@pytest.mark.parametrize("interval", [5.0, -1.0])
def test_only_co_operative_marks_expire(broker, interval):
    put(broker.queue(), "A", "B")
    q = broker.client(mark_interval_seconds=interval).open("q")
    with q.browser(co_op=True) as browser:
        mark_first(browser, Mark.CO_OP)
        browser.first(unmarked=True, mark=Mark.HANDLE)
        broker.qm.advance_clock(6)
        if interval < 0:
            with pytest.raises(IoTimeout):
                browser.first(unmarked=True)
        else:
            assert browser.first(unmarked=True).body == b"A"
            with pytest.raises(IoTimeout):
                browser.next(unmarked=True)


@ibm("G13")
def test_co_operative_mark_needs_a_co_operating_browser(broker):
    q = broker.queue()
    with q.browser() as browser, pytest.raises(MatchOptionsError) as caught:
        browser.first(mark=Mark.CO_OP)
    assert caught.value.mqrc == 2046
    with pytest.raises(InvalidArgument):
        q.browser(co_op="yes")


@ibm("G14")
def test_co_operating_browsers_dispatch_each_message_once(broker):
    q = broker.queue()
    q.send_many([str(n) for n in range(40)])

    def dispatch():
        mine: list[int] = []
        with broker.handle().browser(co_op=True) as browser:
            while True:
                try:
                    marked = browser.first(unmarked=True, mark=Mark.CO_OP)
                except IoTimeout:
                    return mine
                mine.append(int(q.receive(0, match=Match(token=marked.token)).body))

    found = [Pending(dispatch) for _ in range(4)]
    assert sorted(n for f in found for n in f.result()) == list(range(40))


def test_browser_refuses_to_move_while_another_thread_moves_it(broker):
    q = broker.queue()
    with q.browser() as browser:
        waiting = broker.wait(lambda: browser.next(30))
        for move in (browser.first, browser.next):
            with pytest.raises(IllegalCursorAction):
                move()
        put(q, "A")
        assert waiting.result().body == b"A"
        assert browser.first().body == b"A"


def test_closed_browser_refuses_calls_and_ends_its_wait(broker):
    q = broker.queue()
    put(q, "A", "B")
    waiting = None
    with q.browser() as browser:
        mark_first(browser, Mark.HANDLE)
        assert bodies(browser) == ["B"]
        waiting = broker.wait(lambda: browser.next(10))
    assert waiting.error() is not None
    with pytest.raises(ValueError, match="closed"):
        browser.first()


def test_lock_of_a_browser_is_held_if_the_lock_before_it_cannot_be_given_back(broker, monkeypatch):
    q = broker.queue()
    put(q, "A", "B")
    browser = q.browser()
    browser.first(lock=True)

    def refuse(*_):
        raise BrokerUnavailable("no")

    with monkeypatch.context() as patched:
        patched.setattr(operations, "settle", refuse)
        assert browser.next(lock=True).body == b"B"
    browser.unlock()
    assert bodies(q.browse()) == ["B"]
    q.close()
    assert bodies(broker.handle().browse()) == ["A", "B"]
