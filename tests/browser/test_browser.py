"""What only a browser can tell: live updates, scripts that must not run, keys, pages without scripts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Page, expect

import mqredis
from mqredis import Outgoing, RetryPolicy, Settings
from mqredis.console import app, everyone
from mqredis.console.pages import messages as pages_of_messages
from tests.browser.conftest import serving
from tests.support.server import RedisServer

pytestmark = pytest.mark.browser
Open = Callable[..., Page]

EVIL = "<img src=x onerror=alert(1)><script>alert(2)</script>'\"><svg onload=alert(3)>"


def send(broker: mqredis.QueueManager, *bodies: Any, to: str = "orders") -> list[int]:
    with broker.open(to) as queue:
        return [sent.lookup_id for sent in queue.send_many(bodies)]


def fail(broker: mqredis.QueueManager, name: str = "orders") -> None:
    with broker.open(name) as queue:
        queue.lock(timeout=0).abort()


def test_overview_is_updated_live(console: str, broker: mqredis.QueueManager, open_page: Open) -> None:
    page = open_page(console)
    row = page.locator("tr", has=page.get_by_role("link", name="orders"))
    expect(row).to_contain_text("0")
    send(broker, *["x"] * 1234)
    expect(row).to_contain_text("1,234")
    broker.create_queue("invoices")
    expect(page.get_by_role("link", name="invoices")).to_be_visible()


def test_queue_page_is_updated_live(console: str, broker: mqredis.QueueManager, open_page: Open) -> None:
    page = open_page(f"{console}/m/main/queue?name=orders")
    send(broker, "x", "y")
    expect(page.locator(".figures")).to_contain_text("Ready2")
    expect(page.locator("#totals")).to_contain_text("Messages in2")
    expect(page.locator("#totals")).to_have_count(1)


def test_workers_page_is_updated_live(console: str, broker: mqredis.QueueManager, open_page: Open) -> None:
    page = open_page(f"{console}/m/main/workers")
    expect(page.get_by_text("Nothing is paused")).to_be_visible()
    broker.operator("ann").pause("orders", reason="stock-taking")
    expect(page.get_by_text("stock-taking")).to_be_visible()
    button = page.get_by_role("link", name="Resume")
    button.focus()
    broker.operator("ann").pause(consumer="pay", reason="the bank is away")
    expect(page.get_by_text("the bank is away")).to_be_visible()
    expect(button.last).to_be_focused()  # an update keeps the focus


def test_search_continues_automatically_until_stopped(
    console: str, broker: mqredis.QueueManager, open_page: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages_of_messages, "CALLS", 1)
    for part in range(0, 3000, 500):
        send(broker, *(Outgoing(f"body {n}", properties={"n": n}) for n in range(part, part + 500)))
    search = f"{console}/m/main/messages?queue=orders&selector=n+%3D+7+OR+n+%3D+2900"
    page = open_page(search)
    expect(page.get_by_text("2 messages on this page.")).to_be_visible()
    expect(page.locator("#rows tr")).to_have_count(2)
    expect(page.get_by_role("button", name="Stop")).to_have_count(0)
    page.route("**had=**", lambda _: None)  # no answer comes
    page.goto(search)
    expect(page.get_by_text("The search goes on")).to_be_visible()
    page.get_by_role("button", name="Stop").click()
    expect(page.get_by_text("The search stopped")).to_be_visible()
    expect(page.get_by_text("The search goes on")).to_be_hidden()
    expect(page.get_by_role("link", name="Search further")).to_be_visible()
    page.unroute("**had=**")
    page.get_by_role("link", name="Search further").click()
    expect(page.get_by_text("1 message on this page.")).to_be_visible()


def test_server_restart_is_shown_and_recovered_from(
    start_server: Callable[..., RedisServer], open_page: Open
) -> None:
    server = start_server(aof=True)
    with mqredis.connect(server.url) as broker:
        broker.create_queue("orders")
        send(broker, "x")
        settings = mqredis.Settings(url=server.url, retry_seconds=0)
        with serving(app({"main": settings}, access=everyone, interval=0.2)) as url:
            page = open_page(url)
            server.stop()
            expect(page.get_by_text("The broker cannot be reached")).to_be_visible()
            server.start()
            expect(page.get_by_text("The broker cannot be reached")).to_be_hidden()
            send(broker, "y")
            expect(page.locator("tbody tr").first).to_contain_text("2")


def test_hidden_page_stops_its_live_updates(
    console: str, broker: mqredis.QueueManager, open_page: Open
) -> None:
    page = open_page(console)
    page.evaluate("Object.defineProperty(document, 'hidden', {value: true, configurable: true})")
    with page.expect_event("requestfailed", lambda request: "/events" in request.url):
        page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    page.evaluate("Object.defineProperty(document, 'hidden', {value: false, configurable: true})")
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    send(broker, "x", "y", "z")
    expect(page.locator("tbody tr").first).to_contain_text("3")


def test_scripts_in_names_and_messages_do_not_run(
    console: str, broker: mqredis.QueueManager, redis_server: RedisServer, open_page: Open
) -> None:
    name = EVIL.replace("'", "").replace("*", "")[:100]
    broker.create_queue(name, label=EVIL, retry=RetryPolicy(immediate=0))
    message = Outgoing(
        EVIL,
        label=EVIL,
        properties={EVIL: EVIL, "failure_error": EVIL},
        correlation_id=EVIL,
        content_type=EVIL,
    )
    (number,) = send(broker, message, to=name)
    page = open_page(console)
    page.get_by_role("link", name=name).first.click()
    page.get_by_role("link", name="Messages").first.click()
    page.get_by_role("link", name=f"{number:#018x}").click()
    expect(page.locator("pre.body")).to_contain_text("<script>alert(2)</script>")
    fail(broker, name)
    page.get_by_role("link", name="Failures").click()
    expect(page.locator("main")).to_contain_text("onerror")
    assert page.locator("main img, main svg, main script").count() == 0
    with mqredis.connect(redis_server.url, settings=Settings(client_name=EVIL[:60])) as client:
        client.update_queue("orders", trail=True)
        (number,) = send(client, Outgoing("x", label=EVIL, journal=mqredis.Journal.DEAD_LETTER))
        with client.open("orders") as queue:
            lock = queue.lock(0)
            page.goto(f"{console}/m/main/in-flight")
            expect(page.locator("main")).to_contain_text("onerror")
            lock.reject(EVIL)
    page.goto(f"{console}/m/main/trail?{urlencode({'queue': 'orders', 'id': f'{number:#018x}'})}")
    expect(page.locator("main")).to_contain_text("receive_rejected: <img src=x onerror=alert(1)>")
    expect(page.locator("main")).to_contain_text(EVIL[:20])
    page.goto(f"{console}/m/main/messages?{urlencode({'queue': 'orders', 'selector': EVIL})}")
    expect(page.get_by_role("alert")).to_contain_text("onerror")
    broker.operator(EVIL).pause(consumer=EVIL, reason=EVIL)
    for path in ("workers", "actions"):
        page.goto(f"{console}/m/main/{path}")
        expect(page.locator("main")).to_contain_text("onerror")
        assert page.locator("main img, main svg, main script").count() == 0


def test_purge_requires_the_queue_name(console: str, broker: mqredis.QueueManager, open_page: Open) -> None:
    send(broker, "x", "y")
    page = open_page(f"{console}/m/main/queue?name=orders")
    page.get_by_role("link", name="Purge").click()
    expect(page.locator("#preview")).to_have_text("This affects 2 messages of orders.")
    page.get_by_label("Type orders to confirm").fill("order")
    page.get_by_role("button", name="Purge").click()
    expect(page.get_by_role("alert")).to_contain_text("Nothing was done")
    page.get_by_label("Type orders to confirm").fill("orders")
    page.get_by_role("button", name="Purge").click()
    expect(page.locator(".notice")).to_have_text("2 messages of orders moved to the trash.")
    assert broker.queue_info("orders").messages == 0


def test_double_click_sends_one_message(console: str, broker: mqredis.QueueManager, open_page: Open) -> None:
    page = open_page(f"{console}/m/main/act/send?queue=orders")
    page.get_by_label("Body").fill("once")
    page.get_by_role("button", name="Send a message").dblclick()
    expect(page.locator(".notice")).to_contain_text("was sent to orders")
    assert broker.queue_info("orders").messages == 1


def test_overview_works_with_the_keyboard(
    console: str, broker: mqredis.QueueManager, open_page: Open
) -> None:
    broker.create_queue("invoices")
    page = open_page(console)
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.press("/")
    expect(page.get_by_label("Filter queues")).to_be_focused()
    page.keyboard.type("invo")
    expect(page.get_by_role("link", name="orders")).to_be_hidden()
    link = page.get_by_role("link", name="invoices")
    for _ in range(20):
        page.keyboard.press("Tab")
        # In one step: an update would replace the link between finding and comparing it.
        if page.evaluate("document.activeElement.textContent.trim()") == "invoices":
            break
    send(broker, *["x"] * 17, to="invoices")
    expect(page.locator("tbody tr").first).to_contain_text("17")
    expect(link).to_be_focused()  # the live update keeps the focus
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_contain_text("invoices")


def test_console_works_without_javascript(
    console: str, broker: mqredis.QueueManager, open_page: Open
) -> None:
    broker.create_queue("invoices")
    page = open_page(console, java_script_enabled=False)
    page.get_by_label("Filter queues").fill("invo")
    page.get_by_role("button", name="Filter").click()
    expect(page.get_by_role("link", name="orders")).to_have_count(0)
    page.get_by_role("link", name="invoices").click()
    page.get_by_role("link", name="Send a message").click()
    page.get_by_label("Body").fill("x")
    page.get_by_role("button", name="Send a message").click()
    expect(page.locator(".notice")).to_contain_text("was sent to invoices")
    page.get_by_role("button", name="Dark").click()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")


def test_console_works_under_a_prefix(
    under_prefix: str, broker: mqredis.QueueManager, open_page: Open
) -> None:
    page = open_page(under_prefix + "/")
    send(broker, "x", "y")
    expect(page.locator("tbody tr").first).to_contain_text("2")
    page.get_by_role("link", name="orders").click()
    page.get_by_role("link", name="Messages").first.click()
    assert page.url.startswith(under_prefix)
    expect(page.locator(".messages tbody tr")).to_have_count(2)
