"""A message by its id in all queues."""

from __future__ import annotations

import re
from typing import Any

import pytest

from mqredis import Journal, Outgoing, RetryPolicy, Settings
from mqredis.asyncio import QueueManager, connect
from mqredis.console import app, everyone
from mqredis.console.pages import find
from mqredis.models.lookup_ids import hex_id
from tests.console.browser import Browser, Page
from tests.console.test_pages import fill

PAGE = "/m/main/find"


def ids(page: Page) -> list[str]:
    """The lookup ids in the rows of a page."""
    return re.findall("0x[0-9a-f]{16}", page.text)


async def test_lookup_id_leads_to_its_message_in_any_queue_and_state(
    browser: Browser, manager: QueueManager
) -> None:
    await manager.create_queue("invoices")
    (delayed,) = await fill(manager, [Outgoing("later", delay=3600.0)], "invoices")
    (ready,) = await fill(manager, ["now"], "invoices")
    for number in (delayed, ready):
        for given in (hex_id(number), f" {hex_id(number)} ", f"mq-{number:016x}"):
            page = await browser.get(PAGE, id=given)
            assert f"invoices / Messages Message {hex_id(number)}" in page.text
    async with await manager.open("invoices") as queue, await queue.lock(timeout=0) as locked:
        assert f"Message {hex_id(ready)} locked" in (await browser.get(PAGE, id=hex_id(ready))).text
        await locked.commit()
    assert "0 messages found." in (await browser.get(PAGE, id=hex_id(ready))).text


async def test_message_id_is_found_in_all_queues(browser: Browser, manager: QueueManager) -> None:
    await manager.create_queue("invoices")
    wanted = [Outgoing("a", message_id="order 1"), Outgoing("b", message_id="order 1", delay=60.0)]
    numbers = await fill(manager, [*wanted, Outgoing("c", message_id="order 2")])
    numbers += await fill(manager, [Outgoing("d", message_id="order 1")], "invoices")
    page = await browser.get(PAGE, id="order 1")
    assert sorted(ids(page)) == sorted(hex_id(numbers[n]) for n in (0, 1, 3))
    assert "3 messages found." in page.text
    assert "No message was found." in (await browser.get(PAGE, id="order 3")).text
    raw = await fill(manager, [Outgoing("e", message_id=b"\x01\x02")])
    assert ids(await browser.get(PAGE, id="0x0102")) == [hex_id(raw[0])]


async def test_message_that_waits_for_its_retry_is_found_once(
    browser: Browser, manager: QueueManager
) -> None:
    await manager.update_queue("orders", retry=RetryPolicy(immediate=0, cycles=1, delay=3600.0))
    (number,) = await fill(manager, [Outgoing("a", message_id="order 1")])
    async with await manager.open("orders") as queue:
        await (await queue.lock(timeout=0)).abort()
    page = await browser.get(PAGE, id="order 1")
    assert ids(page) == [hex_id(number)]
    assert f"{hex_id(number)} orders;retry retry" in page.text
    assert "1 message found." in page.text


async def test_locked_message_is_found_by_its_message_id(browser: Browser, manager: QueueManager) -> None:
    await manager.create_queue("ledger", transactional=True)
    (number,) = await fill(manager, [Outgoing("a", message_id="order 1")])
    async with (
        await manager.open("orders") as queue,
        await manager.open("ledger") as ledger,
        await manager.transaction() as unit,
    ):
        sent = await ledger.send("b", message_id="order 1", transaction=unit)
        locked = await queue.lock(timeout=0)
        page = await browser.get(PAGE, id="order 1")
        assert sorted(ids(page)) == sorted([hex_id(number), hex_id(sent.lookup_id)])
        assert f"{hex_id(number)} orders locked" in page.text
        assert f"{hex_id(sent.lookup_id)} ledger locked" in page.text
        await locked.commit()
        await unit.abort()
    assert "0 messages found." in (await browser.get(PAGE, id="order 1")).text


