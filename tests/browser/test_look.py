"""The look of every page in a narrow and a wide window, light and dark: contrast, width, alignment, ids."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page

import mqredis
from mqredis import Message, Outgoing, RetryPolicy
from mqredis.worker import Worker
from tests.browser.test_browser import Open, fail, send

pytestmark = pytest.mark.browser

# Text whose contrast is below WCAG AA: 4.5, or 3 for large text.
CONTRAST = """() => {
  const channel = (value) => (value /= 255) <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  const parse = (text) => (text.match(/[\\d.]+/g) || []).map(Number);
  const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  const ground = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const color = parse(getComputedStyle(at).backgroundColor);
      if (color.length === 3 || color[3] === 1) return color;
    }
    return [255, 255, 255];
  };
  const wrong = [];
  for (const element of document.querySelectorAll("body *")) {
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    if (!own || !element.checkVisibility() || element.matches(".unseen, .skip")) continue;
    const style = getComputedStyle(element);
    const [a, b] = [light(parse(style.color)), light(ground(element))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    const size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    if (ratio < (large ? 3 : 4.5)) wrong.push(`${element.className || element.tagName} ${ratio.toFixed(2)}`);
  }
  return wrong;
}"""

# Numbers in tables that are not aligned right. Property tables have one column of values, which begin at its left.
UNALIGNED = """() => [...document.querySelectorAll("table:not(.pairs) td")]
  .filter((cell) => /^[\\d,]+(\\.\\d+)?( [kMGT]?B)?$/.test(cell.textContent.trim()))
  .filter((cell) => getComputedStyle(cell).textAlign !== "right")
  .map((cell) => cell.textContent.trim())"""

# Ids that are there twice; and links, buttons and regions of live parts that would lose the focus without an id.
IDS = """() => {
  const ids = [...document.querySelectorAll("[id]")].map((element) => element.id);
  const live = document.querySelectorAll(":is(#live, #totals) :is(a, button, input, summary, [tabindex])");
  return [...ids.filter((id, at) => ids.indexOf(id) !== at),
    ...[...live].filter((element) => !element.id).map((element) => element.outerHTML)];
}"""


@pytest.fixture
def busy(broker: mqredis.QueueManager) -> Iterator[mqredis.QueueManager]:
    """The queue manager with something to see on every page, also long names and texts."""
    worker, ended = Worker(heartbeat_seconds=0.25, name="w" * 60), threading.Event()

    @worker.consumer("jobs", name="c" * 60, create={})
    def handle(_: Message) -> None:
        ended.wait(60)

    ann = broker.operator("ann")
    broker.update_queue("orders", retry=RetryPolicy(immediate=0), trail=True)
    broker.create_queue("ledger", transactional=True)
    broker.create_queue("news", topic=True)
    broker.subscribe("news", "orders", "region = 'EU' AND amount BETWEEN 10 AND 20")
    for name in ("n" * 124, "<b>& 'quoted' \u65e5\u672c" + "w " * 50 + "w"):
        broker.create_queue(name)
    ann.create_schedule("s" * 100, "0 3 * * *", "orders", "go")
    with worker.background(broker), broker.transaction(lease=600) as unit:
        send(broker, "x", to="jobs")
        send(broker, Outgoing("later", delay=60, label="l" * 100, correlation_id="c" * 100))
        with broker.open("ledger") as ledger:
            ledger.send("x", transaction=unit)
        ann.pause("orders", reason="r" * 300)
        ann.pause("jobs")
        while not (broker.workers() and broker.workers()[0].running):
            assert not ended.wait(0.02)
        yield broker
        ended.set()
        unit.abort()


def check(page: Page, path: str, width: int) -> None:
    """Assert that the page in front of the visitor looks right."""
    assert page.evaluate(CONTRAST) == [], path
    assert page.evaluate(UNALIGNED) == [], path
    assert page.evaluate(IDS) == [], path
    assert page.evaluate("document.documentElement.scrollWidth") <= width, path


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_have_contrast_and_do_not_overflow(
    console: str, busy: mqredis.QueueManager, open_page: Open, scheme: str
) -> None:
    body = '{"order": "' + "x" * 200 + '"}'
    first, _ = send(busy, body, Outgoing(body, properties={"a-long-name" * 8: "y" * 300}))
    fail(busy)
    (gone,) = send(busy, "gone")
    with busy.open("orders") as queue:
        queue.receive_by_lookup_id(gone)
    page = open_page(console, color_scheme=scheme)
    for width in (400, 1600):
        page.set_viewport_size({"width": width, "height": 900})
        for path in (
            "/", "/queue?name=orders", "/queue?name=orders&span=day", "/queue?name=news", "/messages?queue=orders",
            "/messages?queue=orders&selector=a+%3D", f"/message?queue=orders%3Bpoison&id={first}", "/failures",
            "/scheduled", "/scheduled?queue=orders", "/in-flight", "/in-flight?queue=jobs", "/clients", "/topics",
            "/doctor", "/server", "/workers", "/schedules", "/actions", f"/trail?queue=orders&id={gone:#018x}",
            "/trail?queue=orders&id=0x0400ffffffffffff", "/act/send?queue=orders", "/act/purge?queue=orders",
            "/queue?name=absent",
        ):  # fmt: skip
            page.goto(f"{console}/m/main{path}")
            check(page, path, width)
        page.goto(f"{console}/m/main/doctor")
        page.get_by_role("button", name="Examine").click()
        page.get_by_role("heading", name="Durability").wait_for()
        check(page, "the report of the doctor", width)
