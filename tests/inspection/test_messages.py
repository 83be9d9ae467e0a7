"""Messages of a queue as operators see them: available, delayed, waiting for a retry, locked."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mqredis import Match, Outgoing, RetryPolicy
from mqredis.errors import InvalidArgument, MessageNotFound, NotSupported, SelectorSyntaxError
from tests.inspection.test_holders import made, pages

pytestmark = pytest.mark.parametrize("connect", ["real-sync", "fake-async"], indirect=True)


def bodies(found: Any) -> list[bytes]:
    return [stored.message.body for stored in found]


def test_scheduled_messages_are_listed_in_the_order_of_due_times(qm: Any) -> None:
    queue = made(qm)
    queue.send(b"third", delay=300)
    queue.send(b"now")
    queue.send(b"first", delay=100, time_to_be_received=500)
    sent = queue.send(b"second", delay=200, label="l")
    found = pages(lambda **how: qm.scheduled("q", **how), limit=1)
    assert bodies(found) == [b"first", b"second", b"third"]
    assert {stored.state for stored in found} == {"delayed"}
    assert found[1].message.lookup_id == sent.lookup_id
    assert found[1].message.label == "l"
    assert (found[1].due_at - found[1].message.arrived_at).total_seconds() == 200
    assert not any(stored.overdue for stored in found)


def test_scheduled_messages_are_filtered_by_time_selector_and_match(qm: Any) -> None:
    queue = made(qm)
    for n in range(8):
        queue.send(b"%d" % n, delay=100 * n + 100, properties={"n": n}, correlation_id=f"c{n % 2}")
    all_of_them = qm.scheduled("q").items
    since, until = all_of_them[2].due_at, all_of_them[5].due_at
    assert bodies(qm.scheduled("q", since=since, until=until).items) == [b"2", b"3", b"4", b"5"]
    assert bodies(qm.scheduled("q", selector="n > 5").items) == [b"6", b"7"]
    odd = qm.scheduled("q", match=Match(correlation_id="c1"), until=until).items
    assert bodies(odd) == [b"1", b"3", b"5"]
    later = datetime.now(UTC) + timedelta(days=365)
    assert not qm.scheduled("q", since=later).items


def test_message_waiting_for_a_retry_is_listed_as_scheduled(qm: Any) -> None:
    queue = made(qm, retry=RetryPolicy(immediate=0, cycles=1, delay=60))
    queue.send(b"x")
    queue.lock(0).abort()
    (stored,) = qm.scheduled("q").items
    assert (stored.state, stored.message.body, stored.message.queue) == ("retry", b"x", "q;retry")
    assert stored.message.attempts == 1


def test_message_that_is_locked_before_its_retry_is_not_listed_as_scheduled(qm: Any) -> None:
    queue = made(qm, retry=RetryPolicy(immediate=0, cycles=1, delay=60))
    queue.send(b"x")
    queue.lock(0).abort()
    qm.open("q;retry").lock(0)
    assert qm.scheduled("q").items == ()


@pytest.mark.parametrize("isolate", [False, True])
def test_message_waiting_for_a_retry_says_so_when_it_is_read_from_its_subqueue(
    qm: Any, isolate: bool
) -> None:
    queue = made(qm, retry=RetryPolicy(immediate=0, cycles=1, delay=60, isolate=isolate))
    queue.send(b"x")
    queue.lock(0, lease=1)
    qm.advance_clock(2)
    qm.maintain()
    (listed,) = qm.scheduled("q").items
    found = qm.message("q;retry", listed.message.lookup_id)
    assert (found.state, found.due_at, found.overdue) == ("retry", listed.due_at, False)
    assert found.due_at is not None
    (available,) = qm.messages("q;retry").items
    assert (available.state, available.due_at) == ("retry", found.due_at)
    qm.advance_clock(120)
    assert qm.message("q;retry", listed.message.lookup_id).overdue
    locked = qm.open("q;retry").lock(0)  # a reader may take it before
    assert qm.message("q;retry", locked.lookup_id).state == "locked"


def test_due_messages_are_listed_as_overdue_until_handled(qm: Any) -> None:
    queue = made(qm)
    queue.send(b"delayed", delay=10)
    queue.send(b"expires", time_to_be_received=10)
    qm.advance_clock(20)
    (late,) = qm.scheduled("q").items
    assert late.overdue
    (expired,) = qm.messages("q").items
    assert (expired.message.body, expired.overdue) == (b"expires", True)
    qm.maintain()
    assert not qm.scheduled("q").items
    assert bodies(qm.messages("q").items) == [b"delayed"]


def test_message_that_a_reader_has_locked_shows_this_delivery(qm: Any) -> None:
    queue = made(qm)
    queue.send(b"x")
    locked = queue.lock(0)
    shown = qm.message("q", locked.lookup_id)
    assert (shown.state, shown.message.delivery_count, shown.message.attempts) == ("locked", 1, 1)
    queue.send_many([b"y", b"z"])
    for lock in queue.lock_many(2, 0):
        assert qm.message("q", lock.lookup_id).message.delivery_count == 1


def test_pages_list_available_messages_in_order(qm: Any) -> None:
    queue = made(qm)
    queue.send_many([b"%03d" % n for n in range(700)])
    urgent = queue.send(b"urgent", priority=7)
    found = pages(lambda **how: qm.messages("q", **how), limit=256)
    assert bodies(found) == [b"urgent", *(b"%03d" % n for n in range(700))]
    assert found[0].message.lookup_id == urgent.lookup_id
    assert bodies(pages(lambda **how: qm.messages("q", selector="JMSPriority = 0", **how))) == []


def test_page_examines_a_limited_number_of_messages(qm: Any) -> None:
    queue, page = made(qm), None
    for n in range(7):
        queue.send_many([b"x"] * 99)
        queue.send(b"y", properties={"n": n})
    for expected in (3, 3, 1):  # 300 messages a call
        page = qm.messages("q", selector="n >= 0", limit=256, after=page and page.next)
        assert len(page.items) == expected
        assert (page.next is None) is (expected == 1)


def test_page_of_scheduled_messages_may_end_behind_a_dedup_key_of_any_form(qm: Any) -> None:
    """A call looks at 300 timers of a queue, of which some hold dedup keys."""
    queue = made(qm)
    for start in (0, 150):
        keys = [f"\n{start + n}é" + "k" * 400 for n in range(150)]
        queue.send_many([Outgoing(b"x", dedup_key=key, dedup_window=60.0) for key in keys])
        queue.receive_many(150, 0)
    queue.send(b"later", delay=3600)
    page = qm.scheduled("q")
    assert not page.items
    assert bodies(qm.scheduled("q", after=page.next).items) == [b"later"]


def test_messages_in_reverse_begin_with_the_last(qm: Any) -> None:
    queue = made(qm)
    queue.send_many([b"%03d" % n for n in range(400)])
    queue.send(b"urgent", priority=7)
    queue.send(b"later", delay=60)
    expected = [*(b"%03d" % n for n in reversed(range(400))), b"urgent"]
    found = pages(lambda **how: qm.messages("q", reverse=True, **how), limit=150)
    assert bodies(found) == expected
    page = qm.messages("q", reverse=True, limit=5)
    queue.send(b"meanwhile")
    assert bodies(qm.messages("q", reverse=True, limit=5, after=page.next).items) == expected[5:10]
    # Not among the last 300.
    assert bodies(qm.messages("q", reverse=True, selector="JMSPriority = 7").items) == []
    with pytest.raises(InvalidArgument, match="reverse"):
        qm.messages("q", reverse="yes")


def test_large_body_is_omitted_from_pages_and_shown_by_message(qm: Any) -> None:
    queue = made(qm)
    sent = queue.send(b"x" * 10_000)
    (stored,) = qm.messages("q").items
    assert (stored.message.body, stored.complete) == (b"", False)
    assert stored.bytes > 10_000
    delayed = queue.send(b"y" * 10_000, delay=1000)
    (ready,), (later,) = qm.messages("q", complete=True).items, qm.scheduled("q", complete=True).items
    assert (ready.message.body, ready.complete) == (b"x" * 10_000, True)
    assert (later.message.lookup_id, later.message.body) == (delayed.lookup_id, b"y" * 10_000)
    for read in (qm.messages, qm.scheduled):
        with pytest.raises(InvalidArgument, match="complete"):
            read("q", complete="yes")
    alone = qm.message("q", sent.lookup_id)
    assert (alone.message.body, alone.complete, alone.bytes) == (b"x" * 10_000, True, stored.bytes)


def test_message_reports_its_state(qm: Any) -> None:
    queue = made(qm)
    later = queue.send(b"later", delay=60).lookup_id
    first, second = queue.send(b"a").lookup_id, queue.send(b"b").lookup_id
    queue.lock(0)
    assert [qm.message("q", lookup_id).state for lookup_id in (later, first, second)] == [
        "delayed", "locked", "ready",
    ]  # fmt: skip
    assert qm.message("q", later).due_at is not None
    with pytest.raises(MessageNotFound, match="0x"):
        qm.message("q", 5)


def test_browse_with_delayed_shows_delayed_messages(qm: Any) -> None:
    queue = made(qm)
    queue.send(b"later", delay=60)
    queue.send(b"x" * 10_000, delay=30)
    queue.send(b"now")
    assert [message.body for message in queue.browse()] == [b"now"]
    assert [message.body for message in queue.browse(delayed=True)] == [b"now", b"x" * 10_000, b"later"]
    with pytest.raises(NotSupported):
        list(qm.open("q", selector="a = 1").browse(delayed=True))


def test_invalid_arguments_are_refused(qm: Any) -> None:
    made(qm)
    with pytest.raises(SelectorSyntaxError):
        qm.messages("q", selector="a =")
    for moment in ("now", 5, datetime(2026, 1, 1)):  # noqa: DTZ001 - this is what is refused
        with pytest.raises(InvalidArgument, match="time zone"):
            qm.scheduled("q", since=moment)
    for call in (qm.messages, qm.scheduled):
        with pytest.raises(InvalidArgument, match="next"):
            call("q", after="nonsense")


def test_message_locked_again_after_abort_is_reported_as_locked(qm: Any) -> None:
    queue = made(qm)
    sent = queue.send(b"x")
    queue.lock(0).abort()
    assert qm.message("q", sent.lookup_id).state == "ready"
    queue.lock(0)
    assert qm.message("q", sent.lookup_id).state == "locked"
