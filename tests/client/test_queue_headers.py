"""Queue headers: the part of a queue that every call reads, one field of the manager's hash
(docs/decisions/storage.md)."""

from __future__ import annotations

import pytest

import mqredis
from mqredis.commands import queues as commands
from mqredis.operations.doctor import snapshot
from mqredis.operations.doctor.checks import queues
from mqredis.steps import Procedure, perform
from tests.support.backend import Backend
from tests.support.server import RedisServer

SETTINGS = mqredis.Settings(allow_volatile=True)


def test_messages_of_a_subqueue_are_counted_while_its_index_is_built(
    backend: Backend,
) -> None:
    with mqredis.connect(backend.client(), settings=SETTINGS) as qm:
        qm.create_queue("q", quota_messages=50)
        with qm.open("q") as queue, qm.open("q;s") as below:
            for n in range(6):
                queue.move(queue.send(b"y", correlation_id=f"c{n}").lookup_id, below)
            held = below.lock_many(2, 0)
            (last,) = below.lock_many(1, 0, settle=held, match=mqredis.Match(correlation_id="c4"))
            assert backend.client().hget("mq:{default}:q:q:q", "sub_messages") == b"4"
            last.abort()
            assert qm.doctor().healthy


def test_update_of_a_flag_stores_nothing_else(backend: Backend) -> None:
    with mqredis.connect(backend.client(), settings=SETTINGS) as qm:
        qm.create_queue("q")
        fields = {*backend.client().hkeys("mq:{default}:q:q:q")}
        qm.update_queue("q", put_inhibited=True)
        assert {*backend.client().hkeys("mq:{default}:q:q:q")} == fields


def test_publication_to_thousands_of_queues_writes_every_header(redis_server: RedisServer) -> None:
    """There are more headers than Lua's unpack can take at once."""
    many = 4100
    with mqredis.connect(redis_server.url, manager="many", settings=SETTINGS) as qm:
        qm.create_queue("news", topic=True)
        for n in range(many):
            qm.create_queue(f"q{n}")
            qm.subscribe("news", f"q{n}")
        with qm.open("news") as news:
            news.send(b"hello")
        assert qm.info().messages == many
        assert [qm.queue_info(f"q{n}").messages for n in (0, 1000, many - 1)] == [1, 1, 1]
    with redis_server.client() as client:
        client.flushdb()


def test_locks_unpacked_during_a_doctor_run_are_not_reported(backend: Backend) -> None:
    with mqredis.connect(backend.client(), settings=SETTINGS) as qm:
        qm.create_queue("q")
        with qm.open("q") as queue:
            queue.send_many([b"x"] * 12)
            queue.receive(0)
            held = queue.lock_many(4, 0)
            store = qm.run(Procedure(snapshot._read_store(qm._context.keys, ["q"])))  # unpacks the locks
            assert list(queues.headers(store)) == []
            store.fences.clear()  # as if the header had been read after that
            assert [fault.code for fault in queues.headers(store)] == ["queue.locks"]
            qm.run(Procedure(snapshot._drop_expanded_locks(store)))
            assert list(queues.headers(store)) == []
            queue.commit_many(held)


def test_doctor_removes_the_header_of_a_queue_without_properties(backend: Backend) -> None:
    with mqredis.connect(backend.client(), settings=SETTINGS) as qm:
        qm.create_queue("q")
        backend.client().delete("mq:{default}:q:q:q")
        assert {finding.code for finding in qm.doctor().findings} == {"queue.header", "queue.missing"}
        qm.doctor(repair=True)
        with pytest.raises(mqredis.QueueNotFound):
            qm.queue_info("q")
        assert qm.doctor().healthy
        qm.create_queue("q")


def test_lock_of_a_queue_whose_header_is_lost_holds(backend: Backend) -> None:
    """Only a header that is there can hold locks."""
    with mqredis.connect(backend.client(), settings=SETTINGS) as qm:
        qm.create_queue("q")
        with qm.open("q") as queue:
            queue.send(b"x")
            backend.client().hdel("mq:{default}:meta", "mq:{default}:q:q:q")
            lock = queue.lock(0)
            qm.doctor(repair=True)
            lock.commit()
        assert qm.queue_info("q").messages == 0
        assert qm.doctor().healthy


@pytest.mark.parametrize("sizes", [(3, 3), (1, 2), (2, 1), (1, 1), (2, 3, 4)])
def test_locks_of_several_calls_are_committed_by_one_call(backend: Backend, sizes: tuple[int, ...]) -> None:
    with mqredis.connect(backend.client(), settings=SETTINGS) as qm:
        qm.create_queue("q")
        with qm.open("q") as queue:
            queue.send(b"x")
            queue.receive(0)  # the first call of a session takes another path
            queue.send_many([b"x"] * sum(sizes))
            locks = [lock for size in sizes for lock in queue.lock_many(size, 0)]
            queue.commit_many(locks)
        assert qm.queue_info("q").messages == 0
        assert qm.doctor().healthy


def test_interrupted_deletion_leaves_the_counters_right(backend: Backend) -> None:
    with mqredis.connect(backend.client(), settings=SETTINGS) as qm:
        qm.create_queue("q")
        with qm.open("q") as queue, qm.open("q;s") as below:
            for n in range(300):
                queue.move(queue.send(b"x", dedup_key=f"k{n}").lookup_id, below)
        page = qm.run(perform(commands.delete(qm.context.keys, ["q", "q;s"], [])))
        assert 0 < page.messages < 300
        assert qm.doctor().findings == ()
