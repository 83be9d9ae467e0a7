"""Makes a backend (a pool of connections) from a URL or a redis-py client.

``mqredis.connect``, ``mqredis.asyncio.connect`` and the deploy step (``drivers.deploy``) call it; the fixtures of
``pytest_mqredis`` forget the stores that they have used. A new form of URL begins in ``net.urls``. How to connect is
taken from inner attributes of a user's client, which CI checks with each major release of redis-py
(tests/drivers/test_discovery.py).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import redis
import redis.asyncio as aredis
from redis.asyncio.retry import Retry as AsyncRetry
from redis.retry import Retry

from mqredis.drivers.net.discovery import Plan, check_options, prepare
from mqredis.drivers.net.endpoint import Connector
from mqredis.drivers.net.pool import Backend
from mqredis.drivers.net.urls import REDIS_PORT, SENTINEL_PORT, Target, parse
from mqredis.errors import InvalidArgument, MissingDependency
from mqredis.settings import Settings

if TYPE_CHECKING:
    from mqredis.drivers.net.pool_aio import AsyncBackend

_stores: dict[str, Any] = {}
_stores_lock = threading.Lock()


def open_backend(where: Any, settings: Settings, key: str = "") -> Backend:
    """A blocking backend for a URL or an existing ``redis.Redis``/``RedisCluster``.

    ``key`` is any key of the manager; its slot tells which node of a cluster to use. No connection is made yet.

    Raises:
        InvalidArgument: the URL or client cannot be used.
    """
    if isinstance(where, str):
        plan, release = _plan_url(where, settings, key, asyncio=False)
        return Backend(plan, release)
    if isinstance(where, (aredis.Redis, aredis.RedisCluster)):
        raise InvalidArgument("this is an asyncio client; use mqredis.asyncio.connect with it")
    if isinstance(where, (redis.Redis, redis.RedisCluster)):
        return Backend(_plan_client(where, settings, key, asyncio=False))
    raise InvalidArgument(
        f"cannot connect to an object of type {type(where).__name__}; pass a URL or a redis-py client"
    )


def open_async_backend(where: Any, settings: Settings, key: str = "") -> AsyncBackend:
    """An asyncio backend for a URL or an existing ``redis.asyncio`` client. Arguments and errors: ``open_backend``."""
    from mqredis.drivers.net.pool_aio import AsyncBackend  # a blocking client never needs it

    if isinstance(where, str):
        plan, release = _plan_url(where, settings, key, asyncio=True)
        return AsyncBackend(plan, release)
    if isinstance(where, (redis.Redis, redis.RedisCluster)):
        raise InvalidArgument("this is a blocking client; use mqredis.connect with it")
    if isinstance(where, (aredis.Redis, aredis.RedisCluster)):
        return AsyncBackend(_plan_client(where, settings, key, asyncio=True))
    raise InvalidArgument(
        f"cannot connect to an object of type {type(where).__name__}; pass a URL or a redis.asyncio client"
    )


def forget_store(name: str) -> None:
    """Drop the store of ``memory://name``. Its data are gone when its last client is closed."""
    with _stores_lock:
        _stores.pop(name, None)


def _store(name: str) -> Any:
    try:
        import fakeredis
        import lupa  # noqa: F401 - fakeredis runs scripts with it
    except ImportError as error:
        raise MissingDependency.of("a URL memory://", "testing", error) from None
    with _stores_lock:
        found = _stores.get(name)
        if found is None:
            found = _stores[name] = fakeredis.FakeServer(version=(7, 0, 15))
        return found


def _plan_url(
    url: str, settings: Settings, key: str, *, asyncio: bool
) -> tuple[Plan, Callable[[], None] | None]:
    target = parse(url)
    release: Callable[[], None] | None = None
    if target.kind == "embedded":
        from mqredis.embedded import join  # rarely needed, and it imports what starts processes

        server = join(target.name or None)
        target, release = parse(server.url), server.leave
    options = dict(target.options, db=target.database)
    if target.kind == "memory":
        store = _store(target.name)
        from fakeredis import FakeRedisConnection
        from fakeredis.aioredis import FakeAsyncRedisConnection

        cls: Any = FakeAsyncRedisConnection if asyncio else FakeRedisConnection
        options = {"server": store, "db": 0}
    elif target.kind == "unix":
        cls = aredis.UnixDomainSocketConnection if asyncio else redis.UnixDomainSocketConnection
    else:
        cls = _over_tcp(target.tls, asyncio)
    plan = _make_plan(target, cls, options, settings, key, asyncio)
    if plan.supervised:
        others = {k: v for k, v in target.options.items() if k not in ("username", "password")}
        plan.sentinel = _connector(cls, others | target.sentinel_options, settings, asyncio)
    check_options(plan)
    return plan, release


