"""Who holds messages: locks, transactions, sessions."""

from __future__ import annotations

import os
from typing import Any

import pytest

import mqredis
from mqredis import Match
from mqredis.errors import InvalidArgument, QueueNotFound, SelectorSyntaxError
from tests.support.facade import Pending
from tests.support.until import until

pytestmark = pytest.mark.parametrize("connect", ["real-sync", "fake-async"], indirect=True)


def pages(call: Any, **how: Any) -> list[Any]:
    """All items of a paged list, which must end within 50 pages."""
    found: list[Any] = []
    after = None
    for _ in range(50):
        page = call(after=after, **how)
        found += page.items
        after = page.next
        if after is None:
            return found
    raise AssertionError("the pages do not end")


def made(qm: Any, name: str = "q", **properties: Any) -> Any:
    qm.create_queue(name, **properties)
    return qm.open(name)


def test_lock_info_names_the_message_and_the_holder(qm: Any, connect: Any) -> None:
    queue = made(qm)
    sent = queue.send(b"a", message_id="m-1", label="first")
    other = connect(client_name="reader").open("q")
    held = other.lock(0, lease=20)
    (lock,) = qm.locks("q").items
    assert (lock.queue, lock.lookup_id, lock.message_id, lock.label) == ("q", sent.lookup_id, "m-1", "first")
    assert (lock.kind, lock.transaction, lock.purged, lock.overdue) == ("lock", None, False, False)
    assert (lock.client.name, lock.client.process) == ("reader", os.getpid())
    assert lock.client.version == mqredis.__version__
    assert lock.client.host
    assert lock.session in {session.number for session in pages(qm.sessions)}
    assert (lock.worker, lock.consumer) == ("", "")
    assert (lock.deliveries, lock.attempts, lock.fence) == (1, 1, held.fence)
    assert (lock.lease_until - lock.since).total_seconds() == 20
    held.commit()
    assert not qm.locks("q").items


def test_lock_info_has_the_generated_message_id(qm: Any) -> None:
    queue = made(qm)
    queue.send(b"a")
    message = queue.lock(0).message
    (lock,) = qm.locks("q").items
    assert lock.message_id == message.message_id


def test_label_of_a_very_large_record_is_read_only_for_a_match(qm: Any) -> None:
    """A page has a bounded cost, so records of more than 64 KiB without the body are not read for it."""
    queue = made(qm)
    queue.send(b"a", label="first", correlation_id="c", properties={"text": "x" * 70_000})
    queue.send(b"b", label="second", properties={"text": "x" * 50_000})
    assert len(queue.lock_many(2, timeout=0)) == 2
    assert [lock.label for lock in qm.locks("q").items] == ["", "second"]
    assert [lock.label for lock in qm.locks("q", match=Match(correlation_id="c")).items] == ["first"]


def test_lock_time_is_unknown_after_a_later_call_of_the_reader(qm: Any) -> None:
    queue = made(qm)
    queue.send(b"a")
    queue.lock(0)
    queue.send(b"b")
    assert [lock.since for lock in qm.locks("q").items] == [None]


def test_lock_info_counts_deliveries_and_attempts(qm: Any) -> None:
    queue = made(qm)
    queue.send(b"a")
    queue.lock(0).abort()
    queue.lock(0).abort()
    queue.lock(0)
    (lock,) = qm.locks("q").items
    assert (lock.deliveries, lock.attempts) == (3, 3)


def test_expired_lease_is_listed_as_overdue_until_a_call_handles_it(qm: Any) -> None:
    queue = made(qm)
    queue.send(b"a")
    queue.lock(0, lease=5)
    qm.advance_clock(6)
    (lock,) = qm.locks("q").items
    assert lock.overdue
    qm.maintain()
    assert not qm.locks("q").items


