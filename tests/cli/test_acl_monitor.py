"""The role monitor of the ACL rules: it sees everything and changes nothing."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis

import mqredis
import mqredis.asyncio
from mqredis import (
    ACTIONS,
    AccessDenied,
    BrokerRefused,
    ManagerNotFound,
    Match,
    ScriptsNotLoaded,
    Settings,
    scripts,
)
from mqredis.cli import acl, main
from mqredis.cli.exits import Exit
from tests.cli.acl_users import SERVER_OPTIONS, deployed, login
from tests.support.server import RedisServer, server_version


def test_monitor_role_may_read_but_not_write(server: RedisServer) -> None:
    mqredis.connect(server.url, manager="shop").close()
    raw = redis.Redis.from_url(login(server, "monitor"))
    assert raw.hget("mq:{shop}:meta", "schema") == b"6"
    with pytest.raises(redis.exceptions.NoPermissionError):
        raw.hset("mq:{shop}:meta", "schema", "7")
    raw.close()


def everything_visible(qm: Any) -> dict[str, Any]:
    """Return everything that a read-only client can read."""
    (lock,) = qm.locks("orders").items
    return {
        "locks": lock.lookup_id,
        "transactions": [each.id for each in qm.transactions()],
        "sessions": len(qm.sessions()),
        "claims": qm.claims("orders"),
        "publications": qm.publications(),
        "messages": [each.message.body for each in qm.messages("orders", selector="n = 1")],
        "actions": [each.message.label for each in qm.messages(ACTIONS, reverse=True)],
        "trail": [each.event for each in qm.trail("orders", lock.lookup_id)],
        "scheduled": [each.message.body for each in qm.scheduled("orders", match=Match(correlation_id="c"))],
        "message": qm.message("orders", lock.lookup_id).state,
        "overview": [each.name for each in qm.overview()],
        "queues": [each.name for each in qm.queues()],
        "queue": qm.queue_info("orders").locked,
        "statistics": qm.statistics("orders").ready,
        "history": sum(period.messages_in for period in qm.history("orders")),
        "subscriptions": [each.queue for each in qm.subscriptions("news")],
        "info": qm.info().messages,
        "workers": qm.workers(),
        "pauses": [each.name for each in qm.pauses()],
        "schedules": [each.name for each in qm.schedules()],
        "failed_messages": [each.queue for each in qm.failed_messages()],
    }


# All operations that change something.
CHANGES: dict[str, Callable[[Any], Any]] = {
    "create_queue": lambda qm: qm.create_queue("x"),
    "update_queue": lambda qm: qm.update_queue("orders", label="x"),
    "delete_queue": lambda qm: qm.delete_queue("orders"),
    "open": lambda qm: qm.open("orders"),
    "transaction": lambda qm: qm.transaction(),
    "resolve": lambda qm: qm.resolve("1.0:1"),
    "redrive": lambda qm: qm.redrive(),
    "subscribe": lambda qm: qm.subscribe("news", "orders"),
    "unsubscribe": lambda qm: qm.unsubscribe("news", "orders"),
    "throttle": lambda qm: qm.throttle(True),
    "set_quota": lambda qm: qm.set_quota(5),
    "advance_clock": lambda qm: qm.advance_clock(5),
    "doctor": lambda qm: qm.doctor(),
    "repair": lambda qm: qm.doctor(repair=True),
    "maintain": lambda qm: qm.maintain(),
    "delete": lambda qm: qm.operator("ada").delete("orders"),
    "pause": lambda qm: qm.operator("ada").pause("orders"),
    "abort": lambda qm: qm.operator("ada").abort("x"),
    "create_schedule": lambda qm: qm.operator("ada").create_schedule("x", 60, "orders"),
    "pause_schedule": lambda qm: qm.operator("ada").pause_schedule("hourly"),
    "trigger_schedule": lambda qm: qm.operator("ada").trigger_schedule("hourly"),
    "remove_schedule": lambda qm: qm.operator("ada").remove_schedule("hourly"),
}


@pytest.fixture
def shop(server: RedisServer) -> Iterator[Any]:
    """A manager with objects of each kind and some due timers."""
    settings = Settings(test_clock=True)
    with mqredis.connect(server.url, manager="shop", settings=settings) as qm:
        qm.create_queue("orders", trail=True)
        qm.create_queue("tx", transactional=True)
        qm.create_queue("news", topic=True)
        qm.subscribe("news", "orders")
        qm.operator("ada").pause("tx")
        qm.operator("ada").create_schedule("hourly", 3600, "orders")
        orders = qm.open("orders")
        orders.send(b"locked")
        orders.lock(0, lease=50)
        orders.send(b"one", properties={"n": 1})
        orders.send(b"late", delay=5, correlation_id="c")
        qm.open("tx").send(b"x", transaction=qm.transaction())
        qm.advance_clock(20)
        yield qm


def everything_in(server: RedisServer) -> dict[bytes, bytes | None]:
    with server.client() as raw:
        return {key: raw.dump(key) for key in raw.keys("*")}


@pytest.mark.parametrize("loaded", [True, False], ids=["by a deploy step", "by itself"])
@pytest.mark.parametrize("functions", [True, False])
def test_monitor_role_sees_everything_and_changes_nothing(
    server: RedisServer, shop: Any, functions: bool, loaded: bool
) -> None:
    old = server_version() < (7,)
    if loaded:
        deployed(server, functions=functions and not old)
    url = login(server, "monitor", preloaded=loaded)
    before = everything_in(server)
    settings = Settings(read_only=True, functions="auto" if functions else "off")
    with server.client() as raw:
        raw.config_resetstat()
    with mqredis.connect(url, manager="shop", settings=settings) as qm:
        found = everything_visible(qm)
        assert qm.overview("orders")[0].overdue
        assert qm.queue_info("orders").overdue
        assert qm.statistics("orders").overdue
        for name, change in CHANGES.items():
            with pytest.raises(AccessDenied, match="read-only"):
                print(name, change(qm))
    assert everything_in(server) == before
    assert found["scheduled"] == [b"late"]
    assert found["messages"] == [b"one"]
    assert found["message"] == "locked"
    assert found["pauses"] == ["tx"]
    assert found["actions"] == ["create_schedule", "pause"]
    assert found["trail"] == ["sent", "locked"]
    assert found["schedules"] == ["hourly"]
    with server.client() as raw:
        used: Any = raw.info("commandstats")
    ran = {name.removeprefix("cmdstat_") for name in used}
    assert not ran & {"fcall", *(() if old else ("evalsha",))}
    with mqredis.connect(server.url, manager="shop", settings=Settings(read_only=True)) as qm:
        assert everything_visible(qm) == found  # equal to what a read-only client with all rights sees


def test_command_line_tells_a_monitor_how_to_connect(
    server: RedisServer, shop: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    url = login(server, "monitor", preloaded=False)
    words = ["queue", "list", "--url", url, "--manager", "shop"]
    assert main(words) == Exit.FORBIDDEN
    told = capsys.readouterr().err
    assert "NOPERM" in told
    assert "if this user may only read, set MQREDIS_READ_ONLY=1 or give --read-only" in told
    assert main([*words, "--read-only"]) == Exit.DONE


def test_server_refuses_other_commands_of_the_monitor_role(server: RedisServer, shop: Any) -> None:
    """The ACL forbids commands that the read-only client would not send."""
    deployed(server)
    url = login(server, "monitor")
    before = everything_in(server)
    with pytest.raises((BrokerRefused, ScriptsNotLoaded)):
        mqredis.connect(url, manager="shop")
    raw = redis.Redis.from_url(url)
    for name in scripts.names():
        form = scripts.get(name).form(SERVER_OPTIONS["functions"], reading=True)
        with pytest.raises((redis.exceptions.NoPermissionError, redis.exceptions.ResponseError)):
            raw.execute_command("EVAL", scripts.get(name).text, 1, "mq:{shop}:meta", "", "")
        if scripts.get(name).flag != "no-writes":
            with pytest.raises(redis.exceptions.ResponseError):
                raw.execute_command(form.verb, form.name, 1, "mq:{shop}:meta", "1.0", "1")
    for command in (
        ("HSET", "mq:{shop}:meta", "a", "b"),
        ("DEL", "mq:{shop}:meta"),
        ("FLUSHALL",),
        ("KEYS", "*"),
    ):
        with pytest.raises(redis.exceptions.NoPermissionError):
            raw.execute_command(*command)
    raw.close()
    assert everything_in(server) == before


def test_read_only_client_does_not_create_a_manager(server: RedisServer) -> None:
    with pytest.raises(ManagerNotFound, match="creates none"):
        mqredis.connect(server.url, manager="ghost", settings=Settings(read_only=True))
    assert everything_in(server) == {}


def test_monitor_commands_cover_the_read_only_scripts() -> None:
    used: set[str] = set()
    for name in scripts.names():
        if scripts.get(name).flag == "no-writes":
            # Only the entry script counts: its bundle also holds code that it never reaches.
            path = scripts.root() / f"{name}.lua"
            used |= set(re.findall(r'redis\.p?call\("([A-Z]+)"', path.read_text()))
    assert {name.lower() for name in used} <= {name.partition("|")[0] for name in acl.MONITOR_COMMANDS}
