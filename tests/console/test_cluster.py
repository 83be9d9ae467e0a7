"""Every page, a search and actions on many messages, of queue managers on two nodes of a Redis Cluster."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

import mqredis.asyncio
from mqredis import Outgoing, RetryPolicy
from mqredis.asyncio import QueueManager
from mqredis.console import app, everyone
from mqredis.console.pages import PAGES
from tests.console.browser import Browser
from tests.console.test_pages import fail, fill
from tests.support.cluster import Cluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    running = Cluster()
    yield running
    running.close()


@pytest.fixture
def names(cluster: Cluster) -> list[str]:
    """Names of queue managers: one on each node."""
    found = {cluster.owner(f"shop-{n}"): f"shop-{n}" for n in range(100)}
    return [found[0], found[1]]


@pytest.fixture
async def managers(cluster: Cluster, names: list[str]) -> AsyncIterator[dict[str, QueueManager]]:
    opened = {}
    for node, name in enumerate(names):
        opened[str(node)] = await mqredis.asyncio.connect(cluster.url, manager=name)
    yield opened
    for manager in opened.values():
        findings = (await manager.doctor()).findings
        assert not [finding for finding in findings if finding.severity == "error"]
        await manager.close()


async def test_pages_search_and_actions_on_a_cluster(managers: dict[str, QueueManager]) -> None:
    browser = Browser(app({**managers, "main": managers["1"]}, access=everyone))
    for node, manager in managers.items():
        await manager.create_queue("orders", trail=1.0, retry=RetryPolicy(immediate=0))
        sent = await fill(manager, [Outgoing("x", properties={"n": n}) for n in range(700)])
        await fail(manager, "orders")
        await manager.operator("ann").create_schedule("nightly", 60, "orders", "go")
        lookup_id = f"{sent[5]:#018x}"
        for path in PAGES:
            if path != "/events":
                page = await browser.get(f"/m/{node}{path}", name="orders", queue="orders", id=lookup_id)
                assert "cannot be reached" not in page.text.partition("mqredis 0")[0]
        page = await browser.post(f"/m/{node}/doctor", page.fields)
        assert "Examined:" in page.text
        page = await browser.get(f"/m/{node}/messages", queue="orders", selector="n = 699")
        assert "1 message on this page" in page.text
    page = await browser.act("purge", queue="orders", selector="n < 600", trash="on", confirm="orders")
    assert "599 messages of orders moved to the trash." in page.text
    page = await browser.act("restore", queue="orders;trash")
    assert "599 messages of orders restored." in page.text
    page = await browser.act("move", queue="orders", target="orders;later", selector="n >= 600")
    assert "100 messages of orders moved to orders;later." in page.text
    page = await browser.act("redrive", queue="orders;poison")
    assert "1 message of orders;poison put back." in page.text
    page = await browser.get("/m/main/actions")
    assert page.text.count("moved 599 available messages of orders to the trash") == 1
    assert page.text.count("restored 599 messages") == 1
    assert (await managers["0"].queue_info("orders")).ready == 699
    assert (await managers["1"].queue_info("orders")).ready == 600
    await browser.close()