@pytest.mark.parametrize("limit", [7, 256])
@pytest.mark.parametrize("renewed", [False, True])
def test_pages_list_every_lock_once_in_the_order_of_lease_ends(qm: Any, limit: int, renewed: bool) -> None:
    queue = made(qm)
    ids = [queue.send(b"x").lookup_id for _ in range(60)]
    locked = []
    for lease in (30, 10, 20):  # packed and single locks, with equal lease ends
        locked += queue.lock_many(8, 0, lease=lease)
        locked += [queue.lock(0, lease=lease) for _ in range(4)]
    if renewed:
        locked[3].extend(15)  # then each lock is stored by itself
    found = pages(lambda **how: qm.locks("q", **how), limit=limit)
    assert sorted(lock.lookup_id for lock in found) == ids[:36]
    assert [lock.lease_until for lock in found] == sorted(lock.lease_until for lock in found)


def test_next_page_is_correct_after_locks_were_committed(qm: Any) -> None:
    queue = made(qm)
    for _ in range(9):
        queue.send(b"x")
    locks = [queue.lock(0, lease=10 + n) for n in range(9)]
    first = qm.locks("q", limit=4)
    locks[3].commit()  # the last one of the page
    locks[0].commit()
    second = qm.locks("q", limit=10, after=first.next)
    assert [lock.lookup_id for lock in second.items] == [lock.message.lookup_id for lock in locks[4:]]
    assert second.next is None


def test_locks_are_chosen_by_identifier_and_selector(qm: Any) -> None:
    queue = made(qm)
    for n in range(600):
        queue.send(b"x", message_id=f"m-{n}", correlation_id=f"c-{n % 200}", properties={"n": n})
    for lease in (300, 200, 100):
        queue.lock_many(190, 0, lease=lease)
    held = [queue.lock(0, lease=600) for _ in range(5)]

    def found(**how: Any) -> list[Any]:
        return [lock.message_id for lock in pages(lambda **page: qm.locks("q", **page, **how), limit=256)]

    assert found(match=Match(message_id="m-569")) == ["m-569"]
    assert found(match=Match(message_id="m-574")) == ["m-574"]  # a lock with a state of its own
    assert found(match=Match(message_id="m-599")) == []  # not locked
    assert sorted(found(match=Match(correlation_id="c-7"))) == ["m-207", "m-407", "m-7"]
    assert sorted(found(selector="n > 563 AND n < 600")) == [f"m-{n}" for n in range(564, 575)]
    assert found(match=Match(correlation_id="c-7"), selector="n > 300") == ["m-407"]
    page = qm.locks("q", match=Match(message_id="m-574"))
    # The match is behind the locks that a page looks at.
    assert (page.items, page.next is None) == (
        (),
        False,
    )
    one_by_one = pages(lambda **how: qm.locks("q", selector="n >= 570", **how), limit=1)
    assert sorted(lock.lookup_id for lock in one_by_one) == sorted(lock.lookup_id for lock in held)
    assert len(qm.locks("q", selector="n >= 0", limit=3).items) == 3
    with pytest.raises(SelectorSyntaxError):
        qm.locks("q", selector="n >")


def test_lock_of_a_transaction_is_chosen_by_identifier(qm: Any) -> None:
    queue = made(qm, transactional=True)
    with qm.transaction() as unit:
        queue.send_many([b"a", b"b"], transaction=unit)
    with qm.transaction() as unit:
        taken = queue.receive(0, transaction=unit)
        match = Match(message_id=taken.message_id)
        assert [lock.kind for lock in qm.locks("q", match=match).items] == ["received"]


def test_lock_of_a_transaction_that_has_ended_is_listed_without_its_session(qm: Any, connect: Any) -> None:
    queue = made(qm, transactional=True)
    with qm.transaction() as unit:
        queue.send(b"a", transaction=unit)
    unit = qm.transaction(lease=5)
    queue.receive(0, transaction=unit)
    qm.advance_clock(6)
    connect().info()  # a new client forgets transactions whose lease is over
    (lock,) = qm.locks("q").items
    assert (lock.kind, lock.transaction, lock.session, lock.overdue) == ("received", unit.id, "", True)
    qm.maintain()


