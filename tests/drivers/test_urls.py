"""Addresses of servers: parsing, refusals, and that no password is shown."""

from __future__ import annotations

import asyncio
import pickle
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import fakeredis
import fakeredis.aioredis
import pytest
import redis
import redis.asyncio

from mqredis.drivers.aio import AsyncDriver
from mqredis.drivers.connect import open_async_backend, open_backend
from mqredis.drivers.net import endpoint, urls
from mqredis.drivers.net.discovery import Plan
from mqredis.drivers.net.redaction import mask_passwords, redact
from mqredis.drivers.net.urls import parse
from mqredis.drivers.sync import Driver
from mqredis.errors import BrokerRefused, BrokerUnavailable, InvalidArgument
from mqredis.settings import Settings
from tests.drivers.kit import FAST, Connect, add, read
from tests.support.server import RedisServer
from tests.support.until import aio_until, until


@pytest.mark.parametrize(
    "url,shown",
    [
        ("redis://", "redis://localhost:6379/0"),
        ("redis://h:7000/3", "redis://h:7000/3"),
        ("valkey://u:p%40ss@h", "redis://h:6379/0"),
        ("rediss://:pw@h:1/2?ssl_ca_certs=/ca.pem", "rediss://h:1/2"),
        ("valkeys://h", "rediss://h:6379/0"),
        ("redis://[::1]:7000/1", "redis://[::1]:7000/1"),
        ("unix:///run/a%20b.sock?db=4", "unix:///run/a b.sock?db=4"),
        ("unix://:pw@/run/redis.sock", "unix:///run/redis.sock?db=0"),
        ("redis+sentinel://:pw@a:1,b/mymaster/2", "redis+sentinel://a:1,b:26379/mymaster/2"),
        ("rediss+cluster://u:pw@a:1,b:2", "rediss+cluster://a:1,b:2/0"),
        ("memory://tests", "memory://tests"),
        ("memory://", "memory://default"),
        ("memory://what%3F", "memory://what?"),
        ("embedded:///var/lib/mq", "embedded:///var/lib/mq"),
        ("embedded://", "embedded://"),
        ("VALKEY+sentinel://a/m", "redis+sentinel://a:26379/m/0"),
        ("valkeys+cluster://a", "rediss+cluster://a:6379/0"),
    ],
)
def test_url_is_parsed(url: str, shown: str) -> None:
    assert parse(url).describe() == shown


def test_url_options_are_parsed() -> None:
    target = parse("redis+sentinel://u:p%2Fw@a:1,b/mymaster/2?sentinel_password=sp")
    assert target.options == {"username": "u", "password": "p/w"}
    assert target.sentinel_options == {"password": "sp"}
    assert (target.nodes, target.name, target.database) == ([("a", 1), ("b", 26379)], "mymaster", 2)
    assert parse("rediss://h").options["ssl_check_hostname"] is True
    assert parse("rediss://h?ssl_cert_reqs=none").options["ssl_check_hostname"] is False


@pytest.mark.parametrize(
    "url",
    [
        "localhost:6379",
        "http://h",
        "redis://:s3cret#x@h",
        "redis://:s3cret@h:port",
        "redis://h/x?password=s3cret",
        "redis://h/-1",
        "redis://h?nonsense=s3cret",
        "redis://h?db=s3cret",
        "unix://relative/s3cret.sock",
        "unix://",
        "redis+sentinel://:s3cret@h",
        "redis+sentinel:///m",
        "redis+cluster://:s3cret@h/1",
        "redis+nothing://:s3cret@h",
        "redis://h?ssl_ca_certs=/s3cret",
        "redis://h:99999",
        "redis://u:123/s3cret@h",
        "redis://u:pw?s3cret@h",
        "memory://s3cret?db=1",
        "embedded:///s3cret?db=3",
        "embedded:///s3cret#1",
        "embedded://s3cret/dir",
        "notvalkey://h",
        "valkey+memory://s3cret",
    ],
)
def test_invalid_url_is_refused_without_showing_the_password(url: str) -> None:
    for opened in (open_backend, open_async_backend):
        with pytest.raises(InvalidArgument) as caught:
            opened(url, Settings())
        shown = caught.value
        while shown is not None:
            assert "s3cret" not in str(shown)
            shown = None if shown.__suppress_context__ else shown.__context__  # type: ignore[assignment]


@pytest.mark.parametrize("word", ["true", "Yes", "1", "on"])
def test_words_for_true(word: str) -> None:
    assert parse(f"rediss://h?ssl_check_hostname={word}").options["ssl_check_hostname"] is True


