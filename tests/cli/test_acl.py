"""The rules that ``mqredis acl`` prints, tried on a real server."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable

import pytest
import redis

import mqredis
from mqredis import BrokerRefused, scripts
from mqredis.cli import acl
from mqredis.operations import libraries
from tests.support.server import RedisServer, server_version


@pytest.fixture
def server(start_server: Callable[..., RedisServer]) -> RedisServer:
    return start_server(tcp=True)


def login(server: RedisServer, role: str, manager: str = "shop", **how: bool) -> str:
    """Make the user that the printed command describes; its URL."""
    command = acl.line(role, manager, 0, **how).split()
    with server.client() as raw:
        raw.execute_command(*command)
    name, password = command[2], command[4][1:]
    return server.tcp_url.replace("redis://", f"redis://{name}:{password}@")


def work(url: str) -> None:
    """A bit of everything."""
    with mqredis.connect(url, manager="shop") as qm:
        qm.create_queue("orders", transactional=True)
        orders = qm.open("orders")
        with qm.transaction() as unit:
            orders.send_many([b"a", b"b", b"c"], transaction=unit)
        with orders.lock(0):
            pass
        retry = qm.open("orders;retry")
        orders.move(orders.peek(0).lookup_id, retry)
        with qm.transaction() as unit:
            orders.receive(0, transaction=unit)
        waiting = threading.Thread(target=lambda: qm.open("plain").receive(20))
        qm.create_queue("plain")
        waiting.start()
        qm.open("plain").send(b"x", time_to_be_received=60)
        waiting.join(30)
        assert not waiting.is_alive()
        qm.maintain()
        retry.purge()
        qm.delete_queue("orders")
        qm.delete_queue("plain")


def test_a_worker_may_do_its_work_and_nothing_else(server: RedisServer) -> None:
    url = login(server, "worker")
    work(url)
    with pytest.raises(BrokerRefused):
        mqredis.connect(url, manager="other")
    raw = redis.Redis.from_url(url)
    for forbidden in (
        ("GET", "mq:{other}:meta"), ("FLUSHALL",), ("KEYS", "*"), ("CONFIG", "SET", "maxmemory", "1"),
        ("EVAL", "return 1", "0"), ("PSUBSCRIBE", "*"), ("SUBSCRIBE", "__keyspace@0__:mq:{other}:bell:1.1"),
    ):  # fmt: skip
        with pytest.raises(redis.exceptions.NoPermissionError):
            raw.execute_command(*forbidden)
    raw.close()


def test_a_worker_without_the_right_to_load_scripts(server: RedisServer) -> None:
    with pytest.raises(BrokerRefused):
        work(login(server, "worker", preloaded=True))
    work(login(server, "admin"))
    with server.client() as raw:
        for name in scripts.names():
            for shebang in {False, server_version() >= (7,)}:
                raw.script_load(scripts.get(name).variant(shebang)[0])
    work(login(server, "worker", preloaded=True))


def test_a_worker_calls_the_functions_that_an_admin_has_loaded(server: RedisServer) -> None:
    with server.client() as raw:
        try:
            raw.execute_command("FUNCTION", "LIST")
        except redis.ResponseError:  # before Redis 7: nothing to grant
            with pytest.raises(redis.ResponseError):
                login(server, "worker", functions=True)
            return
        worker = login(server, "worker", functions=True)
        work(worker)  # nothing is loaded, and it may not load
        assert raw.execute_command("FUNCTION", "LIST") == []
        work(login(server, "admin", functions=True))
        loaded = {libraries._name(entry) for entry in raw.execute_command("FUNCTION", "LIST")}
        assert loaded
        raw.config_resetstat()
        work(worker)
        stats = raw.info("commandstats")
        assert stats["cmdstat_fcall"]["calls"] > stats.get("cmdstat_evalsha", {"calls": 0})["calls"]
        assert {libraries._name(entry) for entry in raw.execute_command("FUNCTION", "LIST")} == loaded
    with redis.Redis.from_url(worker) as user, pytest.raises(redis.exceptions.NoPermissionError):
        user.execute_command("FUNCTION", "LOAD", "REPLACE", "#!lua name=mqredis_x")


def test_an_admin_may_call_the_doctor(server: RedisServer) -> None:
    with mqredis.connect(login(server, "admin"), manager="shop") as qm:
        qm.create_queue("orders")
        report = qm.doctor(repair=True)
        assert report.healthy
        assert report.server["version"] != "unknown"
        assert report.server["appendonly"] == "no"


def test_a_monitor_reads_and_does_not_write(server: RedisServer) -> None:
    mqredis.connect(server.url, manager="shop").close()
    raw = redis.Redis.from_url(login(server, "monitor"))
    assert raw.hget("mq:{shop}:meta", "schema") == b"5"
    with pytest.raises(redis.exceptions.NoPermissionError):
        raw.hset("mq:{shop}:meta", "schema", "6")
    raw.close()


def test_the_list_of_commands_is_what_the_scripts_run() -> None:
    used: set[str] = set()
    for path in scripts.root().rglob("*.lua"):
        if path.stem in ("audit", "repair", "preflight"):
            continue
        used |= {
            name.lower() for name in re.findall(r'(?:redis\.p?call|many\.run)\("([A-Z]+)"', path.read_text())
        }
    assert used == {name.partition("|")[0] for name in acl.SCRIPT_COMMANDS}
    text = (scripts.root() / "preflight.lua").read_text()
    assert used == set(re.findall(r'\{ "(\w+)"', text))


def test_no_manager_can_smuggle_a_pattern_in() -> None:
    text = acl.rules("worker", "a b~")
    assert "~mq:{a%20b%7E}:*" in text
    with pytest.raises(ValueError, match="holds one of"):
        acl.rules("worker", "x*")
