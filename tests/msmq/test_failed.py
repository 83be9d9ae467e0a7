"""Queues of failed messages: warnings, lifetimes, and that they never block senders."""

from __future__ import annotations

import pytest

from mqredis import (
    DEAD_LETTER,
    SYSTEM_JOURNAL,
    TRANSACTIONAL_DEAD_LETTER,
    Access,
    DuplicateMessage,
    InvalidArgument,
    QueueNotFound,
    QueueQuotaExceeded,
    RetryPolicy,
)
from tests.msmq.kit import make, read

AT_ONCE = RetryPolicy(immediate=0)
TO_DEAD = RetryPolicy(immediate=0, final="dead_letter", dead_letter_queue="dead")
TO_SYSTEM = RetryPolicy(immediate=0, final="dead_letter")


def fail(queue, count):
    """Send and fail ``count`` messages."""
    for _ in range(count):
        queue.send(b"a")
        queue.lock(0).abort()


def warned(qm):
    """Queues with a warning of the doctor."""
    return {found.where for found in qm.doctor().advice if found.code == "queue.failed"}


def test_failed_messages_above_the_limit_are_warned_of(connect):
    qm = connect(failed_messages_warning=2)
    make(qm, "dead")
    queues = {
        "p;poison": make(qm, "p", retry=AT_ONCE),
        "dead": make(qm, "d", retry=TO_DEAD),
        DEAD_LETTER: make(qm, "s", retry=TO_SYSTEM),
    }
    for queue in queues.values():
        fail(queue, 2)
    held = {each.queue: (each.messages, each.warning) for each in qm.failed_messages()}
    assert {name: held[name] for name in queues} == dict.fromkeys(queues, (2, None))
    assert warned(qm) == set()
    assert qm.statistics("p").warnings == ()
    for queue in queues.values():
        fail(queue, 1)
    texts = {each.queue: str(each.warning) for each in qm.failed_messages() if each.messages}
    assert set(texts) == set(queues)
    for name, text in texts.items():
        assert text.startswith(f"3 failed messages are in {name}, more than failed_messages_warning (2)")
    assert warned(qm) == set(queues)
    assert qm.statistics("p").warnings == (texts["p;poison"],)
    with qm.open("p;retry"):
        assert qm.statistics("p;retry").warnings == (texts["p;poison"],)
    assert qm.statistics(DEAD_LETTER).warnings == (texts[DEAD_LETTER],)


def test_system_dead_letter_queues_exist_from_the_start(qm):
    names = [DEAD_LETTER, TRANSACTIONAL_DEAD_LETTER]
    assert [(each.queue, each.messages, each.warning) for each in qm.failed_messages()] == [
        (name, 0, None) for name in sorted(names)
    ]
    for name in names:
        assert (qm.statistics(name).messages, qm.queue_info(name).messages) == (0, 0)
    with qm.open(SYSTEM_JOURNAL) as journal:
        assert list(journal.browse()) == []


def test_queue_info_of_a_system_queue_works_before_its_first_use(qm):
    assert qm.queue_info(DEAD_LETTER).ready == 0
    with pytest.raises(QueueNotFound):
        qm.queue_info("system$;other")


@pytest.mark.parametrize("final", [AT_ONCE, TO_DEAD, TO_SYSTEM], ids=["poison", "named", "system"])
def test_failed_messages_do_not_count_in_the_quota_of_their_queue(qm, final):
    make(qm, "dead", quota_messages=1)
    q = make(qm, retry=final, quota_messages=2, quota_bytes=200)
    fail(q, 20)
    q.send_many([b"b", b"c"])
    with pytest.raises(QueueQuotaExceeded):
        q.send(b"d")
    assert qm.info().messages == 22


def test_failed_messages_are_deleted_after_failed_time_to_live(qm):
    for name, policy in (("p", AT_ONCE), ("s", TO_SYSTEM)):
        queue = make(qm, name, retry=policy, failed_time_to_live=60)
        assert qm.queue_info(name).failed_time_to_live == 60
        qm.advance_clock(30)
        fail(queue, 1)
    qm.advance_clock(35)
    qm.maintain()
    assert {each.queue: each.messages for each in qm.failed_messages() if each.messages} == {DEAD_LETTER: 1}
    qm.advance_clock(30)
    qm.maintain()
    assert qm.info().messages == 0
    assert qm.doctor().findings == ()