@pytest.mark.parametrize("word", ["false", "No", "0", "off"])
def test_words_for_false(word: str) -> None:
    assert parse(f"rediss://h?ssl_check_hostname={word}").options["ssl_check_hostname"] is False


@pytest.mark.parametrize("word", ["ture", "", "2", "none"])
def test_other_words_for_a_boolean_are_refused(word: str) -> None:
    with pytest.raises(
        InvalidArgument, match="ssl_check_hostname must be one of 1 true yes on 0 false no off"
    ):
        parse(f"rediss://h?ssl_check_hostname={word}")


@pytest.mark.parametrize(
    "url,advice",
    [
        ("embedded://data/dir", "embedded:///var/lib"),
        ("embedded:///data?db=3", "embedded:///directory"),
        ("embedded:///data#3", "embedded:///directory"),
        ("memory://x?db=1", "memory://name"),
        ("memory://x#1", "memory://name"),
        ("redis://h?socket_keepalive=no", "unknown option 'socket_keepalive'"),
    ],
)
def test_what_a_form_ignores_is_refused(url: str, advice: str) -> None:
    with pytest.raises(InvalidArgument, match=advice):
        parse(url)


@pytest.mark.parametrize("form", ["redis", "redis+sentinel", "redis+cluster", "rediss+sentinel"])
@pytest.mark.parametrize("path", ["", "/m", "/0", "/m/0"])
def test_password_with_a_slash_behind_digits_is_refused_and_not_shown(form: str, path: str) -> None:
    with pytest.raises(InvalidArgument, match="write / as %2F in a password") as caught:
        parse(f"{form}://user:26/canary@host{path}")
    assert "canary" not in str(caught.value)


def test_name_of_a_primary_and_path_of_a_socket_may_hold_an_at_sign() -> None:
    assert parse("redis+sentinel://host/a%40b/0").name == "a@b"
    assert parse("unix:///run/a@b.sock").options["path"] == "/run/a@b.sock"


@pytest.mark.parametrize("thing", [None, 7, object()])
def test_target_of_another_type_is_refused(thing: object) -> None:
    with pytest.raises(InvalidArgument):
        open_backend(thing, Settings())
    with pytest.raises(InvalidArgument):
        open_async_backend(thing, Settings())


def test_client_of_the_other_interface_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="asyncio"):
        open_backend(redis.asyncio.Redis(), Settings())
    with pytest.raises(InvalidArgument, match="blocking"):
        open_async_backend(redis.Redis(), Settings())


def test_redact_replaces_a_password_that_contains_another() -> None:
    assert redact("AUTH pass1word of pass1", "pass1", "pass1word") == "AUTH *** of ***"


def test_redact_replaces_passwords() -> None:
    assert redact("redis://u:pw@h and x?password=abc&y=1") == "redis://***@h and x?password=***&y=1"
    assert redact("redis://u:pa/ss@host/0 failed") == "redis://***@host/0 failed"
    assert redact("redis://u:p@ss?@host/0 failed") == "redis://***@host/0 failed"
    assert redact("it was p%2Fw or p/w", "p/w") == "it was *** or ***"
    secret = "back\\slash"
    assert redact(f"it was {secret!r} or {secret}", secret) == "it was '***' or ***"
    assert redact("password='my secret' was given") == "password=*** was given"
    assert redact("password='a b'c&x=1") == "password=***&x=1"


def test_mask_of_passwords_is_put_in_as_it_is() -> None:
    assert mask_passwords("redis://u:pw@h/0?password=x", r"7\1") == r"redis://u:7\1@h/0?password=7\1"


