"""Charts of statistics over time: their points, and the pages that show them."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from html import unescape
from urllib.parse import urlencode
from xml.etree import ElementTree as ET

import pytest

import mqredis.asyncio
from mqredis import RetryPolicy, Settings
from mqredis.asyncio import QueueManager
from mqredis.console import app, everyone
from mqredis.console.charts import SPANS, Chart, charts_of, sparkline
from mqredis.models import HistoryPeriod, QueueHistory
from tests.console.browser import Browser
from tests.support.buckets import BUCKET

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
HOUR, DAY = SPANS["hour"], SPANS["day"]
EVIL = "<svg onload=alert(1)>\"'&"


def history(came: Sequence[int], ages: Sequence[int | None] = (), step: int = 300) -> QueueHistory:
    """History of a queue with the given numbers of messages per period; the last period began at noon."""
    periods = [
        HistoryPeriod(
            start=NOON - timedelta(seconds=step * (len(came) - 1 - at)),
            messages_in=count,
            messages_out=0,
            failed=0,
            retried=0,
            messages=0,
            oldest_seconds=ages[at] if ages else None,
            complete=at < len(came) - 1,
        )
        for at, count in enumerate(came)
    ]
    return QueueHistory("q", step, tuple(periods))


def corners(chart: Chart, line: int = 0) -> list[list[tuple[float, float]]]:
    """Return the points of each segment of a line."""
    found = []
    for piece in chart.lines[line].pieces:
        pairs = (point.split(",") for point in piece.split())
        found.append([(float(x), float(y)) for x, y in pairs])
    return found


def test_empty_history_has_no_charts() -> None:
    assert charts_of(history([]), HOUR) == ()
    assert sparkline(history([])) is None


def test_single_period_is_drawn_at_the_right_edge() -> None:
    messages, age = charts_of(history([4], [90]), HOUR)
    assert messages.top == "5"
    assert corners(messages) == [[(923.1, 20.0), (1000.0, 20.0)]]
    assert [line.pieces for line in messages.lines[1:]] == [("923.1,100.0 1000.0,100.0",)] * 3
    assert messages.times == ("11:00", "11:32", "12:05")
    assert age.top == "2 min"
    assert corners(age) == [[(923.1, 25.0), (1000.0, 25.0)]]


def test_periods_have_equal_width_and_the_height_of_their_value() -> None:
    messages, _ = charts_of(history(range(13)), HOUR)
    (steps,) = corners(messages)
    assert messages.top == "20"
    assert [y for _, y in steps[::2]] == [100.0 - 5 * n for n in range(13)]
    assert steps[0][0] == 0.0
    assert steps[-1][0] == 1000.0
    assert all(end[0] == begin[0] for end, begin in zip(steps[1::2], steps[2::2], strict=False))


def test_axis_of_a_day_has_dates() -> None:
    messages, _ = charts_of(history([1] * 49, step=1800), DAY)
    assert messages.times == ("02-28 12:00", "03-01 00:15", "03-01 12:30")
    assert len(corners(messages)[0]) == 98


@pytest.mark.parametrize(
    "highest, top",
    [
        (0, "1"),
        (1, "1"),
        (3, "5"),
        (5, "5"),
        (6, "10"),
        (1234, "2,000"),
        (10**15 + 1, "2,000,000,000,000,000"),
    ],
)
def test_axis_of_messages_ends_at_a_round_number(highest: int, top: str) -> None:
    messages, _ = charts_of(history([0, highest, 7 if highest > 7 else 0]), HOUR)
    assert messages.top == top
    assert all(0 <= y <= 100 for _, y in corners(messages)[0])


@pytest.mark.parametrize(
    "oldest, top",
    [
        (0, "1 s"),
        (59, "59 s"),
        (61, "2 min"),
        (3599, "1 h"),
        (5000, "2 h"),
        (86_399, "1 d"),
        (10**9, "11575 d"),
    ],
)
def test_axis_of_ages_ends_at_a_whole_unit(oldest: int, top: str) -> None:
    _, age = charts_of(history([1], [oldest]), HOUR)
    assert age.top == top


def test_line_of_ages_has_gaps_without_available_messages() -> None:
    _, age = charts_of(history([1] * 5, [10, None, None, 20, 5]), HOUR)
    assert [len(piece) for piece in corners(age)] == [2, 4]
    _, age = charts_of(history([0, 0]), HOUR)
    assert age.lines[0].pieces == ()
    assert "\u2013 at most" in age.description


def test_negative_counts_are_drawn_as_zero() -> None:
    messages, _ = charts_of(history([-3, 2]), HOUR)
    assert [y for _, y in corners(messages)[0]] == [100.0, 100.0, 0.0, 0.0]
    assert "-1 in" in messages.description


def drawings(html: str, style: str) -> list[ET.Element]:
    """Return the charts of a page, parsed as XML."""
    return [
        ET.fromstring(found)  # noqa: S314 - it is the page of the console
        for found in re.findall(rf'<svg class="{style}".*?</svg>', html, re.DOTALL)
    ]


async def test_queue_page_charts_the_last_hour_and_day(url: str) -> None:
    async with mqredis.asyncio.connect(settings=Settings(url=url, test_clock=True)) as manager:
        await manager.advance_clock(BUCKET - time.time() % BUCKET + 1)  # to the beginning of a period
        await manager.create_queue("orders", retry=RetryPolicy(immediate=1, cycles=0))
        async with await manager.open("orders") as queue:
            await queue.send_many([b"x"] * 1200)
            await (await queue.lock(timeout=0)).abort()
            await (await queue.lock(timeout=0)).reject("no")
        await manager.advance_clock(BUCKET)
        browser = Browser(app({"main": manager}, access=everyone))
        page = await browser.get("/m/main/queue", name="orders")
        messages, age = drawings(page.html, "chart")
        assert messages.get("role") == "img"
        assert messages.findtext("title") == (
            "Messages in each 5 min, last hour: 1,200 in, 1 out, 1 failed, 1 retried"
        )
        assert len(messages.findall("polyline")) == 4
        assert len(age.findall("polyline")) == 1
        assert re.search(r"Out Failed Retried Messages Oldest .* 1,200 1 1 1 1,199 4 min 5\d s ", page.text)
        assert not re.search(r"\sstyle=|\son\w+=", page.html)
        day = await browser.get(next(a for a in page.addresses if "span=day" in a))
        assert "Messages in each 30 min, last day: 1,200 in" in day.text
        assert 'aria-current="true">Last day' in day.html
        other = await browser.get("/m/main/queue", name="orders", span=EVIL)
        assert "last hour: 1,200 in" in other.text
        await browser.close()


async def test_live_update_omits_the_charts(browser: Browser) -> None:
    browser.client.headers["hx-request"] = "true"
    page = await browser.get("/m/main/queue", name="orders")
    assert 'id="live"' in page.html
    assert 'id="charts"' not in page.html


async def test_queue_without_statistics_says_so(
    browser: Browser, manager: QueueManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def nothing(name: str, **_: object) -> QueueHistory:
        return QueueHistory(name, 300, ())

    monkeypatch.setattr(manager, "history", nothing)
    page = await browser.get("/m/main/queue", name="orders")
    assert "There are no figures of this queue yet" in page.text
    assert drawings(page.html, "chart") == []


async def test_queue_names_are_escaped_in_charts(browser: Browser, manager: QueueManager) -> None:
    await manager.create_queue(EVIL)
    async with await manager.open(EVIL) as queue:
        await queue.send("x")
    address = f"/m/main/queue?{urlencode({'name': EVIL})}"
    for path, style in ((address, "chart"), (f"{address}&span=day", "chart"), ("/m/main/", "spark")):
        page = await browser.get(path)
        assert "<svg onload" not in page.html
        assert EVIL in unescape(page.html)
        assert drawings(page.html, style)


async def test_overview_reads_the_history_once(
    browser: Browser, manager: QueueManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[list[str]] = []
    histories = manager.histories

    async def counted(names: list[str], *, since: timedelta) -> dict[str, QueueHistory]:
        read.append(names)
        return await histories(names, since=since)

    monkeypatch.setattr(manager, "histories", counted)
    async with await manager.open("orders") as queue:
        await queue.send_many([b"x"] * 1500)
    pages = await asyncio.gather(*(browser.get("/m/main/") for _ in range(3)))
    for page in pages:
        (spark,) = drawings(page.html, "spark")
        assert re.fullmatch(r"1,500 in since \d\d:\d\d UTC", spark.findtext("title") or "")
        assert len(spark.findall("polyline")) == 1
    await manager.create_queue("later")
    page = await browser.get("/m/main/", done="x")
    assert "later" in page.text  # without a line until the next reading
    assert len(drawings(page.html, "spark")) == 1
    assert read == [["orders"]]
