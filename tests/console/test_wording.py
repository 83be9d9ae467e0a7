"""Pages speak of pages and actions, not of methods and settings."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import mqredis
import mqredis.asyncio
from mqredis import RetryPolicy, Settings
from mqredis.asyncio import QueueManager
from mqredis.console import app, everyone
from mqredis.console.formats import _WORDS, duration, exact, in_words, when
from tests.console.browser import Browser, Page
from tests.console.test_pages import fail, fill


def actions_of(page: Page) -> set[str]:
    """The names of the actions that a page offers."""
    return {each.partition("/act/")[2].partition("?")[0] for each in page.addresses if "/act/" in each}


async def test_purge_form_with_trash_does_not_warn_of_loss(browser: Browser, manager: QueueManager) -> None:
    await fill(manager, ["a"])
    for action, words in (
        ("purge", "Without the trash, what is removed cannot be brought back."),
        ("delete-queue", "What is removed cannot be brought back."),
    ):
        form = await browser.get(f"/m/main/act/{action}", queue="orders")
        assert f'<small id="lost">{words}</small>' in form.html


async def test_read_only_console_shows_the_log_and_says_where_the_doctor_is(
    manager: QueueManager, url: str
) -> None:
    settings = Settings(url=url, read_only=True)
    browser = Browser(app({"main": settings}, access=everyone, read_only=True))
    assert "Nothing was done yet" in (await browser.get("/m/main/actions")).text
    await manager.operator("ann").pause("orders")
    assert "ann paused orders for workers" in (await browser.get("/m/main/actions")).text
    page = await browser.get("/m/main/doctor", 404)
    assert "needs a client that may change things, and this console only reads" in page.text
    assert "Run mqredis doctor, or open another console." in page.text
    await browser.close()


async def test_error_of_a_read_only_client_names_no_setting(manager: QueueManager, url: str) -> None:
    assert manager.name
    async with mqredis.asyncio.connect(url, settings=Settings(url=url, read_only=True)) as reader:
        browser = Browser(app({"main": reader}, access=everyone))
        page = await browser.examine(409)
        assert "this console only reads" in page.text
        assert "Settings" not in page.text
        await browser.close()


@pytest.mark.parametrize(
    "path, words",
    [
        ("/m/absent/", "This console shows no queue manager 'absent'."),
        ("/m/absent/events", "This console shows no queue manager 'absent'."),
        ("/m/main/act/absent", "There is no action 'absent'."),
        ("/absent", "The address is wrong, or what it names is gone."),
    ],
)
async def test_unknown_address_has_a_plain_404_page(browser: Browser, path: str, words: str) -> None:
    page = await browser.get(path, 404)
    assert "There is no page here" in page.text
    assert words in page.text
    assert "deleted" not in page.text
    assert "/" in page.addresses


async def test_actions_offered_for_each_kind_of_queue(browser: Browser, manager: QueueManager) -> None:
    await manager.update_queue("orders", retry=RetryPolicy(immediate=0))
    await fill(manager, ["a", "b"])
    await fail(manager, "orders")
    main = await browser.get("/m/main/queue", name="orders")
    assert "send" in actions_of(main)
    assert not {"restore", "redrive"} & actions_of(main)
    await manager.operator("ann").delete("orders", trash=60.0)
    offered = {
        name: actions_of(await browser.get("/m/main/queue", name=name)) & {"send", "restore", "redrive"}
        for name in ("orders", "orders;poison", "orders;trash")
    }
    assert offered == {
        "orders": {"send", "restore"},
        "orders;poison": {"redrive"},
        "orders;trash": {"restore"},
    }
    for name, action in (("orders", "send"), ("orders;poison", "redrive"), ("orders;trash", "restore")):
        found = actions_of(await browser.get("/m/main/messages", queue=name))
        assert found & {"send", "restore", "redrive"} == {action}


async def test_trail_share_is_set_in_forms(browser: Browser, manager: QueueManager) -> None:
    form = await browser.get("/m/main/act/create-queue")
    await browser.post("/m/main/act/create-queue", {**form.fields, "queue": "traced", "trail": "1"})
    assert (await manager.queue_info("traced")).trail == 1
    form = await browser.get("/m/main/act/limits", queue="traced")
    assert form.fields["trail"] == "1"
    for wrong in ("2", "-1", "often", "nan"):
        form = await browser.post("/m/main/act/limits", {**form.fields, "trail": wrong}, 400)
        assert f"trail: '{wrong}' is not a number from 0 to 1" in form.text
    page = await browser.post("/m/main/act/limits", {**form.fields, "trail": "0.25"})
    assert "Share of messages with a trail 0.25" in page.text
    await browser.post("/m/main/act/limits", {**form.fields, "trail": ""})
    assert (await manager.queue_info("traced")).trail == 0.25


async def test_rates_are_per_second(browser: Browser) -> None:
    page = await browser.get("/m/main/queue", name="orders")
    assert "In per second" in page.text
    assert "Out per second" in page.text


async def test_form_of_a_removed_schedule(browser: Browser) -> None:
    form = await browser.get("/m/main/act/create-schedule")
    fields = {**form.fields, "schedule": "nightly", "queue": "orders", "every": "5000", "paused": "on"}
    page = await browser.post("/m/main/act/create-schedule", fields)
    assert "every 1 h 23 min 20 s" in page.text
    form = await browser.get("/m/main/act/remove-schedule", schedule="nightly")
    assert "which sends nothing to orders now, since it is paused, is gone." in form.text
    assert "never" not in form.text
    resume = await browser.get("/m/main/act/resume-schedule", schedule="nightly")
    await browser.post("/m/main/act/remove-schedule", {**form.fields, "confirm": "nightly"})
    page = await browser.post("/m/main/act/resume-schedule", resume.fields, 400)
    assert "the page Schedules lists those that there are" in page.text
    assert "()" not in page.text


def test_errors_name_pages_in_place_of_methods() -> None:
    told = in_words("no worker with the id 'x' lives; workers() lists them")
    assert told == "no worker with the id 'x' lives; the page Workers lists those that run"


def test_replaced_texts_are_those_of_errors() -> None:
    modules = Path(mqredis.__file__).parent.rglob("*.py")
    package = "".join(module.read_text() for module in modules if module.name != "formats.py")
    for text, _ in _WORDS:
        assert text in package, text


@pytest.mark.parametrize(
    "seconds, text",
    [
        (1.5, "1.5 s"),
        (60.0, "1 min"),
        (5000.0, "1 h 23 min 20 s"),
        (90_000.25, "1 d 1 h 0.25 s"),
        (0.0, "0 s"),
    ],
)
def test_interval_is_shown_exactly(seconds: float, text: str) -> None:
    assert exact(seconds) == text


@pytest.mark.parametrize(
    "seconds, text",
    [
        (None, "\u2013"),
        (0.0001, "0 s"),
        (0.25, "250 ms"),
        (1.4, "1 s"),
        (59.7, "1 min"),
        (90.0, "1 min 30 s"),
        (629.0, "10 min"),
        (3579.4, "1 h"),
        (3599.9, "1 h"),
        (5000.0, "1 h 23 min"),
        (129_600.0, "1 d 12 h"),
        (86_459.0, "1 d"),
        (10 * 86_400.0, "10 d"),
    ],
)
def test_duration_has_at_most_two_units(seconds: float | None, text: str) -> None:
    assert duration(seconds) == text


def test_time_is_relative_with_the_exact_time_in_its_title() -> None:
    moment = datetime(2026, 3, 1, 12, 0, 0, 250_000, tzinfo=UTC)
    title = 'title="2026-03-01 12:00:00.250 UTC"'
    for passed, text in ((5000, "1 h 23 min ago"), (-90, "in 1 min 30 s")):
        shown = when(moment, lambda: moment + timedelta(seconds=passed))  # noqa: B023 - called at once
        assert f">{text}</time>" in shown
        assert title in shown
    assert when(None) == "\u2013"
