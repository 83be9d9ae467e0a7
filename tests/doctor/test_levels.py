"""The doctor says which levels ``durability=`` can ask of this server, and why not the others."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import mqredis
from mqredis import Settings
from mqredis.reports import Level
from tests.support.replication import has_waitaof, syncs_on_demand, with_replica
from tests.support.server import RedisServer

Start = Callable[..., RedisServer]


def levels(url: str, **settings: object) -> dict[str, Level]:
    chosen = Settings().model_copy(update={"allow_volatile": True, **settings})
    with mqredis.connect(url, settings=chosen) as qm:
        found = {level.name: level for level in qm.doctor().levels}
    assert list(found) == ["memory", "fsync", "replica", "replica-fsync"]
    assert found["memory"].reachable
    return found


def test_a_server_that_syncs_always(start_server: Start) -> None:
    server = start_server(aof=True, options={"appendfsync": "always"})
    found = levels(server.url)
    assert found["fsync"].reachable
    assert found["fsync"].text == (
        "by WAITAOF" if has_waitaof(server) else "appendfsync always: the reply implies it"
    )
    assert not found["replica"].reachable
    assert found["replica"].text == "by WAIT; replicas attached: 0, needed: 1"


def test_a_server_that_syncs_every_second(start_server: Start) -> None:
    server = start_server(aof=True)
    fsync = levels(server.url)["fsync"]
    assert fsync.reachable == syncs_on_demand(server)
    assert fsync.reachable or "`appendfsync always`, which is everysec" in fsync.text


def test_a_server_without_a_log(redis_server: RedisServer) -> None:
    found = levels(redis_server.url)
    for name in ("fsync", "replica-fsync"):
        assert not found[name].reachable
        assert "appendonly" in found[name].text or "WAITAOF" in found[name].text


def test_a_server_with_a_replica(start_server: Start) -> None:
    primary, _ = with_replica(start_server)
    found = levels(primary.url)
    assert found["replica"].reachable
    assert found["replica"].text == "by WAIT; replicas attached: 1, needed: 1"
    assert found["replica-fsync"].reachable == syncs_on_demand(primary)
    two = levels(primary.url, durability_replicas=2)
    assert not two["replica"].reachable
    assert two["replica"].text == "by WAIT; replicas attached: 1, needed: 2"


@pytest.mark.parametrize("command", ["wait", "config", "info"])
def test_what_a_user_may_not_ask(start_server: Start, command: str) -> None:
    server = start_server(aof=True, tcp=True, options={"appendfsync": "always"})
    with server.client() as raw:
        raw.execute_command(
            "ACL", "SETUSER", "app", "on", ">x", "resetkeys", "~*", "&*", "+@all", f"-{command}"
        )
    found = levels(server.tcp_url.replace("redis://", "redis://app:x@"))
    if command == "wait":
        assert found["replica"].text == "this user may not run wait"
        assert not found["replica"].reachable
    elif command == "info":
        assert found["replica"].text == "by WAIT; replicas attached: unknown, needed: 1"
    elif not has_waitaof(server):
        assert "which may not be read" in found["fsync"].text
        assert not found["fsync"].reachable


def test_a_fake_gives_memory_alone() -> None:
    found = levels("memory://levels")
    assert [name for name, level in found.items() if level.reachable] == ["memory"]
    mqredis.drivers.forget_store("levels")