def _over_tcp(tls: bool, asyncio: bool) -> Any:
    module = aredis if asyncio else redis
    return module.SSLConnection if tls else module.Connection


def _make_plan(
    target: Target, cls: Any, options: dict[str, Any], settings: Settings, key: str, asyncio: bool
) -> Plan:
    addresses = [*target.nodes, *([target.endpoint] if target.endpoint else ())]
    for host, _ in addresses:
        try:
            host.encode("idna")  # as the socket module does, whose error has no type of ours
        except UnicodeError:  # the host is not repeated: it may be a part of a password
            raise InvalidArgument("the name of a host has a label that is empty or too long") from None
    return Plan(
        target, settings, _connector(cls, options, settings, asyncio), key=key, secrets=target.secrets
    )


def _connector(cls: Any, options: dict[str, Any], settings: Settings, asyncio: bool) -> Connector:
    retry, reply = (AsyncRetry, None) if asyncio else (Retry, settings.reply_timeout_seconds)
    kwargs = prepare(cls, options, settings, retry, reply)
    if "server" in options:
        kwargs["server"] = options["server"]
    return Connector(cls, kwargs)


def _plan_client(client: Any, settings: Settings, key: str, *, asyncio: bool) -> Plan:
    if isinstance(client, (redis.RedisCluster, aredis.RedisCluster)):
        return _plan_cluster(client, settings, key, asyncio=asyncio)
    pool = client.connection_pool
    cls, options = pool.connection_class, dict(pool.connection_kwargs)
    target = Target("tcp", int(options.get("db") or 0), options)
    sentinel = getattr(pool, "sentinel_manager", None)
    if sentinel is not None:
        return _plan_sentinel(pool, sentinel, options, settings, key, asyncio=asyncio)
    if "path" in options:
        target.kind = "unix"
    elif cls.__module__.startswith("fakeredis"):
        target.kind, target.name = "memory", "client"
    else:
        options.setdefault("host", "localhost")
        options.setdefault("port", REDIS_PORT)
        target.tls = issubclass(cls, (redis.SSLConnection, aredis.SSLConnection))
    return _make_plan(target, cls, options, settings, key, asyncio)


def _plan_sentinel(
    pool: Any, sentinel: Any, options: dict[str, Any], settings: Settings, key: str, *, asyncio: bool
) -> Plan:
    pools = [each.connection_pool for each in sentinel.sentinels]
    if not pools:
        raise InvalidArgument("this client names no Sentinel")
    # All have the same options but for the address. These need not be those of the primary.
    cls, own = pools[0].connection_class, dict(pools[0].connection_kwargs)
    addresses = [each.connection_kwargs for each in pools]
    nodes = [(str(at.get("host", "localhost")), int(at.get("port", SENTINEL_PORT))) for at in addresses]
    tls = bool(getattr(pool, "is_ssl", False)) or "SSL" in pool.connection_class.__name__
    target = Target("sentinel", int(options.get("db") or 0), options, nodes, pool.service_name, tls, own)
    plan = _make_plan(target, _over_tcp(tls, asyncio), options, settings, key, asyncio)
    plan.sentinel = _connector(cls, own, settings, asyncio)
    return plan


def _plan_cluster(client: Any, settings: Settings, key: str, *, asyncio: bool) -> Plan:
    manager = client.nodes_manager
    seeds = list(manager.startup_nodes.values())
    known = getattr(manager, "connection_kwargs", None) or getattr(client, "connection_kwargs", None)
    options = dict(cast("dict[str, Any]", known or {}))
    tls = bool(options.pop("ssl", False)) or "SSL" in getattr(options.get("connection_class"), "__name__", "")
    # The function would mark the connection as one that reads from a replica.
    for name in ("host", "port", "db", "response_callbacks", "redis_connect_func"):
        options.pop(name, None)
    nodes = [(str(node.host), int(node.port)) for node in seeds]
    target = Target("cluster", 0, options, nodes, tls=tls)
    return _make_plan(target, _over_tcp(tls, asyncio), options, settings, key, asyncio)
