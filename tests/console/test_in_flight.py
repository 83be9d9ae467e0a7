"""The pages In flight and Clients: locks, transactions, claims and publications of pipelines, waiting readers."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable

import pytest

import mqredis.asyncio
from mqredis import Outgoing
from mqredis.asyncio import QueueManager
from mqredis.codec.encode import encode
from mqredis.commands import stages as commands
from mqredis.commands.address import Address
from mqredis.commands.claims import Order
from mqredis.commands.stages import Stage
from mqredis.console import app, everyone
from mqredis.console.pages import holders
from mqredis.models.lookup_ids import hex_id
from mqredis.operations import pipelines, publications
from mqredis.steps import perform
from mqredis.worker import Worker
from tests.console.browser import Browser
from tests.console.test_pages import fill
from tests.console.test_workers import listed, running, until, worker  # noqa: F401 - a fixture
from tests.support.server import RedisServer

PAGE = "/m/main/in-flight"


async def test_lock_holders_transactions_and_clients_are_shown(
    browser: Browser, manager: QueueManager
) -> None:
    assert "No message is locked. Open transactions" in (await browser.get("/m/main/in-flight")).text
    await manager.create_queue("ledger", transactional=True)
    await fill(manager, [Outgoing("a", label="first")])
    async with (
        await manager.open("orders") as queue,
        await manager.open("ledger") as ledger,
        await manager.transaction() as unit,
    ):
        await ledger.send("b", transaction=unit)
        locked = await queue.lock(timeout=0)
        for page in (
            await browser.get("/m/main/in-flight"),
            await browser.get("/m/main/in-flight", queue="orders"),
        ):
            assert hex_id(locked.lookup_id) in page.text
            assert "first" in page.text
            assert re.search(r"sent \S+ ledger", page.text)
        assert "orders 0 0 1" in (await browser.get("/m/main/")).text
        assert "Time to live" in (await browser.get("/m/main/clients")).text
        await locked.commit()
    assert "absent" in (await browser.get("/m/main/in-flight", 404, queue="absent")).text


async def test_page_of_a_locked_message_tells_who_holds_it(
    browser: Browser, manager: QueueManager, url: str
) -> None:
    numbers = await fill(manager, ["a"] * 300)
    settings = mqredis.Settings(client_name="shop")
    async with (
        mqredis.asyncio.connect(url, settings=settings) as shop,
        await shop.open("orders") as queue,
        await manager.open("orders") as other,
    ):
        locked = [
            *await other.lock_many(256, timeout=0, lease=60.0),
            await queue.lock(timeout=0, lease=600.0),
        ]
        held = (await browser.get("/m/main/message", queue="orders", id=hex_id(numbers[256]))).text
        assert re.search(r"Who holds it Client shop \S+ Since .* Lease ends in (9 min 5\d s|10 min) ", held)
        assert (
            "Who holds it"
            not in (await browser.get("/m/main/message", queue="orders", id=hex_id(numbers[257]))).text
        )
        for lock in locked:
            await lock.abort()


async def test_transaction_that_holds_a_message_is_told_on_its_page(
    browser: Browser, manager: QueueManager
) -> None:
    await manager.create_queue("ledger", transactional=True)
    async with await manager.open("ledger") as ledger, await manager.transaction() as unit:
        sent = await ledger.send("b", transaction=unit)
        page = await browser.get("/m/main/message", queue="ledger", id=hex_id(sent.lookup_id))
        assert f"Transaction sent in {unit.id} Lease ends" in page.text
        await unit.abort()


async def test_clients_are_shown_with_their_addresses(start_server: Callable[..., RedisServer]) -> None:
    server = start_server(tcp=True)
    async with mqredis.asyncio.connect(server.tcp_url) as far, mqredis.asyncio.connect(server.url) as near:
        await far.info()
        await near.info()
        browser = Browser(app({"main": near}, access=everyone))
        page = (await browser.get("/m/main/clients")).text
        assert re.search(rf":{os.getpid()} 127\.0\.0\.1 {re.escape(mqredis.__version__)} ", page)
        assert re.search(rf":{os.getpid()} \u2013 {re.escape(mqredis.__version__)} ", page)
        await browser.close()


async def test_holder_is_named_with_its_worker_and_consumer(
    browser: Browser,
    manager: QueueManager,
    worker: Worker,  # noqa: F811
) -> None:
    await listed(manager)
    (number,) = await fill(manager, ["long"])
    await until(lambda: running(manager))
    page = await browser.get(PAGE)
    assert re.search(
        rf"{hex_id(number)} orders \S+ \S+ consumer book of shop lock \S+ m?s ago in \d+", page.text
    )
    assert worker.name == "shop"


async def test_locks_of_one_queue_are_shown_page_by_page(
    browser: Browser, manager: QueueManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(holders, "ROWS", 4)
    ids = await fill(manager, ["x"] * 6)
    async with await manager.open("orders") as queue:
        locks = [await queue.lock(timeout=0, lease=30.0 + n) for n in range(6)]
        page = await browser.get(PAGE)
        assert "6 messages that readers and transactions hold" in page.text
        assert "The first locks of each queue are shown." in page.text
        shown = []
        page = await browser.get(PAGE, queue="orders")
        shown += re.findall("0x[0-9a-f]{16}", page.text)
        page = await browser.get(next(each for each in page.addresses if "after=" in each))
        shown += re.findall("0x[0-9a-f]{16}", page.text)
        assert shown == [hex_id(each) for each in ids]
        assert 'rel="next"' not in page.html
        for lock in locks:
            await lock.commit()


async def test_claims_of_pipelines_are_shown(browser: Browser, manager: QueueManager) -> None:
    assert "Claims" not in (await browser.get(PAGE)).text
    await fill(manager, ["x"] * 30)
    generation = (await manager.run(pipelines.look(manager.context, "orders"))).generation
    address = Address(manager.context.keys, "orders", generation)
    await manager.run(pipelines.claim(address, "<b>lake</b>", "first", 7, Order(20), True))
    for page in (await browser.get(PAGE), await browser.get(PAGE, queue="orders")):
        assert re.search(
            r"Since <b>lake</b>(?: not connected)? orders 7 20 \S+ k?B complete \S+ m?s ago", page.text
        )
        assert "<b>lake" not in page.html
    assert "0 messages that readers and transactions hold" in (await browser.get(PAGE)).text
    await manager.create_queue("other")
    assert "Claims" not in (await browser.get(PAGE, queue="other")).text


async def test_open_publications_are_shown(browser: Browser, manager: QueueManager) -> None:
    line, _ = encode(Outgoing("a"))
    stage = Stage("0-a", "orders", 2, 2 * len(line) + 24)
    what = (manager.context.keys, "app-<load>", 0)
    call = commands.stage(*what, stage, 60_000, 2, stage.bytes, False, [line[1:], line[1:]])
    await manager.run(perform(call))
    assert "Open publications" not in (await browser.get("/m/main/in-flight")).text
    await manager.run(perform(commands.publish(*what, "-", 1, True, [stage])))
    page = await browser.get("/m/main/in-flight")
    assert re.search(r"Expires app-<load> orders 2 1 .* Waiting readers", page.text)
    await manager.run(publications.finish(manager.context, "app-<load>"))
    assert "Open publications" not in (await browser.get("/m/main/in-flight")).text


async def test_waiting_readers_are_shown(browser: Browser, manager: QueueManager) -> None:
    assert "No reader waits" in (await browser.get("/m/main/in-flight")).text
    async with await manager.open("orders") as queue:
        reader = asyncio.create_task(queue.receive(timeout=30))
        while not (await manager.queue_info("orders")).waiters:
            assert not (await asyncio.wait([reader], timeout=0.01))[0]
        assert re.search(
            r"Client Queue Readers \S+ \S+ orders 1$", (await browser.get("/m/main/in-flight")).text
        )
        assert "Readers" in (await browser.get("/m/main/in-flight", queue="orders")).text
        assert re.search(r"1 h orders$", (await browser.get("/m/main/clients")).text)
        await queue.send("x")
        await reader
    assert "No reader waits" in (await browser.get("/m/main/in-flight")).text
