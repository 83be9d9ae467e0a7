"""Expired leases, delays and messages are handled before a call decides, however many there are."""

from __future__ import annotations

import pytest

from mqredis import Access, Outgoing, Seek
from tests.msmq.kit import drain, make, read

# More timers than one page, and more than one call handles.
MANY = (40, 700)


@pytest.mark.parametrize("count", MANY)
@pytest.mark.parametrize("how", ["receive", "peek", "first"])
def test_first_message_is_found_when_many_leases_have_expired(qm, count, how):
    q = make(qm)
    q.send_many([b"%d" % n for n in range(count)])
    q.lock(0, lease=10)
    while q.lock_many(256, 0, lease=5):
        if qm.queue_info("q").ready == 0:
            break
    qm.advance_clock(20)
    found = {
        "receive": lambda: q.receive(0),
        "peek": lambda: q.peek(0),
        "first": lambda: q.peek_by_lookup_id(0, seek=Seek.FIRST),
    }[how]()
    assert found.body == b"0"


@pytest.mark.parametrize("count", MANY)
def test_message_of_highest_priority_is_found_when_many_delays_are_over(qm, count):
    q = make(qm)
    q.send_many([Outgoing(body=b"late", delay=5, priority=3) for _ in range(count)])
    q.send(b"first", delay=6, priority=7)
    qm.advance_clock(20)
    assert q.receive(0).body == b"first"


@pytest.mark.parametrize("count", MANY)
def test_purge_includes_all_messages_with_expired_leases(qm, count):
    q = make(qm)
    q.send_many([b"x"] * count)
    while qm.queue_info("q").ready:
        q.lock_many(256, 0, lease=5)
    qm.advance_clock(6)
    assert q.purge() == count
    assert (qm.queue_info("q").messages, qm.queue_info("q").locked) == (0, 0)


def test_message_with_an_expired_lease_can_be_moved(qm):
    q = make(qm)
    sent = q.send_many([b"%d" % n for n in range(40)])
    q.lock_many(40, 0, lease=5)
    qm.advance_clock(6)
    with qm.open("q;s", Access.MOVE) as target:
        q.move(sent[-1].lookup_id, target)
    assert read(qm.open("q;s")) == "39"


def test_cursor_receives_its_message_after_the_lease_has_expired(qm):
    q = make(qm)
    q.send_many([b"%d" % n for n in range(40)])
    cursor = q.cursor()
    last = cursor.peek(0)
    for _ in range(39):
        last = cursor.peek_next(0)
    q.lock_many(40, 0, lease=5)
    qm.advance_clock(6)
    assert cursor.receive(0).lookup_id == last.lookup_id


@pytest.mark.parametrize("count", MANY)
@pytest.mark.parametrize("limit", ["bytes", "messages", "manager"])
def test_expired_messages_do_not_count_in_quotas(qm, count, limit):
    q = make(
        qm, **{} if limit == "manager" else {f"quota_{limit}": count if limit == "messages" else count * 40}
    )
    small = [Outgoing(body=b"x", time_to_be_received=5) for _ in range(count - 1)]
    q.send_many(small)
    if limit == "bytes":
        q.send(b"x" * (count * 40 - qm.queue_info("q").bytes - 30), time_to_be_received=6)
    else:
        q.send(b"x", time_to_be_received=6)
    if limit == "manager":
        qm.set_quota(messages=qm.info().messages)
    qm.advance_clock(10)
    q.send(b"x" * (count * 20 if limit == "bytes" else 1))
    assert len(drain(qm, "q")) == 1


@pytest.mark.parametrize("count", MANY)
def test_dedup_key_is_free_after_its_window(qm, count):
    q = make(qm)
    q.send_many([Outgoing(body=b"x", dedup_key=f"k{n}", dedup_window=5 + n / 100) for n in range(count)])
    while q.receive_many(256, 0):
        if not qm.queue_info("q").messages:
            break
    qm.advance_clock(60)
    q.send(b"y", dedup_key=f"k{count - 1}")
    assert [message.body for message in drain(qm, "q")] == [b"y"]


def test_redrive_from_a_subqueue_is_counted_in_its_queue(qm):
    q = make(qm, quota_messages=1)
    make(qm, "o")
    with qm.open("q;s") as target:
        q.move(q.send(b"B").lookup_id, target)
        assert qm.redrive("q;s", to="o") == 1
    assert qm.doctor().findings == ()
    q.send(b"x")
    with qm.open("q;s") as target:
        q.move(q.peek(0).lookup_id, target)
        assert qm.redrive("q;s", to="q") == 1
    assert read(q) == "x"
    assert qm.doctor().findings == ()


@pytest.mark.parametrize("count", [1, *MANY])
def test_queue_info_excludes_expired_messages(qm, count):
    q = make(qm)
    q.send_many([Outgoing(body=b"x", time_to_be_received=5) for _ in range(count)])
    q.send(b"held")
    q.send(b"late", delay=5)
    q.lock_by_lookup_id(q.peek_by_lookup_id(0, seek=Seek.LAST).lookup_id, lease=5)
    qm.advance_clock(6)
    for info in (qm.queue_info("q"), qm.queues()[0], qm.statistics("q")):
        assert (info.ready, info.delayed, info.locked, info.messages) == (2, 0, 0, 2)
    assert qm.info().messages == 2


def test_empty_subqueue_is_kept_while_a_transaction_moves_a_message_there(qm):
    t = make(qm, "t", transactional=True)
    with qm.transaction() as unit:
        sent = [t.send(body, transaction=unit) for body in (b"A", b"B")]
    for end in ("commit", "abort"):
        unit = qm.transaction()
        target, other = qm.open("t;s", Access.MOVE), qm.open("t;s2", Access.MOVE)
        t.move(sent.pop(0).lookup_id, target, transaction=unit)
        target.close()
        other.close()  # its name begins like the other one's
        assert [info.name for info in qm.queues("t;*")] == ["t;s"]
        getattr(unit, end)()
        assert qm.doctor().findings == ()
        assert read(qm.open("t;s")) == ("A" if end == "commit" else "")
        qm.open("t;s").close()
        qm.open("t;s").purge()
    assert read(t) == "B"
