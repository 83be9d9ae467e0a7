"""The workers page and its actions."""

from __future__ import annotations

import re
import threading
from collections.abc import Awaitable, Callable, Iterator
from time import monotonic

import pytest

import mqredis
from mqredis import Message
from mqredis.asyncio import QueueManager
from mqredis.console import Visitor, app
from mqredis.worker import Retry, Worker
from tests.console.browser import Browser, Page
from tests.console.test_pages import fill


async def until(condition: Callable[[], Awaitable[object]]) -> None:
    """Poll the broker until the condition holds."""
    deadline = monotonic() + 30
    while not await condition():
        assert monotonic() < deadline, "the condition did not become true"


@pytest.fixture
def worker(manager: QueueManager, url: str) -> Iterator[Worker]:
    """A worker that runs. Its handler fails for the body "bad", and runs until it is cancelled for "long"."""
    worker = Worker(heartbeat_seconds=0.25, name="shop", shutdown_seconds=5)
    ended = threading.Event()

    @worker.consumer("orders", name="book", retry=Retry(attempts=1))
    def book(message: Message) -> None:
        if message.body == b"bad":
            raise ValueError("<b>it is bad</b>")
        while message.body == b"long" and not ended.wait(0.01):
            pass

    with mqredis.connect(url) as qm, worker.background(qm):
        yield worker
        ended.set()


async def listed(manager: QueueManager) -> str:
    """The id of the only worker, once it has sent a heartbeat."""
    await until(manager.workers)
    (found,) = await manager.workers()
    return found.id


async def handled(manager: QueueManager) -> int:
    return sum(consumer.handled for each in await manager.workers() for consumer in each.consumers)


async def failed(manager: QueueManager) -> int:
    return sum(consumer.failed for each in await manager.workers() for consumer in each.consumers)


async def running(manager: QueueManager) -> int:
    return sum(len(each.running) for each in await manager.workers())


def actions_of(page: Page, name: str) -> list[str]:
    return [address for address in page.addresses if f"/act/{name}?" in address]


async def test_page_without_workers_says_so(browser: Browser) -> None:
    page = await browser.get("/m/main/workers")
    for text in (
        "No worker has sent a heartbeat",
        "No consumer runs",
        "No handler runs",
        "Nothing is paused",
    ):
        assert text in page.text


async def test_workers_page_shows_their_activity(
    browser: Browser, manager: QueueManager, worker: Worker
) -> None:
    await listed(manager)
    await fill(manager, ["good", "bad"])
    await until(lambda: failed(manager))
    await until(lambda: handled(manager))
    page = await browser.get("/m/main/workers")
    assert re.search(
        rf"shop \S+:\d+ {mqredis.__version__} \S+ \S+ ago \S+ \S+ ago 1 0 of 1 busy 1 1 Stop", page.text
    )
    assert "orders 0 of 1 busy 1 1 0 ValueError: <b>it is bad</b> Pause" in page.text
    assert "<b>it is bad" not in page.html


async def test_queue_is_paused_and_resumed_once(
    browser: Browser, manager: QueueManager, worker: Worker
) -> None:
    await listed(manager)
    form = await browser.get("/m/main/act/pause", queue="orders")
    assert (
        "No worker reads the queue orders until somebody resumes it. This concerns 1 worker now" in form.text
    )
    for _ in range(2):
        page = await browser.post("/m/main/act/pause", {**form.fields, "reason": "<i>closed</i>"})
        assert "Workers pause the queue orders" in page.text
    assert "orders queue 0 s ago 127.0.0.1 <i>closed</i> Resume" in re.sub(
        r"\d+ m?s ago", "0 s ago", page.text
    )
    assert [pause.reason for pause in await manager.pauses()] == ["<i>closed</i>"]
    assert "has paused this queue" in (await browser.get("/m/main/queue", name="orders")).text
    form = await browser.get("/m/main/act/resume", queue="orders")
    assert "127.0.0.1 has paused the queue orders: <i>closed</i>" in form.text
    for _ in range(2):
        page = await browser.post("/m/main/act/resume", form.fields)
        assert "Workers resume the queue orders" in page.text
    assert await manager.pauses() == []
    assert "is not paused" in (await browser.get("/m/main/act/resume", 400, queue="orders")).text


async def test_consumer_is_paused_and_resumed(
    browser: Browser, manager: QueueManager, worker: Worker
) -> None:
    await listed(manager)
    (address,) = actions_of(await browser.get("/m/main/workers"), "pause")
    form = await browser.get(address)
    assert "The consumer book reads nothing until" in form.text
    page = await browser.post("/m/main/act/pause", form.fields)
    assert [(pause.kind, pause.name) for pause in await manager.pauses()] == [("consumer", "book")]
    form = await browser.get(actions_of(page, "resume")[0])
    await browser.post("/m/main/act/resume", form.fields)
    assert await manager.pauses() == []
    for wrong in ({}, {"queue": "orders", "consumer": "book"}):
        assert "either a queue or a consumer" in (await browser.get("/m/main/act/pause", 400, **wrong)).text


async def test_running_handler_is_cancelled(browser: Browser, manager: QueueManager, worker: Worker) -> None:
    await listed(manager)
    (number,) = await fill(manager, ["long"])
    await until(lambda: running(manager))
    (address,) = actions_of(await browser.get("/m/main/workers"), "cancel-handler")
    form = await browser.get(address)
    assert "This cancels the handler of book in the worker shop" in form.text
    page = await browser.post("/m/main/act/cancel-handler", form.fields)
    assert f"cancel the handler of message {number:#018x}" in page.text
    await until(lambda: failed(manager))
    assert (await manager.queue_info("orders;poison")).messages == 1
    assert "any more" in (await browser.get(address, 400)).text


async def test_worker_is_stopped_once(browser: Browser, manager: QueueManager, worker: Worker) -> None:
    await listed(manager)
    (address,) = actions_of(await browser.get("/m/main/workers"), "stop-worker")
    form = await browser.get(address)
    assert "ends as after SIGTERM. It runs 0 handlers now" in form.text
    assert "is asked to stop" in (await browser.post("/m/main/act/stop-worker", form.fields)).text

    async def gone() -> bool:
        return await manager.workers() == []

    await until(gone)
    assert "is asked to stop" in (await browser.post("/m/main/act/stop-worker", form.fields)).text
    assert "has ended" in (await browser.get(address, 400)).text


async def test_read_only_visitor_sees_workers_without_buttons(manager: QueueManager, worker: Worker) -> None:
    await listed(manager)
    browser = Browser(app({"main": manager}, access=lambda _: Visitor("bob")))
    page = await browser.get("/m/main/workers")
    assert "shop" in page.text
    assert not [address for address in page.addresses if "/act/" in address]
    await browser.get("/m/main/act/pause", 403, queue="orders")
    await browser.close()


async def test_queue_page_names_its_consumers(
    browser: Browser, manager: QueueManager, worker: Worker
) -> None:
    await listed(manager)
    assert worker.name == "shop"
    page = await browser.get("/m/main/queue", name="orders", done="x")
    assert re.search(r"Consumers Consumer Worker Busy Handled Failed book shop \S+ 0 of 1 0 0", page.text)
    await manager.create_queue("idle")
    assert "No worker reads this queue." in (await browser.get("/m/main/queue", name="idle")).text
