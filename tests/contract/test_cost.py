"""What a call costs, counted and not timed: round trips, and commands inside the script.

A change that adds a command to a hot script has to change a number here, where a reviewer sees it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

import mqredis
import mqredis.asyncio
from mqredis import Outgoing, codec, scripts
from mqredis.keys import ManagerKeys
from mqredis.operations import settle
from mqredis.worker import Worker
from mqredis.worker import prefetch as prefetching
from tests.contract.cost import build_indexes, cost, counted
from tests.support.server import RedisServer, server_version


def test_every_script_loads_as_a_function(redis_server: RedisServer) -> None:
    if server_version() < (7,):
        pytest.skip("functions came with Redis 7")
    # A function that the server refuses would be called by EVALSHA, which only the cost would show.
    with redis_server.client() as client:
        for library in scripts.libraries():
            form = library.function(library.scripts[0])
            assert client.execute_command(*form.load) == library.title.encode()
            client.execute_command("FUNCTION", "DELETE", library.title)


def test_cost_of_send(qm: mqredis.QueueManager, redis_server: RedisServer) -> None:
    queue = qm.open("q")
    assert cost(redis_server, lambda: queue.send(b"x", properties={"a": 1})) == (1, 5)


def test_100_concurrent_sends_take_two_calls(qm: mqredis.QueueManager, redis_server: RedisServer) -> None:
    async def send() -> tuple[float, float]:
        async with (
            mqredis.asyncio.connect(redis_server.url, manager="cost") as manager,
            manager.open("q") as queue,
        ):
            await asyncio.gather(*(queue.send(b"x" * 64) for _ in range(9)))  # both scripts are known then
            with redis_server.client() as client:
                client.config_resetstat()
                await asyncio.gather(*(queue.send(b"x" * 64) for _ in range(100)))
                return counted(client)

    assert asyncio.run(send()) == (2, 5 + 6)  # the first as a send, all others as one send_many


def test_send_many_takes_one_call(qm: mqredis.QueueManager, redis_server: RedisServer) -> None:
    queue = qm.open("q")
    # Two more for any batch of 16 or more: what keeps Redis from searching small hashes and sorted sets from the front
    # for each of them (core/chunked). Records of more than 64 bytes save one of the two.
    assert cost(redis_server, lambda: queue.send_many([b"x"] * 100)) == (1, 7)
    assert cost(redis_server, lambda: queue.send_many([b"x" * 64] * 100)) == (1, 6)


def test_small_batch_costs_as_many_commands_as_one_message(
    qm: mqredis.QueueManager, redis_server: RedisServer
) -> None:
    queue = qm.open("q")
    assert cost(redis_server, lambda: queue.send_many([b"x"] * 3)) == (1, 5)


def test_timer_that_is_not_due_costs_the_next_calls_nothing(
    qm: mqredis.QueueManager, redis_server: RedisServer
) -> None:
    queue = qm.open("q")
    queue.send(b"late", delay=30)
    qm.maintain()  # which looks for the next timer
    assert cost(redis_server, lambda: queue.send(b"x")) == (1, 5)


def test_purge_of_plain_messages_takes_as_many_commands_after_one_came_back(
    qm: mqredis.QueueManager, redis_server: RedisServer
) -> None:
    queue = qm.open("q")

    def sent() -> None:
        queue.send_many([b"x"] * 3)

    def returned() -> None:
        sent()
        queue.lock(0).abort()

    def purged(before: Callable[[], object]) -> float:
        def work() -> None:
            before()
            queue.purge()

        return cost(redis_server, work)[1] - cost(redis_server, before)[1]

    first = purged(sent)
    assert purged(returned) == first


@pytest.mark.parametrize("size, commands", [(64, 7), (65, 6)])
def test_batch_of_records_up_to_64_bytes_costs_one_command_more(
    qm: mqredis.QueueManager, redis_server: RedisServer, size: int, commands: int
) -> None:
    # What stands in the hash: the time of arrival (13 digits) before what is sent. Redis keeps up to 64 bytes compact.
    line, _ = codec.encode(Outgoing(body=b""), "")
    bodies = [b"x" * (size - 13 - len(line[1:]))] * 100
    queue = qm.open("q")
    assert cost(redis_server, lambda: queue.send_many(bodies)) == (1, commands)


def test_cost_of_receive(qm: mqredis.QueueManager, redis_server: RedisServer) -> None:
    queue = qm.open("q")
    queue.send_many([b"x"] * 20)
    assert cost(redis_server, lambda: queue.receive(0)) == (1, 7)


def test_lock_and_settle_take_one_round_trip(qm: mqredis.QueueManager, redis_server: RedisServer) -> None:
    queue = qm.open("q")
    queue.send_many([b"x"] * 20)
    held: list[mqredis.LockedMessage] = queue.lock_many(1, 0)

    def step() -> None:
        held[:] = queue.lock_many(1, 0, settle=held)

    assert cost(redis_server, step) == (1, 7)


def test_cost_of_peek(qm: mqredis.QueueManager, redis_server: RedisServer) -> None:
    queue = qm.open("q")
    queue.send(b"x")
    assert cost(redis_server, lambda: queue.peek(0)) == (1, 5)


def test_each_step_of_a_transaction_takes_one_call(
    qm: mqredis.QueueManager, redis_server: RedisServer
) -> None:
    queue = qm.open("t")
    with qm.transaction() as tx:
        queue.send_many([b"x"] * 20, transaction=tx)

    def step() -> None:
        with qm.transaction() as unit:
            message = queue.receive(0, transaction=unit)
            queue.send(message.body, transaction=unit)

    round_trips, _ = cost(redis_server, step)
    assert round_trips == 3  # receive, send, commit: beginning costs nothing


@pytest.mark.parametrize("identity, indexed", [(None, False), ("c", False), ("c", True)])
def test_cost_of_transaction_steps_with_and_without_an_index(
    qm: mqredis.QueueManager, redis_server: RedisServer, identity: str | None, indexed: bool
) -> None:
    qm.create_queue("u", transactional=True)
    source, target = qm.open("t"), qm.open("u")
    for _ in range(60):  # each is the first and the last of its transaction
        with qm.transaction() as tx:
            source.send(b"x", transaction=tx, correlation_id=identity)
    if indexed:
        build_indexes(source, target)
    units: list[mqredis.Transaction] = []

    def receive() -> None:
        units.append(qm.transaction())
        source.receive(0, transaction=units[-1])

    steps = {
        "receive": receive,
        "send": lambda: target.send(b"x", transaction=units[-1], correlation_id=identity),
        "commit": lambda: units.pop().commit(),
    }

    def step_costs(end: str) -> list[tuple[int, int]]:
        found = []
        for step in ("receive", "send", end):
            with redis_server.client() as client:
                client.config_resetstat()
                steps[step]()
                found.append(counted(client))
        return found

    steps["abort"] = lambda: units.pop().abort()
    step_costs("commit"), step_costs("abort")
    # Messages that were there at a search for a correlation id are in an index, which costs a command where they go
    # and where it comes back. What came later does not.
    assert step_costs("commit") == [(1, 11 + indexed), (1, 8), (1, 15)]
    # An abort counts the messages that come back for another attempt.
    assert step_costs("abort") == [(1, 11 + indexed), (1, 8), (1, 15 + indexed)]


def test_commit_with_a_journal_reads_each_queue_once(
    qm: mqredis.QueueManager, redis_server: RedisServer
) -> None:
    qm.create_queue("kept", transactional=True, journaling=True)
    source, target = qm.open("t"), qm.open("kept")
    with qm.transaction() as tx:
        source.send(b"x", transaction=tx)
    unit = qm.transaction()
    source.receive(0, transaction=unit)
    target.send(b"x", transaction=unit)
    with redis_server.client() as client:
        client.config_resetstat()
        unit.commit()
        reads = client.info("commandstats")["cmdstat_hmget"]["calls"]
    # The manager with both queues, the transaction; what was received, and records and states of what was sent.
    assert reads == 5


def test_copies_in_a_journal_read_its_quota_once(qm: mqredis.QueueManager, redis_server: RedisServer) -> None:
    """It is a property of the queue, and the same for all messages of a call."""
    qm.create_queue("kept", journaling=True)
    queue, reads = qm.open("kept"), []
    for size in (1, 2, 5):  # the first one creates the journal
        queue.send_many([b"x"] * size)
        with redis_server.client() as client:
            client.config_resetstat()
            assert len(queue.receive_many(size, 0)) == size
            reads.append(client.info("commandstats")["cmdstat_hmget"]["calls"])
    assert reads[1] == reads[2]


@pytest.mark.parametrize("indexed", [False, True])
def test_lock_many_with_settle_takes_one_call(
    qm: mqredis.QueueManager, redis_server: RedisServer, indexed: bool
) -> None:
    queue = qm.open("q")
    queue.send_many([mqredis.Outgoing(body=b"x", correlation_id=str(n)) for n in range(240)])
    if indexed:
        build_indexes(queue)
    held: list[mqredis.LockedMessage] = queue.lock_many(20, 0)

    def step() -> None:
        held[:] = queue.lock_many(20, 0, settle=held)

    # Messages that were in the queue at the first search leave the index with one command more. No message
    # was given back, so the header says that no state has to be read. A lock of several is one field of meta.
    assert cost(redis_server, step) == (1, 9 + indexed)


def test_settling_a_packed_lock_costs_as_one(qm: mqredis.QueueManager, redis_server: RedisServer) -> None:
    queue = qm.open("q")
    queue.send_many([b"x"] * 400)

    def step() -> None:
        held = queue.lock_many(20, 0)
        queue.manager.run(settle.settle(queue._handle, [("c", lock.fence, lock._key) for lock in held], 1))

    # The lock: 6. Its end: what each call reads and writes (3), its messages, the field of the lock twice.
    assert cost(redis_server, step) == (2, 12)


def test_committing_one_of_a_packed_lock_unpacks_only_that_lock(
    qm: mqredis.QueueManager, redis_server: RedisServer
) -> None:
    queue = qm.open("q")
    queue.send_many([b"x"] * 30)
    queue.receive(0)
    pairs = [queue.lock_many(2) for _ in range(4)]
    singles = [queue.lock(0) for _ in range(20)]

    def commits(locks: list[mqredis.LockedMessage]) -> tuple[float, float]:
        """Cost of the commits after the first one."""
        ends = iter(locks)
        return cost(redis_server, lambda: next(ends).commit(), times=len(locks) - 1)

    # What each call reads and writes, and of the message itself: its lock stands in the line.
    assert commits(singles[:2]) == (1, 4)
    # Where that had no room there is a text, which is read, and goes.
    assert commits(singles[-2:]) == (1, 6)
    # Of several the text is read once more and becomes elements and states; then the state is there.
    assert commits([pairs[0][0], pairs[1][0]]) == (1, 12)
    assert commits([pairs[0][1], pairs[1][1]]) == (1, 7)


def _wakes(queue: mqredis.Queue, redis_server: RedisServer, count: int) -> tuple[int, int]:
    """Round trips and commands inside scripts for ``count`` messages, each of which wakes an idle reader."""

    def read() -> None:
        held: list[mqredis.LockedMessage] = []
        for _ in range(count):
            held = queue.lock_many(1, 20, settle=held)
        held[0].commit()

    with redis_server.client() as client:
        queue.send(b"warm")
        queue.receive(0)
        client.config_resetstat()
        reader = threading.Thread(target=read)
        reader.start()
        for _ in range(count):
            while client.zcard(ManagerKeys("cost").queue("q")[6]) == 0:
                pass
            queue.send(b"x")
        reader.join()
        return counted(client, without="zcard")


def test_idle_reader_needs_one_call_per_message(qm: mqredis.QueueManager, redis_server: RedisServer) -> None:
    _wakes(qm.open("q"), redis_server, 1)
    few, more = _wakes(qm.open("q"), redis_server, 6), _wakes(qm.open("q"), redis_server, 16)
    # Only the very first poll registers nothing, and the last message is settled by its own call.
    assert few[0] == 6 + 1 + 6 + 1
    # Five to send and six to hand the lock over; thirteen to settle and to wait again.
    assert more[1] - few[1] == 10 * (11 + 9)


@pytest.mark.parametrize("functions", ["auto", "off"])
def test_send_after_the_last_reader_has_left_costs_as_before(
    qm: mqredis.QueueManager, redis_server: RedisServer, functions: Any
) -> None:
    settings = mqredis.Settings(test_clock=True, functions=functions)
    with mqredis.connect(redis_server.url, manager="cost", settings=settings) as client:
        queue = client.open("q")
        before = cost(redis_server, lambda: queue.send(b"x"))
        queue.purge()
        with pytest.raises(mqredis.IoTimeout):
            queue.receive(0.01)
        queue.send(b"x")
        assert cost(redis_server, lambda: queue.send(b"x")) == before


def test_refused_lock_many_settles_nothing(qm: mqredis.QueueManager) -> None:
    queue = qm.open("q")
    queue.send(b"x")
    held = queue.lock_many(1, 0)
    qm.update_queue("q", get_inhibited=True)
    with pytest.raises(mqredis.GetInhibited):
        queue.lock_many(1, 0, settle=held)
    held[0].commit()
    assert qm.queue_info("q").messages == 0


def test_call_reads_due_timers_once(qm: mqredis.QueueManager, redis_server: RedisServer) -> None:
    queue = qm.open("q")

    def expire() -> None:
        queue.send(b"x", time_to_be_received=1)
        qm.advance_clock(2)
        with pytest.raises(mqredis.IoTimeout):
            queue.peek(0)

    # A page of timers that is not full is the last one.
    assert cost(redis_server, expire) == (3, 33)


@pytest.mark.parametrize("prefetch, each", [(1, 1.0), (8, 0.125)])
def test_worker_prefetches_messages_in_one_call(
    qm: mqredis.QueueManager,
    redis_server: RedisServer,
    monkeypatch: pytest.MonkeyPatch,
    prefetch: int,
    each: float,
) -> None:
    monkeypatch.setattr(prefetching, "QUICK_RUN_SECONDS", 60.0)  # a slow machine makes no slow handler
    queue = qm.open("q")

    def run(count: int) -> float:
        worker = Worker()

        @worker.consumer("q", prefetch=prefetch)
        def handle(message: mqredis.Message) -> None:
            assert message.body == b"x"

        def work() -> None:
            queue.send_many([b"x"] * count)
            assert worker.run(burst=True, manager=qm, signals=False) == count

        return cost(redis_server, work, times=1)[0]

    # Beginning and end cost the same.
    assert run(103) - run(23) == 80 * each


@pytest.mark.parametrize("call", ["purge", "delete_queue"])
def test_queue_without_delayed_messages_is_emptied_without_a_look_at_its_timers(
    qm: mqredis.QueueManager, redis_server: RedisServer, call: str
) -> None:
    queue = qm.open("q")
    queue.send(b"x", dedup_key="k", dedup_window=1000)
    with redis_server.client() as client:
        windows = {f"kother{n}": 9e14 for n in range(20_000)}
        client.zadd(ManagerKeys("cost").queue("q")[5], windows)
        client.config_resetstat()
        queue.purge() if call == "purge" else qm.delete_queue("q")
        assert client.info("commandstats")["cmdstat_zrange"]["calls"] < 20


def test_queue_is_deleted_by_one_call(qm: mqredis.QueueManager, redis_server: RedisServer) -> None:
    """So an outcome that ``resolve`` tells is that of the deletion."""
    qm.open("q").send(b"x")
    qm.delete_queue("t")  # so that the server knows the script
    with redis_server.client() as client:
        client.config_resetstat()
        assert qm.delete_queue("q") == 1
        assert counted(client)[0] == 1


def test_page_of_sessions_asks_few_slots_of_a_session_that_has_used_many(
    qm: mqredis.QueueManager, redis_server: RedisServer
) -> None:
    assert qm.info().sessions == 1
    session = qm._driver.core.session
    assert session is not None
    with redis_server.client() as raw:
        ttl = raw.hget(ManagerKeys("cost").own[0], session.number).split()[0]
        raw.hset(ManagerKeys("cost").own[0], session.number, b"%s 5000" % ttl)
    assert cost(redis_server, qm.sessions, times=1)[1] < 100
