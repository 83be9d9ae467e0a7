"""The pages Doctor and Server where something is wrong, or may not be read."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

import mqredis.asyncio
from mqredis import Settings
from mqredis.asyncio import QueueManager
from mqredis.cli import acl
from mqredis.console import app, everyone
from mqredis.reports import Report
from mqredis.steps import Command, Steps, procedure
from tests.console.browser import Browser
from tests.console.test_pages import fill
from tests.support.server import RedisServer, server_version

GHOST = "0400000000000fff"


@procedure
def plant(manager: QueueManager) -> Steps[object]:
    """An id among the available messages that has no message."""
    return (yield Command(("ZADD", f"{manager.context.keys.tag}q:orders:a", "0", GHOST)))


async def test_doctor_shows_a_fault_and_repairs_it(browser: Browser, manager: QueueManager) -> None:
    await fill(manager, ["x"])
    page = await browser.examine()
    assert "The store is sound." in page.text
    assert not [each for each in page.addresses if each.endswith("/act/repair")]
    await manager.run(plant(manager))
    page = await browser.examine()
    assert "1 invariant of the store broken." in page.text
    assert "can be repaired stray.a" in page.text
    assert [each for each in page.addresses if each.endswith("/act/repair")]
    form = await browser.get("/m/main/act/repair")
    assert "repairs what the page Doctor shows as repairable. A repair loses no message." in form.text
    assert "1 finding repaired." in (await browser.post("/m/main/act/repair", form.fields)).text
    assert "1 finding repaired." in (await browser.post("/m/main/act/repair", form.fields)).text
    assert "The store is sound." in (await browser.examine()).text
    assert "repair: 1 finding repaired." in (await browser.get("/m/main/actions")).text
    assert (await manager.queue_info("orders")).ready == 1


async def test_doctor_examines_only_when_a_form_of_the_console_asks(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It looks at every message, and pages of other sites can make a browser open addresses."""
    runs = []

    async def examined(manager: QueueManager, repair: bool = False) -> Report:
        runs.append(repair)
        return await doctor(manager, repair)

    doctor = QueueManager.doctor
    monkeypatch.setattr(QueueManager, "doctor", examined)
    form = await browser.get("/m/main/doctor", 200, run="1")
    await browser.get("/m/main/act/repair")
    await browser.post("/m/main/doctor", form.fields, 403, origin="http://evil.test")
    await browser.post("/m/main/doctor", {"csrf": "x"}, 403)
    assert runs == []
    assert "The store is sound." in (await browser.post("/m/main/doctor", form.fields)).text
    assert runs == [False]


async def test_doctor_examines_for_one_visitor_at_a_time(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    running, most = 0, 0

    async def examined(manager: QueueManager) -> Report:
        nonlocal running, most
        running += 1
        most = max(most, running)
        try:
            return await doctor(manager)
        finally:
            running -= 1

    doctor = QueueManager.doctor
    monkeypatch.setattr(QueueManager, "doctor", examined)
    pages = await asyncio.gather(*(browser.examine() for _ in range(5)))
    assert ["The store is sound." in page.text for page in pages] == [True] * 5
    assert most == 1


async def test_server_page_shows_what_its_user_may_read(start_server: Callable[..., RedisServer]) -> None:
    server = start_server(tcp=True)
    async with mqredis.asyncio.connect(server.url, manager="shop") as manager:
        await manager.create_queue("orders")
    words = acl.line("monitor", "shop", 0, functions=server_version() >= (7,), preloaded=False).split()
    with server.client() as raw:
        raw.execute_command(*words, "-info", "-config|get")
    url = server.tcp_url.replace("redis://", f"redis://{words[2]}:{words[4][1:]}@")
    browser = Browser(app({"main": Settings(url=url, manager="shop")}, access=everyone, read_only=True))
    page = await browser.get("/m/main/server")
    assert "Queue manager Name shop Messages 0" in page.text
    assert "Time of an answer to the console" in page.text
    for absent in ("Memory", "Persistence", "maxmemory", "Version (Redis)"):
        assert absent not in page.text
    assert "may not run INFO or CONFIG GET , so a part of the page is missing" in page.text
    await browser.close()
