"""Live updates of pages with tables of messages, and what they leave alone."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

import mqredis
from mqredis import Outgoing, RetryPolicy
from tests.browser.test_browser import Open, fail, send
from tests.support.server import RedisServer

pytestmark = pytest.mark.browser


def poison(broker: mqredis.QueueManager, error: str) -> None:
    broker.update_queue("orders", retry=RetryPolicy(immediate=0))
    send(broker, Outgoing("x", properties={"failure_error": error}))
    fail(broker)


def test_pages_of_messages_are_updated_live(
    console: str, broker: mqredis.QueueManager, open_page: Open
) -> None:
    failures = open_page(f"{console}/m/main/failures")
    holders = open_page(f"{console}/m/main/in-flight")
    scheduled = open_page(f"{console}/m/main/scheduled")
    expect(failures.get_by_text("Nothing has failed")).to_be_visible()
    expect(holders.get_by_text("No message is locked")).to_be_visible()
    expect(scheduled.get_by_text("No message waits for its time")).to_be_visible()
    poison(broker, "ValueError: no card")
    expect(failures.get_by_text("ValueError: no card")).to_be_visible()
    send(broker, Outgoing("later", delay=3600.0, label="tomorrow"), Outgoing("now", label="today"))
    expect(scheduled.get_by_text("tomorrow")).to_be_visible()
    with broker.open("orders") as queue, queue.lock(timeout=0):
        expect(holders.get_by_text("today")).to_be_visible()
    expect(holders.get_by_text("No message is locked")).to_be_visible()


def test_other_lists_are_updated_live(
    console: str, broker: mqredis.QueueManager, redis_server: RedisServer, open_page: Open
) -> None:
    topics = open_page(f"{console}/m/main/topics")
    schedules = open_page(f"{console}/m/main/schedules")
    clients = open_page(f"{console}/m/main/clients")
    broker.create_queue("news", topic=True)
    expect(topics.get_by_role("link", name="news")).to_be_visible()
    broker.operator("ann").create_schedule("report", 60.0, "orders", "x")
    expect(schedules.get_by_role("rowheader", name="report")).to_be_visible()
    settings = mqredis.Settings(client_name="shop")
    with mqredis.connect(redis_server.url, settings=settings) as second, second.open("orders") as queue:
        assert list(queue.browse()) == []
        expect(clients.get_by_text("shop")).to_be_visible()


def test_nothing_moves_while_the_pointer_is_on_a_button(
    console: str, broker: mqredis.QueueManager, open_page: Open
) -> None:
    poison(broker, "ValueError: no card")
    page = open_page(f"{console}/m/main/failures")
    page.get_by_role("link", name="Look").hover()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    poison(broker, "KeyError: 'c'")
    ticks = """() => new Promise((done) => {
        const source = new EventSource(document.querySelector("[data-events]").dataset.events);
        let count = 0;
        source.addEventListener("tick", () => { if (++count === 5) { source.close(); done(); } });
    })"""
    page.evaluate(ticks)
    assert [url for url in asked if url.endswith("/failures")] == []
    page.mouse.move(0, 0)
    expect(page.get_by_text("KeyError: 'c'")).to_be_visible()


def test_wide_table_keeps_its_place_in_an_update(
    console: str, broker: mqredis.QueueManager, open_page: Open
) -> None:
    page = open_page(f"{console}/m/main/", viewport={"width": 400, "height": 700})
    # In one step: an update would replace the table between finding and scrolling it.
    scroll = "document.getElementById('queues').scrollLeft"
    assert page.evaluate(f"() => {{ {scroll} = 120; return {scroll}; }}") == 120
    send(broker, "x", "y", "z")
    expect(page.locator("#queues tbody tr").first).to_contain_text("3")
    assert page.evaluate(scroll) == 120
