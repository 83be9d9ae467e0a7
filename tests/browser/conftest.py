"""A Chromium of the system, and a console that serves in a thread of the test."""

from __future__ import annotations

import os
import shutil
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import pytest
import uvicorn
from starlette.applications import Starlette

import mqredis
from mqredis.console import app, everyone
from tests.support.server import RedisServer

# Without Playwright, which `make test-browser` installs, these tests cannot be imported.
collect_ignore_glob = [] if find_spec("playwright") else ["test_*.py"]

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

_NAMES = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """The browser, without any request of its own."""
    from playwright.sync_api import sync_playwright

    path = os.environ.get("MQREDIS_TEST_CHROMIUM") or next(filter(None, map(shutil.which, _NAMES)), None)
    if path is None:
        pytest.fail("there is no Chromium: install it, or name it in MQREDIS_TEST_CHROMIUM", pytrace=False)
    switches = ["--no-sandbox", "--disable-background-networking", "--disable-component-update"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=switches)
        yield browser
        browser.close()


@contextmanager
def serving(application: Any) -> Iterator[str]:
    """Serves an ASGI application on a free port of this machine; gives its URL."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        config = uvicorn.Config(application, log_level="warning", timeout_graceful_shutdown=1)
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


@pytest.fixture
def broker(redis_server: RedisServer) -> Iterator[mqredis.QueueManager]:
    """The queue manager that the console shows."""
    with mqredis.connect(redis_server.url) as manager:
        manager.create_queue("orders", label="New orders")
        yield manager


@pytest.fixture
def console(broker: mqredis.QueueManager, redis_server: RedisServer) -> Iterator[str]:
    """URL of a console on the broker, updated five times a second."""
    with serving(app({"main": redis_server.url}, access=everyone, interval=0.2)) as url:
        yield url


@pytest.fixture
def under_prefix(broker: mqredis.QueueManager, redis_server: RedisServer) -> Iterator[str]:
    """The console, mounted in another application."""
    inner = app({"main": redis_server.url}, access=everyone, interval=0.2)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with inner.router.lifespan_context(inner):
            yield

    outer = Starlette(lifespan=lifespan)
    outer.mount("/ops/mq", inner)
    with serving(outer) as url:
        yield f"{url}/ops/mq"


@pytest.fixture
def open_page(chromium: Browser) -> Iterator[Callable[..., Page]]:
    """Opens pages. When the test ends, no script of a page may have failed, and no page may have asked another host."""
    contexts, wrong = [], []

    def start(url: str, **options: Any) -> Page:
        context = chromium.new_context(**options)
        context.set_default_timeout(15_000)
        contexts.append(context)
        page = context.new_page()
        host = url.split("/")[2]
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("dialog", lambda dialog: wrong.append(f"dialog {dialog.message}"))
        page.on("console", lambda told: wrong.append(told.text) if "Content Security" in told.text else None)
        page.on("request", lambda asked: None if asked.url.split("/")[2] == host else wrong.append(asked.url))
        page.goto(url)
        return page

    yield start
    for context in contexts:
        context.close()
    assert wrong == []
