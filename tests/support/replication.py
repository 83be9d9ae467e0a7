"""A primary with a replica, for tests of what has got how far."""

from __future__ import annotations

from collections.abc import Callable

import redis

from mqredis.operations.server_facts import ServerFacts, facts_of
from tests.support.server import RedisServer


def has_waitaof(server: RedisServer) -> bool:
    """Does the server know WAITAOF (Redis 7.2)?"""
    with server.client() as client:
        try:
            client.execute_command("WAITAOF", 0, 0, 1)
        except redis.ResponseError:
            return False  # an unknown command: with these numbers it has no other way to fail
    return True


def syncs_on_demand(server: RedisServer) -> bool:
    """May ``durability="fsync"`` be asked of it? It syncs before it replies, or its WAITAOF waits for the disk."""
    with server.client() as client:
        if client.config_get("appendfsync") == {"appendfsync": "always"}:
            return True
        facts = ServerFacts(facts_of(client.info("server")))
    return has_waitaof(server) and not facts.syncs_late


def with_replica(start: Callable[..., RedisServer]) -> tuple[RedisServer, RedisServer]:
    """A primary and a replica that is in step with it, both with a log."""
    primary = start(aof=True, tcp=True, options={"repl-diskless-sync-delay": "0"})
    replica = start(aof=True, options={"replicaof": f"127.0.0.1 {primary.port}"})
    with primary.client() as client:
        for _ in range(600):
            client.set("sign", "1")
            if client.execute_command("WAIT", 1, 100) == 1:
                return primary, replica
    raise AssertionError("the replica does not follow")
