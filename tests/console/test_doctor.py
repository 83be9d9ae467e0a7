"""The pages Doctor and Server where something is wrong, or may not be read."""

from __future__ import annotations

from collections.abc import Callable

import mqredis.asyncio
from mqredis import Settings
from mqredis.asyncio import QueueManager
from mqredis.cli import acl
from mqredis.console import app, everyone
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
    page = await browser.get("/m/main/doctor", run="1")
    assert "The store is sound." in page.text
    assert not [each for each in page.addresses if each.endswith("/act/repair")]
    await manager.run(plant(manager))
    page = await browser.get("/m/main/doctor", run="1")
    assert "1 invariant of the store broken." in page.text
    assert "can be repaired stray.a" in page.text
    assert [each for each in page.addresses if each.endswith("/act/repair")]
    form = await browser.get("/m/main/act/repair")
    assert "The doctor would repair 1 finding. A repair loses no message." in form.text
    assert "1 finding repaired." in (await browser.post("/m/main/act/repair", form.fields)).text
    assert "1 finding repaired." in (await browser.post("/m/main/act/repair", form.fields)).text
    assert "The store is sound." in (await browser.get("/m/main/doctor", run="1")).text
    assert "repair: 1 finding repaired." in (await browser.get("/m/main/actions")).text
    assert (await manager.queue_info("orders")).ready == 1


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
