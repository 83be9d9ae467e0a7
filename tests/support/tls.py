"""A server that speaks TLS, and the authority behind its certificate."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import trustme

from tests.support.server import RedisServer, free_port


def serve_tls(start_server: Callable[..., RedisServer], folder: Path, *names: str) -> tuple[str, Path]:
    """Start a server whose certificate is for ``names``: host:port, and the certificate of its authority."""
    authority = trustme.CA()
    given = authority.issue_cert(*names)
    files = {name: folder / name for name in ("ca.pem", "server.key", "server.pem")}
    authority.cert_pem.write_to_path(str(files["ca.pem"]))
    given.private_key_pem.write_to_path(str(files["server.key"]))
    given.cert_chain_pems[0].write_to_path(str(files["server.pem"]))
    port = free_port()
    options = {
        "tls-port": port,
        "tls-cert-file": str(files["server.pem"]),
        "tls-key-file": str(files["server.key"]),
        "tls-ca-cert-file": str(files["ca.pem"]),
        "tls-auth-clients": "no",
    }
    try:
        start_server(options=options)
    except RuntimeError as error:
        if re.search(r"tls-port.*\s+Bad directive|Failed finding TLS support", str(error)):
            pytest.skip("this server was built without TLS")
        raise
    return f"127.0.0.1:{port}", files["ca.pem"]
