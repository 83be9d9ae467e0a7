"""Durability levels: what a call waits for, servers that cannot offer a level, shortfalls, and repeated calls."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest

import mqredis
import mqredis.asyncio
from mqredis import Durability, DurabilityNotReached, InvalidArgument, Settings, UnsafeServer
from mqredis.drivers import durability
from tests.support.faults import CutReply
from tests.support.proxy import Proxy
from tests.support.replication import has_waitaof, syncs_on_demand, with_replica
from tests.support.server import RedisServer
from tests.support.until import until

Start = Callable[..., RedisServer]
Pair = tuple[RedisServer, RedisServer]
LONG_WAIT = Settings(durability_seconds=60, reply_timeout_seconds=60)  # long enough for a loaded machine
SHORT_WAIT = Settings(durability_seconds=0.05)
REPLICA = LONG_WAIT.model_copy(update={"durability": Durability.REPLICA})


def calls(server: RedisServer, *names: str) -> int:
    with server.client() as client:
        stats: Any = client.info("commandstats")
    return sum(int(stats.get(f"cmdstat_{name}", {"calls": 0})["calls"]) for name in names)


@pytest.fixture
def pair(start_server: Start) -> Pair:
    """A primary and a replica in sync with it."""
    return with_replica(start_server)


@pytest.fixture
def always(start_server: Start) -> RedisServer:
    return start_server(aof=True, options={"appendfsync": "always"})


@contextlib.contextmanager
def queue(url: str, settings: Settings = LONG_WAIT) -> Iterator[mqredis.Queue]:
    with mqredis.connect(url, settings=settings) as qm:
        qm.create_queue("q")
        with qm.open("q") as opened:
            yield opened


@contextlib.contextmanager
def queue_again(url: str) -> Iterator[mqredis.Queue]:
    """The queue, open in another client that waits for no durability level."""
    with mqredis.connect(url, settings=LONG_WAIT) as qm, qm.open("q") as opened:
        yield opened


def messages(q: mqredis.Queue) -> int:
    return q._manager.queue_info("q").messages


def test_fsync_with_appendfsync_always_needs_no_wait(always: RedisServer) -> None:
    with queue(always.url) as q:
        q.send(b"1", durability="fsync")
        q.send_many([b"2", b"3"], durability=Durability.FSYNC)
        q.send_group([b"4"], durability="fsync")
        with q.lock(0) as lock:
            lock.commit(durability="fsync")
        q.lock(0).reject(durability="fsync")
        assert messages(q) == 2


def test_fsync_with_appendfsync_everysec_waits_or_is_refused(start_server: Start) -> None:
    server = start_server(aof=True)
    with queue(server.url) as q:
        if syncs_on_demand(server):
            q.send(b"x", durability="fsync")
            assert messages(q) == 1
            assert calls(server, "waitaof") >= 2  # one call tests for support, one waits
        else:
            with pytest.raises(UnsafeServer, match=r"appendfsync always.*is everysec.*nothing was done"):
                q.send(b"x", durability="fsync")
            assert messages(q) == 0


def test_fsync_is_refused_if_log_rewrites_suspend_it(start_server: Start) -> None:
    server = start_server(aof=True, options={"appendfsync": "always", "no-appendfsync-on-rewrite": "yes"})
    with queue(server.url) as q:
        if has_waitaof(server):
            q.send(b"x", durability="fsync")
        else:
            with pytest.raises(UnsafeServer, match="no-appendfsync-on-rewrite no"):
                q.send(b"x", durability="fsync")


def test_fsync_is_refused_without_an_append_only_file(redis_server: RedisServer) -> None:
    with queue(redis_server.url) as q:
        for level in ("fsync", "replica-fsync"):
            with pytest.raises(UnsafeServer, match="nothing was done"):
                q.send(b"x", durability=level)
        assert messages(q) == 0


def test_replica_has_the_change_when_the_call_returns(pair: Pair) -> None:
    primary, replica = pair
    with queue(primary.url) as q, replica.client() as there:
        sent = q.send(b"x", durability="replica")
        assert there.hexists("mq:{default}:q:q:m", f"{sent.lookup_id:016x}")
        q._manager.create_queue("t", transactional=True)
        with q._manager.open("t") as t:
            unit = q._manager.transaction()
            with pytest.raises(InvalidArgument, match="give durability to that"):
                t.send(b"x", transaction=unit, durability="replica")
            t.send(b"y", transaction=unit)
            unit.commit(durability="replica")
        assert there.hlen("mq:{default}:q:t:m") == 1


def test_replica_fsync_waits_for_both_disks_or_is_refused(pair: Pair) -> None:
    primary, _ = pair
    with queue(primary.url) as q:
        if syncs_on_demand(primary):
            q.send(b"x", durability="replica-fsync")
            assert messages(q) == 1
        else:
            with pytest.raises(UnsafeServer, match=r"needs WAITAOF|needs `appendfsync always`"):
                q.send(b"x", durability="replica-fsync")
            assert messages(q) == 0


def test_shortfall_is_reported_and_the_change_is_made(redis_server: RedisServer) -> None:
    with queue(redis_server.url, SHORT_WAIT) as q:
        qm = q._manager
        with pytest.raises(DurabilityNotReached, match="not to be repeated") as short:
            q.send(b"x", durability="replica")
        assert (short.value.wanted, short.value.reached, short.value.replicas) == ("replica", "memory", 0)
        assert messages(q) == 1
        assert q.peek(0).lookup_id == short.value.result.lookup_id
        assert qm.resolve(short.value.token).outcome == "done"
        lock = q.lock(0)
        with pytest.raises(DurabilityNotReached):
            lock.commit(durability="replica")
        assert lock.settled
        assert messages(q) == 0
        q.send_many([b"y", b"z"])
        held = q.lock_many(2, 0)
        with pytest.raises(DurabilityNotReached):
            q.commit_many(held, durability="replica")
        assert [one.settled for one in held] == [True, True]
        assert messages(q) == 0
        qm.create_queue("t", transactional=True)
        with qm.open("t") as t:
            unit = qm.transaction()
            t.send(b"x", transaction=unit)
            with pytest.raises(DurabilityNotReached):
                unit.commit(durability="replica")
            with pytest.raises(mqredis.TransactionSequence, match="committed"):
                unit.commit()
        assert qm.queue_info("t").messages == 1
        qm.delete_queue("q")
        with pytest.raises(mqredis.QueueNotAvailable):  # a refused call reports no shortfall
            q.send(b"x", durability="replica")


def test_missing_replicas_are_a_shortfall(pair: Pair) -> None:
    settings = SHORT_WAIT.model_copy(update={"durability_replicas": 2})
    with queue(pair[0].url, settings) as q, pytest.raises(DurabilityNotReached) as short:
        q.send(b"x", durability="replica")
    assert short.value.wanted == "replica"


def test_repeated_call_waits_for_the_level(pair: Pair) -> None:
    primary, replica = pair
    with Proxy(primary.socket_path) as proxy, queue(proxy.url()) as q, replica.client() as there:
        q.send(b"0", durability="replica")
        cut = proxy.add(CutReply(0), where=lambda request: any(b"body" in arg for arg in request.args))
        sent = q.send(b"body", durability="replica")
        assert cut.hits == 1
        assert messages(q) == 2
        assert there.hexists("mq:{default}:q:q:m", f"{sent.lookup_id:016x}")
        # The connection breaks during the wait: only the wait is repeated, not the send.
        waits = proxy.commands()["WAIT"]
        rule = proxy.add(CutReply(0), command="WAIT")
        q.send(b"last", durability="replica")
        assert rule.hits == 1
        assert proxy.commands()["WAIT"] == waits + 2
        assert messages(q) == 3


def test_repeated_call_has_the_whole_time_for_its_wait(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    primary, _ = pair
    limits: list[int] = []

    def noted(request: Any) -> bool:
        if request.command == "WAIT":
            limits.append(int(request.args[-1]))
        return False

    with Proxy(primary.socket_path) as proxy, queue(proxy.url()) as q:
        q.send(b"0", durability="replica")
        proxy.add(CutReply(0), where=noted)
        cut = proxy.add(CutReply(0), where=lambda request: any(b"body" in arg for arg in request.args))
        # A minute passes for the wait between the two tries.
        clock = SimpleNamespace(monotonic=lambda: time.monotonic() + 60 * cut.hits)
        monkeypatch.setattr(durability, "time", clock)
        q.send(b"body", durability="replica")
        assert cut.hits == 1
    half_of_reply_timeout = 30_000
    assert limits[-1] == half_of_reply_timeout


def test_repeated_call_writes_its_slot_again_for_wait_to_cover(pair: Pair) -> None:
    primary, _ = pair
    with Proxy(primary.socket_path) as proxy, queue(proxy.url()) as q, primary.client() as raw:
        q.send(b"0")

        def ours(request: Any) -> bool:
            return any(b"body" in arg for arg in request.args)

        rule = proxy.add(CutReply(0), where=ours)
        with raw.monitor() as monitor:
            q.send(b"body")
            seen = [line["command"] for line in _until(monitor, b"done", raw)]
        assert rule.hits == 1
        slots = [line.split(" ") for line in seen if line.startswith("HSET mq:{default}:meta ")]
        assert len(slots) == 2, "the repetition wrote nothing"
        # The slot and its stored reply are written again, the counters and the queue header are not.
        assert "counters" in slots[0]
        assert "mq:{default}:q:q:q" in slots[0]
        assert "counters" not in slots[1]
        assert "mq:{default}:q:q:q" not in slots[1]
        assert " ".join(slots[1][2:]) in " ".join(slots[0])


def _until(monitor: Any, mark: bytes, raw: Any) -> list[Any]:
    """Commands that the monitor has seen up to a marker sent now."""
    raw.echo(mark)
    lines: list[Any] = []
    while True:
        line = monitor.next_command()
        if line["command"].startswith("ECHO") and mark.decode() in line["command"]:
            return lines
        lines.append(line)


def test_level_in_settings_applies_to_every_lasting_change(pair: Pair) -> None:
    primary, _ = pair
    with queue(primary.url) as q:  # loads all scripts, so that no call below is repeated
        q.send_many([b"a", b"b", b"c"])
        q.receive(0)
        lock = q.lock(0)
        lock.extend()
        lock.commit()
        q.purge()
    with mqredis.connect(primary.url, settings=REPLICA) as qm, qm.open("q") as q:
        qm.create_queue("first")  # tests whether the server supports the level

        def waits(work: Callable[[], object]) -> int:
            before = calls(primary, "wait")
            with contextlib.suppress(mqredis.IoTimeout):
                work()
            return calls(primary, "wait") - before

        for _ in range(2):  # the second time all scripts are loaded, and plain calls take the fast path
            assert waits(lambda: q.send(b"1")) == 1
            assert waits(lambda: q.send_many([b"2", b"3"])) == 1
            assert waits(lambda: q.receive(0)) == 1
            lock = q.lock(0)
            assert waits(lambda: q.peek(0)) == 0
            assert waits(lock.extend) == 0
            assert waits(lock.commit) == 1
            assert waits(lambda: q.lock(0)) == 0  # a lost lock would expire anyway
            assert waits(lambda: q.receive(0)) == 0  # it found nothing
            assert waits(lambda: q.send(b"4", durability="memory")) == 0
            assert waits(lambda: q.commit_many(q.lock_many(9, 0))) == 1
            assert waits(q.purge) == 1


async def test_asyncio_level_in_settings_applies_to_plain_calls_and_transactions(pair: Pair) -> None:
    primary, _ = pair
    with mqredis.connect(primary.url) as qm:
        qm.create_queue("q")
        qm.create_queue("t", transactional=True)
    async with mqredis.asyncio.connect(primary.url, settings=REPLICA) as aqm:
        q, t = await aqm.open("q"), await aqm.open("t")
        for n in range(3):
            before = calls(primary, "wait")
            await q.send(b"1")
            await q.send(b"2")
            await q.receive(0)
            lock = await q.lock(0)
            await lock.commit()
            assert n == 0 or calls(primary, "wait") == before + 4
            before = calls(primary, "wait")
            async with aqm.transaction() as unit:
                await t.send(b"3", transaction=unit)
            async with aqm.transaction() as unit:
                await t.receive(0, transaction=unit)
            assert n == 0 or calls(primary, "wait") == before + 2


def test_woken_receive_waits_for_the_level(pair: Pair) -> None:
    primary, _ = pair
    with queue(primary.url, REPLICA) as q, queue_again(primary.url) as sender, ThreadPoolExecutor(1) as pool:
        q.send(b"0")
        q.receive(0)
        future = pool.submit(q.receive, 30)
        until(lambda: q._manager._driver._waiters.table.waits)
        before = calls(primary, "wait")
        sender.send(b"1")
        assert future.result(30).body == b"1"
        assert calls(primary, "wait") == before + 1
        assert q._manager._driver.unknown == []


def test_default_level_waits_for_nothing(redis_server: RedisServer) -> None:
    with queue(redis_server.url) as q:
        before = calls(redis_server, "wait", "waitaof")
        q.send(b"x")
        q.lock(0).commit()
        assert calls(redis_server, "wait", "waitaof") == before


def test_unknown_level_is_refused_with_the_list_of_levels(redis_server: RedisServer) -> None:
    with queue(redis_server.url) as q:
        with pytest.raises(InvalidArgument, match="memory, fsync, replica, replica-fsync"):
            q.send(b"x", durability="disk")
        assert messages(q) == 0


async def test_asyncio_calls_wait_for_the_level_and_report_shortfalls(pair: Pair) -> None:
    primary, replica = pair
    with Proxy(primary.socket_path) as proxy, replica.client() as there:
        async with mqredis.asyncio.connect(proxy.url(), settings=LONG_WAIT) as qm:
            await qm.create_queue("q")
            await qm.create_queue("t", transactional=True)
            async with qm.open("q") as q, qm.open("t") as t:
                sent = await q.send(b"1", durability="replica")
                assert there.hexists("mq:{default}:q:q:m", f"{sent.lookup_id:016x}")
                await q.send_many([b"2"], durability="replica")
                rule = proxy.add(CutReply(0), command="WAIT")
                await (await q.lock(0)).commit(durability="replica")
                assert rule.hits == 1
                unit = await qm.transaction()
                await t.send(b"x", transaction=unit)
                await unit.commit(durability="replica")
    replica.kill()
    settings = REPLICA.model_copy(update={"durability_seconds": 0.05})
    async with mqredis.asyncio.connect(primary.url, settings=settings) as qm, qm.open("q") as q:
        with pytest.raises(DurabilityNotReached) as short:
            await q.send(b"3")
        assert short.value.reached == "memory"
        with pytest.raises(DurabilityNotReached) as short:
            await q.receive(0)
        assert [message.body for message in short.value.result] == [b"2"]
        assert (await qm.queue_info("q")).messages == 1


def test_wait_command_of_another_server_is_not_used(
    always: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another thread opens the session at a new server while the old one is asked for its command."""
    with queue(always.url) as q:
        driver = q._manager._driver
        core, ask, run_id = driver.core, driver.ask, driver.core.run_id
        core.run_id = "old"

        def answer_of_old_server(operation: Any) -> Any:
            monkeypatch.setattr(driver, "ask", ask)
            core.run_id = run_id
            return "WAIT"

        monkeypatch.setattr(driver, "ask", answer_of_old_server)
        q.send(b"x", durability="fsync")
        assert calls(always, "wait") == 0
        assert [server for server, _ in core.wait_commands] == [run_id]


def test_wait_command_is_found_again_if_the_session_moves_before_the_call(
    always: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another thread opens the session at a new server once the old one has answered, before the call is sent."""
    with queue(always.url) as q:
        driver = q._manager._driver
        core, acquire, run_id = driver.core, driver.backend.acquire, driver.core.run_id
        core.run_id = "old"
        core.wait_commands["old", Durability.FSYNC] = "WAIT"

        def acquire_after_the_session_has_moved(*args: Any, **kwargs: Any) -> Any:
            monkeypatch.setattr(driver.backend, "acquire", acquire)
            core.run_id = run_id
            return acquire(*args, **kwargs)

        monkeypatch.setattr(driver.backend, "acquire", acquire_after_the_session_has_moved)
        q.send(b"x", durability="fsync")
        assert calls(always, "wait") == 0
        assert messages(q) == 1
