"""A lock handed to a reader that waits: what a client notices, or does not."""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest

import mqredis
import mqredis.asyncio
from mqredis.drivers.waiting import handoff, table
from mqredis.keys import QUEUE_PARTS, ManagerKeys
from tests.drivers.kit import aio_until, until
from tests.support.backend import Backend
from tests.support.faults import DropPush
from tests.support.proxy import Proxy
from tests.support.server import RedisServer

SETTINGS = mqredis.Settings(allow_volatile=True)
# Where readers that wait are registered.
WAITERS = ManagerKeys("default").queue("q")[QUEUE_PARTS.index("w")]


class Desk:
    """A client that reads, another one that sends, and access to the registered waiters."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self.raw: Any = backend.client()
        self.sender = mqredis.connect(backend.client(), settings=SETTINGS)
        self.sender.create_queue("q")
        self.pool = ThreadPoolExecutor(4)

    def close(self) -> None:
        self.sender.close()
        self.pool.shutdown()
        self.raw.close()

    def members(self) -> list[str]:
        return [member.decode().partition(" ")[2] for member in self.raw.zrange(WAITERS, 0, -1)]

    def start(self, work: Callable[[], Any], waiters: int = 1) -> Future[Any]:
        """Begin to wait in a thread."""
        future = self.pool.submit(work)
        while len(self.members()) < waiters:
            assert not future.done(), future.result()
        return future

    def handed(self) -> int:
        """Messages that are locked although no reader has made a call."""
        return self.sender.queue_info("q").locked


@pytest.fixture
def desk(backend: Backend) -> Iterator[Desk]:
    made = Desk(backend)
    yield made
    made.close()


@pytest.fixture
def deaf(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """What is handed over is not heard; set when that has happened."""
    plain, missed = table.WaiterTable.received, threading.Event()

    def heard(self: table.WaiterTable[Any], message: Any) -> None:
        if (
            isinstance(message, list)
            and len(message) == 3
            and str(message[2])[2:].startswith(handoff.LOCK.decode())
        ):
            missed.set()
        else:
            plain(self, message)

    monkeypatch.setattr(table.WaiterTable, "received", heard)
    return missed


def test_a_lock_is_a_lock(desk: Desk) -> None:
    with mqredis.connect(desk.backend.client(), settings=SETTINGS) as qm, qm.open("q") as queue:
        waiting = desk.start(lambda: queue.lock(30))
        assert desk.members()[0].endswith(",30000")
        desk.sender.open("q").send(b"x", correlation_id="c", properties={"a": 1})
        with waiting.result() as locked:
            assert (locked.body, locked.message.correlation_id, locked.message.properties["a"]) == (
                b"x",
                "c",
                1,
            )
            assert locked.message.delivery_count == 1
            assert desk.handed() == 1
        assert qm.queue_info("q").messages == 0


def test_each_of_several_has_its_own(desk: Desk) -> None:
    with mqredis.connect(desk.backend.client(), settings=SETTINGS) as qm, qm.open("q") as queue:
        waiting = [desk.start(lambda: queue.lock(30), n + 1) for n in range(3)]
        for body in (b"a", b"b", b"c"):
            desk.sender.open("q").send(body)
        found = [each.result() for each in waiting]
        assert sorted(lock.body for lock in found) == [b"a", b"b", b"c"]
        for lock in found:
            lock.abort()
        assert qm.queue_info("q").ready == 3


def test_what_is_read_next_is_settled_on_the_way(desk: Desk) -> None:
    with mqredis.connect(desk.backend.client(), settings=SETTINGS) as qm, qm.open("q") as queue:
        held: list[mqredis.LockedMessage] = []
        for n in range(20):
            waiting = desk.start(partial(queue.lock_many, 5, 30, settle=held))
            desk.sender.open("q").send(b"%d" % n)
            held = waiting.result()
            assert [lock.body for lock in held] == [b"%d" % n]
        held[0].commit()
        assert qm.queue_info("q").messages == 0


def test_one_that_is_not_heard_is_found_by_the_glance(desk: Desk, deaf: threading.Event) -> None:
    often = SETTINGS.model_copy(update={"recheck_seconds": 0.1})
    with mqredis.connect(desk.backend.client(), settings=often) as qm, qm.open("q") as queue:
        waiting = desk.start(lambda: queue.lock(30))
        desk.sender.open("q").send(b"x")
        with waiting.result(20) as locked:
            assert deaf.is_set()
            assert locked.message.delivery_count == 1


def test_what_is_heard_late_is_looked_for(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that slept while it waited does not know how much of the lease is left; the broker does."""
    answers: list[object] = []
    plain = handoff.take_reply

    def late(core: Any, run: Any, look: Any, alive: float) -> Any:
        answers.append(plain(core, run, look, alive - 15.1))
        return answers[-1]

    monkeypatch.setattr(handoff, "take_reply", late)
    with mqredis.connect(desk.backend.client(), settings=SETTINGS) as qm, qm.open("q") as queue:
        waiting = desk.start(lambda: queue.lock(30))
        desk.sender.open("q").send(b"x")
        with waiting.result(20) as locked:
            assert locked.message.delivery_count == 1
            assert answers == [None]