def test_address_repr_and_logs_show_no_password(
    redis_server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    canary = "canary-" + uuid.uuid4().hex
    with caplog.at_level("DEBUG"):
        backend = open_backend(f"redis://user:{canary}@127.0.0.1:1/0", Settings())
        assert canary not in backend.address + repr(backend)
    assert canary not in caplog.text


def test_driver_uses_given_redis_clients(redis_server: RedisServer, connect: Callable[..., Driver]) -> None:
    plain = redis.Redis(unix_socket_path=str(redis_server.socket_path))
    decoding = redis.Redis(unix_socket_path=str(redis_server.socket_path), decode_responses=True)
    resp3 = redis.Redis(unix_socket_path=str(redis_server.socket_path), protocol=3, db=0)
    for n, client in enumerate((plain, decoding, resp3), 1):
        assert connect(client).run(add(connect(client).core.keys)) == str(n)
        client.close()
    other = redis.Redis(unix_socket_path=str(redis_server.socket_path), db=3)
    driver = connect(other)
    assert driver.run(add(driver.core.keys)) == "1"
    assert driver.backend.database == 3
    other.close()


@pytest.mark.parametrize(
    "options", [{}, {"ssl": True}, {"unix_socket_path": "/s"}, {"socket_timeout": 3}], ids=str
)
def test_clients_with_plain_options_get_our_own_connections(options: dict[str, Any]) -> None:
    plans = [
        open_backend(redis.Redis(**options), Settings()).plan,
        open_async_backend(redis.asyncio.Redis(**options), Settings()).plan,
    ]
    assert all(plan.server.endpoint() for plan in plans)


def test_client_with_an_option_that_ours_lack_keeps_connections_of_redis_py() -> None:
    plan = open_backend(redis.Redis(socket_keepalive_options={1: 2}), Settings()).plan
    assert plan.server.endpoint() is None


@pytest.mark.parametrize("primary", [False, True], ids=["plain primary", "primary with tls"])
@pytest.mark.parametrize("sentinel", [False, True], ids=["plain sentinel", "sentinel with tls"])
def test_sentinels_of_a_client_are_asked_as_redis_py_asks_them(sentinel: bool, primary: bool) -> None:
    own = {"ssl": sentinel, "password": "own"}
    for group, connect in ((redis.Sentinel, open_backend), (redis.asyncio.Sentinel, open_async_backend)):
        client = group([("s", 1)], sentinel_kwargs=own).master_for("shop", ssl=primary, password="other")
        plan = connect(client, Settings()).plan
        asked, server = plan.asking(("s", 1)).endpoint(), plan.at(("p", 2)).endpoint()
        assert asked
        assert server
        assert (asked.tls is not None, server.tls is not None) == (sentinel, primary)
        assert [b"own" in asked.greeting[0], b"other" in server.greeting[0]] == [True, True]


def test_function_that_a_client_calls_for_each_connection_is_called(
    redis_server: RedisServer, connect: Callable[..., Driver]
) -> None:
    greeted: list[redis.Connection] = []

    def greet(connection: Any) -> None:
        connection.on_connect()
        greeted.append(connection)

    function: Any = greet
    client = redis.Redis(unix_socket_path=str(redis_server.socket_path), redis_connect_func=function)
    driver = connect(client)
    driver.run(add(driver.core.keys))
    assert len(greeted) == 1


@pytest.mark.parametrize("host", ["redis..svc", f"{'a' * 64}.svc"], ids=["empty label", "long label"])
def test_host_that_is_no_name_is_refused(host: str) -> None:
    urls = [f"redis://{host}", f"redis+cluster://h,{host}", f"rediss+sentinel://{host}/shop"]
    for where in (*urls, redis.Redis(host=host), redis.Sentinel([(host, 1)]).master_for("shop")):
        with pytest.raises(InvalidArgument, match="label that is empty or too long"):
            open_backend(where, Settings())


def test_sentinel_client_without_sentinels_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="names no Sentinel"):
        open_backend(redis.Sentinel([]).master_for("shop"), Settings())


def test_driver_uses_given_fakeredis_clients(connect: Callable[..., Driver]) -> None:
    store = fakeredis.FakeServer(version=(7, 0, 15))
    for n, client in enumerate(
        (fakeredis.FakeRedis(server=store), fakeredis.FakeRedis(server=store, decode_responses=True)), 1
    ):
        driver = connect(client)
        assert driver.run(add(driver.core.keys)) == str(n)


async def test_driver_uses_given_async_clients(
    redis_server: RedisServer, aconnect: Callable[..., AsyncDriver]
) -> None:
    path = str(redis_server.socket_path)
    client = redis.asyncio.Redis(unix_socket_path=path, decode_responses=True)
    driver = aconnect(client)
    assert await driver.run(add(driver.core.keys)) == "1"
    await client.aclose()
    fake = fakeredis.FakeAsyncRedis(server=fakeredis.FakeServer(version=(7, 0, 15)))
    driver = aconnect(fake)
    assert await driver.run(add(driver.core.keys)) == "1"


def test_memory_store_is_shared_by_name(connect: Callable[..., Driver]) -> None:
    name = uuid.uuid4().hex
    one, two, three = connect(f"memory://{name}"), connect(f"memory://{name}"), connect(f"memory://{name}2")
    one.run(add(one.core.keys))
    assert two.run(read(two.core.keys)) == "1"
    assert three.run(read(three.core.keys)) == "0"


