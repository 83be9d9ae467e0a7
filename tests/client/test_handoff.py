"""Direct handoff: the broker locks a message for a waiting reader and publishes the lock to it."""

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
from mqredis.codec.states import LOCKED_ONCE
from mqredis.drivers.core import Core
from mqredis.drivers.waiting import handoff, table
from mqredis.keys import QUEUE_PARTS, ManagerKeys
from tests.support.backend import Backend
from tests.support.faults import DropPush
from tests.support.proxy import Proxy
from tests.support.server import RedisServer
from tests.support.until import aio_until, until

SETTINGS = mqredis.Settings(allow_volatile=True)
# The key in which waiting readers are registered.
WAITERS = ManagerKeys("default").queue("q")[QUEUE_PARTS.index("w")]
META = ManagerKeys("default").tag + "meta"


class Environment:
    """A sending client, threads for readers, and access to the registered waiters."""

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
        """Start a waiting call in a thread; return once it is registered."""
        future = self.pool.submit(work)
        while len(self.members()) < waiters:
            assert not future.done(), future.result()
        return future

    def locked_count(self) -> int:
        """Number of locked messages."""
        return self.sender.queue_info("q").locked


@pytest.fixture
def env(backend: Backend) -> Iterator[Environment]:
    made = Environment(backend)
    yield made
    made.close()


