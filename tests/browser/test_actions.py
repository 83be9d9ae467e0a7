"""Actions in a browser: undone, refused, by keys alone; and pages of messages while the queue moves."""

from __future__ import annotations

from html import escape

import pytest
from playwright.sync_api import Page, expect
from starlette.responses import HTMLResponse

import mqredis
from mqredis.console import Visitor, app, everyone
from mqredis.console.actions import messages as bulk_actions
from tests.browser.conftest import serving
from tests.browser.test_browser import Open, send
from tests.support.server import RedisServer

pytestmark = pytest.mark.browser


def test_purge_can_be_undone(console: str, broker: mqredis.QueueManager, open_page: Open) -> None:
    sent = send(broker, "x", "y", "z")
    page = open_page(f"{console}/m/main/act/purge?queue=orders")
    page.get_by_label("Type orders to confirm").fill("orders")
    page.get_by_role("button", name="Purge").click()
    expect(page.locator(".notice")).to_have_text("3 messages of orders moved to the trash.")
    page.get_by_role("link", name="orders;trash").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("orders;trash")
    page.get_by_role("link", name="Restore from the trash").click()
    expect(page.locator("#preview")).to_have_text("This affects 3 messages of orders;trash.")
    page.get_by_role("button", name="Restore from the trash").click()
    expect(page.locator(".notice")).to_have_text("3 messages of orders restored.")
    with broker.open("orders") as queue:
        assert [message.lookup_id for message in queue.browse()] == sent


def test_action_on_many_messages_continues_until_it_has_finished(
    console: str, broker: mqredis.QueueManager, open_page: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk_actions, "ACTING", 0.0)
    monkeypatch.setattr(bulk_actions, "STEPS", 1)
    send(broker, *["x"] * 1500)
    page = open_page(f"{console}/m/main/act/purge?queue=orders")
    page.get_by_label("Type orders to confirm").fill("orders")
    page.get_by_role("button", name="Purge").click()
    expect(page.locator(".notice")).to_have_text("1,500 messages of orders moved to the trash.")
    # A user who leaves the page in between stops the action.
    page.goto(f"{console}/m/main/act/restore?queue=orders")
    page.route("**/console.js", lambda route: route.abort())  # a page without it waits for the button
    page.get_by_role("button", name="Restore from the trash").click()
    expect(page.get_by_role("status").filter(has_text="so far")).to_be_visible()
    page.get_by_role("button", name="Continue").click()
    expect(page.get_by_role("status").filter(has_text="so far")).to_be_visible()
    page.get_by_role("link", name="Stop here").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("orders")
    assert 0 < broker.queue_info("orders").ready < 1500


def test_form_with_a_wrong_csrf_token_is_refused(
    console: str, broker: mqredis.QueueManager, open_page: Open
) -> None:
    page = open_page(f"{console}/m/main/act/send?queue=orders")
    page.get_by_label("Body").fill("x")
    page.evaluate("document.querySelector('form.act [name=csrf]').value = 'f'.repeat(64)")
    page.get_by_role("button", name="Send a message").click()
    expect(page.get_by_text("The form is not from this console")).to_be_visible()
    assert broker.queue_info("orders").messages == 0


def test_form_of_another_site_is_refused(console: str, broker: mqredis.QueueManager, open_page: Open) -> None:
    """The site is another port of the same host, so the browser sends the cookie and only Origin differs."""
    page = open_page(f"{console}/m/main/act/send?queue=orders")
    token = page.locator("form.act [name=csrf]").input_value()
    fields = {"csrf": token, "token": "t", "queue": "orders", "body": "x"}
    inputs = "".join(f"<input name={name} value='{escape(value)}'>" for name, value in fields.items())
    form = f"<form method=post action={console}/m/main/act/send>{inputs}<button>Win</button></form>"
    with serving(HTMLResponse(form)) as other:
        other_page = page.context.new_page()
        other_page.goto(other)
        other_page.get_by_role("button", name="Win").click()
        expect(other_page.get_by_text("does not come from a page of this console")).to_be_visible()
    assert broker.queue_info("orders").messages == 0


@pytest.mark.parametrize("whole", [False, True], ids=["a visitor", "the whole console"])
def test_read_only_visitor_sees_no_actions(
    broker: mqredis.QueueManager, redis_server: RedisServer, open_page: Open, whole: bool
) -> None:
    (number,) = send(broker, "x")
    access = everyone if whole else lambda _: Visitor("bob")
    with serving(app({"main": redis_server.url}, access=access, read_only=whole)) as url:
        page = open_page(url)
        expect(page.get_by_text("reads only")).to_be_visible()
        for path in (
            "/", "/queue?name=orders", "/messages?queue=orders", f"/message?queue=orders&id={number}", "/failures",
            "/scheduled", "/in-flight", "/workers", "/schedules", "/clients", "/topics", "/server",
        ):  # fmt: skip
            page.goto(f"{url}/m/main{path}")
            expect(page.get_by_role("heading", level=1)).to_be_visible()
            assert page.locator("a[href*='/act/']").count() == 0, path
        page.goto(f"{url}/m/main/act/purge?queue=orders")
        expect(page.get_by_text("but not carry out this action")).to_be_visible()
    assert broker.queue_info("orders").messages == 1


def tab_to(page: Page, label: str) -> None:
    """Press Tab until the link, button or field with this name has the focus."""
    for _ in range(60):
        page.keyboard.press("Tab")
        name = page.evaluate(
            "(document.activeElement.labels?.[0] ?? document.activeElement).textContent.trim()"
        )
        if name == label:
            return
    pytest.fail(f"{label!r} cannot be reached by the Tab key")


def test_purge_works_with_the_keyboard(console: str, broker: mqredis.QueueManager, open_page: Open) -> None:
    send(broker, "x", "y")
    page = open_page(f"{console}/m/main/queue?name=orders")
    tab_to(page, "Purge")
    page.keyboard.press("Enter")
    expect(page.locator("#preview")).to_be_visible()
    tab_to(page, "Keep in ;trash for a day, from where it can be restored")
    page.keyboard.press("Space")
    tab_to(page, "Type orders to confirm")
    page.keyboard.type("orders")
    page.keyboard.press("Enter")
    expect(page.locator(".notice")).to_have_text("2 messages of orders removed.")
    assert broker.queue_info("orders").messages == 0


def test_message_pages_show_each_message_once_while_the_queue_changes(
    console: str, broker: mqredis.QueueManager, open_page: Open
) -> None:
    send(broker, *(f"body {n}" for n in range(120)))
    page = open_page(f"{console}/m/main/messages?queue=orders")
    rows = page.locator(".messages tbody tr")

    def shown() -> list[str]:
        expect(rows).not_to_have_count(0)
        return [text.split("body ")[1].split()[0] for text in rows.all_inner_texts()]

    seen = shown()
    with broker.open("orders") as queue:
        queue.receive_many(60)
    send(broker, "body 120")
    for first in (60, 110):
        page.get_by_role("link", name="Next").click()
        expect(rows.first).to_contain_text(f"body {first}")
        seen += shown()
    assert seen == [str(n) for n in range(121) if not 50 <= n < 60]