def test_tls_checks_the_host_name() -> None:
    kwargs = open_backend("rediss://h", Settings()).plan.server.kwargs
    assert kwargs["ssl_check_hostname"] is True
    assert kwargs["protocol"] == 2
    assert kwargs["retry"]._retries == 0
    assert kwargs["decode_responses"] is False


def test_settings_stay_picklable() -> None:
    assert pickle.loads(pickle.dumps(FAST)) == FAST  # noqa: S301 - our own


# Redis refuses each with an error that has no code of its own.
REFUSED_OPTIONS = ("client_name=a%20b", "db=99999999999999999999")


@pytest.mark.parametrize("option", REFUSED_OPTIONS)
def test_option_that_the_server_refuses_is_no_sign_of_damaged_data(
    redis_server: RedisServer, connect_either: Connect, option: str
) -> None:
    driver = connect_either(f"unix://{redis_server.socket_path}?{option}")
    with pytest.raises(BrokerRefused, match="options of the URL"):
        driver.open()


def test_exhausted_pool_error_names_max_connections(
    redis_server: RedisServer, connect: Callable[..., Driver]
) -> None:
    driver = connect(redis_server.url, FAST.model_copy(update={"max_connections": 1, "retry_seconds": 0.1}))
    assert driver.run(add(driver.core.keys)) == "1"  # one connection suffices to open, probe and call
    link = driver.backend.acquire(1e12)
    with pytest.raises(BrokerUnavailable, match=r"^all 1 connections are busy; raise max_connections$"):
        driver.run(add(driver.core.keys))
    assert not driver.core.unreachable, "close() may still close the session"
    driver.backend.release(link)
    assert driver.run(add(driver.core.keys)) == "2"


def test_threads_share_at_most_max_connections(
    redis_server: RedisServer, connect: Callable[..., Driver]
) -> None:
    driver = connect(redis_server.url, FAST.model_copy(update={"max_connections": 2, "retry_seconds": 30}))
    driver.run(add(driver.core.keys))
    most = []

    def work(_: int) -> None:
        driver.run(add(driver.core.keys))
        most.append(driver.backend._count)

    with ThreadPoolExecutor(12) as pool:
        list(pool.map(work, range(600)))
    assert driver.run(read(driver.core.keys)) == "601"
    assert max(most) <= 2


def plan_of(retry: float) -> Plan:
    settings = Settings(retry_seconds=retry, connect_timeout_seconds=4)
    return Plan(parse("redis://localhost"), settings, endpoint.Connector(object, {}))


@pytest.mark.parametrize("retry", [0, 10])
@pytest.mark.parametrize(
    "left,seconds",
    [(8, 4), (3, 3), (0.2, 0.2), (-1, 0.05)],
    ids=["plenty", "some", "a further Sentinel", "late"],
)
def test_connect_timeout_is_bounded_by_the_time_that_is_left(
    retry: float, left: float, seconds: float
) -> None:
    assert plan_of(retry).patience(left) == seconds


def test_call_that_is_never_repeated_has_the_time_to_connect() -> None:
    assert plan_of(0).deadline(1000.0, now=1000.0) == 1004.0
    assert plan_of(10).deadline(1010.0, now=1000.0) == 1010.0


NEVER_REPEATED = FAST.model_copy(
    update={"max_connections": 1, "retry_seconds": 0, "connect_timeout_seconds": 30}
)


def test_call_that_is_never_repeated_waits_for_a_connection(
    redis_server: RedisServer, connect: Callable[..., Driver]
) -> None:
    driver = connect(redis_server.url, NEVER_REPEATED)
    driver.run(add(driver.core.keys))
    link = driver.backend.acquire(0.0)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(driver.run, add(driver.core.keys))
        until(lambda: driver.backend._waiting or waiting.done())
        driver.backend.release(link)
        assert waiting.result(30) == "2"


async def test_task_whose_call_is_never_repeated_waits_for_a_connection(
    redis_server: RedisServer, aconnect: Callable[..., AsyncDriver]
) -> None:
    backend = aconnect(redis_server.url, NEVER_REPEATED).backend
    link = await backend.acquire(0.0, alone=True)
    waiting = asyncio.create_task(backend.acquire(0.0, alone=True))
    await aio_until(lambda: backend._waiters or waiting.done())
    await backend.release(link)
    assert await waiting is link
    await backend.release(link)


def test_own_connections_follow_each_option_of_a_url() -> None:
    own = [name for name in urls._OPTIONS if not name.startswith("sentinel_")]
    assert endpoint._FOLLOWED.issuperset(own)
