"""The tests' own server must keep its word, or the tests on top prove nothing."""

import pytest
import redis
from redis.exceptions import ConnectionError as Unreachable

from tests.support.backend import Backend, fake_backend
from tests.support.server import BINARY_VARIABLE, RedisServer, ServerMissing, find_binary, server_version


def read(server: RedisServer, key: str) -> bytes | None:
    with server.client() as client:
        value: bytes | None = client.get(key)
        return value


def write(server: RedisServer, key: str, value: str) -> None:
    with server.client() as client:
        client.set(key, value)


@pytest.mark.parametrize("kill", [False, True], ids=["stopped", "killed"])
def test_restarted_durable_server_keeps_its_data(durable_server, kill):
    write(durable_server, "k", "v")
    before = durable_server.pid
    durable_server.restart(kill=kill)
    assert durable_server.pid != before
    assert read(durable_server, "k") == b"v"


def test_restarted_volatile_server_is_empty(start_server):
    server = start_server()
    write(server, "k", "v")
    server.restart()
    assert read(server, "k") is None


def test_client_of_a_killed_server_cannot_connect(start_server):
    server = start_server()
    server.kill()
    assert not server.running
    with pytest.raises(Unreachable), server.client(retry=None) as client:
        client.ping()


def test_server_listens_on_tcp_and_has_the_given_options(start_server):
    server = start_server(tcp=True, options={"maxmemory": "50mb", "notify-keyspace-events": ""})
    with redis.Redis.from_url(server.tcp_url) as client:
        assert client.config_get("maxmemory") == {"maxmemory": str(50 * 1024 * 1024)}
        assert client.config_get("notify-keyspace-events") == {"notify-keyspace-events": ""}


def test_url_connects_to_the_server(redis_server):
    with redis.Redis.from_url(redis_server.url) as client:
        assert client.config_get("notify-keyspace-events")["notify-keyspace-events"] in {"Ks", "sK"}


def test_reset_clears_data_and_configuration_of_the_shared_server(redis_server):
    with redis_server.client() as client:
        client.set("k", "v")
        client.config_set("maxmemory-policy", "allkeys-lru")
        client.config_set("maxmemory", "100mb")
        redis_server.reset()
        assert client.dbsize() == 0
        assert client.config_get("maxmemory*")["maxmemory"] == "0"
        assert client.config_get("maxmemory*")["maxmemory-policy"] == "noeviction"


@pytest.mark.skipif(server_version() < (7, 0), reason="functions came with Redis 7.0")
def test_reset_removes_the_functions_of_changed_scripts(redis_server):
    code = "#!lua name={0}\nredis.register_function('{0}', function() return 1 end)"
    with redis_server.client() as client:
        for name in ("mqredis_0123456789ab_send", "another_tool"):
            client.execute_command("FUNCTION", "LOAD", code.format(name))
        redis_server.reset()
        assert not client.execute_command("FUNCTION", "LIST", "LIBRARYNAME", "mqredis_0123456789ab_send")
        client.execute_command("FUNCTION", "DELETE", "another_tool")


def test_server_that_cannot_start_raises_with_the_reason(start_server):
    with pytest.raises(RuntimeError, match="maxmemory-policy"):
        start_server(options={"maxmemory-policy": "no such policy"})


def test_missing_server_binary_raises_with_advice(monkeypatch, tmp_path):
    monkeypatch.delenv(BINARY_VARIABLE, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ServerMissing, match="make redis"):
        find_binary()
    monkeypatch.setenv(BINARY_VARIABLE, "no-such-server")
    with pytest.raises(ServerMissing, match="no-such-server"):
        find_binary()


def test_backend_client_starts_with_an_empty_server(backend: Backend):
    with backend.client() as client:
        assert client.dbsize() == 0
        client.set("k", "v")


async def test_async_and_sync_clients_of_a_backend_share_data(backend: Backend):
    async with backend.async_client() as client:
        assert await client.get("k") is None
        await client.set("k", "v")
    with backend.client() as client:
        assert client.get("k") == b"v"


def test_two_fake_backends_do_not_share_data():
    one, other = fake_backend(), fake_backend()
    with one.client() as first, other.client() as second:
        first.set("k", "v")
        assert second.get("k") is None
