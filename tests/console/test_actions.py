"""Every action, over ASGI: what its form shows, what it does, and that it does it once."""

from __future__ import annotations

import pytest

from mqredis import Outgoing, RetryPolicy
from mqredis.asyncio import QueueManager
from mqredis.console import Visitor, app
from mqredis.console.actions import REGISTRY
from mqredis.console.formats import hex_id
from tests.console.browser import Browser
from tests.console.test_pages import fail, fill


async def ready(manager: QueueManager, name: str = "orders") -> int:
    return (await manager.queue_info(name)).ready


async def test_a_test_message_is_sent(browser: Browser, manager: QueueManager) -> None:
    page = await browser.act(
        "send", queue="orders", body="hello", label="test", priority="6", properties='{"region": "EU"}'
    )
    assert "was sent to orders" in page.text
    async with await manager.open("orders") as queue:
        message = await queue.receive(timeout=0)
    assert (message.text, message.label, message.priority) == ("hello", "test", 6)
    assert message.properties == {"region": "EU"}


async def test_a_message_is_sent_to_a_transactional_queue(browser: Browser, manager: QueueManager) -> None:
    await manager.create_queue("ledger", transactional=True)
    await browser.act("send", queue="ledger", body="x")
    assert await ready(manager, "ledger") == 1


@pytest.mark.parametrize(
    "fields, text",
    [
        ({"priority": "9"}, "priority"),
        ({"priority": "x"}, "is not a whole number"),
        ({"properties": "[1]"}, "a JSON object is expected"),
        ({"properties": "{"}, "this is not JSON"),
        ({"delay": "soon"}, "is not a number of seconds"),
    ],
)
async def test_a_wrong_message_is_refused_and_the_form_kept(
    browser: Browser, manager: QueueManager, fields: dict[str, str], text: str
) -> None:
    page = await browser.act("send", 400, queue="orders", body="keep me", **fields)
    assert text in page.text
    assert "keep me" in page.html
    assert await ready(manager) == 0


async def test_a_form_that_is_sent_twice_acts_once(browser: Browser, manager: QueueManager) -> None:
    form = await browser.get("/m/main/act/send", queue="orders")
    for _ in range(2):
        page = await browser.post("/m/main/act/send", {**form.fields, "body": "once"})
        assert "was sent to orders" in page.text
    assert await ready(manager) == 1


async def test_a_purge_counts_first_and_asks_for_the_name(browser: Browser, manager: QueueManager) -> None:
    await fill(manager, [Outgoing("eu", properties={"region": "EU"})] * 3 + ["other"])
    form = await browser.get("/m/main/act/purge", queue="orders", selector="region = 'EU'")
    assert "This touches 3 messages of orders" in form.text
    for typed in ("", "order"):
        page = await browser.post("/m/main/act/purge", {**form.fields, "confirm": typed}, 400)
        assert "type the queue's name" in page.text
    assert await ready(manager) == 4
    again = await browser.post("/m/main/act/purge", {**page.fields, "selector": "", "check": "1"})
    assert "This touches 4 messages of orders" in again.text
    page = await browser.post("/m/main/act/purge", {**form.fields, "confirm": "orders"})
    assert "3 messages of orders removed" in page.text
    assert await ready(manager) == 1


async def test_a_message_is_moved_and_deleted_once(browser: Browser, manager: QueueManager) -> None:
    first, second = await fill(manager, ["a", "b"])
    page = await browser.act("move", queue="orders", id=hex_id(first), target="orders;later")
    assert "was moved from orders to orders;later" in page.text
    form = await browser.get("/m/main/act/delete", queue="orders", id=hex_id(second))
    for _ in range(2):
        page = await browser.post("/m/main/act/delete", {**form.fields, "confirm": "orders"})
        assert "was deleted from orders" in page.text
    assert await ready(manager) == 0
    assert await ready(manager, "orders;later") == 1


