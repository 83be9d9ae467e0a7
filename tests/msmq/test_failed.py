"""Queues of failed messages: who is told of them, and that they never keep senders from a queue."""

from __future__ import annotations

import pytest

from mqredis import (
    DEAD_LETTER,
    SYSTEM_JOURNAL,
    TRANSACTIONAL_DEAD_LETTER,
    QueueNotFound,
    QueueQuotaExceeded,
    RetryPolicy,
)
from tests.msmq.kit import make

AT_ONCE = RetryPolicy(immediate=0)
TO_DEAD = RetryPolicy(immediate=0, final="dead_letter", dead_letter_queue="dead")
TO_SYSTEM = RetryPolicy(immediate=0, final="dead_letter")


def fail(queue, count):
    """Send and fail so many messages."""
    for _ in range(count):
        queue.send(b"a")
        queue.lock(0).abort()


def warned(qm):
    """The queues that the doctor warns of."""
    return {found.where for found in qm.doctor().advice if found.code == "queue.failed"}


def test_poison_and_dead_letters_beyond_a_bound_are_warned_of(connect):
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
    assert qm.statistics(DEAD_LETTER).warnings == (texts[DEAD_LETTER],)


def test_the_dead_letter_queues_of_the_system_exist_from_the_start(qm):
    names = [DEAD_LETTER, TRANSACTIONAL_DEAD_LETTER]
    assert [(each.queue, each.messages, each.warning) for each in qm.failed_messages()] == [
        (name, 0, None) for name in sorted(names)
    ]
    for name in names:
        assert (qm.statistics(name).messages, qm.queue_info(name).messages) == (0, 0)
    with qm.open(SYSTEM_JOURNAL) as journal:
        assert list(journal.browse()) == []


def test_a_queue_of_the_system_can_be_asked_for_first(qm):
    assert qm.queue_info(DEAD_LETTER).ready == 0
    with pytest.raises(QueueNotFound):
        qm.queue_info("system$;other")


@pytest.mark.parametrize("final", [AT_ONCE, TO_DEAD, TO_SYSTEM], ids=["poison", "named", "system"])
def test_failed_messages_never_keep_senders_from_their_queue(qm, final):
    make(qm, "dead", quota_messages=1)
    q = make(qm, retry=final, quota_messages=2, quota_bytes=200)
    fail(q, 20)
    q.send_many([b"b", b"c"])
    with pytest.raises(QueueQuotaExceeded):
        q.send(b"d")
    assert qm.info().messages == 22