def test_transaction_info_lists_its_messages(qm: Any, connect: Any) -> None:
    queue, target = made(qm, transactional=True), made(qm, "out", transactional=True)
    with qm.transaction() as tx:
        received = [queue.send(b"a", transaction=tx), queue.send(b"b", transaction=tx)]
    client = connect(client_name="worker-7")
    tx = client.transaction(lease=25)
    client.open("q").receive(0, transaction=tx)
    sent = client.open("out").send(b"c", transaction=tx)
    (one,) = pages(qm.transactions)
    assert (one.id, one.client.name, one.operations) == (tx.id, "worker-7", 2)
    assert (one.lease_until - one.since).total_seconds() == 25
    held = [(each.kind, each.queue, each.lookup_id) for each in one.holds]
    assert held == [("received", "q", received[0].lookup_id), ("sent", "out", sent.lookup_id)]
    (lock,) = qm.locks("q").items
    assert (lock.kind, lock.transaction, lock.client.name) == ("received", tx.id, "worker-7")
    assert [lock.kind for lock in qm.locks("out").items] == ["sent"]
    tx.abort()
    assert not pages(qm.transactions)
    assert target.name == "out"


def test_pages_list_every_transaction(qm: Any) -> None:
    queue = made(qm, transactional=True)
    open_ones = []
    for _ in range(180):
        tx = qm.transaction()
        queue.send_many([b"x", b"y"], transaction=tx)
        open_ones.append(tx)
    found = pages(qm.transactions)
    assert {one.id for one in found} == {tx.id for tx in open_ones}
    assert {one.operations for one in found} == {2}
    for tx in open_ones:
        tx.abort()


def test_transaction_with_an_expired_lease_is_not_listed(qm: Any) -> None:
    queue = made(qm, transactional=True)
    queue.send(b"x", transaction=qm.transaction(lease=5))
    qm.advance_clock(6)
    assert not pages(qm.transactions)
    qm.maintain()


def test_session_is_listed_until_its_client_closes(qm: Any, connect: Any) -> None:
    qm.info()
    before = {session.number for session in pages(qm.sessions)}
    client = connect(client_name="short", session_ttl_seconds=60)
    made(client)
    new = [session for session in pages(qm.sessions) if session.number not in before]
    assert [(session.client.name, session.ttl_seconds) for session in new] == [("short", 60)]
    assert new[0].last_seen is not None
    client.close()
    assert {session.number for session in pages(qm.sessions)} == before


def test_pages_list_every_session(qm: Any, connect: Any) -> None:
    for n in range(9):
        connect(client_name=f"c{n}").info()
    names = {session.client.name for session in pages(qm.sessions, limit=2)}
    assert names >= {f"c{n}" for n in range(9)}


@pytest.mark.parametrize("after", ["", "x", "1", "1-", "-1", "1-zz", "9" * 40, "٣-٣"])
def test_invalid_page_position_is_refused(qm: Any, after: str) -> None:
    made(qm)
    for call in (lambda: qm.locks("q", after=after), lambda: qm.sessions(after=after)):
        with pytest.raises(InvalidArgument, match="next"):
            call()


def test_unknown_queue_is_refused(qm: Any) -> None:
    for call in (qm.locks, qm.claims):
        with pytest.raises(QueueNotFound, match="ghost"):
            call("ghost")


def test_session_info_counts_waiting_readers_per_queue(qm: Any, connect: Any) -> None:
    reader = connect(client_name="reader")
    names = ["q", "r", *(f"idle{n}" for n in range(140))]
    for name in names:
        qm.create_queue(name)
    q, r = reader.open("q"), reader.open("r")
    waiting = [Pending(lambda: q.receive(30)) for _ in range(2)]
    waiting.append(Pending(lambda: r.lock(30, match=Match(correlation_id="c"))))
    until(lambda: qm.queue_info("q").waiters == 2)
    until(lambda: qm.queue_info("r").waiters == 1)
    waiting_by_client = {session.client.name: session.waiting for session in pages(qm.sessions)}
    assert waiting_by_client.pop("reader") == {"q": 2, "r": 1}
    assert not any(waiting_by_client.values())
    with qm.open("q") as queue:
        queue.send_many([b"1", b"2"])
    with qm.open("r") as queue:
        queue.send(b"3", correlation_id="c")
    for each in waiting:
        each.result(30)
    assert not any(session.waiting for session in pages(qm.sessions))
