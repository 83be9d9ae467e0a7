"""Messages of the console at startup about queue managers that it cannot show."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable

import pytest

import mqredis
from mqredis import Settings
from mqredis.cli import acl
from mqredis.console import app, everyone
from tests.console.browser import Browser
from tests.support.server import RedisServer, server_version

UNREACHABLE = "redis://ann:secret@127.0.0.1:1/0"


def test_unreachable_manager_is_named_at_startup(redis_server: RedisServer) -> None:
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "mqredis", "console", "--port", "0"),
            *("--url", redis_server.url, "--also", f"bank={UNREACHABLE}"),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    try:
        assert process.stderr is not None
        assert process.stdout is not None
        line = process.stderr.readline()
        assert line.startswith("mqredis: the queue manager bank cannot be shown: redis://127.0.0.1:1/0")
        assert "secret" not in line
        assert "--read-only" not in line
        assert process.stdout.readline().startswith("console: http://")
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
        assert process.stderr.read() == ""
    finally:
        process.kill()
        process.communicate()


async def test_console_connects_again_when_the_data_were_replaced(
    start_server: Callable[..., RedisServer], caplog: pytest.LogCaptureFixture
) -> None:
    server = start_server()
    browser = Browser(app({"main": server.url}, access=everyone))
    await browser.get("/m/main/server")
    with server.client() as raw:
        raw.flushall()
    with mqredis.connect(server.url) as qm:
        qm.create_queue("new")
    page = await browser.get("/m/main/server", 404)
    assert "The queue manager is gone" in page.text
    assert "Queues and subqueues 1" in (await browser.get("/m/main/server")).text
    assert [record.message for record in caplog.records if "connects again" in record.message] == [
        "the data of the queue manager main were replaced: the console connects again"
    ]
    await browser.close()


@pytest.mark.parametrize("read_only", [False, True])
async def test_monitor_user_needs_a_read_only_console(
    start_server: Callable[..., RedisServer], caplog: pytest.LogCaptureFixture, read_only: bool
) -> None:
    server = start_server(tcp=True)
    with mqredis.connect(server.url, manager="shop"):
        words = acl.line("monitor", "shop", 0, functions=server_version() >= (7,), preloaded=False).split()
    with server.client() as raw:
        raw.execute_command(*words)
    url = server.tcp_url.replace("redis://", f"redis://{words[2]}:{words[4][1:]}@")
    managers = app(
        {"shop": Settings(url=url, manager="shop")}, access=everyone, read_only=read_only
    ).state.console.managers
    await managers.check()
    await managers.close()
    told = [each.getMessage() for each in caplog.records if each.name == "mqredis.console"]
    if read_only:
        assert told == []
    else:
        (line,) = told
        assert line.startswith("the queue manager shop cannot be shown: ")
        assert "NOPERM" in line
        assert line.endswith("If its user may only read, start the console with --read-only")


async def test_console_can_shut_down_before_the_startup_check_ends(caplog: pytest.LogCaptureFixture) -> None:
    application = app({"bank": UNREACHABLE}, access=everyone)
    async with application.router.lifespan_context(application):
        pass
    assert caplog.messages == []


async def test_error_page_links_to_the_other_managers(redis_server: RedisServer) -> None:
    browser = Browser(app({"bank": UNREACHABLE, "shop": redis_server.url}, access=everyone))
    page = await browser.get("/", 503)
    assert "The broker cannot be reached redis://127.0.0.1:1/0" in page.text
    assert "BrokerUnavailable" in page.text
    assert "secret" not in page.text
    assert "Overview" in (await browser.get(next(each for each in page.addresses if "/m/shop/" in each))).text
    await browser.close()
    browser = Browser(app({"bank": UNREACHABLE}, access=everyone))
    page = await browser.get("/", 503)
    assert "Queue managers" not in page.text
    await browser.close()


async def test_missing_permission_error_says_what_to_do(
    start_server: Callable[..., RedisServer],
) -> None:
    server = start_server(tcp=True)
    with mqredis.connect(server.url) as manager:
        manager.create_queue("orders")
    words = acl.line("monitor", "default", 0, functions=server_version() >= (7,), preloaded=False).split()
    with server.client() as raw:
        raw.execute_command(*words)
    url = server.tcp_url.replace("redis://", f"redis://{words[2]}:{words[4][1:]}@")
    for read_only, status in ((False, 403), (True, 200)):
        browser = Browser(app({"main": url}, access=everyone, read_only=read_only))
        page = await browser.get("/m/main/queue", status, name="orders")
        assert ("start the console with --read-only" in page.text) is not read_only
        assert ("Ready 0" in page.text) is read_only
        await browser.close()