@pytest.fixture
def notifications_dropped(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Notifications of handed-off locks are dropped; set once one was."""
    plain, dropped = table.WaiterTable.received, threading.Event()

    def received(self: table.WaiterTable[Any], message: Any) -> None:
        if (
            isinstance(message, list)
            and len(message) == 3
            and str(message[2])[2:].startswith(handoff.LOCK.decode())
        ):
            dropped.set()
        else:
            plain(self, message)

    monkeypatch.setattr(table.WaiterTable, "received", received)
    return dropped


def test_handed_off_lock_has_the_message_and_can_be_committed(env: Environment) -> None:
    with mqredis.connect(env.backend.client(), settings=SETTINGS) as qm, qm.open("q") as queue:
        waiting = env.start(lambda: queue.lock(30))
        assert env.members()[0].endswith(",30000")
        env.sender.open("q").send(b"x", correlation_id="c", properties={"a": 1})
        with waiting.result() as locked:
            assert (locked.body, locked.message.correlation_id, locked.message.properties["a"]) == (
                b"x",
                "c",
                1,
            )
            assert locked.message.delivery_count == 1
            assert env.locked_count() == 1
        assert qm.queue_info("q").messages == 0


def test_each_waiting_reader_is_handed_its_own_message(env: Environment) -> None:
    with mqredis.connect(env.backend.client(), settings=SETTINGS) as qm, qm.open("q") as queue:
        waiting = [env.start(lambda: queue.lock(30), n + 1) for n in range(3)]
        for body in (b"a", b"b", b"c"):
            env.sender.open("q").send(body)
        found = [each.result() for each in waiting]
        assert sorted(lock.body for lock in found) == [b"a", b"b", b"c"]
        for lock in found:
            lock.abort()
        assert qm.queue_info("q").ready == 3


def test_waiting_lock_many_settles_the_previous_handoff(env: Environment) -> None:
    with mqredis.connect(env.backend.client(), settings=SETTINGS) as qm, qm.open("q") as queue:
        held: list[mqredis.LockedMessage] = []
        for n in range(20):
            waiting = env.start(partial(queue.lock_many, 5, 30, settle=held))
            env.sender.open("q").send(b"%d" % n)
            held = waiting.result()
            assert [lock.body for lock in held] == [b"%d" % n]
        held[0].commit()
        assert qm.queue_info("q").messages == 0


def test_lost_handoff_notification_is_found_by_the_recheck(
    env: Environment, notifications_dropped: threading.Event
) -> None:
    often = SETTINGS.model_copy(update={"recheck_seconds": 0.1})
    with mqredis.connect(env.backend.client(), settings=often) as qm, qm.open("q") as queue:
        waiting = env.start(lambda: queue.lock(30))
        env.sender.open("q").send(b"x")
        with waiting.result(20) as locked:
            assert notifications_dropped.is_set()
            assert locked.message.delivery_count == 1


@pytest.mark.parametrize("lead", [0, 60_000], ids=["", "clock set back"])
def test_reply_of_a_handoff_is_that_of_a_lock_that_was_asked_for(
    env: Environment, monkeypatch: pytest.MonkeyPatch, lead: int
) -> None:
    config = env.raw.hget(META, "config").rpartition(b" ")[0]
    env.raw.hset(META, mapping={"lead": lead, "config": config + b" %d" % lead})
    replies: list[list[Any]] = []
    accept, take = Core.accept, handoff.take_reply

    def accept_and_keep(self: Core, reply: list[Any], *more: Any, **options: Any) -> Any:
        if str(reply[-1]).endswith("\\x00body'"):
            replies.append(reply)
        return accept(self, reply, *more, **options)

    monkeypatch.setattr(Core, "accept", accept_and_keep)
    with mqredis.connect(env.backend.client(), settings=SETTINGS) as qm, qm.open("q") as queue:
        env.sender.open("q").send(b"body", correlation_id="c")
        queue.lock(0).commit()
        # By the notification, or by the call that the reader makes without it.
        for is_brought in (
            True,
            False,
        ):
            monkeypatch.setattr(handoff, "take_reply", take if is_brought else lambda *_: None)
            waiting = env.start(lambda: queue.lock(30))
            env.sender.open("q").send(b"body", correlation_id="c")
            waiting.result(20).commit()
    assert len(replies) == 3
    for status, incarnation, history, fence, deadline, now, lost, lookup_id, states, record in replies:
        assert (status, incarnation, int(lost), states) == (0, replies[0][1], 0, LOCKED_ONCE)
        assert int(fence) <= int(history)
        assert int(lookup_id, 16) >> 56 == 4
        assert (record[13:], len(record)) == (b"h\x03csc\0body", len(replies[0][-1]))
        assert int(record[:13]) + lead <= int(deadline) - 30_000 <= int(now) <= int(record[:13]) + lead + 5000


def test_handoff_received_after_its_lease_is_polled_instead(
    env: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that was suspended cannot know how much of the lease is left; the broker does."""
    answers: list[object] = []
    plain = handoff.take_reply

    def late(core: Any, run: Any, look: Any, alive: float) -> Any:
        answers.append(plain(core, run, look, alive - 15.1))
        return answers[-1]

    monkeypatch.setattr(handoff, "take_reply", late)
    with mqredis.connect(env.backend.client(), settings=SETTINGS) as qm, qm.open("q") as queue:
        waiting = env.start(lambda: queue.lock(30))
        env.sender.open("q").send(b"x")
        with waiting.result(20) as locked:
            assert locked.message.delivery_count == 1
            assert answers == [None]


def test_lost_handoff_notification_is_found_by_the_last_poll_at_the_timeout(
    env: Environment, notifications_dropped: threading.Event
) -> None:
    with mqredis.connect(env.backend.client(), settings=SETTINGS) as qm, qm.open("q") as queue:
        waiting = env.start(lambda: queue.lock(2))
        env.sender.open("q").send(b"x")
        assert waiting.result(20).message.delivery_count == 1


def test_close_releases_a_handoff_without_counting_a_delivery(
    env: Environment, notifications_dropped: threading.Event
) -> None:
    with mqredis.connect(env.backend.client(), settings=SETTINGS) as qm:
        queue = qm.open("q")
        waiting = env.start(lambda: queue.lock(30))
        env.sender.open("q").send(b"x")
        assert notifications_dropped.wait(20)
        queue.close()
        assert isinstance(waiting.exception(20), mqredis.OperationCancelled)
    assert env.sender.queue_info("q").ready == 1
    assert env.sender.open("q").lock(0).message.delivery_count == 1


@pytest.mark.parametrize(
    "read",
    [
        lambda queue: queue.receive(30),
        lambda queue: queue.lock(30, match=mqredis.Match(correlation_id="c")),
        lambda queue: queue.peek(30),
    ],
    ids=["receive", "match", "peek"],
)
def test_only_lock_without_match_registers_for_handoff(env: Environment, read: Callable[[Any], Any]) -> None:
    with mqredis.connect(env.backend.client(), settings=SETTINGS) as qm, qm.open("q") as queue:
        waiting = env.start(lambda: read(queue))
        assert "," not in env.members()[0]
        env.sender.open("q").send(b"x", correlation_id="c")
        assert waiting.result(20).body == b"x"


async def async_lock(queue: mqredis.asyncio.Queue) -> mqredis.asyncio.LockedMessage:
    return await queue.lock(30)


async def test_async_handed_off_locks_can_be_committed(env: Environment) -> None:
    async with await mqredis.asyncio.connect(env.backend.async_client(), settings=SETTINGS) as qm:
        queue = await qm.open("q")
        tasks = [asyncio.create_task(async_lock(queue)) for _ in range(5)]
        await aio_until(lambda: len(env.members()) == 5)
        for n in range(5):
            await asyncio.to_thread(env.sender.open("q").send, b"%d" % n)
        found = await asyncio.gather(*tasks)
        assert sorted(lock.body for lock in found) == [b"0", b"1", b"2", b"3", b"4"]
        assert {lock.message.delivery_count for lock in found} == {1}
        for lock in found:
            await lock.commit()
        assert (await qm.queue_info("q")).messages == 0


async def test_async_lost_handoff_notification_is_found_by_the_recheck(
    env: Environment, notifications_dropped: threading.Event
) -> None:
    often = SETTINGS.model_copy(update={"recheck_seconds": 0.1})
    async with await mqredis.asyncio.connect(env.backend.async_client(), settings=often) as qm:
        queue = await qm.open("q")
        task = asyncio.create_task(async_lock(queue))
        await aio_until(lambda: len(env.members()) == 1)
        await asyncio.to_thread(env.sender.open("q").send, b"x")
        locked = await asyncio.wait_for(task, 20)
        assert notifications_dropped.is_set()
        await locked.commit()


async def test_async_cancelled_lock_releases_a_handoff_without_counting_a_delivery(
    env: Environment, notifications_dropped: threading.Event
) -> None:
    async with await mqredis.asyncio.connect(env.backend.async_client(), settings=SETTINGS) as qm:
        queue = await qm.open("q")
        task = asyncio.create_task(async_lock(queue))
        await aio_until(lambda: len(env.members()) == 1)
        await asyncio.to_thread(env.sender.open("q").send, b"x")
        await aio_until(notifications_dropped.is_set)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await qm.queue_info("q")).ready == 1
        assert (await queue.lock(0)).message.delivery_count == 1


