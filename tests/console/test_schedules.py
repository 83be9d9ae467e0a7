"""The schedules page and its actions."""

from __future__ import annotations

import re

import pytest

import mqredis.asyncio
from mqredis.asyncio import QueueManager
from mqredis.console import Visitor, app, everyone
from tests.console.browser import Browser
from tests.support.backend import Backend

PAGE = "/m/main/schedules"


async def create(browser: Browser, status: int = 200, **values: str) -> str:
    form = await browser.get("/m/main/act/create-schedule")
    page = await browser.post(
        "/m/main/act/create-schedule",
        {**form.fields, "schedule": "nightly", "queue": "orders", **values},
        status,
    )
    return page.text


async def ready(manager: QueueManager) -> int:
    return (await manager.queue_info("orders")).ready


async def test_page_without_schedules_says_so(browser: Browser) -> None:
    page = await browser.get(PAGE)
    assert "There is no schedule" in page.text
    assert 'href="/m/main/schedules" aria-current="page"' in page.html


async def test_schedule_is_created_once_and_shown(browser: Browser, manager: QueueManager) -> None:
    form = await browser.get("/m/main/act/create-schedule")
    assert "by any worker that runs" in form.text
    fields = {
        "schedule": "<i>nightly</i>", "queue": "orders", "cron": "0 3 * * mon-fri", "timezone": "Europe/Berlin",
        "body": "go", "label": "report", "properties": '{"n": 1}',
    }  # fmt: skip
    for _ in range(2):
        page = await browser.post("/m/main/act/create-schedule", {**form.fields, **fields})
        assert "The schedule <i>nightly</i> was created." in page.text
    assert "<i>nightly" not in page.html
    assert re.search(
        r"<i>nightly</i> 0 3 \* \* mon-fri Europe/Berlin in [\w ]+ \u2013 orders report 2 B", page.text
    )
    (found,) = await manager.schedules()
    assert (found.name, found.cron, found.timezone) == ("<i>nightly</i>", "0 3 * * mon-fri", "Europe/Berlin")
    assert (found.message.text, found.message.properties, found.declared) == ("go", {"n": 1}, False)


@pytest.mark.parametrize(
    "values, message",
    [
        ({}, "give either a cron expression or a number of seconds"),
        ({"cron": "* * * * *", "every": "60"}, "give either a cron expression or a number of seconds"),
        ({"cron": "61 * * * *"}, "the cron expression '61 * * * *' is wrong"),
        ({"cron": "* * * * *", "timezone": "Mars"}, "there is no time zone 'Mars'"),
        ({"every": "often"}, "every: 'often' is not a number of seconds"),
        ({"every": "0"}, "a schedule repeats after 1 second at least"),
        ({"every": "60", "queue": "nowhere"}, "there is no queue 'nowhere': create it first"),
        ({"every": "60", "schedule": ""}, "schedule is missing"),
        ({"every": "60", "properties": "x"}, "this is not JSON"),
        ({"every": "60", "body": "x" * 4097}, "takes at most 4096 bytes"),
    ],
)
async def test_invalid_schedule_is_refused(
    browser: Browser, manager: QueueManager, values: dict[str, str], message: str
) -> None:
    assert message in await create(browser, 400, **values)
    assert await manager.schedules() == []


async def test_schedule_name_in_use_is_refused(browser: Browser) -> None:
    await create(browser, every="60")
    assert "there is a schedule 'nightly' already" in await create(browser, 400, every="60")


async def test_schedule_is_paused_resumed_and_triggered(browser: Browser, manager: QueueManager) -> None:
    await create(browser, every="3600", body="go")
    form = await browser.get("/m/main/act/pause-schedule", schedule="nightly")
    assert "It sends nothing until somebody resumes it" in form.text
    page = await browser.post("/m/main/act/pause-schedule", form.fields)
    assert "The schedule nightly is paused." in page.text
    assert "nightly paused every 1 h \u2013 \u2013 orders 2 B Send now Resume Remove" in page.text
    form = await browser.get("/m/main/act/trigger-schedule", schedule="nightly")
    assert "One message goes to the queue orders now" in form.text
    assert "The schedule nightly stays paused: resume it if it is to send" in form.text
    for _ in range(2):
        page = await browser.post("/m/main/act/trigger-schedule", form.fields)
        assert "The message of the schedule nightly was sent." in page.text
    assert await ready(manager) == 1
    form = await browser.get("/m/main/act/resume-schedule", schedule="nightly")
    assert "are not made up for" in form.text
    page = await browser.post("/m/main/act/resume-schedule", form.fields)
    assert "The schedule nightly is resumed." in page.text
    (found,) = await manager.schedules()
    assert not found.paused
    assert found.last_at is not None


async def test_forms_show_the_present_state(browser: Browser) -> None:
    await create(browser, every="3600")
    form = await browser.get("/m/main/act/resume-schedule", schedule="nightly")
    assert "The schedule nightly is not paused: it sends its next message at" in form.text
    form = await browser.get("/m/main/act/pause-schedule", schedule="nightly")
    await browser.post("/m/main/act/pause-schedule", form.fields)
    form = await browser.get("/m/main/act/pause-schedule", schedule="nightly")
    assert "The schedule nightly is paused already" in form.text
    assert "never" not in form.text


async def test_removal_requires_the_schedule_name(browser: Browser, manager: QueueManager) -> None:
    await create(browser, every="3600", paused="on")
    form = await browser.get("/m/main/act/remove-schedule", schedule="nightly")
    assert "Type nightly to confirm" in form.text
    page = await browser.post("/m/main/act/remove-schedule", {**form.fields, "confirm": "orders"}, 400)
    assert "Nothing was done: type the schedule's name to confirm." in page.text
    assert len(await manager.schedules()) == 1
    for _ in range(2):
        page = await browser.post("/m/main/act/remove-schedule", {**form.fields, "confirm": "nightly"})
        assert "The schedule nightly was removed." in page.text
    assert await manager.schedules() == []
    assert (
        "there is no schedule 'nightly'"
        in (await browser.get("/m/main/act/remove-schedule", 400, schedule="nightly")).text
    )
    log = (await browser.get("/m/main/actions")).text
    for done in (
        "created the schedule nightly, which sends to orders every 1 h, and is paused.",
        "removed the schedule nightly.",
    ):
        assert log.count(f"127.0.0.1 {done}") == 1


async def test_read_only_visitor_sees_schedules_without_buttons(
    browser: Browser, manager: QueueManager
) -> None:
    await create(browser, every="3600")
    reader = Browser(app({"main": manager}, access=lambda _: Visitor("bob")))
    page = await reader.get(PAGE)
    assert "every 1 h" in page.text
    assert not [address for address in page.addresses if "/act/" in address]
    await reader.get("/m/main/act/remove-schedule", 403, schedule="nightly")
    await reader.close()


async def test_a_schedule_without_its_message_says_so(backend: Backend) -> None:
    raw = backend.async_client()
    async with mqredis.asyncio.connect(backend.async_client()) as manager:
        await manager.create_queue("orders")
        await manager.operator("ada").create_schedule("nightly", 60, "orders", "go")
        (key,) = await raw.keys("*:schedules:messages")
        await raw.delete(key)
        browser = Browser(app({"main": manager}, access=everyone))
        page = await browser.get(PAGE)
        assert "nightly sends nothing every 1 min" in page.text
        assert "remove it, and create it again" in page.text
        page = await browser.get("/m/main/act/trigger-schedule", 400, schedule="nightly")
        assert "is missing or damaged" in page.text
        await browser.close()
    await raw.aclose()
