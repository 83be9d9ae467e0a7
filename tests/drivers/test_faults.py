"""Requests and replies lost on the network: a call is executed once, or reported as OutcomeUnknown."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import fakeredis
import pytest
import redis

from mqredis import scripts
from mqredis.drivers.aio import AsyncDriver
from mqredis.drivers.attempt import Attempt
from mqredis.drivers.net.blocking import SocketConnection
from mqredis.drivers.net.pool_aio import hang_up
from mqredis.drivers.sync import Driver
from mqredis.errors import (
    BrokerFull,
    BrokerRefused,
    BrokerUnavailable,
    HistoryRolledBack,
    InvariantBroken,
    ManagerNotFound,
    OutcomeUnknown,
)
from mqredis.steps import Call, perform, plain_command, procedure
from tests.drivers.kit import FAST, LOST, Connect, add, first, read, take
from tests.support.faults import CutReply, is_script
from tests.support.proxy import Proxy
from tests.support.server import RedisServer, server_version
from tests.support.until import aio_until, until

# Gives up soon if attempts fail at once, but allows each attempt a long time for its reply.
SHORT_RETRY = FAST.model_copy(update={"retry_seconds": 0.3, "reply_timeout_seconds": 30})


@pytest.mark.parametrize("fault", ["request", "reply", "silence"])
@pytest.mark.parametrize("times", [1, 3])
def test_lost_call_is_executed_once(proxy: Proxy, connect_either: Connect, fault: str, times: int) -> None:
    driver = connect_either(proxy.url(), FAST.model_copy(update={"reply_timeout_seconds": 0.1}))
    assert driver.run(add(driver.core.keys)) == "1"
    rule = proxy.add(LOST[fault], where=is_script, times=times)
    assert driver.run(add(driver.core.keys)) == "2"
    assert rule.hits == times
    assert driver.run(add(driver.core.keys)) == "3"
    assert driver.unknown == []


def test_outcome_unknown_carries_the_token_of_the_call(proxy: Proxy, connect: Callable[..., Driver]) -> None:
    driver = connect(proxy.url(), SHORT_RETRY)
    driver.run(add(driver.core.keys))
    rule = proxy.add(CutReply(), where=is_script, times=None)
    with pytest.raises(OutcomeUnknown) as caught:
        driver.run(add(driver.core.keys))
    assert rule.hits, "the call retried until its time was over"
    proxy.clear()
    assert caught.value.token == f"{driver.session}.0:2"
    assert driver.unknown == [caught.value.token]
    assert driver.run(add(driver.core.keys)) == "3"  # in another slot: the call had been carried out
    driver.resolved(caught.value.token)
    assert driver.unknown == []


def test_server_unreachable_before_sending_is_broker_unavailable(
    proxy: Proxy, connect: Callable[..., Driver]
) -> None:
    driver = connect(proxy.url(), SHORT_RETRY)
    driver.run(add(driver.core.keys))
    proxy.down = True
    driver.backend.drop_idle()
    with pytest.raises(BrokerUnavailable, match=str(proxy.port)):
        driver.run(add(driver.core.keys))
    proxy.down = False
    assert driver.run(add(driver.core.keys)) == "2"
    assert driver.unknown == []


def test_flushed_script_cache_is_reloaded(
    url: str, redis_server: RedisServer, connect: Callable[..., Driver]
) -> None:
    driver = connect(url)
    for n in range(1, 4):
        driver.command("SCRIPT", "FLUSH")
        if driver.core.forms.functions:
            driver.command("FUNCTION", "FLUSH")
        assert driver.run(add(driver.core.keys)) == str(n)


def test_functions_are_used_if_the_server_supports_them(
    redis_server: RedisServer, connect: Callable[..., Driver]
) -> None:
    driver = connect(redis_server.url)
    driver.run(add(driver.core.keys))
    assert driver.core.forms.functions == (server_version() >= (7,))
    if not driver.core.forms.functions:
        return
    with redis_server.client() as client:
        client.config_resetstat()
        driver.run(add(driver.core.keys))
        stats = client.info("commandstats")
    assert stats["cmdstat_fcall"]["calls"] == 1
    assert "cmdstat_evalsha" not in stats


def test_scripts_are_used_if_acls_forbid_functions(
    redis_server: RedisServer, connect: Callable[..., Driver]
) -> None:
    if server_version() < (7,):
        pytest.skip("functions came with Redis 7")
    with redis_server.client() as client:
        # First without the right to load functions; then a running driver loses the right to call them.
        client.execute_command("ACL", "SETUSER", "plain", "on", ">pw", "+@all", "-function", "~*", "&*")
        driver = connect(redis_server.url.replace("://", "://plain:pw@"))
        assert driver.run(add(driver.core.keys)) == "1"
        client.execute_command("ACL", "SETUSER", "plain", "+function")
        assert driver.run(perform(Call("read", driver.core.keys.call(), [], first, False))) == "1"
        client.execute_command("ACL", "SETUSER", "plain", "-fcall")
        assert driver.run(perform(Call("read", driver.core.keys.call(), [], first, False))) == "1"
        assert driver.run(add(driver.core.keys)) == "2"


def test_form_of_scripts_stays_that_of_the_server_process(
    redis_server: RedisServer, connect: Callable[..., Driver]
) -> None:
    """A renewal of the session by a call that only reads must not make the client ask for other scripts."""
    driver = connect(redis_server.url, FAST.model_copy(update={"functions": "off"}))
    driver.run(add(driver.core.keys))
    shebang, form = driver.core.forms.shebang, driver.core.forms.get("fails")
    assert shebang == (server_version() >= (7,))
    driver.core.forms.known = {}
    driver.core.renewal_due = 0.0
    driver.run(read(driver.core.keys))
    assert driver.core.forms.shebang == shebang
    assert driver.core.forms.get("fails") == form


def test_new_server_process_is_asked_how_it_runs_scripts(
    redis_server: RedisServer, connect: Callable[..., Driver]
) -> None:
    driver = connect(redis_server.url)
    driver.run(add(driver.core.keys))
    functions, form = driver.core.forms.functions, driver.core.forms.get("add")
    driver.core.forms.learn("another", shebang=False, functions=False)
    driver.core.run_id = "another"
    driver.backend.drop_idle()
    assert driver.run(add(driver.core.keys)) == "2"
    assert driver.core.forms.functions == functions
    assert driver.core.forms.get("add") == form


def test_functions_setting_off_disables_functions(
    redis_server: RedisServer, connect: Callable[..., Driver]
) -> None:
    driver = connect(redis_server.url, FAST.model_copy(update={"functions": "off"}))
    driver.run(add(driver.core.keys))
    assert not driver.core.forms.functions


@pytest.mark.parametrize("version, functions", [((7, 0, 15), True), ((6, 2), False)])
def test_fake_calls_functions_if_its_version_has_them(
    connect: Callable[..., Driver], version: tuple[int, ...], functions: bool
) -> None:
    """fakeredis compiles a function once, and a script for each call."""
    client = fakeredis.FakeRedis(version=version)
    driver = connect(client)
    assert driver.run(add(driver.core.keys)) == "1"
    _, sha = scripts.get("add").variant(shebang=False)
    assert client.script_exists(sha) == [not functions]


def test_killed_connections_are_replaced(redis_server: RedisServer, connect: Callable[..., Driver]) -> None:
    driver = connect(redis_server.url)
    with redis_server.client() as client:
        for n in range(1, 6):
            client.client_kill_filter(_type="normal", skipme=True)
            assert driver.run(add(driver.core.keys)) == str(n)


def test_closed_connection_does_not_reconnect(url: str, connect: Callable[..., Driver]) -> None:
    driver = connect(url)
    driver.run(add(driver.core.keys))
    for conn in (driver.backend.pubsub_connection(), driver.backend.acquire(time.monotonic() + 30).conn):
        conn.disconnect()
        with pytest.raises(redis.ConnectionError):
            conn.send_command("PING", check_health=False)
        with pytest.raises((redis.ConnectionError, OSError)):
            conn.can_read(0)
        open_again = conn.connected if isinstance(conn, SocketConnection) else conn._sock is not None
        assert not open_again, "the connection was opened again"


async def test_async_closed_connection_does_not_reconnect(
    url: str, aconnect: Callable[..., AsyncDriver]
) -> None:
    driver = aconnect(url)
    await driver.run(add(driver.core.keys))
    link = await driver.backend.acquire(time.monotonic() + 30)
    listening = await driver.backend.subscription(lambda _: None)
    for conn in (listening, link.conn):
        await hang_up(conn)
        sending = conn.send_command("PING") if conn is listening else link.command("PING")
        with pytest.raises(redis.ConnectionError):
            await sending
    assert not link.connected, "the connection was opened again"


def test_expired_session_is_replaced(url: str, connect: Callable[..., Driver]) -> None:
    driver = connect(url)
    driver.run(add(driver.core.keys))
    before = driver.session
    driver.command("HDEL", driver.core.keys.own[0], before)
    assert driver.run(add(driver.core.keys)) == "2"
    assert driver.session != before


def test_session_expired_after_a_lost_reply_gives_the_reply_or_outcome_unknown(
    proxy: Proxy, redis_server: RedisServer, connect: Callable[..., Driver]
) -> None:
    driver = connect(proxy.url())
    driver.run(add(driver.core.keys))
    rule = proxy.add(CutReply(), where=is_script)
    inner = add(driver.core.keys)

    with redis_server.client() as client, ThreadPoolExecutor(1) as pool:
        client.execute_command("CLIENT", "PAUSE", "2000", "WRITE")
        future = pool.submit(driver.run, inner)
        until(lambda: rule.hits)
        client.execute_command("CLIENT", "UNPAUSE")
        assert rule.wait(30)
        client.hdel(driver.core.keys.own[0], driver.session)
        try:
            result = future.result(30)
        except OutcomeUnknown as unknown:
            assert unknown.token  # noqa: PT017 - both results are correct
        else:
            assert result == "2"  # the retry ran before the session was removed


@pytest.mark.reliability
def test_session_is_reopened_on_a_restarted_server(
    durable_server: RedisServer, connect: Callable[..., Driver]
) -> None:
    driver = connect(durable_server.url)
    driver.run(add(driver.core.keys))
    session, run_id = driver.session, driver.core.run_id
    durable_server.restart()
    assert driver.run(add(driver.core.keys)) == "2"
    assert driver.session == session
    assert driver.core.run_id != run_id
    with durable_server.client() as client:
        assert client.hget(driver.core.keys.own[0], "run_id") == driver.core.run_id.encode()


@pytest.mark.reliability
def test_server_restarted_without_data_raises_manager_not_found(
    start_server: Callable[..., RedisServer], connect: Callable[..., Driver]
) -> None:
    server = start_server()
    driver = connect(server.url)
    driver.run(add(driver.core.keys))
    server.restart(kill=True)
    for _ in range(2):  # the error is permanent
        with pytest.raises(ManagerNotFound):
            driver.run(add(driver.core.keys))
    with server.client() as client:
        assert client.keys() == []  # the manager was not created again


def test_flushed_server_raises_manager_not_found(url: str, connect: Callable[..., Driver]) -> None:
    driver = connect(url)
    driver.run(add(driver.core.keys))
    driver.command("FLUSHALL")
    for _ in range(2):
        with pytest.raises(ManagerNotFound):
            driver.run(add(driver.core.keys))


def test_changed_incarnation_raises_manager_not_found(url: str, connect: Callable[..., Driver]) -> None:
    driver = connect(url)
    driver.run(add(driver.core.keys))
    driver.command("HSET", driver.core.keys.own[0], "incarnation", "other")
    with pytest.raises(ManagerNotFound):
        driver.run(read(driver.core.keys))


def test_rolled_back_history_is_reported_once(url: str, connect: Callable[..., Driver]) -> None:
    driver = connect(url)
    for _ in range(5):
        driver.run(add(driver.core.keys))
    driver.command("HSET", driver.core.keys.own[0], "history", "2")
    with pytest.raises(HistoryRolledBack, match="forgotten"):
        driver.run(read(driver.core.keys))
    assert driver.run(read(driver.core.keys)) == "5"


def test_server_at_maxmemory_raises_broker_full(
    redis_server: RedisServer, connect: Callable[..., Driver]
) -> None:
    driver = connect(redis_server.url)
    driver.run(add(driver.core.keys))
    with redis_server.client() as client:
        client.config_set("maxmemory", "1")
        driver.core.forms.no_shebang()
        with pytest.raises(BrokerFull):
            driver.run(add(driver.core.keys))
        client.config_set("maxmemory", "0")
    assert driver.run(add(driver.core.keys)) == "2"


def test_script_error_raises_invariant_broken(url: str, connect: Callable[..., Driver]) -> None:
    driver = connect(url)
    driver.run(add(driver.core.keys))
    with pytest.raises(InvariantBroken, match="fails"):
        driver.run(perform(Call("fails", driver.core.keys.call(), [], first)))
    assert driver.run(add(driver.core.keys)) == "2"


@pytest.mark.parametrize("known", [True, False], ids=["known server", "first connection"])
def test_busy_server_is_retried(
    redis_server: RedisServer, connect: Callable[..., Driver], monkeypatch: pytest.MonkeyPatch, known: bool
) -> None:
    driver, paused = connect(redis_server.url), threading.Event()
    next_pause = Attempt.next_pause

    def record_pause(attempt: Attempt) -> float:
        paused.set()
        return next_pause(attempt)

    monkeypatch.setattr(Attempt, "next_pause", record_pause)
    if known:
        driver.run(add(driver.core.keys))
    with redis_server.client() as client, redis_server.client() as slow, ThreadPoolExecutor(2) as pool:
        client.config_set("lua-time-limit", "10")
        loop = pool.submit(slow.execute_command, "EVAL", "while true do end", "0")
        until(lambda: _busy(redis_server))
        future = pool.submit(driver.run, add(driver.core.keys))
        assert paused.wait(30), "the call was refused by the busy server"
        client.script_kill()
        assert future.result(30) == ("2" if known else "1")
        with pytest.raises(Exception, match="killed"):
            loop.result(30)
        client.config_set("lua-time-limit", "5000")
        assert driver.core.run_id == client.info("server")["run_id"]
        assert driver.core.forms.shebang is (server_version() >= (7,))


def test_plain_command_on_a_busy_server_is_no_refusal(
    redis_server: RedisServer, connect: Callable[..., Driver]
) -> None:
    driver = connect(redis_server.url)
    driver.open()
    with redis_server.client() as client, redis_server.client() as slow, ThreadPoolExecutor(1) as pool:
        client.config_set("lua-time-limit", "10")
        loop = pool.submit(slow.execute_command, "EVAL", "while true do end", "0")
        until(lambda: _busy(redis_server))
        with pytest.raises(BrokerUnavailable, match="BUSY"):
            driver.run(procedure(plain_command)("HGETALL", "key"))
        client.script_kill()
        with pytest.raises(Exception, match="killed"):
            loop.result(30)
        client.config_set("lua-time-limit", "5000")
        assert not driver.run(procedure(plain_command)("HGETALL", "key"))


def _busy(server: RedisServer) -> bool:
    with server.client() as client:
        try:
            client.ping()
        except Exception as error:  # noqa: BLE001 - any text will do
            return "BUSY" in str(error)
        return False


def test_wrong_password_and_absent_server_raise_errors_without_the_password(
    redis_server: RedisServer, connect_either: Connect, tmp_path: object
) -> None:
    wrong = connect_either(f"unix://nobody:s3cr%2Fet@{redis_server.socket_path}")
    with pytest.raises(BrokerRefused, match="password") as caught:
        wrong.open()
    # Applies only to servers that were reached before.
    long_retry = FAST.model_copy(update={"retry_seconds": 3600})
    absent = connect_either(f"unix://:s3cr%2Fet@{tmp_path}/none.sock", long_retry)
    with pytest.raises(BrokerUnavailable, match="running") as other:
        absent.open()
    for error in (caught.value, other.value):
        assert "s3cr" not in str(error)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_forked_child_has_its_own_session(redis_server: RedisServer, connect: Callable[..., Driver]) -> None:
    driver = connect(redis_server.url)
    keys = driver.core.keys
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(driver.run, take(keys, seconds=60))  # a wait is in progress during the fork
        until(lambda: len(driver._waiters.table.waits) == 1)
        session = driver.session
        child = os.fork()
        if child == 0:
            code = 1
            try:
                for _ in range(20):
                    driver.run(add(keys))
                code = 0 if driver.session != session else 2
            finally:
                os._exit(code)
        for _ in range(20):
            driver.run(add(keys))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        driver.notify_all()
        assert future.result(30) == "taken"
        assert driver.session == session
        assert driver.run(read(keys)) == "39"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_forked_child_leaves_no_socket_unclosed(
    redis_server: RedisServer, connect: Callable[..., Driver]
) -> None:
    driver = connect(redis_server.url)
    driver.run(add(driver.core.keys))  # its connection is idle during the fork
    idle = list(driver.backend._idle)
    assert all(connection.connected for connection in idle)
    child = os.fork()
    if child == 0:
        os._exit(sum(connection.connected for connection in idle))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert driver.run(add(driver.core.keys))


async def test_cancelled_calls_never_mix_up_replies_of_others(
    redis_server: RedisServer, aconnect: Callable[..., AsyncDriver]
) -> None:
    driver = aconnect(redis_server.url, FAST.model_copy(update={"max_connections": 4}))
    keys = driver.core.keys
    await driver.run(add(keys))

    async def echo(word: str) -> None:
        call = Call("read", keys.call(), [word], lambda _, payload: payload[1].decode(), changes=False)
        assert await driver.run(perform(call)) == word

    async def cancelled_call(turns: int) -> None:
        task = asyncio.create_task(driver.run(add(keys)))
        for _ in range(turns):  # cancelled at each point where it can be
            await asyncio.get_running_loop().run_in_executor(None, lambda: None)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    for turns in range(40):
        await asyncio.gather(cancelled_call(turns % 8), *(echo(f"{turns}-{n}") for n in range(6)))
    await aio_until(lambda: driver.backend._count <= 4)
    unknown = len(driver.unknown)
    done = int(await driver.run(read(keys)))
    assert done <= 41
    assert unknown <= 40
