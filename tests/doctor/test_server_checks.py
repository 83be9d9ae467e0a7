"""Checks of the server and the user's rights, before anything is written."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

import mqredis
import mqredis.asyncio
from mqredis import BrokerFull, BrokerRefused, Settings, UnsafeServer
from mqredis.commands import stages
from mqredis.commands.stages import Stage
from mqredis.drivers import greeting
from mqredis.steps import perform
from tests.support.server import RedisServer, server_version

Start = Callable[..., RedisServer]


@pytest.fixture
def server(start_server: Start) -> RedisServer:
    return start_server(tcp=True)


def keys_of(server: RedisServer) -> list[Any]:
    with server.client() as raw:
        return list(raw.keys("*"))


@pytest.mark.parametrize("policy", ["allkeys-lru", "allkeys-lfu", "allkeys-random"])
def test_server_with_an_evicting_policy_is_refused(redis_server: RedisServer, policy: str) -> None:
    with redis_server.client() as raw:
        raw.config_set("maxmemory-policy", policy)
    with pytest.raises(UnsafeServer, match=f"{policy}.*noeviction.*allow_eviction"):
        mqredis.connect(redis_server.url)
    assert keys_of(redis_server) == []
    with mqredis.connect(redis_server.url, settings=Settings(allow_eviction=True)) as qm:
        assert "server.eviction" in {item.code for item in qm.doctor().advice}


async def test_asyncio_server_with_an_evicting_policy_is_refused(redis_server: RedisServer) -> None:
    with redis_server.client() as raw:
        raw.config_set("maxmemory-policy", "allkeys-lru")
    with pytest.raises(UnsafeServer):
        await mqredis.asyncio.connect(redis_server.url)


@pytest.mark.parametrize("policy", ["noeviction", "volatile-lru", "volatile-ttl"])
def test_policies_that_evict_no_persistent_keys_are_accepted(redis_server: RedisServer, policy: str) -> None:
    with redis_server.client() as raw:
        raw.config_set("maxmemory-policy", policy)
    mqredis.connect(redis_server.url).close()


def test_eviction_of_expiring_keys_loses_no_message_and_is_reported(server: RedisServer) -> None:
    """As the advice says, an operator's action is carried out twice then, and stages are gone. All else stays."""
    with server.client() as raw, mqredis.connect(server.url, settings=Settings(allow_volatile=True)) as qm:
        operator = qm.operator("ann")
        qm.create_queue("q")
        q = qm.open("q")
        stage = Stage("0-a", "q", 1, 20)
        qm.run(perform(stages.stage(qm.context.keys, "app-a", 0, stage, 60_000, 1, 20, False, [b"\0x"])))

        def repeat() -> int:
            """Call the same action on a new message; return how many messages are left."""
            q.send(b"x")
            assert operator.delete("q", token="t").changed == 1
            return qm.queue_info("q").messages

        assert [repeat(), repeat()] == [0, 1]
        expiring = {key for key in raw.keys("*") if raw.pttl(key) >= 0}
        assert len(expiring) == 3  # the reply to the action, the stage and the registry of its sink
        kept = set(raw.keys("*")) - expiring
        raw.config_set("maxmemory-policy", "volatile-random")
        raw.config_set("maxmemory", 1)
        with pytest.raises(BrokerFull):
            q.send(b"refused")
        raw.config_set("maxmemory", 0)
        assert set(raw.keys("*")) == kept
        q.purge()
        assert repeat() == 0, "the action is carried out again"
        report = qm.doctor()
    assert report.findings == ()
    (advice,) = (item for item in report.advice if item.code == "server.eviction")
    assert re.search("volatile-random .*Spark write .*is carried out twice.* noeviction", advice.text)


