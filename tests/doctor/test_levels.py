"""The doctor reports which durability levels the server supports, and why it does not support the others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import mqredis
from mqredis import Settings
from mqredis.drivers.connect import forget_store
from mqredis.models import Durability
from mqredis.operations.durability.levels import WaitCommand, find_wait_command
from mqredis.operations.server_facts import ServerFacts, facts_of
from mqredis.reports import Level
from mqredis.steps import Operation, Refused
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


def test_fsync_level_with_appendfsync_always(start_server: Start) -> None:
    server = start_server(aof=True, options={"appendfsync": "always"})
    found = levels(server.url)
    assert found["fsync"].reachable
    assert found["fsync"].text == (
        "by WAITAOF" if has_waitaof(server) else "appendfsync always: the reply implies it"
    )
    assert not found["replica"].reachable
    assert found["replica"].text == "by WAIT; replicas attached: 0, needed: 1"


def test_fsync_level_with_appendfsync_everysec(start_server: Start) -> None:
    server = start_server(aof=True)
    fsync = levels(server.url)["fsync"]
    assert fsync.reachable == syncs_on_demand(server)
    assert fsync.reachable or "`appendfsync always`, but appendfsync is everysec" in fsync.text


def test_fsync_levels_without_an_append_only_file(redis_server: RedisServer) -> None:
    found = levels(redis_server.url)
    for name in ("fsync", "replica-fsync"):
        assert not found[name].reachable
        assert "appendonly" in found[name].text or "WAITAOF" in found[name].text


def test_replica_levels_with_one_replica(start_server: Start) -> None:
    primary, _ = with_replica(start_server)
    found = levels(primary.url)
    assert found["replica"].reachable
    assert found["replica"].text == "by WAIT; replicas attached: 1, needed: 1"
    assert found["replica-fsync"].reachable == syncs_on_demand(primary)
    two = levels(primary.url, durability_replicas=2)
    assert not two["replica"].reachable
    assert two["replica"].text == "by WAIT; replicas attached: 1, needed: 2"


@pytest.mark.parametrize("command", ["wait", "config", "info", "info -role"])
def test_levels_for_a_user_without_some_commands(start_server: Start, command: str) -> None:
    server = start_server(aof=True, tcp=True, options={"appendfsync": "always"})
    with server.client() as raw:
        raw.execute_command(
            "ACL", "SETUSER", "app", "on", ">x", "resetkeys", "~*", "&*", "+@all", *f"-{command}".split()
        )
    found = levels(server.tcp_url.replace("redis://", "redis://app:x@"))
    if command == "wait":
        assert found["replica"].text == "this user may not run wait"
        assert not found["replica"].reachable
    elif command == "info":  # known from ROLE
        assert found["replica"].text == "by WAIT; replicas attached: 0, needed: 1"
    elif command == "info -role":
        assert found["replica"].text == "by WAIT; replicas attached: unknown, needed: 1"
    elif not syncs_unseen(server):
        assert "may not be read by this user" in found["fsync"].text
        assert not found["fsync"].reachable
        promised = levels(server.tcp_url.replace("redis://", "redis://app:x@"), appendfsync_always=True)
        assert promised["fsync"].reachable


def test_setting_appendfsync_always_does_not_override_what_the_server_reports(start_server: Start) -> None:
    server = start_server(aof=True, tcp=True, options={"appendfsync": "everysec"})
    assert levels(server.url, appendfsync_always=True)["fsync"].reachable == syncs_on_demand(server)
    without = start_server(tcp=True)
    with without.client() as raw:
        raw.execute_command("ACL", "SETUSER", "app", "on", ">x", "~*", "&*", "+@all", "-config")
    url = without.tcp_url.replace("redis://", "redis://app:x@")
    assert not levels(url, appendfsync_always=True)[
        "fsync"
    ].reachable  # INFO reports that there is no append-only file


def test_late_waitaof_is_used_only_with_the_setting_appendfsync_always() -> None:
    late = {
        "INFO": b"redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:9.1.2\r\n",
        "WAITAOF": [1, 0],
    }
    assert "appendfsync may not be read" in answered(find_wait_command(Durability.FSYNC), late).why

    def promised() -> Operation[WaitCommand]:
        return find_wait_command(Durability.FSYNC, appendfsync_always=True)

    assert answered(promised(), late).command == "WAITAOF"
    contradicted = {**late, "CONFIG": [b"appendfsync", b"everysec"]}
    assert "appendfsync is everysec" in answered(promised(), contradicted).why


def answered(operation: Operation[WaitCommand], replies: dict[str, Any]) -> WaitCommand:
    """Run an operation with these replies, by command name; every other command is refused."""
    steps, reply = iter(operation), None
    try:
        while True:
            step: Any = steps.send(reply)
            reply = replies.get(step.args[0], Refused("NOPERM", True))
    except StopIteration as stop:
        found: WaitCommand = stop.value
        return found


def syncs_unseen(server: RedisServer) -> bool:
    """True if WAITAOF of the server is reliable whatever its settings are."""
    with server.client() as client:
        facts = ServerFacts(facts_of(client.info("server")))
    return has_waitaof(server) and not facts.syncs_late


def test_fake_server_supports_memory_only() -> None:
    found = levels("memory://levels")
    assert [name for name, level in found.items() if level.reachable] == ["memory"]
    forget_store("levels")
