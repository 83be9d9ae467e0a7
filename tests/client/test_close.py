"""``close`` releases all locks and aborts all transactions of a client, also those that were garbage collected."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Literal

import pytest

import mqredis
import mqredis.asyncio
from mqredis.drivers.waiting.registry import WaiterRegistry
from mqredis.drivers.waiting.registry_aio import AsyncWaiterRegistry
from tests.support.facade import PATIENCE, Broker, make_broker
from tests.support.server import RedisServer

# No lease ends within a test.
LEASE: dict[str, Any] = {"lease_seconds": 1000.0}


@pytest.fixture(params=["real-sync", "real-async", "fake-sync", "fake-async"])
def broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    made = make_broker(request.param, request)
    made.qm.create_queue("q")
    made.qm.create_queue("t", transactional=True)
    for n in range(3):
        made.qm.open("q").send(f"{n}")
        with made.qm.transaction() as unit:
            made.qm.open("t").send(f"{n}", transaction=unit)
    yield made
    made.close()


def drop_a_lock(client: Any) -> None:
    with client.open("t") as other:  # a closed handle holds nothing
        other.lock(0).commit()
    assert client.open("q").lock(0).message.text == "0"


def drop_some_locks(client: Any) -> None:
    queue = client.open("q")
    queue.lock_many(2, 0)
    queue.lock_by_lookup_id(queue.peek(0).lookup_id)


def drop_the_lock_and_keep_its_queue(client: Any) -> None:
    client.queue = client.open("q")
    client.queue.lock(0)


def drop_a_transaction(client: Any) -> None:
    queue, unit = client.open("t"), client.transaction()
    queue.receive(0, transaction=unit)
    queue.send("never", transaction=unit)


def drop_a_prepared_transaction(client: Any) -> None:
    unit = client.transaction()
    client.open("t").receive(0, transaction=unit)
    unit.prepare()


def drop_several(client: Any) -> None:
    drop_a_transaction(client)
    drop_some_locks(client)


CASES = [
    drop_a_lock,
    drop_some_locks,
    drop_the_lock_and_keep_its_queue,
    drop_a_transaction,
    drop_a_prepared_transaction,
    drop_several,
]


@pytest.mark.parametrize("drop", CASES)
def test_close_releases_dropped_locks_and_transactions(broker: Broker, drop: Callable[[Any], None]) -> None:
    client = broker.client(**LEASE)
    drop(client)
    gc.collect()
    held = [broker.qm.queue_info(name) for name in ("q", "t")]
    assert sum(info.locked for info in held) > 0, "the case locks nothing"
    client.close()
    for name in ("q", "t"):
        info = broker.qm.queue_info(name)
        assert (info.locked, info.ready) == (0, info.messages)
    assert [message.text for message in broker.qm.open("q").browse()] == ["0", "1", "2"]
    assert broker.qm.doctor().healthy


def test_close_after_everything_was_aborted_changes_nothing(broker: Broker) -> None:
    client = broker.client(**LEASE)
    for _ in range(2):
        lock = client.open("q").lock(0)
        lock.abort()
        unit = client.transaction()
        client.open("t").receive(0, transaction=unit)
        unit.abort()
        client.transaction()
    del lock, unit
    gc.collect()
    client.close()
    assert broker.qm.queue_info("q").ready == 3


def test_queue_and_browser_can_be_closed_after_their_client(broker: Broker) -> None:
    client = broker.client()
    queue = client.open("q")
    browser = queue.browser()
    browser.first(timeout=0)
    several = client.open("q,t", mqredis.Access.SEND)
    client.close()
    browser.close()
    queue.close()
    several.close()
    with pytest.raises(mqredis.InvalidHandle, match="closed"):
        queue.peek(0)


def names(broker: Broker) -> list[str]:
    return [info.name for info in broker.qm.queues()]


@pytest.mark.parametrize("keeps", [True, False], ids=["handle kept", "handle dropped"])
def test_close_removes_the_empty_subqueues_that_the_client_had_open(broker: Broker, keeps: bool) -> None:
    client, shared = broker.client(), broker.handle("q;shared")
    handles = [client.open(f"q;{name}") for name in ("full", "empty", "shared", "again", "again")]
    source = client.open("q")
    source.move(source.peek(0).lookup_id, handles[0])
    client.open("q;closed").close()
    if not keeps:
        del handles
        gc.collect()
    client.close()
    assert names(broker) == ["q", "q;full", "q;shared", "t"]
    shared.close()
    assert names(broker) == ["q", "q;full", "t"]
    assert broker.qm.doctor().findings == ()


def test_close_ends_the_share_of_a_handle_that_was_dropped(broker: Broker) -> None:
    broker.qm.create_queue("shared")
    client = broker.client()
    client.open("shared", share=mqredis.Share.DENY_RECEIVE)
    gc.collect()
    with pytest.raises(mqredis.SharingViolation):
        broker.qm.open("shared")
    client.close()
    broker.qm.open("shared").send("0")
    assert "handle.left" not in [notice.code for notice in broker.qm.doctor().advice]


def test_close_ends_a_wait_on_a_subqueue_that_it_removes(broker: Broker) -> None:
    client = broker.client()
    waiting = broker.wait(partial(client.open("q;sub").receive, 30), "q;sub")
    client.close()
    assert isinstance(waiting.error(), mqredis.OperationCancelled)
    assert names(broker) == ["q", "t"]


def test_interrupted_close_ends_the_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    qm = mqredis.connect("memory://interrupted-close")
    qm.create_queue("q")
    qm.open("q").send("1")
    lock = qm.open("q").lock(0)

    def interrupt(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(qm.driver, "run", interrupt)
    with pytest.raises(KeyboardInterrupt):
        qm.close()
    assert lock.message.text == "1"
    assert qm.driver.core.closed


def test_cancelled_close_ends_the_tasks_and_connections(
    redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        qm = await mqredis.asyncio.connect(redis_server.url, manager="cancelled-close")
        await qm.create_queue("q")
        queue = await qm.open("q")
        with pytest.raises(mqredis.IoTimeout):
            await queue.receive(0.01)  # begins the tasks
        await queue.send("1")
        lock = await queue.lock(0)

        async def hang(_: object) -> None:
            closing.cancel()
            await asyncio.Event().wait()

        monkeypatch.setattr(qm.driver, "run", hang)
        closing = asyncio.create_task(qm.close())
        with pytest.raises(asyncio.CancelledError):
            await closing
        assert lock.message.text == "1"
        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert not qm.driver.backend._count

    asyncio.run(main())


# A read that waits for its subscription longer than this test may take.
UNCONFIRMED = mqredis.Settings(reply_timeout_seconds=100)
CLOSED = (mqredis.InvalidHandle, mqredis.OperationCancelled)


@pytest.mark.parametrize("wake", ["auto", "publish"])
def test_close_ends_a_read_whose_subscription_is_not_confirmed_yet(
    redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch, wake: Literal["auto", "publish"]
) -> None:
    subscribing = threading.Event()
    monkeypatch.setattr(WaiterRegistry, "_subscribe", lambda *_: subscribing.set())
    settings = UNCONFIRMED.model_copy(update={"wake": wake})
    with ThreadPoolExecutor(1) as pool:
        with mqredis.connect(redis_server.url, manager=f"early-{wake}", settings=settings) as qm:
            qm.create_queue("q")
            read = pool.submit(qm.open("q").receive, 100)
            assert subscribing.wait(PATIENCE)
        assert isinstance(read.exception(PATIENCE), CLOSED)


@pytest.mark.parametrize("wake", ["auto", "publish"])
def test_close_in_asyncio_ends_a_read_whose_subscription_is_not_confirmed_yet(
    redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch, wake: Literal["auto", "publish"]
) -> None:
    async def main() -> None:
        subscribing = asyncio.Event()

        async def subscribe(*_: object) -> None:
            subscribing.set()

        monkeypatch.setattr(AsyncWaiterRegistry, "_subscribe", subscribe)
        settings = UNCONFIRMED.model_copy(update={"wake": wake})
        async with asyncio.timeout(PATIENCE):
            async with mqredis.asyncio.connect(
                redis_server.url, manager=f"early-asyncio-{wake}", settings=settings
            ) as qm:
                await qm.create_queue("q")
                read = asyncio.ensure_future((await qm.open("q")).receive(100))
                await subscribing.wait()
            with pytest.raises(CLOSED):
                await read

    asyncio.run(main())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_child_process_that_closes_its_copy_of_the_client_ends_nothing_of_its_parent(
    redis_server: RedisServer,
) -> None:
    with mqredis.connect(redis_server.url, settings=mqredis.Settings(**LEASE)) as qm:
        qm.create_queue("q")
        qm.create_queue("t", transactional=True)
        queue = qm.open("q")
        queue.send_many(["kept", "dropped", "child's"])
        lock, dropped, unit = queue.lock(0), [queue.lock(0)], qm.transaction()
        other = qm.open("q;other")
        qm.open("t").send("x", transaction=unit)
        dropped.clear()
        gc.collect()

        def child() -> None:
            nonlocal unit
            del unit
            assert queue.lock(0).message.text == "child's"
            qm.close()

        assert in_child(child) == 0
        assert queue.lock(0).message.text == "child's", "the child has given back what it had locked"
        with pytest.raises(mqredis.IoTimeout):
            queue.lock(0)
        lock.commit()
        unit.commit()
        assert qm.open("t").receive(0).text == "x"
        other.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_child_process_leaves_the_reply_queues_of_its_parent_alone(redis_server: RedisServer) -> None:
    with mqredis.connect(redis_server.url) as qm, mqredis.connect(redis_server.url) as server:
        qm.create_queue("rpc")
        target, requests = qm.open("rpc"), server.open("rpc")

        def ask() -> None:
            assert qm.request(target, "ping", timeout=30).text == "pong"

        def serve() -> None:
            for _ in range(3):
                server.reply(requests.receive(30), "pong")

        with ThreadPoolExecutor(1) as pool:
            served = pool.submit(serve)
            ask()
            assert in_child(ask) == 0
            ask()
            served.result(30)


def in_child(work: Callable[[], object]) -> int:
    """Run a function in a child process. Returns its exit code, which is 0 if the function raised nothing."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        except BaseException:  # noqa: BLE001 - the child must not run the tests behind this one
            traceback.print_exc()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
