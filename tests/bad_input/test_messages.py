"""Invalid or oversized messages, closed objects, and objects of other managers or types."""

from __future__ import annotations

import pytest

import mqredis
from mqredis.errors import (
    InvalidArgument,
    InvalidHandle,
    MessageTooLarge,
    MqError,
    QueueNotFound,
    TransactionUsage,
)
from mqredis.models import Access
from mqredis.settings import Settings


@pytest.mark.parametrize("body", [None, 5, 1.5, ["A"], {"a": 1}, object()], ids=lambda b: type(b).__name__)
def test_body_of_another_type(bench, body):
    with bench.refuses(InvalidArgument):
        bench.q.send(body)
    with bench.refuses(InvalidArgument):
        bench.q.send_many([b"good", body])


@pytest.mark.parametrize(
    "fields",
    [
        {"label": "x" * 250},
        {"label": 5},
        {"content_type": "x" * 256},
        {"colour": "red"},
        {"message_id": 5},
        {"message_id": b"x" * 256},
        {"correlation_id": "x" * 256},
        {"correlation_id": ["c"]},
        {"properties": {"": 1}},
        {"properties": {5: 1}},
        {"properties": {"n" * 256: 1}},
        {"properties": {"n": object()}},
        {"properties": {"n": [1]}},
        {"properties": {"n": 2**63}},
        {"properties": {"n": float("nan")}},
        {"properties": {"n": float("inf")}},
        {"properties": {f"n{i}": 1 for i in range(200)}},
        {"properties": "n=1"},
        {"label": "\ud800"},
        {"properties": {"n": "\ud800"}},
    ],
    ids=lambda f: str(f)[:30].encode("ascii", "backslashreplace").decode(),
)
def test_invalid_message_field(bench, fields):
    with bench.refuses(InvalidArgument):
        bench.q.send(b"B", **fields)


def test_body_above_the_limit_of_the_queue(bench):
    bench.qm.update_queue("q", max_message_bytes=1000)
    with bench.qm.open("q") as queue, bench.refuses(MessageTooLarge):
        queue.send(b"x" * 1001)
    with bench.refuses(MessageTooLarge):  # this handle was opened before the limit was lowered
        bench.q.send(b"x" * 1001)
    with bench.refuses(MessageTooLarge):
        bench.q.send_many([b"good", b"x" * 1001])


def test_body_above_the_limit_of_the_client(bench):
    bench.qm.update_queue("q", max_message_bytes=8_000_000)
    small = Settings(test_clock=True, allow_volatile=True, max_message_bytes=2000)
    with mqredis.connect(bench.raw, manager=bench.manager, settings=small) as qm, qm.open("q") as queue:
        with bench.refuses(MessageTooLarge):
            queue.send(b"x" * 2001)
        with bench.refuses(MessageTooLarge):
            queue.send(b"", properties={f"n{i}": "x" * 100 for i in range(30)})


def test_unknown_queue(bench):
    for call in (bench.qm.open, bench.qm.queue_info, bench.qm.delete_queue, bench.qm.update_queue):
        with bench.refuses(QueueNotFound):
            call("nowhere")


@pytest.mark.parametrize("access", ["all", 1, None, True])
def test_access_of_another_type(bench, access):
    with bench.refuses(InvalidArgument):
        bench.qm.open("q", access)


@pytest.mark.parametrize("share", ["deny", 1, None])
def test_share_of_another_type(bench, share):
    with bench.refuses(InvalidArgument):
        bench.qm.open("q", Access.ALL, share)


def test_closed_queue_cursor_and_lock(bench):
    cursor, closed = bench.q.cursor(), bench.qm.open("q")
    cursor.close()
    other = closed.cursor()
    held = closed.lock(0)
    closed.close()
    for call in (
        lambda: cursor.peek(0),
        lambda: other.peek(0),
        lambda: closed.send(b"B"),
        lambda: closed.move(bench.id, bench.q),
        lambda: bench.q.move(bench.id, closed),
        held.commit,
        held.extend,
    ):
        with bench.refuses(InvalidHandle):
            call()


def test_closed_manager(bench):
    with mqredis.connect(bench.raw, manager=bench.manager, settings=bench.qm._context.settings) as qm:
        queue = qm.open("q")
    for call in (qm.info, lambda: qm.open("q"), lambda: queue.peek(0), lambda: queue.send(b"B")):
        with bench.refuses(InvalidHandle):
            call()


@pytest.fixture
def other_manager(bench):
    """A handle, a transaction and a lock of another queue manager on the same server."""
    settings = Settings(test_clock=True, allow_volatile=True)
    with mqredis.connect(bench.raw, manager=bench.manager + "-2", settings=settings) as qm:
        qm.create_queue("t", transactional=True)
        with qm.transaction() as tx:
            qm.open("t").send(b"A", transaction=tx)
        yield qm


def test_foreign_transaction(bench, other_manager):
    tx = other_manager.transaction()
    with bench.refuses(MqError):
        bench.t.send(b"B", transaction=tx)
    with bench.refuses(MqError):
        bench.t.receive(0, transaction=tx)
    with bench.refuses(MqError):
        bench.t.receive_by_lookup_id(1, transaction=tx)


def test_foreign_target_of_a_move(bench, other_manager):
    target = other_manager.open("t", Access.MOVE)
    with bench.refuses(InvalidArgument, InvalidHandle):
        bench.t.move(bench.t.peek(0).lookup_id, target)


def test_unrelated_target_of_a_move(bench):
    bench.qm.create_queue("other")
    with bench.qm.open("other", Access.MOVE) as target, bench.refuses(InvalidArgument):
        bench.q.move(bench.id, target)
    with bench.refuses(InvalidArgument, InvalidHandle):
        bench.q.move(bench.id, bench.q)


def test_foreign_lock_is_not_settled(bench):
    held = bench.t.lock(0)
    with bench.refuses(MqError):
        bench.q.lock_many(1, 0, settle=[held])
    held.abort()
    assert bench.t.peek(0).body == b"A"


@pytest.mark.parametrize("transaction", ["t1", 5, True, object()], ids=lambda t: type(t).__name__)
def test_transaction_of_another_type(bench, transaction):
    with bench.refuses(InvalidArgument):
        bench.t.send(b"B", transaction=transaction)
    with bench.refuses(InvalidArgument):
        bench.t.receive(0, transaction=transaction)


@pytest.mark.parametrize("target", ["t", 5, None, object()], ids=lambda t: type(t).__name__)
def test_move_target_of_another_type(bench, target):
    with bench.refuses(InvalidArgument):
        bench.q.move(bench.id, target)


@pytest.mark.parametrize("lock", ["lock", 5, None], ids=lambda t: type(t).__name__)
def test_lock_of_another_type(bench, lock):
    with bench.refuses(InvalidArgument):
        bench.q.lock_many(1, 0, settle=[lock])


def test_transaction_on_the_wrong_kind_of_queue(bench):
    tx = bench.qm.transaction()
    with bench.refuses(TransactionUsage):
        bench.q.send(b"B", transaction=tx)
    with bench.refuses(TransactionUsage):
        bench.q.receive(0, transaction=tx)
    with bench.refuses(TransactionUsage):
        bench.t.send(b"B")
