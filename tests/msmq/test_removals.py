"""Each way in which a message leaves a queue, and what it leaves behind: acknowledgement, dead letter, journal copies.

The rules: MS-MQQB 3.1.5.7, 3.1.5.8.10, 3.1.7.2.1 and MC-MQAC 3.11.4.1.7, as in rows 18 to 22 of docs/semantics.md.
"""

from __future__ import annotations

from typing import Any

import pytest

from mqredis import (
    DEAD_LETTER,
    SYSTEM_JOURNAL,
    TRANSACTIONAL_DEAD_LETTER,
    Access,
    Acknowledge,
    Journal,
    Match,
    RetryPolicy,
)
from tests.msmq.kit import make

RECEIVED, DELETED, PURGED, EXPIRED, REJECTED = 0x4000, 0xC000, 0xC001, 0xC002, 0xC004
LEASE = 500.0


def moved(qm, q):
    """The message, moved to a subqueue."""
    sub = qm.open("q;s")
    q.move(q.peek(0).lookup_id, sub)
    return sub


def in_unit(qm, q, end, *, reject=False, purge=False, wait=0.0, move=False):
    """Receive or move in a transaction, and end that."""
    unit = qm.transaction(lease=LEASE)
    if move:
        q.move(q.peek(0).lookup_id, qm.open("q;s"), transaction=unit)
    else:
        message = q.receive(0, transaction=unit)
        if reject:
            unit.reject(q, message)
    if purge:
        q.purge()
    qm.advance_clock(wait)
    getattr(unit, end)()


def locked(qm, q, end, *, purge=False, wait=0.0):
    lock = q.lock(0, lease=LEASE)
    if purge:
        q.purge()
    qm.advance_clock(wait)
    getattr(lock, end)()


def fail(qm, q, **policy):
    qm.update_queue("q", retry=RetryPolicy(immediate=0, **policy))
    q.lock(0).abort()


# Name: (class with which the message leaves, or None if it stays; how).
PLAIN = {
    "receive": (RECEIVED, lambda _, q: q.receive(0)),
    "receive by id": (RECEIVED, lambda _, q: q.receive_by_lookup_id(q.peek(0).lookup_id)),
    "cursor": (RECEIVED, lambda _, q: q.cursor().receive(0)),
    "group": (RECEIVED, lambda _, q: q.receive_group(0)),
    "commit": (RECEIVED, lambda qm, q: locked(qm, q, "commit")),
    "commit after expiry": (RECEIVED, lambda qm, q: locked(qm, q, "commit", wait=101)),
    "abort after expiry": (EXPIRED, lambda qm, q: locked(qm, q, "abort", wait=101)),
    "abort": (None, lambda qm, q: locked(qm, q, "abort")),
    "reject": (REJECTED, lambda qm, q: locked(qm, q, "reject")),
    "purge": (PURGED, lambda _, q: q.purge()),
    "purge by match": (PURGED, lambda _, q: q.purge(match=Match(correlation_id="c"))),
    "purge, commit": (PURGED, lambda qm, q: locked(qm, q, "commit", purge=True)),
    "purge, abort after expiry": (PURGED, lambda qm, q: locked(qm, q, "abort", purge=True, wait=101)),
    "purge, lease over": (PURGED, lambda qm, q: (q.lock(0), q.purge(), qm.advance_clock(LEASE))),
    "delete under a lock": (DELETED, lambda qm, q: (q.lock(0), qm.delete_queue("q"))),
    "delete with a subqueue": (DELETED, lambda qm, q: (moved(qm, q), qm.delete_queue("q"))),
    "expiry": (EXPIRED, lambda qm, _: qm.advance_clock(101)),
    "expiry in a subqueue": (EXPIRED, lambda qm, q: (moved(qm, q), qm.advance_clock(101))),
    "move": (None, moved),
    "purge of the queue of a subqueue": (None, lambda qm, q: (moved(qm, q), q.purge())),
    "receive from a subqueue": (RECEIVED, lambda qm, q: moved(qm, q).receive(0)),
    "purge of a subqueue": (PURGED, lambda qm, q: moved(qm, q).purge()),
    "poison": (None, fail),
    "last attempt, reject": (REJECTED, lambda qm, q: fail(qm, q, final="reject")),
}
IN_UNIT: dict[str, tuple[int | None, dict[str, Any]]] = {
    "commit": (RECEIVED, {}),
    "abort": (None, {}),
    "commit, rejected": (REJECTED, {"reject": True}),
    "abort, rejected": (None, {"reject": True}),
    "commit, purged": (RECEIVED, {"purge": True}),
    "commit, rejected and purged": (REJECTED, {"reject": True, "purge": True}),
    "abort, purged": (PURGED, {"purge": True}),
    "abort of a move, purged": (PURGED, {"purge": True, "move": True}),
    "commit after expiry": (RECEIVED, {"wait": 101}),
    "abort after expiry": (EXPIRED, {"wait": 101}),
    "commit of a move after expiry": (EXPIRED, {"wait": 101, "move": True}),
}


def check(qm, transactional, leaves, how):
    make(qm, "admin")
    q = make(qm, transactional=transactional, journaling=True)
    fields = {"correlation_id": "c", "time_to_be_received": 100, "administration_queue": "admin"}
    fields |= {"acknowledge": Acknowledge(15), "journal": Journal.JOURNAL | Journal.DEAD_LETTER}
    if transactional:
        with qm.transaction() as unit:
            q.send(b"a", transaction=unit, **fields)
    else:
        q.send(b"a", **fields)
    how(qm, q)
    qm.maintain()
    names = ("admin", DEAD_LETTER, TRANSACTIONAL_DEAD_LETTER, SYSTEM_JOURNAL, "q;journal")
    found = {}
    for info in qm.queues():
        if info.name in names:
            found[info.name] = [(m.message_class, m.body) for m in qm.open(info.name, Access.PEEK).browse()]
    negative = leaves not in (None, RECEIVED)
    letters = [(leaves, b"a")] if negative else []
    ends = letters or ([(RECEIVED, b"")] if leaves else [])
    copies = [(0, b"a")] if leaves == RECEIVED else []
    assert found["admin"] == [(0x0002, b""), *ends]
    assert found.get(TRANSACTIONAL_DEAD_LETTER, []) == (letters if transactional else [])
    plain = letters if leaves in (EXPIRED, REJECTED) and not transactional else []
    assert found.get(DEAD_LETTER, []) == plain
    assert found.get(SYSTEM_JOURNAL, []) == (copies if transactional else [(0, b"a")])
    assert found.get("q;journal", []) == copies


@pytest.mark.parametrize("transactional", [False, True], ids=["plain", "transactional"])
@pytest.mark.parametrize("leaves, how", PLAIN.values(), ids=PLAIN.keys())
def test_message_that_leaves_its_queue(qm, transactional, leaves, how):
    check(qm, transactional, leaves, how)


@pytest.mark.parametrize("name", IN_UNIT)
def test_message_that_leaves_its_queue_in_a_transaction(qm, name):
    leaves, options = IN_UNIT[name]
    check(qm, True, leaves, lambda qm, q: in_unit(qm, q, name.split()[0].strip(","), **options))