# A user whose rights a test restricts.
USER: dict[str, Any] = {"username": "limited", "password": "any"}


@contextmanager
def limited(server: RedisServer, rights: str) -> Iterator[tuple[Any, str]]:
    """Create a user with these rights; yield a client of the default user, and the name of a fresh manager."""
    with server.client() as client:
        client.execute_command(
            "ACL", "SETUSER", USER["username"], "reset", "on", "nopass", "~*", "&*", *rights.split()
        )
        try:
            yield client, f"limited-{uuid.uuid4().hex[:12]}"
        finally:
            client.acl_deluser(USER["username"])


def test_reader_is_woken_without_handoff_if_the_sender_may_not_publish(redis_server: RedisServer) -> None:
    with limited(redis_server, "+@all") as (client, manager), ThreadPoolExecutor(1) as pool:
        waiters = ManagerKeys(manager).queue("q")[QUEUE_PARTS.index("w")]
        restricted_qm = mqredis.connect(redis_server.client(**USER), manager=manager)
        with restricted_qm, mqredis.connect(redis_server.client(), manager=manager) as qm:
            qm.create_queue("q")
            queue = qm.open("q")
            waiting = pool.submit(queue.lock, 30)
            until(lambda: client.zcard(waiters) == 1)
            client.execute_command("ACL", "SETUSER", USER["username"], "-publish")
            restricted_qm.open("q").send(b"x")
            with waiting.result(20) as locked:
                assert locked.message.delivery_count == 1
            client.execute_command("ACL", "SETUSER", USER["username"], "+publish")


def test_lost_handoff_notification_is_not_reported_as_rollback(
    connect_either: Callable[..., Any], redis_server: RedisServer
) -> None:
    name = uuid.uuid4().hex
    with (
        Proxy(redis_server.socket_path) as proxy,
        mqredis.connect(redis_server.url, manager=name, settings=SETTINGS) as sender,
        connect_either(proxy.url(), manager=name, settings=SETTINGS) as reader,
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
        for _ in range(3):  # other calls of this client see a later state than the stored reply has
            other.send(b"x")
        assert future.result(30).body == b"y"
