"""TLS against a real server: the certificate is checked unless the caller says otherwise."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

import mqredis
import mqredis.asyncio
from tests.support.server import RedisServer
from tests.support.tls import serve_tls

Serve = Callable[..., tuple[str, Path]]


@pytest.fixture
def serve(tmp_path: Path, start_server: Callable[..., RedisServer]) -> Serve:
    """Starts a server whose certificate is for the given names: its address, and its authority's certificate."""

    def start(*names: str) -> tuple[str, Path]:
        address, authority = serve_tls(start_server, tmp_path, *names)
        return f"{address}/0", authority

    return start


def test_a_message_goes_through(serve: Serve):
    address, authority = serve("127.0.0.1")
    with mqredis.connect(f"rediss://{address}?ssl_ca_certs={authority}") as qm:
        qm.create_queue("q")
        with qm.open("q") as queue:
            queue.send(b"secret")
            assert queue.receive(5).body == b"secret"
            with pytest.raises(mqredis.IoTimeout):
                queue.receive(0.05)  # the subscription's connection is encrypted, too


def test_a_message_goes_through_asyncio(serve: Serve):
    address, authority = serve("127.0.0.1")

    async def main() -> bytes:
        async with mqredis.asyncio.connect(f"valkeys://{address}?ssl_ca_certs={authority}") as qm:
            await qm.create_queue("q")
            async with qm.open("q") as queue:
                waiting = asyncio.create_task(queue.receive(5))
                await queue.send(b"secret")
                return (await waiting).body

    assert asyncio.run(main()) == b"secret"


@pytest.mark.parametrize("known", [False, True], ids=["unknown authority", "wrong host name"])
def test_a_server_that_is_not_the_right_one_is_refused(serve: Serve, known: bool):
    address, authority = serve("elsewhere.example" if known else "127.0.0.1")
    url = f"rediss://{address}" + (f"?ssl_ca_certs={authority}" if known else "")
    with pytest.raises(mqredis.BrokerUnavailable, match="CERTIFICATE_VERIFY_FAILED"):
        mqredis.connect(url, settings=mqredis.Settings(retry_seconds=0))
