"""``mqredis console``."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import httpx
import pytest

from mqredis.cli import main
from mqredis.cli.console import is_loopback
from mqredis.cli.exits import Exit
from tests.support.server import RedisServer


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "example.org", "192.0.2.1"])  # noqa: S104 - nothing listens
def test_public_address_without_a_token_is_a_usage_error(
    host: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["console", "--host", host, "--url", "memory://x"]) == Exit.USAGE
    assert "give a token" in capsys.readouterr().err


@pytest.mark.parametrize(
    "pair", ["no-sign:secret", "=redis://:secret@h", "name=", "default=redis://:secret@h"]
)
def test_invalid_also_option_is_a_usage_error(pair: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["console", "--url", "memory://x", "--also", pair]) == Exit.USAGE
    shown = capsys.readouterr().err
    assert ("--also takes NAME=URL" in shown) != ("of this name already" in shown)
    assert "secret" not in shown


def test_loopback_addresses_are_recognised() -> None:
    assert [is_loopback(host) for host in ("127.0.0.1", "::1", "localhost", "127.8.8.8")] == [True] * 4


def test_console_serves_until_interrupted(redis_server: RedisServer) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "mqredis", "console", "--port", "0", "--url", redis_server.url, "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    try:
        assert process.stdout is not None
        url = httpx.Response(200, content=process.stdout.readline()).json()["url"]
        page = httpx.get(url, follow_redirects=True)
        assert page.status_code == 200
        assert "There are no queues yet" in page.text
        assert "server" not in page.headers
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
        assert process.stderr is not None
        assert process.stderr.read() == ""
    finally:
        process.kill()
        process.communicate()
