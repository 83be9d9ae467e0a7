"""``mqredis console``."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator

import httpx
import pytest
import uvicorn

from mqredis.cli import main
from mqredis.cli.console import is_loopback
from mqredis.cli.exits import Exit
from mqredis.console import serve
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
    assert ("take NAME=URL" in shown) != ("of this name already" in shown)
    assert "secret" not in shown


def test_further_managers_can_be_given_in_a_variable(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user who may list the processes of the machine sees passwords in options."""
    served: list[list[str]] = []
    monkeypatch.setattr(serve, "run", lambda managers, *_, **__: served.append([*managers]))
    monkeypatch.setenv("MQREDIS_CONSOLE_ALSO", "bank=redis://:secret@bank/0 mail=redis://mail")
    assert main(["console", "--url", "memory://x"]) == Exit.DONE
    assert main(["console", "--url", "memory://x", "--also", "shop=memory://y"]) == Exit.DONE
    assert served == [["default", "bank", "mail"], ["default", "shop", "bank", "mail"]]
    monkeypatch.setenv("MQREDIS_CONSOLE_ALSO", "redis://:secret@bank/0")
    assert main(["console", "--url", "memory://x"]) == Exit.USAGE
    shown = capsys.readouterr().err
    assert "MQREDIS_CONSOLE_ALSO" in shown
    assert "secret" not in shown


def test_loopback_addresses_are_recognised() -> None:
    assert [is_loopback(host) for host in ("127.0.0.1", "::1", "localhost", "127.8.8.8")] == [True] * 4


@contextlib.contextmanager
def served(server: RedisServer, *options: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """A console with these options: its address and its process, which is killed at the end."""
    process = subprocess.Popen(
        [sys.executable, "-m", "mqredis", "console", "--port", "0", "--url", server.url, "--json", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    try:
        assert process.stdout is not None
        yield httpx.Response(200, content=process.stdout.readline()).json()["url"], process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_console_ends_in_order_at_a_signal(redis_server: RedisServer, number: int) -> None:
    with served(redis_server) as (url, process):
        page = httpx.get(url, follow_redirects=True)
        assert page.status_code == 200
        assert "There are no queues yet" in page.text
        assert "server" not in page.headers
        process.send_signal(number)
        assert process.wait(30) == 0
        assert process.stderr is not None
        assert process.stderr.read() == ""


def test_console_behind_a_proxy_writes_its_root_path_before_links(redis_server: RedisServer) -> None:
    """The test is the proxy of docs/console.md: it removes /queues, and passes on the host that the browser names."""
    proxied = {"host": "shop.example", "origin": "https://shop.example", "x-forwarded-proto": "https"}
    token = "a long and random token"
    with (
        served(redis_server, "--root-path", "/queues", "--token", token) as (url, _),
        httpx.Client(base_url=url, headers=proxied) as browser,
    ):
        pages = [browser.get("/"), entered := browser.post("/login", data={"token": token})]
        assert entered.headers["location"].startswith("/queues/")
        cookie = entered.headers["set-cookie"]
        assert "; Path=/queues;" in cookie
        assert "; Secure" in cookie
        browser.headers["cookie"] = cookie.partition(";")[0]
        while pages[-1].is_redirect:
            pages.append(browser.get(pages[-1].headers["location"].removeprefix("/queues")))
        assert "There are no queues yet" in pages[-1].text
        for page in pages:
            links = re.findall(r'(?:href|src|action)="(/[^"]*)"', page.text)
            assert links or page.is_redirect
            assert all(link.startswith("/queues/") for link in links), links


@pytest.mark.parametrize("path", ["queues", "/queues/", "/", "https://shop.example/queues", "/a b"])
def test_invalid_root_path_is_a_usage_error(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["console", "--url", "memory://x", "--root-path", path]) == Exit.USAGE
    assert "is not a path such as /queues" in capsys.readouterr().err


def test_console_without_a_token_refuses_the_host_of_a_proxy(redis_server: RedisServer) -> None:
    with served(redis_server) as (url, _):
        assert httpx.get(url, headers={"host": "shop.example"}).status_code == 400


def test_connections_of_the_console_send_pages_without_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    accepted: list[int] = []

    def run(_: uvicorn.Server, sockets: list[socket.socket]) -> None:
        (listener,) = sockets
        with socket.create_connection(listener.getsockname()):
            connection, _address = listener.accept()
            accepted.append(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            connection.close()

    monkeypatch.setattr(uvicorn.Server, "run", run)
    serve.run({"shop": "memory://shop"}, "127.0.0.1", 0, None, print)
    assert accepted == [1]
