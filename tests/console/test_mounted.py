"""The examples of docs/console.md: a console in FastAPI, beside Django, and with several managers."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import mqredis
import mqredis.asyncio
from mqredis.console import Visitor, app
from tests.console.browser import Browser
from tests.support.server import RedisServer

PAGE = Path(__file__).parents[2] / "docs" / "console.md"
# What a project of Django has, and visits to its pages and those of the console beside it.
DJANGO = """
import asyncio, os, sys, types

urls = sys.modules["shop_urls"] = types.ModuleType("shop_urls")
settings = sys.modules["shop_settings"] = types.ModuleType("shop_settings")
settings.ROOT_URLCONF, settings.ALLOWED_HOSTS, settings.SECRET_KEY = "shop_urls", ["*"], "x"
os.environ["DJANGO_SETTINGS_MODULE"] = "shop_settings"
from django.http import HttpResponse
from django.urls import path
urls.urlpatterns = [path("shop/", lambda request: HttpResponse("the shop"))]
{example}
from tests.console.browser import Browser

async def visit():
    browser = Browser(application, "/mq")
    assert (await browser.client.get("/shop/")).text == "the shop"
    page = await browser.get("/", 401)
    page = await browser.post("/login", {{**page.fields, "token": "a long and random token"}})
    assert "orders" in page.text, page.text
    form = await browser.get("/m/default/act/send", queue="orders")
    page = await browser.post("/m/default/act/send", {{**form.fields, "body": "x"}})
    assert "was sent to orders" in page.text, page.text
    await browser.client.aclose()
    await console.state.console.managers.close()

asyncio.run(visit())
"""


def example(mark: str) -> str:
    """Return the Python block of the page that contains this text."""
    (found,) = [
        block for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL) if mark in block
    ]
    return str(found)


async def test_fastapi_example_serves_the_console(
    redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with mqredis.connect(redis_server.url) as manager:
        manager.create_queue("orders")
    text = example("FastAPI(")
    assert "redis://localhost:6379/0" in text
    names: dict[str, Any] = {"__name__": "example"}
    monkeypatch.setitem(sys.modules, "example", type(sys)("example"))  # FastAPI looks for annotations there
    exec(compile(text.replace("redis://localhost:6379/0", redis_server.url), "example", "exec"), names)  # noqa: S102 - ours
    browser = Browser(names["app"], "/mq")
    assert "You have no access" in (await browser.get("/", 403)).text
    browser.client.headers["x-user"] = "ann"
    assert "orders" in (await browser.get("/")).text
    assert "Purge" in (await browser.get("/m/default/act/purge", queue="orders")).text
    browser.client.headers["x-user"] = "bob"
    await browser.get("/m/default/act/send", queue="orders")
    await browser.get("/m/default/act/purge", 403, queue="orders")
    await browser.client.aclose()
    await names["app"].routes[-1].app.state.console.managers.close()


def test_django_example_serves_the_console(redis_server: RedisServer) -> None:
    with mqredis.connect(redis_server.url) as manager:
        manager.create_queue("orders")
    done = subprocess.run(
        [sys.executable, "-c", DJANGO.format(example=example("get_asgi_application"))],
        env={**os.environ, "MQREDIS_URL": redis_server.url, "PYTHONPATH": str(PAGE.parents[1])},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr


async def test_example_with_several_managers(redis_server: RedisServer) -> None:
    async with mqredis.asyncio.connect(redis_server.url, manager="bank") as opened:
        await opened.create_queue("accounts")
        async with mqredis.asyncio.connect(redis_server.url) as shop:
            await shop.create_queue("orders")
        browser = Browser(
            app({"shop": redis_server.url, "bank": opened}, access=lambda _: Visitor("ann", "all"))
        )
        page = await browser.get("/")
        assert "orders" in page.text
        bank = next(each for each in page.addresses if each.endswith("/m/bank/"))
        page = await browser.get(bank)
        assert "accounts" in page.text
        assert "orders" not in page.text
        await browser.close()
        assert (await opened.info()).queues == 1  # the console leaves open what it was given
