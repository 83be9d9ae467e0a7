"""The address in the description of a client: of its end of a TCP connection, and empty where there is none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mqredis.asyncio
from mqredis.asyncio import QueueManager
from tests.support.server import RedisServer


def test_client_over_tcp_gives_its_address(start_server: Callable[..., RedisServer]) -> None:
    with mqredis.connect(start_server(tcp=True).tcp_url) as qm:
        qm.create_queue("q")
        queue = qm.open("q")
        queue.send(b"a")
        queue.lock(0)
        assert [session.client.address for session in qm.sessions()] == ["127.0.0.1"]
        assert [lock.client.address for lock in qm.locks("q")] == ["127.0.0.1"]


async def test_asyncio_client_over_tcp_gives_its_address(start_server: Callable[..., RedisServer]) -> None:
    opened: QueueManager
    async with mqredis.asyncio.connect(start_server(tcp=True).tcp_url) as opened:
        assert [session.client.address for session in await opened.sessions()] == ["127.0.0.1"]


def test_session_that_is_renewed_after_a_restart_has_the_address(
    start_server: Callable[..., RedisServer],
) -> None:
    server = start_server(aof=True, tcp=True)
    with mqredis.connect(server.url) as local, mqredis.connect(server.tcp_url) as qm:
        local.info()
        qm.info()
        server.restart()
        local.info()
        qm.info()
        assert sorted(session.client.address for session in qm.sessions()) == ["", "127.0.0.1"]


def test_client_of_a_unix_socket_or_a_fake_has_no_address(url: str) -> None:
    with mqredis.connect(url) as qm:
        found: list[Any] = list(qm.sessions())
        assert [(session.client.address, session.client.version) for session in found] == [
            ("", mqredis.__version__)
        ]
