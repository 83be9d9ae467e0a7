"""Every page, over ASGI."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest

from mqredis import Access, Journal, Outgoing, RetryPolicy
from mqredis.asyncio import Queue, QueueManager
from mqredis.console import app, everyone
from mqredis.console.pages import messages as pages_of_messages
from mqredis.console.pages import server as pages_of_servers
from mqredis.keys import DEAD_LETTER
from mqredis.models.lookup_ids import hex_id
from mqredis.operations.server_facts import ServerFacts
from mqredis.steps import Command, Steps, procedure
from tests.console.browser import HOST, Browser, mounted

EVIL = "<script>alert(1)</script>'\"&\u202e"


async def fill(
    manager: QueueManager, bodies: Sequence[str | bytes | Outgoing], name: str = "orders"
) -> list[int]:
    async with await manager.open(name, Access.SEND) as queue:
        return [sent.lookup_id for sent in await queue.send_many(bodies)]


async def fail(manager: QueueManager, name: str) -> None:
    """Lock a message and abort, which makes it poison."""
    queue: Queue
    async with await manager.open(name) as queue:
        lock = await queue.lock(timeout=0)
        await lock.abort()


async def test_overview_sorts_and_filters(browser: Browser, manager: QueueManager) -> None:
    await manager.create_queue("invoices")
    await fill(manager, [b"x"] * 1200)
    page = await browser.get("/")
    assert re.search(r"invoices 0.*orders 1,200", page.text)
    page = await browser.get("/m/main/", sort="ready", order="desc")
    assert page.html.index("q-orders") < page.html.index("q-invoices")
    assert 'aria-sort="descending"' in page.html
    page = await browser.get("/m/main/", q="ORD")
    assert "q-orders" in page.html
    assert "q-invoices" not in page.html
    assert "No queue matches" in (await browser.get("/m/main/", q="absent")).text


async def test_queue_page_shows_counts_limits_and_subqueues(browser: Browser, manager: QueueManager) -> None:
    await manager.update_queue(
        "orders", retry=RetryPolicy(immediate=0), quota_messages=5000, put_inhibited=False
    )
    await fill(manager, ["a", "b", Outgoing("later", delay=60)])
    await fail(manager, "orders")
    page = await browser.get("/m/main/queue", name="orders")
    assert "Ready 1 Delayed 1 Locked 0" in page.text
    for name in ("orders", "orders;poison"):
        html = (await browser.get("/m/main/queue", name=name)).html
        assert re.findall(r'id="q-([^"]*)"', html) == ["orders", "orders;poison"]
    assert "orders;poison 1" in page.text
    assert "Quota in messages 5,000" in page.text
    assert "1 attempt, then poison" in page.text
    page = await browser.get("/m/main/queue", name="orders;poison")
    assert "Ready 1" in page.text
    assert "there is no queue 'absent'" in (await browser.get("/m/main/queue", 404, name="absent")).text


async def test_message_page_continues_after_the_previous_page(
    browser: Browser, manager: QueueManager
) -> None:
    ids = await fill(manager, [f"body {n}" for n in range(120)])
    page = await browser.get("/m/main/messages", queue="orders")
    seen = re.findall(r"body \d+", page.html)
    async with await manager.open("orders") as queue:
        await queue.receive_many(30)
    following = next(a for a in page.addresses if "after=" in a)
    assert f"after={ids[49]:016x}" in following
    page = await browser.get(following)
    seen += re.findall(r"body \d+", page.html)
    page = await browser.get(next(a for a in page.addresses if f"after={ids[99]:016x}" in a))
    seen += re.findall(r"body \d+", page.html)
    assert seen == [f"body {n}" for n in range(120)]
    assert "20 messages on this page" in page.text
    full = await browser.get("/m/main/messages", queue="orders", had="49")
    assert len(re.findall(r"body \d+", full.html)) == 1
    back = await browser.get(next(a for a in page.addresses if f"after={ids[49]:016x}" in a))
    assert re.findall(r"body \d+", back.html) == [f"body {n}" for n in range(50, 100)]


async def test_scheduled_page_continues_after_the_previous_page(
    browser: Browser, manager: QueueManager
) -> None:
    await fill(manager, [Outgoing(b"", label=f"label {n}", delay=60 + n) for n in range(120)])
    page = await browser.get("/m/main/scheduled", queue="orders")
    seen = re.findall(r"label \d+", page.html)
    assert len(seen) < 120
    page = await browser.get(next(address for address in page.addresses if "after=" in address))
    seen += re.findall(r"label \d+", page.html)
    assert seen == [f"label {n}" for n in range(120)]
    assert 'rel="next"' not in page.html


async def test_messages_are_found_by_selector_and_identifier(browser: Browser, manager: QueueManager) -> None:
    await fill(
        manager, [Outgoing("eu", properties={"region": "EU"}), Outgoing("other", correlation_id=b"\x00\xff")]
    )
    page = await browser.get("/m/main/messages", queue="orders", selector="region = 'EU'")
    assert "1 message on this page" in page.text
    page = await browser.get("/m/main/messages", queue="orders", correlation_id="0x00ff")
    assert "0x00ff" in page.text
    assert "1 message on this page" in page.text
    page = await browser.get("/m/main/messages", queue="orders", selector="region = 'US'")
    assert "No available message matches" in page.text


async def test_search_continues_where_it_stopped(
    browser: Browser, manager: QueueManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages_of_messages, "CALLS", 1)
    sent = [Outgoing(f"body {n}", properties={"wanted": n in (7, 1200)}) for n in range(1300)]
    ids = await fill(manager, sent)
    place = (await manager.messages("orders", selector="wanted IS NULL")).next
    examined = ids.index(int(place or "", 16)) + 1  # messages of one call
    page = await browser.get("/m/main/messages", queue="orders", selector="wanted = TRUE")
    assert "Search further" in page.text
    for n in range(1200 // examined):
        assert "No available message" not in page.text
        assert "1 message on this page" in page.text
        rest = next(each for each in page.addresses if "had=1" in each)  # what a script adds to the page
        assert n or "start=0" in rest
        page = await browser.get(rest)
    assert "body 1200" in page.html
    assert "2 messages on this page" in page.text
    assert "had=" not in "".join(page.addresses)
    page = await browser.get("/m/main/messages", queue="orders", selector="wanted IS NULL")
    assert "No available message" not in page.text  # it is not known yet
    await browser.get("/m/main/messages", 400, queue="orders", had="x")
    assert (
        "50 messages on this page" in (await browser.get("/m/main/messages", queue="orders", had="-5")).text
    )


@pytest.mark.parametrize(
    "query, text",
    [
        ({"selector": "region = AND"}, "unexpected AND"),
        ({"message_id": "0xzz"}, "is not 0x and an even number of hex digits"),
        ({"after": "x"}, "after"),
        ({"queue": "absent"}, "there is no queue"),
    ],
)
async def test_invalid_search_shows_the_error(browser: Browser, query: dict[str, str], text: str) -> None:
    status = 404 if "queue" in query else 400
    assert text in (await browser.get("/m/main/messages", status, **{"queue": "orders", **query})).text


async def test_viewing_a_subqueue_does_not_create_it(browser: Browser, manager: QueueManager) -> None:
    await browser.get("/m/main/messages", 404, queue="orders;later")
    assert [info.name for info in await manager.queues()] == ["orders"]


async def test_message_page_shows_body_header_and_properties(browser: Browser, manager: QueueManager) -> None:
    body = '{"order": 7, "name": "caf\u00e9"}'
    message = Outgoing(
        body, label="invoice", correlation_id="c-1", priority=5, properties={"amount": 12.5, "raw": b"\x01"}
    )
    (number,) = await fill(manager, [message])
    page = await browser.get("/m/main/message", queue="orders", id=hex_id(number))
    assert '"order": 7' in page.text
    assert "Label invoice" in page.text
    assert "Correlation id c-1" in page.text
    assert "amount 12.5 raw 0x01" in page.text
    page = await browser.get("/m/main/message", queue="orders", id=hex_id(number), view="hex")
    assert "00000000 7b 22 6f" in page.text
    page = await browser.get("/m/main/message", queue="orders", id=hex_id(number), view="text")
    assert body in page.text
    response = (await browser.get("/m/main/body", queue="orders", id=hex_id(number))).response
    assert response.content == body.encode()
    assert response.headers["content-disposition"].startswith("attachment")


async def test_message_page_shows_the_trail(browser: Browser, manager: QueueManager) -> None:
    await manager.update_queue("orders", trail=True)
    (number,) = await fill(manager, ["a"])
    async with await manager.open("orders") as queue:
        await (await queue.lock(timeout=0)).abort()
        await queue.move(number, await manager.open("orders;<b>aside"))
    page = await browser.get("/m/main/message", queue="orders;<b>aside", id=hex_id(number))
    words = page.text.partition("What happened")[2].partition("Body")[0]
    assert re.findall(r"(?:sent|locked|aborted|moved) orders(?: \u2192 \S+)?", words) == [
        "sent orders",
        "locked orders",
        "aborted orders",
        "moved orders \u2192 orders;<b>aside",
    ]
    assert "<b>" not in page.html
    (other,) = await fill(manager, ["b"])
    await manager.update_queue("orders", trail=0)
    (plain,) = await fill(manager, ["c"])
    for followed, shown in ((other, True), (plain, False)):
        page = await browser.get("/m/main/message", queue="orders", id=hex_id(followed))
        assert ("What happened" in page.text) is shown


async def test_trail_shows_the_number_of_omitted_entries(browser: Browser, manager: QueueManager) -> None:
    await manager.update_queue("orders", trail=True)
    (number,) = await fill(manager, ["a"])
    async with await manager.open("orders") as queue:
        for _ in range(40):
            await (await queue.lock(timeout=0)).abort()
    page = await browser.get("/m/main/message", queue="orders", id=hex_id(number))
    assert f"Entries that are not kept: {1 + 2 * 40 - 32}" in page.text


async def test_reason_in_a_trail_is_escaped(browser: Browser, manager: QueueManager) -> None:
    await manager.update_queue("orders", trail=True)
    await fill(manager, [Outgoing("a", journal=Journal.DEAD_LETTER)])
    async with await manager.open("orders") as queue:
        await (await queue.lock(timeout=0)).reject(EVIL)
    async with await manager.open(DEAD_LETTER) as letters:
        number = (await letters.peek(timeout=0)).lookup_id
    page = await browser.get("/m/main/message", queue=DEAD_LETTER, id=hex_id(number))
    words = page.text.partition("What happened")[2].partition("Body")[0]
    assert words.count(EVIL.replace("\u202e", "\\u202e")) == 2
    assert "receive_rejected: " in words
    assert "<script>alert" not in page.html


async def test_locked_or_missing_message_is_explained(browser: Browser, manager: QueueManager) -> None:
    (number,) = await fill(manager, ["a"])
    async with await manager.open("orders") as queue:
        lock = await queue.lock(timeout=0)
        page = await browser.get("/m/main/message", queue="orders", id=hex_id(number))
        assert f"Message {hex_id(number)} locked" in page.text
        await lock.commit()
    page = await browser.get("/m/main/message", 404, queue="orders", id=hex_id(number))
    assert "it was received, moved, deleted, or has expired" in page.text


async def test_failures_are_grouped_with_a_link_per_group(browser: Browser, manager: QueueManager) -> None:
    assert "Nothing has failed" in (await browser.get("/m/main/failures")).text
    await manager.update_queue("orders", retry=RetryPolicy(immediate=0))
    await fill(manager, ["a", "b"])
    await fail(manager, "orders")
    await fail(manager, "orders")
    page = await browser.get("/m/main/failures")
    assert "orders;poison 2 messages" in page.text
    look = next(a for a in page.addresses if "/messages?" in a)
    assert "2 messages on this page" in (await browser.get(look)).text


async def test_overview_shows_rates(browser: Browser, manager: QueueManager) -> None:
    assert re.search(r"orders 0 0 0 0 \u2013 \u2013", (await browser.get("/m/main/")).text)
    await fill(manager, ["x"] * 100)
    while "orders 100 " not in (shown := (await browser.get("/m/main/")).text):
        assert "orders 0 " in shown  # the console has not read the queues again yet
    assert re.search(r"orders 100 0 0 0 [\d,.]+ 0.0", shown)


async def test_topics_doctor_server_and_actions_have_pages(browser: Browser, manager: QueueManager) -> None:
    await manager.create_queue("news", topic=True)
    await manager.subscribe("news", "orders", "region = 'EU'")
    assert "news" in (await browser.get("/m/main/topics")).text
    assert "orders region = 'EU'" in (await browser.get("/m/main/topics")).text
    assert "looks at every message" in (await browser.get("/m/main/doctor")).text
    assert "The store is sound" in (await browser.examine()).text
    assert "Queues and subqueues 2" in (await browser.get("/m/main/server")).text
    assert "Nothing was done yet" in (await browser.get("/m/main/actions")).text


async def test_external_text_is_escaped(browser: Browser, manager: QueueManager) -> None:
    await manager.update_queue("orders", label=EVIL)
    message = Outgoing(EVIL, label=EVIL, properties={EVIL: EVIL}, correlation_id=EVIL, content_type=EVIL)
    (number,) = await fill(manager, [message])
    name = "<img src=x>"
    await manager.create_queue(name)
    for path in (
        "/m/main/",
        "/m/main/queue?name=orders",
        "/m/main/messages?queue=orders",
        f"/m/main/message?queue=orders&id={number}",
        "/m/main/queue?name=%3Cimg+src%3Dx%3E",
        "/m/main/act/send?queue=%3Cimg+src%3Dx%3E",
    ):
        page = await browser.get(path)
        assert "<script>alert" not in page.html
        assert name not in page.html
        assert "\u202e" not in page.html
    page = await browser.get("/m/main/queue", 404, name=EVIL)
    assert "<script>alert" not in page.html


@pytest.mark.parametrize("prefix", ["", "/ops/mq"])
async def test_links_are_under_the_prefix(manager: QueueManager, prefix: str) -> None:
    console = app({"main": manager}, access=everyone)
    browser = Browser(mounted(console, prefix) if prefix else console, prefix)
    (number,) = await fill(manager, ["a"])
    for path in (
        "/",
        "/m/main/queue?name=orders",
        f"/m/main/message?queue=orders&id={number}",
        "/m/main/act/purge?queue=orders",
    ):
        page = await browser.get(path)
        assert str(page.response.url).startswith(f"{HOST}{prefix}/m/main")
        outside = [a for a in page.addresses if not a.startswith(f"{prefix}/") and not a.startswith("#")]
        assert outside == []
    await browser.get("/static/console.css")
    await browser.close()


async def test_several_managers_are_shown_by_name(url: str, manager: QueueManager) -> None:
    browser = Browser(app({"main": manager, "second": url}, access=everyone))
    page = await browser.get("/m/second/")
    assert "main" in page.text
    assert "q-orders" in page.html  # it is the same manager under another name
    assert "shows no queue manager" in (await browser.get("/m/third/", 404)).text
    await browser.close()


async def test_server_page_uses_words_and_units(
    manager: QueueManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = ServerFacts(
        {
            "uptime_in_seconds": "3661",
            "aof_enabled": "1",
            "loading": "0",
            "rdb_changes_since_last_save": "13272",
        },
        {"notify-keyspace-events": "", "appendfsync": "everysec"},
    )

    @procedure
    def read() -> Steps[ServerFacts]:
        yield Command(("PING",))
        return facts

    monkeypatch.setattr(pages_of_servers, "read_facts", read)
    browser = Browser(app({"main": manager}, access=everyone))
    page = await browser.get("/m/main/server")
    assert "Runs for 1 h 1 min 1 s" in page.text
    assert "Append-only file yes" in page.text
    assert "Changes since the last snapshot 13,272 Loading its data no" in page.text
    assert "Settings appendfsync everysec notify-keyspace-events none" in page.text
    assert re.search(r"Time of an answer to the console [\d.]+ (ms|s)", page.text)
    await browser.close()