def test_one_that_is_not_heard_is_found_when_the_time_is_over(desk: Desk, deaf: threading.Event) -> None:
    with mqredis.connect(desk.backend.client(), settings=SETTINGS) as qm, qm.open("q") as queue:
        waiting = desk.start(lambda: queue.lock(2))
        desk.sender.open("q").send(b"x")
        assert waiting.result(20).message.delivery_count == 1


def test_a_reader_that_is_closed_gives_it_back(desk: Desk, deaf: threading.Event) -> None:
    with mqredis.connect(desk.backend.client(), settings=SETTINGS) as qm:
        queue = qm.open("q")
        waiting = desk.start(lambda: queue.lock(30))
        desk.sender.open("q").send(b"x")
        assert deaf.wait(20)
        queue.close()
        assert isinstance(waiting.exception(20), mqredis.OperationCancelled)
    assert desk.sender.queue_info("q").ready == 1
    assert desk.sender.open("q").lock(0).message.delivery_count == 1


@pytest.mark.parametrize(
    "read",
    [
        lambda queue: queue.receive(30),
        lambda queue: queue.lock(30, match=mqredis.Match(correlation_id="c")),
        lambda queue: queue.peek(30),
    ],
    ids=["receive", "match", "peek"],
)
def test_only_who_locks_whatever_comes_is_handed_anything(desk: Desk, read: Callable[[Any], Any]) -> None:
    with mqredis.connect(desk.backend.client(), settings=SETTINGS) as qm, qm.open("q") as queue:
        waiting = desk.start(lambda: read(queue))
        assert "," not in desk.members()[0]
        desk.sender.open("q").send(b"x", correlation_id="c")
        assert waiting.result(20).body == b"x"


async def async_lock(queue: mqredis.asyncio.Queue) -> mqredis.asyncio.LockedMessage:
    return await queue.lock(30)


async def test_async_a_lock_is_a_lock(desk: Desk) -> None:
    async with await mqredis.asyncio.connect(desk.backend.async_client(), settings=SETTINGS) as qm:
        queue = await qm.open("q")
        tasks = [asyncio.create_task(async_lock(queue)) for _ in range(5)]
        await aio_until(lambda: len(desk.members()) == 5)
        for n in range(5):
            await asyncio.to_thread(desk.sender.open("q").send, b"%d" % n)
        found = await asyncio.gather(*tasks)
        assert sorted(lock.body for lock in found) == [b"0", b"1", b"2", b"3", b"4"]
        assert {lock.message.delivery_count for lock in found} == {1}
        for lock in found:
            await lock.commit()
        assert (await qm.queue_info("q")).messages == 0


async def test_async_one_that_is_not_heard_is_found_by_the_glance(desk: Desk, deaf: threading.Event) -> None:
    often = SETTINGS.model_copy(update={"recheck_seconds": 0.1})
    async with await mqredis.asyncio.connect(desk.backend.async_client(), settings=often) as qm:
        queue = await qm.open("q")
        task = asyncio.create_task(async_lock(queue))
        await aio_until(lambda: len(desk.members()) == 1)
        await asyncio.to_thread(desk.sender.open("q").send, b"x")
        locked = await asyncio.wait_for(task, 20)
        assert deaf.is_set()
        await locked.commit()


