"""The trail page, also of messages that have left their queue."""

from __future__ import annotations

from mqredis import Outgoing, RetryPolicy
from mqredis.asyncio import QueueManager
from mqredis.console import Visitor, app
from mqredis.models.lookup_ids import hex_id
from tests.console.browser import Browser
from tests.console.test_pages import EVIL, fail, fill

TRAIL = "/m/main/trail"


async def test_trail_of_a_removed_message_is_shown(browser: Browser, manager: QueueManager) -> None:
    await manager.update_queue("orders", trail=1.0)
    received, deleted = await fill(manager, ["a", "b"])
    async with await manager.open("orders") as queue:
        await queue.receive(timeout=0)
    await manager.operator("ann").delete("orders", lookup_ids=[deleted])
    page = await browser.get("/m/main/queue", name="orders")
    assert "Find a message or its trail" in page.text
    for lookup_id, event in ((received, "received"), (deleted, "purged")):
        for given in (hex_id(lookup_id), f"mq-{lookup_id:016x}"):
            page = await browser.get(TRAIL, queue="orders", id=f" {given} ")
            assert f"Message {hex_id(lookup_id)} It is not in orders : it was received" in page.text
            assert "sent orders" in page.text
            assert f"{event} orders" in page.text
        # So does the page of the message, to which other pages lead.
        page = await browser.get("/m/main/message", queue="orders", id=hex_id(lookup_id))
        assert f"{event} orders" in page.text


async def test_a_message_that_left_is_found_by_the_id_that_its_sender_chose(
    browser: Browser, manager: QueueManager
) -> None:
    await manager.update_queue("orders", trail=1.0, retry=RetryPolicy(immediate=0))
    (lookup_id,) = await fill(manager, [Outgoing("here", message_id="order-4711")])
    assert "here" in (await browser.get(TRAIL, queue="orders", id="order-4711")).html
    await fail(manager, "orders")
    page = await browser.get(TRAIL, queue="orders", id="order-4711")
    assert "It is in orders;poison now." in page.text
    await manager.operator("ann").delete("orders;poison")
    page = await browser.get(TRAIL, queue="orders", id=" order-4711 ")
    assert f"Message {hex_id(lookup_id)}" in page.text
    assert "poisoned orders → orders;poison" in page.text
    assert "purged orders;poison" in page.text


async def test_trail_page_shows_a_present_message(browser: Browser, manager: QueueManager) -> None:
    (lookup_id,) = await fill(manager, [Outgoing("here", message_id="mine")])
    page = await browser.get(TRAIL, queue="orders", id=hex_id(lookup_id))
    assert "here" in page.html
    assert "Body" in page.text
    assert "here" in (await browser.get(TRAIL, queue="orders", id="mine")).html
    (other,) = await fill(manager, ["there"])
    # Found at once.
    page = await browser.get("/m/main/messages", queue="orders", message_id=f"mq-{other:016x}")
    assert f"Message {hex_id(other)}" in page.text
    page = await browser.get(TRAIL, queue="orders", id="mine")  # a search
    assert "1 message on this page" in page.text


async def test_trail_page_finds_a_moved_message(browser: Browser, manager: QueueManager) -> None:
    await manager.update_queue("orders", trail=1.0, retry=RetryPolicy(immediate=0))
    (lookup_id,) = await fill(manager, ["x"])
    await fail(manager, "orders")
    page = await browser.get(TRAIL, queue="orders", id=hex_id(lookup_id))
    assert "It is in orders;poison now." in page.text
    page = await browser.get(next(each for each in page.addresses if "/message?" in each))
    assert "Why it failed" in page.text


async def test_trail_outlives_its_queue(browser: Browser, manager: QueueManager) -> None:
    await manager.create_queue("gone", trail=1.0)
    (lookup_id,) = await fill(manager, ["x"], "gone")
    await browser.act("delete-queue", queue="gone", confirm="gone")
    page = await browser.get(TRAIL, queue="gone", id=hex_id(lookup_id))
    assert "There is no queue gone any more." in page.text
    assert "deleted gone" in page.text


async def test_message_id_in_a_deleted_queue_leads_to_a_search_of_all_queues(
    browser: Browser, manager: QueueManager
) -> None:
    await fill(manager, [Outgoing("here", message_id="order-4711")])
    page = await browser.get(TRAIL, queue="deleted", id="order-4711")
    assert any("/m/main/message?queue=orders" in address for address in page.addresses)


async def test_missing_trail_says_how_to_enable_trails(browser: Browser, manager: QueueManager) -> None:
    (lookup_id,) = await fill(manager, ["x"])
    assert (
        "keeps no trail of this message"
        in (await browser.get("/m/main/message", queue="orders", id=hex_id(lookup_id))).text
    )
    page = await browser.get(TRAIL, 404, queue="orders", id="0x0400ffffffffffff")
    assert "or there never was a message with this id" in page.text
    assert "This queue keeps none. Change limits" in page.text
    await manager.update_queue("orders", trail=0.5)
    page = await browser.get(TRAIL, 404, queue="orders", id="0x0400ffffffffffff")
    assert "keeps none" not in page.text
    page = await browser.get(TRAIL, 404, queue="absent", id="0x0400ffffffffffff")
    assert "There is no queue absent any more." in page.text
    assert "queue is missing" in (await browser.get(TRAIL, 400, id="1")).text
    assert "id is missing" in (await browser.get(TRAIL, 400, queue="orders")).text


async def test_trail_is_escaped(manager: QueueManager) -> None:
    reader = Browser(app({"main": manager}, access=lambda _: Visitor("bob")))
    await manager.update_queue("orders", trail=1.0)
    (lookup_id,) = await fill(manager, ["x"])
    async with await manager.open("orders") as queue:
        lock = await queue.lock(timeout=0)
        await lock.reject(EVIL.replace("\u202e", ""))
    page = await reader.get(TRAIL, queue="orders", id=hex_id(lookup_id))
    assert "<script>alert" not in page.html
    assert "alert(1)" in page.html
    await reader.close()
