"""TLS against a real server: the certificate is checked unless the caller says otherwise."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
import trustme

import mqredis
import mqredis.asyncio
from tests.support.server import RedisServer

Serve = Callable[..., tuple[str, Path]]


@pytest.fixture
def serve(tmp_path: Path, start_server: Callable[..., RedisServer]) -> Serve:
    """Starts a server whose certificate is for the given names: its address, and its authority's certificate."""

    def start(*names: str) -> tuple[str, Path]:
        authority = trustme.CA()
        given = authority.issue_cert(*names)
        authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
        given.private_key_pem.write_to_path(str(tmp_path / "server.key"))
        given.cert_chain_pems[0].write_to_path(str(tmp_path / "server.pem"))
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        options = {
            "tls-port": port,
            "tls-cert-file": str(tmp_path / "server.pem"),
            "tls-key-file": str(tmp_path / "server.key"),
            "tls-ca-cert-file": str(tmp_path / "ca.pem"),
            "tls-auth-clients": "no",
        }
        try:
            start_server(options=options)
        except RuntimeError as error:
            if re.search(r"tls-port.*\s+Bad directive|Failed finding TLS support", str(error)):
                pytest.skip("this server was built without TLS")
            raise
        return f"127.0.0.1:{port}/0", tmp_path / "ca.pem"

    return start


def test_a_message_goes_through(serve: Serve):
    address, authority = serve("127.0.0.1")
    with mqredis.connect(f"rediss://{address}?ssl_ca_certs={authority}") as qm:
        qm.create_queue("q")
        with qm.open("q") as queue:
            queue.send(b"secret")
            assert queue.receive(5).body == b"secret"
            with pytest.raises(mqredis.IoTimeout):
                queue.receive(0.05)  # the doorbell's connection is encrypted too


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