async def test_async_a_task_that_is_cancelled_gives_it_back(desk: Desk, deaf: threading.Event) -> None:
    async with await mqredis.asyncio.connect(desk.backend.async_client(), settings=SETTINGS) as qm:
        queue = await qm.open("q")
        task = asyncio.create_task(async_lock(queue))
        await aio_until(lambda: len(desk.members()) == 1)
        await asyncio.to_thread(desk.sender.open("q").send, b"x")
        await aio_until(deaf.is_set)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await qm.queue_info("q")).ready == 1
        assert (await queue.lock(0)).message.delivery_count == 1


# The clients of the server while one of these tests runs.
USER: dict[str, Any] = {"username": "limited", "password": "any"}


@contextmanager
def limited(server: RedisServer, rights: str) -> Iterator[tuple[Any, str]]:
    """A user with these rights: a client of another one, and a manager of one's own."""
    with server.client() as client:
        client.execute_command(
            "ACL", "SETUSER", USER["username"], "reset", "on", "nopass", "~*", "&*", *rights.split()
        )
        try:
            yield client, f"limited-{uuid.uuid4().hex[:12]}"
        finally:
            client.acl_deluser(USER["username"])


def test_where_the_sender_may_publish_no_more_the_bell_rings(redis_server: RedisServer) -> None:
    with limited(redis_server, "+@all") as (client, manager), ThreadPoolExecutor(1) as pool:
        waiters = ManagerKeys(manager).queue("q")[QUEUE_PARTS.index("w")]
        mute = mqredis.connect(redis_server.client(**USER), manager=manager)
        with mute, mqredis.connect(redis_server.client(), manager=manager) as qm:
            qm.create_queue("q")
            queue = qm.open("q")
            waiting = pool.submit(queue.lock, 30)
            until(lambda: client.zcard(waiters) == 1)
            client.execute_command("ACL", "SETUSER", USER["username"], "-publish")
            mute.open("q").send(b"x")
            with waiting.result(20) as locked:
                assert locked.message.delivery_count == 1
            client.execute_command("ACL", "SETUSER", USER["username"], "+publish")


async def test_asyncio_a_lock_whose_word_was_lost_is_no_rollback(redis_server: RedisServer) -> None:
    name = uuid.uuid4().hex
    with (
        Proxy(redis_server.socket_path) as proxy,
        mqredis.connect(redis_server.url, manager=name, settings=SETTINGS) as sender,
    ):
        rule = proxy.add(DropPush(), where=lambda pushed: pushed.args[-1].startswith(b"lock "), times=None)
        sender.create_queue("q")
        sender.create_queue("other")
        async with mqredis.asyncio.connect(proxy.url(), manager=name, settings=SETTINGS) as reader:
            queue, other = await reader.open("q"), await reader.open("other")
            task = asyncio.ensure_future(queue.lock(1.5))
            while not sender.statistics("q").waiters:
                await other.send(b"x")
            sender.open("q").send(b"y")
            assert await asyncio.to_thread(rule.wait, 30)
            for _ in range(
                3
            ):  # others of this process know a later history than the reply that is kept for the reader
                await other.send(b"x")
            assert (await task).body == b"y"


def test_a_lock_whose_word_was_lost_is_no_rollback(redis_server: RedisServer) -> None:
    name = uuid.uuid4().hex
    with (
        Proxy(redis_server.socket_path) as proxy,
        mqredis.connect(redis_server.url, manager=name, settings=SETTINGS) as sender,
        mqredis.connect(proxy.url(), manager=name, settings=SETTINGS) as reader,
        ThreadPoolExecutor(1) as pool,
    ):
        rule = proxy.add(DropPush(), where=lambda pushed: pushed.args[-1].startswith(b"lock "), times=None)
        sender.create_queue("q")
        sender.create_queue("other")
        queue, other = reader.open("q"), reader.open("other")
        future = pool.submit(queue.lock, 1.5)
        while not sender.statistics("q").waiters:
            other.send(b"x")
        sender.open("q").send(b"y")
        assert rule.wait(30)
        for _ in range(
            3
        ):  # others of this process know a later history than the reply that is kept for the reader
            other.send(b"x")
        assert future.result(30).body == b"y"