async def test_search_of_a_queue_leads_to_the_same_search_of_locked_and_delayed_messages(
    browser: Browser, manager: QueueManager
) -> None:
    both: dict[str, Any] = {"correlation_id": "c & d", "properties": {"n": 1}}
    numbers = await fill(
        manager,
        [
            Outgoing("a", **both),
            Outgoing("b", correlation_id="other"),
            Outgoing("later", delay=60.0, **both),
            Outgoing("later", delay=60.0, correlation_id="c & d"),
        ],
    )
    async with await manager.open("orders") as queue:
        locked = await queue.lock_many(2, timeout=0)
        assert "Search those" not in (await browser.get("/m/main/messages", queue="orders")).text
        page = await browser.get("/m/main/messages", queue="orders", correlation_id="c & d", selector="n = 1")
        assert ids(page) == []
        found = {
            path: await browser.get(address)
            for path in ("scheduled", "in-flight")
            for address in page.addresses
            if f"/{path}?queue=orders&selector=" in address
        }
        assert ids(found["scheduled"]) == [hex_id(numbers[2])]
        assert ids(found["in-flight"]) == [hex_id(numbers[0])]
        for page in found.values():
            assert "Messages of orders with the correlation id c & d" in page.text
        empty = await browser.get("/m/main/in-flight", queue="orders", message_id="absent")
        assert "No locked message matches." in empty.text
        for lock in locked:
            await lock.commit()


async def test_dead_letter_is_found_by_the_id_that_the_broker_made(
    browser: Browser, manager: QueueManager
) -> None:
    (number,) = await fill(manager, [Outgoing("x", journal=Journal.DEAD_LETTER)])
    async with await manager.open("orders") as queue:
        await (await queue.lock(timeout=0)).reject()
    page = await browser.get(PAGE, id=f"mq-{number:016x}")
    assert "system$;deadletter" in page.text
    assert ids(page) != [hex_id(number)]
    assert "1 message found." in page.text


async def test_search_in_many_queues_continues_where_it_stopped(
    browser: Browser, manager: QueueManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(find, "CALLS", 3)
    for number in range(4):
        await manager.create_queue(f"queue-{number}")
        await fill(manager, [Outgoing("x", message_id="same")], f"queue-{number}")
    page = await browser.get(PAGE, id="same")
    seen, pages = ids(page), 1
    assert "The search stopped after many messages with other ids." in page.text
    while rest := [each for each in page.addresses if "part=" in each]:
        await manager.create_queue(f"a-{pages}")  # before the place where the search goes on
        page = await browser.get(rest[0])
        seen += ids(page)
        pages += 1
    assert len(seen) == len(set(seen)) == 4
    assert "4 messages found." in page.text


async def test_message_that_left_leads_to_its_trail(browser: Browser, manager: QueueManager) -> None:
    await manager.update_queue("orders", trail=True)
    (number,) = await fill(manager, ["x"])
    async with await manager.open("orders") as queue:
        await queue.receive(timeout=0)
    assert "It is not in orders" in (await browser.get(PAGE, id=hex_id(number))).text


async def test_rest_of_a_search_leads_to_the_message(browser: Browser, manager: QueueManager) -> None:
    (number,) = await fill(manager, ["x"])
    answer = await browser.client.get(PAGE, params={"id": hex_id(number)}, headers={"hx-request": "true"})
    assert answer.headers["hx-redirect"].endswith(f"/m/main/message?queue=orders&id={hex_id(number)}")


async def test_reader_without_rights_can_find(url: str, manager: QueueManager) -> None:
    (number,) = await fill(manager, [Outgoing("x", message_id="order 1")])
    async with connect(url, settings=Settings(read_only=True)) as reader:
        browser = Browser(app({"main": reader}, access=everyone, read_only=True))
        assert ids(await browser.get(PAGE, id="order 1")) == [hex_id(number)]
        assert hex_id(number) in (await browser.get(PAGE, id=hex_id(number))).text
        await browser.close()


async def test_id_is_needed(browser: Browser) -> None:
    assert "id is missing" in (await browser.get(PAGE, 400)).text
