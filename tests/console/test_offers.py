"""What pages offer: the actions of a message in each state, the rows of the overview, the files of the package."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import mqredis.console
from mqredis import Outgoing, RetryPolicy
from mqredis.asyncio import QueueManager
from mqredis.console import Visitor, app
from mqredis.console.overview import COLUMNS
from mqredis.console.pages import overview
from mqredis.models.lookup_ids import hex_id
from tests.console.browser import Browser, Page
from tests.console.test_failures import poison
from tests.console.test_pages import fill

VENDOR = Path(mqredis.console.__file__).parent / "static" / "vendor"


def offered(page: Page) -> set[str]:
    """The actions whose forms a page leads to."""
    return {match[1] for each in page.addresses if (match := re.search(r"/act/([a-z-]+)", each))}


async def shown(browser: Browser, queue: str, lookup_id: int, state: str) -> Page:
    """The page of a message, which must be in this state."""
    page = await browser.get("/m/main/message", queue=queue, id=hex_id(lookup_id))
    assert re.search(rf"Message {hex_id(lookup_id)} {state}\b", page.text), page.text[:300]
    return page


async def test_message_offers_the_actions_of_its_state(browser: Browser, manager: QueueManager) -> None:
    ready, delayed = await fill(manager, ["a", Outgoing("b", delay=3600.0)])
    assert offered(await shown(browser, "orders", ready, "ready")) == {"move", "delete"}
    assert offered(await shown(browser, "orders", delayed, "delayed")) == {"run-now", "reschedule", "delete"}
    async with await manager.open("orders") as queue:
        locked = await queue.lock(timeout=0)
        assert offered(await shown(browser, "orders", ready, "locked")) == {"release", "reject"}
        await manager.update_queue("orders", retry=RetryPolicy(immediate=0, cycles=1, delay=3600.0))
        await locked.abort()
    # One that rests is a message of ;retry; to move it back ends its rest.
    page = await shown(browser, "orders;retry", ready, "waits for its retry, in (59 min|1 h)")
    assert offered(page) == {"move", "delete"}
    listed = await browser.get("/m/main/scheduled")
    assert f"{hex_id(ready)} orders;retry retry Retry now" in listed.text
    assert not [each for each in listed.addresses if "/scheduled?queue=orders%3B" in each]
    (retry_now,) = (each for each in page.addresses if "/act/move" in each)
    assert retry_now in listed.addresses
    form = await browser.get(retry_now)
    await browser.post("/m/main/act/move", {**form.fields})
    await shown(browser, "orders", ready, "ready")


@pytest.mark.parametrize("given", ["message_id", "correlation_id", "group_id"])
async def test_search_by_an_identifier_offers_no_action_on_more_messages(
    browser: Browser, manager: QueueManager, given: str
) -> None:
    await fill(manager, ["a", Outgoing("b", delay=3600.0)])
    for path, usual in (("messages", {"send", "purge"}), ("scheduled", {"run-now", "reschedule", "cancel"})):
        address = f"/m/main/{path}"
        assert offered(await browser.get(address, queue="orders", selector="a IS NULL")) == usual
        assert offered(await browser.get(f"{address}?queue=orders&{given}=x")) == set()


async def test_failed_message_offers_to_be_put_back_and_edited(
    browser: Browser, manager: QueueManager
) -> None:
    await poison(manager, "ValueError: no card")
    (stored,) = (await manager.messages("orders;poison")).items
    page = await shown(browser, "orders;poison", stored.message.lookup_id, "ready")
    assert offered(page) == {"redrive", "send-again", "move", "delete"}


async def test_message_offers_nothing_to_a_reader(manager: QueueManager) -> None:
    (ready,) = await fill(manager, ["a"])
    browser = Browser(app({"main": manager}, access=lambda _: Visitor("ann")))
    assert offered(await shown(browser, "orders", ready, "ready")) == set()
    await browser.close()


async def test_overview_shows_a_limited_number_of_queues(
    browser: Browser, manager: QueueManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert overview.ROWS == 200
    monkeypatch.setattr(overview, "ROWS", 3)
    for number in range(5):
        await manager.create_queue(f"queue-{number}")
    page = await browser.get("/m/main/")
    assert "3 of 6 queues are shown. Filter by name to find the others." in page.text
    assert "queue-1" in page.text
    assert "queue-2" not in page.text
    page = await browser.get("/m/main/", q="queue-4")
    assert "queue-4" in page.text
    assert "are shown" not in page.text


def test_bundled_htmx_is_the_version_of_its_name_with_its_licence() -> None:
    (script,) = VENDOR.glob("htmx-*.min.js")
    (licence,) = VENDOR.glob("htmx-*.LICENSE")
    version = re.search(r'version:"([^"]+)"', script.read_text())
    assert version is not None
    assert (script.name, licence.name) == (f"htmx-{version[1]}.min.js", f"htmx-{version[1]}.LICENSE")
    assert licence.read_text().startswith("Zero-Clause BSD")
    assert {each.name for each in VENDOR.iterdir()} == {script.name, licence.name}
    base = VENDOR.parents[1] / "templates" / "base.html"
    assert f"/static/vendor/{script.name}" in base.read_text()


def test_heads_of_the_overview_sort_by_every_column() -> None:
    text = (VENDOR.parents[1] / "templates" / "overview.html").read_text()
    assert sorted(re.findall(r'\{\{ head\("(\w+)"', text)) == sorted(COLUMNS)