@pytest.mark.parametrize("lease", [10, 500])
def test_failed_message_that_is_locked_when_its_time_ends_is_deleted_later(qm, lease):
    queue, poison = make(qm, retry=AT_ONCE, failed_time_to_live=60), qm.open("q;poison")
    queue.send_many([b"moved", b"failed"])
    queue.move(queue.peek(0).lookup_id, poison)
    queue.lock(0).abort()
    qm.advance_clock(55)
    locks = poison.lock_many(2, 0, lease=lease)
    qm.advance_clock(11)
    qm.maintain()
    for lock in locks if lease > 11 else ():
        lock.abort()
    assert read(poison) == "movedfailed"
    qm.advance_clock(60)
    qm.maintain()
    assert read(poison) == "moved"


def test_redriven_dead_letter_gets_its_original_time_to_live(qm):
    queue = make(qm, retry=TO_SYSTEM, failed_time_to_live=60)
    sent = queue.send(b"a", time_to_be_received=500)
    queue.lock(0).abort()
    with qm.open(DEAD_LETTER) as dead:
        assert (dead.peek(0).expires_at - dead.peek(0).arrived_at).total_seconds() == pytest.approx(60, abs=1)
    assert qm.redrive() == 1
    qm.advance_clock(100)
    back = queue.receive(0)
    assert back.lookup_id != sent.lookup_id
    assert (back.expires_at - back.arrived_at).total_seconds() == pytest.approx(500, abs=1)


def test_failed_time_to_live_starts_again_at_each_failure(qm):
    queue = make(qm, retry=AT_ONCE, failed_time_to_live=60)
    sent = queue.send(b"a")
    queue.lock(0).abort()
    qm.advance_clock(50)
    with qm.open("q;poison") as poison, qm.open("q", Access.MOVE) as target:
        poison.move(sent.lookup_id, target)
    queue.lock(0).abort()
    qm.advance_clock(50)
    qm.maintain()
    assert [each.messages for each in qm.failed_messages() if each.queue == "q;poison"] == [1]
    qm.advance_clock(11)
    qm.maintain()
    assert qm.info().messages == 0


def test_redriven_poison_message_is_not_deleted(qm):
    queue = make(qm, retry=AT_ONCE, failed_time_to_live=60)
    queue.send(b"a", time_to_be_received=500)
    queue.lock(0).abort()
    assert qm.redrive("q;poison") == 1
    qm.advance_clock(61)
    qm.maintain()
    back = queue.receive(0)
    assert (back.expires_at - back.arrived_at).total_seconds() == pytest.approx(500, abs=1)


def test_queue_cannot_be_its_own_dead_letter_queue(qm):
    with pytest.raises(InvalidArgument, match="dead_letter_queue is the queue 'dead' itself"):
        qm.create_queue("dead", retry=TO_DEAD)
    qm.create_queue("dead")
    with pytest.raises(InvalidArgument, match="dead_letter_queue is the queue 'dead' itself"):
        qm.update_queue("dead", retry=TO_DEAD)
    assert qm.queue_info("dead").retry is None


def test_quota_of_a_dead_letter_queue_includes_its_subqueues(qm):
    dead, queue = make(qm, "dead", quota_messages=2), make(qm, retry=TO_DEAD)
    fail(queue, 1)
    with qm.open("dead;aside") as aside:
        dead.move(dead.peek(0).lookup_id, aside)
        fail(queue, 2)
        held = {name: qm.queue_info(name).ready for name in ("dead", "dead;aside", "q;poison")}
        assert held == {"dead": 1, "dead;aside": 1, "q;poison": 1}


def test_redriven_poison_message_does_not_take_its_dedup_key_again(qm):
    queue = make(qm, retry=AT_ONCE)
    queue.send(b"a", dedup_key="k", dedup_window=1)
    queue.lock(0).abort()
    qm.advance_clock(2)
    assert qm.redrive("q;poison") == 1
    queue.send(b"b", dedup_key="k", dedup_window=1)
    assert queue.receive(0).body == b"a"
    qm.advance_clock(2)
    with pytest.raises(DuplicateMessage):
        queue.send(b"c", dedup_key="k")
    assert read(queue) == "b"
