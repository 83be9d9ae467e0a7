"""Makes a backend (a pool of connections) from a URL or a redis-py client.

``mqredis.connect``, ``mqredis.asyncio.connect`` and the deploy step (``drivers.deploy``) call it; the fixtures of
``pytest_mqredis`` forget the stores that they have used. A new form of URL begins in ``net.urls``. How to connect is
taken from inner attributes of a user's client, which CI checks with each major release of redis-py
(tests/drivers/test_discovery.py).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
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


# The classes of blocking clients and of asyncio clients.
_CLIENTS: dict[bool, tuple[type[Any], ...]] = {
    False: (redis.Redis, redis.RedisCluster),
    True: (aredis.Redis, aredis.RedisCluster),
}


def open_backend(where: Any, settings: Settings, key: str = "") -> Backend:
    """A blocking backend for a URL or an existing ``redis.Redis``/``RedisCluster``.

    ``key`` is any key of the manager; its slot tells which node of a cluster to use. No connection is made yet.

    Raises:
        InvalidArgument: the URL or client cannot be used.
    """
    return Backend(*_Planner(settings, key, asyncio=False).plan(where))


def open_async_backend(where: Any, settings: Settings, key: str = "") -> AsyncBackend:
    """An asyncio backend for a URL or an existing ``redis.asyncio`` client. Arguments and errors: ``open_backend``."""
    from mqredis.drivers.net.pool_aio import AsyncBackend  # a blocking client never needs it

    return AsyncBackend(*_Planner(settings, key, asyncio=True).plan(where))


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


@dataclass(frozen=True, slots=True)
class _Planner:
    """Makes the plan of a backend. The arguments are those of ``open_backend``."""

    settings: Settings
    key: str
    asyncio: bool

    def plan(self, where: Any) -> tuple[Plan, Callable[[], None] | None]:
        """The plan for a URL or a client, and what its end has to call. Raises InvalidArgument."""
        if isinstance(where, str):
            return self._url(where)
        if isinstance(where, _CLIENTS[self.asyncio]):
            return self._client(where), None
        if isinstance(where, _CLIENTS[not self.asyncio]):
            raise InvalidArgument(
                "this is a blocking client; use mqredis.connect with it"
                if self.asyncio
                else "this is an asyncio client; use mqredis.asyncio.connect with it"
            )
        raise InvalidArgument(
            f"cannot connect to an object of type {type(where).__name__}; pass a URL or a "
            f"{'redis.asyncio' if self.asyncio else 'redis-py'} client"
        )

    def _url(self, url: str) -> tuple[Plan, Callable[[], None] | None]:
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

            cls: Any = FakeAsyncRedisConnection if self.asyncio else FakeRedisConnection
            options = {"server": store, "db": 0}
        elif target.kind == "unix":
            cls = (aredis if self.asyncio else redis).UnixDomainSocketConnection
        else:
            cls = self._over_tcp(target.tls)
        plan = self._make_plan(target, cls, options)
        if plan.supervised:
            others = {k: v for k, v in target.options.items() if k not in ("username", "password")}
            plan.sentinel = self._connector(cls, others | target.sentinel_options)
        check_options(plan)
        return plan, release

    def _over_tcp(self, tls: bool) -> Any:
        module = aredis if self.asyncio else redis
        return module.SSLConnection if tls else module.Connection

    def _make_plan(self, target: Target, cls: Any, options: dict[str, Any]) -> Plan:
        addresses = [*target.nodes, *([target.endpoint] if target.endpoint else ())]
        for host, _ in addresses:
            try:
                host.encode("idna")  # as the socket module does, whose error has no type of ours
            except UnicodeError:  # the host is not repeated: it may be a part of a password
                raise InvalidArgument("the name of a host has a label that is empty or too long") from None
        connector = self._connector(cls, options)
        return Plan(target, self.settings, connector, key=self.key, secrets=target.secrets)

    def _connector(self, cls: Any, options: dict[str, Any]) -> Connector:
        retry, reply = (AsyncRetry, None) if self.asyncio else (Retry, self.settings.reply_timeout_seconds)
        kwargs = prepare(cls, options, self.settings, retry, reply)
        if "server" in options:
            kwargs["server"] = options["server"]
        return Connector(cls, kwargs)

    def _client(self, client: Any) -> Plan:
        if isinstance(client, (redis.RedisCluster, aredis.RedisCluster)):
            return self._cluster(client)
        pool = client.connection_pool
        cls, options = pool.connection_class, dict(pool.connection_kwargs)
        target = Target("tcp", int(options.get("db") or 0), options)
        sentinel = getattr(pool, "sentinel_manager", None)
        if sentinel is not None:
            return self._sentinel(pool, sentinel, options)
        if "path" in options:
            target.kind = "unix"
        elif cls.__module__.startswith("fakeredis"):
            target.kind, target.name = "memory", "client"
        else:
            options.setdefault("host", "localhost")
            options.setdefault("port", REDIS_PORT)
            target.tls = issubclass(cls, (redis.SSLConnection, aredis.SSLConnection))
        return self._make_plan(target, cls, options)

    def _sentinel(self, pool: Any, sentinel: Any, options: dict[str, Any]) -> Plan:
        pools = [each.connection_pool for each in sentinel.sentinels]
        if not pools:
            raise InvalidArgument("this client names no Sentinel")
        # All have the same options but for the address. These need not be those of the primary.
        cls, own = pools[0].connection_class, dict(pools[0].connection_kwargs)
        addresses = [each.connection_kwargs for each in pools]
        nodes = [(str(at.get("host", "localhost")), int(at.get("port", SENTINEL_PORT))) for at in addresses]
        tls = bool(getattr(pool, "is_ssl", False)) or "SSL" in pool.connection_class.__name__
        database = int(options.get("db") or 0)
        target = Target("sentinel", database, options, nodes, pool.service_name, tls, own)
        plan = self._make_plan(target, self._over_tcp(tls), options)
        plan.sentinel = self._connector(cls, own)
        return plan

    def _cluster(self, client: Any) -> Plan:
        manager = client.nodes_manager
        seeds = list(manager.startup_nodes.values())
        known = getattr(manager, "connection_kwargs", None) or getattr(client, "connection_kwargs", None)
        options = dict(cast("dict[str, Any]", known or {}))
        tls = bool(options.pop("ssl", False))
        tls = tls or "SSL" in getattr(options.get("connection_class"), "__name__", "")
        # The function would mark the connection as one that reads from a replica.
        for name in ("host", "port", "db", "response_callbacks", "redis_connect_func"):
            options.pop(name, None)
        nodes = [(str(node.host), int(node.port)) for node in seeds]
        target = Target("cluster", 0, options, nodes, tls=tls)
        return self._make_plan(target, self._over_tcp(tls), options)