@pytest.fixture
def outdated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every server reports the version 4.0.14."""
    original = greeting.run_id_of

    def run_id_of(info: Any) -> str:
        return original(re.sub(rb"redis_version:[\d.]+", b"redis_version:4.0.14", info))

    monkeypatch.setattr(greeting, "run_id_of", run_id_of)


@pytest.mark.usefixtures("outdated")
async def test_outdated_server_is_refused(redis_server: RedisServer) -> None:
    with pytest.raises(UnsafeServer, match=r"Redis 4\.0\.14 is too old.*6\.2"):
        mqredis.connect(redis_server.url)
    with pytest.raises(UnsafeServer, match="too old"):
        await mqredis.asyncio.connect(redis_server.url)
    assert keys_of(redis_server) == []


def user(server: RedisServer, *rules: str) -> str:
    """Create a user with these ACL rules; return its URL."""
    with server.client() as raw:
        raw.execute_command("ACL", "SETUSER", "app", "on", ">secret", "resetkeys", "resetchannels", *rules)
    return server.tcp_url.replace("redis://", "redis://app:secret@")


def test_missing_write_rights_are_named_in_the_error(server: RedisServer) -> None:
    url = user(server, "+@all", "-zadd", "-hset", "~mq:{shop}:*", "&*")
    expected = r"may not run hset, zadd on mq:\{shop\}:.*`mqredis acl --manager shop`"
    if server_version() < (7,):  # cannot tell in advance
        expected = "executing the script can't run this command.*ACL"
    with pytest.raises(BrokerRefused, match=expected):
        mqredis.connect(url, manager="shop")
    assert keys_of(server) == []


def test_acl_hint_names_the_database(server: RedisServer) -> None:
    if server_version() < (7,):  # cannot tell in advance
        return
    url = user(server, "+@all", "-zadd", "~mq:{shop}:*", "&*").replace("/0", "/11")
    with pytest.raises(BrokerRefused, match="`mqredis acl --manager shop --database 11`"):
        mqredis.connect(url, manager="shop")


def test_user_of_another_manager_is_refused_before_anything_is_written(server: RedisServer) -> None:
    url = user(server, "+@all", "~mq:{shop}:*", "&*")
    mqredis.connect(url, manager="shop").close()
    with pytest.raises(BrokerRefused):
        mqredis.connect(url, manager="other")
    assert not [key for key in keys_of(server) if b"other" in key]


def test_user_without_script_rights_is_refused(server: RedisServer) -> None:
    url = user(server, "+@all", "-evalsha", "-script", "~*", "&*")
    with pytest.raises(BrokerRefused, match=r"evalsha|script"):
        mqredis.connect(url, manager="shop")


def test_server_that_hides_info_and_config_is_accepted_with_warnings(
    server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    url = user(server, "+@all", "-config", "-info", "-role", "~mq:{shop}:*", "&*")
    with mqredis.connect(url, manager="shop") as qm:
        qm.create_queue("orders")
        report = qm.doctor()
        assert report.healthy
        assert report.server["version"] == report.server["maxmemory-policy"] == "unknown"
        assert "INFO" in next(item.text for item in report.advice if item.code == "server.unchecked")
    for what in ("which process", "keeps anything on disk", "deletes messages"):
        assert (
            f"cannot check {what}" in caplog.text or f"cannot check whether this server {what}" in caplog.text
        )


def test_wrong_password_is_refused_and_not_shown_in_the_error(server: RedisServer) -> None:
    url = user(server, "+@all", "~*", "&*").replace("secret", "hunter2")
    with pytest.raises(BrokerRefused) as caught:
        mqredis.connect(url)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("share, said", [(1.05, "will be refused soon"), (0.5, "are refused")])
def test_doctor_says_whether_a_server_without_memory_refuses_sends(
    redis_server: RedisServer, share: float, said: str
) -> None:
    settings = Settings(allow_volatile=True)
    with redis_server.client() as raw, mqredis.connect(redis_server.url, settings=settings) as qm:
        qm.doctor()  # the connections and scripts that it needs are counted, too
        raw.config_set("maxmemory", int(raw.info("memory")["used_memory"] * share))
        report = qm.doctor()
        raw.config_set("maxmemory", 0)
    (advice,) = (item for item in report.advice if item.code == "server.full")
    assert advice.text.endswith(f"sends {said}")
