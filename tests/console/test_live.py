"""Pages that follow the broker: what is opened is read now, and updates share their readings."""

from __future__ import annotations

import pytest

from mqredis import Outgoing
from mqredis.asyncio import QueueManager
from mqredis.console import app, everyone, shared
from mqredis.console.pages import failures
from tests.console.browser import Browser, Page
from tests.console.test_failures import poison
from tests.console.test_pages import fill

LIVE = (
    "/", "/queue?name=orders", "/failures", "/scheduled", "/in-flight", "/workers", "/schedules", "/clients",
    "/topics",
)  # fmt: skip


async def update(browser: Browser, path: str) -> Page:
    """What a page that is open asks for after an event."""
    return Page(await browser.client.get("/m/main" + path, headers={"hx-request": "true"}))


@pytest.mark.parametrize("path", LIVE)
async def test_page_follows_the_events(browser: Browser, path: str) -> None:
    page = await browser.get("/m/main" + path)
    assert page.html.count('id="live"') == 1
    assert any("/m/main/events" in each for each in page.addresses)
    assert any(each.endswith("/m/main" + path) for each in page.addresses)


async def test_opened_page_is_read_now_and_updates_share_a_reading(manager: QueueManager) -> None:
    browser = Browser(app({"main": manager}, access=everyone, interval=3600.0))
    other = Browser(browser.client._transport.app)  # type: ignore[attr-defined]
    assert "No topics" not in (await browser.get("/m/main/topics")).text
    await manager.create_queue("news", topic=True)
    assert "news" not in (await update(browser, "/topics")).text
    assert "news" in (await other.get("/m/main/topics")).text
    assert "news" in (await update(browser, "/topics")).text
    await browser.close()
    await other.client.aclose()


async def test_pages_of_all_queues_leave_out_one_that_was_deleted(manager: QueueManager) -> None:
    """An update uses the overview of at most an interval ago, in which the queue still stands."""
    application = app({"main": manager}, access=everyone)
    application.state.console.interval = 0.0  # each update reads
    browser = Browser(application)
    await manager.create_queue("gone")
    await fill(manager, [Outgoing("x", delay=60.0), Outgoing("y")], "gone")
    await fill(manager, [Outgoing("x", delay=60.0, label="stays")])
    async with await manager.open("gone") as queue:
        await queue.lock(timeout=0)
    for path in ("/scheduled", "/in-flight"):
        await browser.get("/m/main" + path)
    application.state.console.overview("main").interval = 3600.0
    await manager.delete_queue("gone")
    for path in ("/scheduled", "/in-flight"):
        page = await update(browser, path)
        assert page.status == 200, page.text
    assert "stays" in (await update(browser, "/scheduled")).text
    await browser.close()


async def test_readings_of_few_pages_are_kept(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared, "PAGES", 3)
    for number in range(5):
        await browser.get("/m/main/topics", page=str(number))
    console = browser.client._transport.app.state.console  # type: ignore[attr-defined]
    assert [address.rpartition("=")[2] for address in console.pages] == ["2", "3", "4"]


async def test_failures_that_did_not_change_are_not_read_again(
    manager: QueueManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    grouped = failures._grouped

    async def counted(manager: QueueManager, name: str, counts: tuple[int, int]) -> failures.Failed:
        read.append(name)
        return await grouped(manager, name, counts)

    monkeypatch.setattr(failures, "_grouped", counted)
    application = app({"main": manager}, access=everyone, interval=0.1)
    application.state.console.interval = 0.0  # each update reads
    browser = Browser(application)
    await poison(manager, "ValueError: no card", "KeyError: 'c'")
    assert "2 messages" in (await browser.get("/m/main/failures")).text
    assert "2 messages" in (await update(browser, "/failures")).text
    assert read == ["orders;poison"]
    await manager.redrive("orders;poison")
    async with await manager.open("orders") as queue:
        for _ in range(2):
            await (await queue.lock(timeout=0)).abort()
    assert "2 messages" in (await update(browser, "/failures")).text  # as many, but other ones
    assert read == ["orders;poison"] * 2
    await browser.get("/m/main/failures")
    assert read == ["orders;poison"] * 3
    await browser.close()


async def test_update_of_a_page_whose_queue_is_gone_is_an_error(
    browser: Browser, manager: QueueManager
) -> None:
    await fill(manager, ["x"])
    await browser.get("/m/main/in-flight", queue="orders")
    await manager.delete_queue("orders")
    assert (await update(browser, "/queue?name=orders")).status == 404
    await manager.create_queue("orders")
