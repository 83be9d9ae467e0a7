"""TLS with a real server: the certificate is verified."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import redis
import redis.asyncio
import trustme

import mqredis
import mqredis.asyncio
from mqredis.drivers.net import endpoint
from mqredis.drivers.net.blocking import SocketConnection
from mqredis.drivers.net.pool import Backend
from tests.support.relay import FakeSentinel
from tests.support.server import RedisServer
from tests.support.tls import serve_tls

Serve = Callable[..., tuple[str, Path]]


@pytest.fixture
def serve(tmp_path: Path, start_server: Callable[..., RedisServer]) -> Serve:
    """Start a server with a certificate for the given names; return its address and the CA certificate."""

    def start(*names: str) -> tuple[str, Path]:
        address, authority = serve_tls(start_server, tmp_path, *names)
        return f"{address}/0", authority

    return start


def test_message_is_sent_and_received_over_tls(serve: Serve):
    address, authority = serve("127.0.0.1")
    with mqredis.connect(f"rediss://{address}?ssl_ca_certs={authority}") as qm:
        qm.create_queue("q")
        with qm.open("q") as queue:
            queue.send(b"secret")
            assert queue.receive(5).body == b"secret"
            with pytest.raises(mqredis.IoTimeout):
                queue.receive(0.05)  # opens the subscription, over TLS as well


@pytest.mark.parametrize("scheme, hint", [("redis", "begins with rediss"), ("rediss", "begins with redis ")])
def test_error_of_the_wrong_scheme_names_the_other_one(
    serve: Serve, start_server: Callable[..., RedisServer], scheme: str, hint: str
):
    address = (
        serve("127.0.0.1")[0] if scheme == "redis" else start_server(tcp=True).tcp_url[len("redis://") :]
    )
    quick = mqredis.Settings(retry_seconds=0.1, connect_timeout_seconds=0.2)

    async def connect() -> None:
        await mqredis.asyncio.connect(f"{scheme}://{address}", settings=quick)

    with pytest.raises(mqredis.BrokerUnavailable, match=hint):
        mqredis.connect(f"{scheme}://{address}", settings=quick)
    with pytest.raises(mqredis.BrokerUnavailable, match=hint):
        asyncio.run(connect())


def test_subscription_over_tls_is_read_while_no_other_thread_sends(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
):
    address, authority = serve("127.0.0.1")
    locked: list[bool] = []
    read = SocketConnection.read_response
    with mqredis.connect(f"rediss://{address}?ssl_ca_certs={authority}") as qm:
        lock: Any = qm.driver._waiters._lock

        def read_response(conn: SocketConnection) -> Any:
            locked.append(lock._is_owned())
            return read(conn)

        monkeypatch.setattr(SocketConnection, "read_response", read_response)
        qm.create_queue("q")
        with qm.open("q") as queue, pytest.raises(mqredis.IoTimeout):
            queue.receive(0.05)
    assert locked
    assert all(locked)


def test_asyncio_message_is_sent_and_received_over_tls(serve: Serve):
    address, authority = serve("127.0.0.1")

    async def main() -> bytes:
        async with mqredis.asyncio.connect(f"valkeys://{address}?ssl_ca_certs={authority}") as qm:
            await qm.create_queue("q")
            async with qm.open("q") as queue:
                waiting = asyncio.create_task(queue.receive(5))
                await queue.send(b"secret")
                return (await waiting).body

    assert asyncio.run(main()) == b"secret"


@pytest.fixture
def contexts(monkeypatch: pytest.MonkeyPatch) -> list[ssl.SSLContext]:
    """The TLS contexts that the connections of the test have made."""
    made: list[ssl.SSLContext] = []
    create = ssl.create_default_context

    def note() -> ssl.SSLContext:
        made.append(create())
        return made[-1]

    monkeypatch.setattr(ssl, "create_default_context", note)
    return made


def open_two(backend: Backend) -> None:
    opened = [backend.acquire(time.monotonic() + 30) for _ in range(2)]
    assert all(isinstance(connection.conn, SocketConnection) for connection in opened)
    for connection in opened:
        backend.discard(connection)


def test_connections_share_a_tls_context(serve: Serve, contexts: list[ssl.SSLContext]):
    address, authority = serve("127.0.0.1")
    with mqredis.connect(f"rediss://{address}?ssl_ca_certs={authority}") as qm:
        open_two(qm.driver.backend)
        assert len(contexts) == 1


@pytest.mark.parametrize("content", [None, "no certificate"])
@pytest.mark.parametrize("option", ["ssl_ca_certs", "ssl_certfile"])
def test_file_of_a_tls_option_that_cannot_be_used_is_named(
    serve: Serve, tmp_path: Path, option: str, content: str | None
) -> None:
    address, _ = serve("127.0.0.1")
    path = tmp_path / "x.pem"
    if content is not None:
        path.write_text(content)
    with pytest.raises(mqredis.BrokerUnavailable, match=f"{option}={path} cannot be used"):
        mqredis.connect(f"rediss://{address}?{option}={path}")


def test_asyncio_connections_share_a_tls_context(serve: Serve, contexts: list[ssl.SSLContext]):
    address, authority = serve("127.0.0.1")

    async def main() -> None:
        async with mqredis.asyncio.connect(f"rediss://{address}?ssl_ca_certs={authority}") as qm:
            for _ in range(2):
                connection = await qm.driver.backend.acquire(time.monotonic() + 30, alone=True)
                await qm.driver.backend.discard(connection)

    asyncio.run(main())
    assert len(contexts) == 1


def test_replaced_certificate_is_used_by_later_connections(
    serve: Serve, contexts: list[ssl.SSLContext], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(endpoint, "CONTEXT_SECONDS", 0.0)
    address, authority = serve("127.0.0.1")
    with mqredis.connect(f"rediss://{address}?ssl_ca_certs={authority}") as qm:
        contexts.clear()
        trustme.CA().cert_pem.write_to_path(str(authority))  # another authority, under the same name
        qm.driver.backend.drop_idle()
        with pytest.raises(ssl.SSLCertVerificationError):
            qm.driver.backend.acquire(time.monotonic() + 30)
        assert len(contexts) == 1


def test_sentinels_without_tls_name_a_primary_with_tls(serve: Serve):
    address, authority = serve("127.0.0.1")
    with FakeSentinel() as sentinel:
        sentinel.primary = int(address.partition("/")[0].rpartition(":")[2])
        options: dict[str, Any] = {"ssl": True, "ssl_ca_certs": str(authority)}
        plain = redis.Sentinel([("127.0.0.1", sentinel.port)])
        with mqredis.connect(plain.master_for("shop", **options)) as qm:
            qm.create_queue("q")

        async def main() -> None:
            ours = redis.asyncio.Sentinel([("127.0.0.1", sentinel.port)])
            async with mqredis.asyncio.connect(ours.master_for("shop", **options)) as qm:
                await qm.info()

        asyncio.run(main())


@pytest.mark.parametrize("known", [False, True], ids=["unknown authority", "wrong host name"])
def test_certificate_that_cannot_be_verified_is_refused(serve: Serve, known: bool):
    address, authority = serve("elsewhere.example" if known else "127.0.0.1")
    url = f"rediss://{address}" + (f"?ssl_ca_certs={authority}" if known else "")
    with pytest.raises(mqredis.BrokerUnavailable, match=r"CERTIFICATE_VERIFY_FAILED.*\?ssl_ca_certs="):
        mqredis.connect(url, settings=mqredis.Settings(retry_seconds=0))
