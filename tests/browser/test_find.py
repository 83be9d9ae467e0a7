"""The search for an id in all queues, which goes on by itself over several pages."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

import mqredis
from mqredis import Outgoing
from mqredis.console.pages import find
from tests.browser.test_browser import Open, send

pytestmark = pytest.mark.browser


def test_search_for_an_id_continues_over_all_queues_until_stopped(
    console: str, broker: mqredis.QueueManager, open_page: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(find, "CALLS", 2)
    for number in range(6):
        broker.create_queue(f"queue-{number}")
        send(broker, "other", Outgoing("x", message_id="order 1"), to=f"queue-{number}")
    send(broker, Outgoing("later", message_id="order 1", delay=3600.0), to="queue-3")
    page = open_page(console)
    parts: list[str] = []
    page.on("request", lambda request: parts.append(request.url) if "part=" in request.url else None)
    page.get_by_label("Find a message").fill("order 1")
    page.keyboard.press("Enter")
    expect(page.get_by_text("7 messages found.")).to_be_visible()
    assert len(parts) >= 5
    rows = page.locator("#rows tr")
    expect(rows).to_have_count(7)
    assert [row.split()[1] for row in rows.all_inner_texts()] == [f"queue-{n}" for n in (*range(6), 3)]
    expect(page.get_by_role("button", name="Stop")).to_have_count(0)

    page.route("**part=**", lambda _: None)  # no answer comes
    page.reload()
    expect(page.get_by_text("The search goes on")).to_be_visible()
    page.get_by_role("button", name="Stop").click()
    expect(page.get_by_text("The search stopped")).to_be_visible()
    before = rows.count()
    assert before < 7
    page.unroute("**part=**")
    page.get_by_role("link", name="Search further").click()
    expect(page.get_by_text("7 messages found.")).to_be_visible()
    expect(rows).to_have_count(7 - before)


def test_search_for_an_id_leads_to_the_message_in_a_later_part(
    console: str, broker: mqredis.QueueManager, open_page: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(find, "CALLS", 2)
    for number in range(6):
        broker.create_queue(f"queue-{number}")
    (wanted,) = send(broker, "x", to="queue-5")
    page = open_page(console)
    page.get_by_label("Find a message").fill(f"{wanted:#018x}")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text(f"Message {wanted:#018x}")