async def test_failed_messages_are_put_back(browser: Browser, manager: QueueManager) -> None:
    await manager.update_queue("orders", retry=RetryPolicy(immediate=0))
    await fill(manager, ["a"])
    await fail(manager, "orders")
    page = await browser.act("redrive", queue="orders;poison")
    assert "1 message put back from orders;poison" in page.text
    assert await ready(manager) == 1


async def test_sends_and_reads_are_stopped(browser: Browser, manager: QueueManager) -> None:
    page = await browser.act("inhibit", queue="orders", put_inhibited="on")
    assert "orders: sends are refused, reads are accepted" in page.text
    assert (await manager.queue_info("orders")).put_inhibited
    page = await browser.act("send", 400, queue="orders", body="x")
    assert "Sending to this queue is switched off" in page.text or "inhibit" in page.text.lower()
    assert "failed" in (await browser.get("/m/main/actions")).text


async def test_limits_are_shown_and_changed(browser: Browser, manager: QueueManager) -> None:
    await manager.update_queue("orders", quota_messages=10)
    form = await browser.get("/m/main/act/limits", queue="orders")
    assert form.fields["quota_messages"] == "10"
    await browser.post("/m/main/act/limits", {**form.fields, "quota_messages": "", "quota_bytes": "5,000"})
    info = await manager.queue_info("orders")
    assert (info.quota_messages, info.quota_bytes) == (None, 5000)


async def test_queues_and_subscriptions_come_and_go(browser: Browser, manager: QueueManager) -> None:
    await browser.act("create-queue", queue="news", topic="on", label="All news")
    assert (await manager.queue_info("news")).topic
    await browser.act("subscribe", topic="news", queue="orders", selector="region = 'EU'")
    assert [each.selector for each in await manager.subscriptions("news")] == ["region = 'EU'"]
    form = await browser.get("/m/main/act/unsubscribe", topic="news", queue="orders")
    await browser.post("/m/main/act/unsubscribe", {**form.fields, "confirm": "orders"})
    assert await manager.subscriptions("news") == []
    await browser.act("delete-queue", queue="news", confirm="news")
    assert "news" not in [info.name for info in await manager.queues()]


async def test_the_whole_manager_is_limited_and_repaired(browser: Browser, manager: QueueManager) -> None:
    await browser.act("quota", messages="1000", bytes="")
    await browser.act("throttle", throttled="on")
    info = await manager.info()
    assert (info.quota_messages, info.throttled) == (1000, True)
    form = await browser.get("/m/main/act/throttle")
    assert form.fields["throttled"] == "on"
    fields = {name: value for name, value in form.fields.items() if name != "throttled"}
    assert "ManagerQuotaExceeded" in (await browser.act("send", 507, queue="orders", body="x")).text
    # The log of actions is a queue, too. What makes room works without it.
    await browser.post("/m/main/act/throttle", fields)
    assert not (await manager.info()).throttled
    assert "0 findings repaired" in (await browser.act("repair")).text


async def test_the_log_says_who_did_what(manager: QueueManager) -> None:
    browser = Browser(app({"main": manager}, access=lambda _: Visitor("ann", "all")))
    await browser.act("send", queue="orders", body="x")
    await browser.act("purge", queue="orders", confirm="orders")
    page = await browser.get("/m/main/actions")
    assert "ann purge orders done 1 message of orders removed" in page.text
    assert "ann send orders done Message" in page.text
    await browser.close()


async def test_every_action_is_tried_here() -> None:
    tried = {
        *("send", "purge", "move", "delete", "redrive", "inhibit", "limits", "create-queue", "subscribe"),
        *("unsubscribe", "delete-queue", "quota", "throttle", "repair"),
    }
    assert set(REGISTRY) == tried


async def test_an_unknown_action_is_no_page(browser: Browser) -> None:
    await browser.get("/m/main/act/explode", 404)
