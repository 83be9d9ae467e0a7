"""Reads whose caller is cancelled or interrupted: ``resolve`` returns the messages taken, and locks are released."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import mqredis
import mqredis.asyncio
from mqredis import Message, Settings
from mqredis.errors import TransactionSequence
from mqredis.sealing import AesGcm
from tests.coalescing.kit import turns
from tests.support.faults import Hold, Rule, is_script
from tests.support.proxy import Proxy
from tests.support.server import RedisServer

# No lease ends within a test.
SETTINGS = Settings(lease_seconds=1000, reply_timeout_seconds=60)


Async = mqredis.asyncio.QueueManager


class Interrupt(BaseException):
    """Stands for KeyboardInterrupt, which would stop pytest."""


@pytest.fixture
def proxy(redis_server: RedisServer) -> Iterator[Proxy]:
    with mqredis.connect(redis_server.url, settings=SETTINGS) as qm:
        qm.create_queue("q")
        qm.create_queue("t", transactional=True)
        # Load every script, so that a test's only call is the read.
        with qm.open("q") as queue, qm.open("t") as other, qm.transaction() as unit:
            for read in READS.values():
                queue.send("warm", correlation_id="c")
                read(queue, queue.peek(0))
            queue.send("warm")
            queue.lock(0).abort()
            queue.receive(0)
            other.send("warm", transaction=unit)
        with qm.open("t") as other, qm.transaction() as unit:
            other.receive(0, transaction=unit)
    with Proxy(redis_server.socket_path) as made:
        yield made


@contextmanager
def interrupted(proxy: Proxy) -> Iterator[None]:
    """Interrupt this thread after the server has executed its read and before the reply arrives."""

    def interrupt(*_: object) -> None:
        raise Interrupt

    def strike(rule: Rule) -> None:
        if rule.wait(60):
            signal.pthread_kill(main, signal.SIGUSR1)

    main, before = threading.get_ident(), signal.signal(signal.SIGUSR1, interrupt)
    rule = proxy.add(Hold(reply=True), where=is_script)
    thread = threading.Thread(target=strike, args=(rule,))
    thread.start()
    try:
        with pytest.raises(Interrupt):
            yield
    finally:
        thread.join()
        rule.release()
        signal.signal(signal.SIGUSR1, before)


HOW: dict[str, dict[str, Any]] = {
    "plain": {},
    "match": {"match": mqredis.Match(correlation_id="c")},
    "lease": {"lease": 500},
}
READS: dict[str, Callable[[Any, Message], Any]] = {
    "receive": lambda queue, _: queue.receive(0),
    "receive-match": lambda queue, _: queue.receive(0, match=mqredis.Match(correlation_id="c")),
    "receive-many": lambda queue, _: queue.receive_many(10, 0),
    "by-lookup-id": lambda queue, message: queue.receive_by_lookup_id(message.lookup_id),
}


@pytest.mark.parametrize("how", HOW.values(), ids=HOW.keys())
def test_interrupted_lock_is_released(proxy: Proxy, how: dict[str, Any]) -> None:
    with mqredis.connect(proxy.url(), settings=SETTINGS) as qm, qm.open("q") as queue:
        for _ in range(3):
            queue.send("body", correlation_id="c")
            with interrupted(proxy):
                queue.lock(0, **how)
            info = qm.queue_info("q")
            assert (info.ready, info.locked) == (1, 0)
            assert qm.unknown == []
            lock = queue.lock(0)
            assert lock.message.text == "body"
            assert (lock.message.delivery_count, lock.message.attempts) == (2, 1)
            lock.commit()


@pytest.mark.parametrize("read", READS.values(), ids=READS.keys())
def test_resolve_returns_what_an_interrupted_receive_took(
    proxy: Proxy, read: Callable[[Any, Message], Any]
) -> None:
    with mqredis.connect(proxy.url(), settings=SETTINGS) as qm, qm.open("q") as queue:
        queue.send("body", label="l", correlation_id="c", properties={"n": 1})
        message = queue.peek(0)
        with interrupted(proxy):
            read(queue, message)
        (token,) = qm.unknown
        resolution = qm.resolve(token)
        assert (resolution.outcome, resolution.status) == ("done", 0)
        (found,) = resolution.messages
        assert found == message.replace(delivery_count=found.delivery_count, attempts=1)
        assert resolution.payload == ()
        assert (qm.unknown, qm.queue_info("q").messages) == ([], 0)


@pytest.mark.parametrize("read", READS.values(), ids=READS.keys())
async def test_resolve_returns_what_a_cancelled_receive_took(
    proxy: Proxy, read: Callable[[Any, Message], Any]
) -> None:
    async with mqredis.asyncio.connect(proxy.url(), settings=SETTINGS) as qm, qm.open("q") as queue:
        await queue.send("body", label="l", correlation_id="c", properties={"n": 1})
        message = await queue.peek(0)
        rule = proxy.add(Hold(reply=True), where=is_script)
        task = asyncio.create_task(read(queue, message))
        assert await asyncio.to_thread(rule.wait, 60)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        rule.release()
        (token,) = qm.unknown
        resolution = await qm.resolve(token)
        assert (resolution.outcome, resolution.status) == ("done", 0)
        (found,) = resolution.messages
        assert found == message.replace(delivery_count=found.delivery_count, attempts=1)
        assert (qm.unknown, (await qm.queue_info("q")).messages) == ([], 0)


IN_UNIT: dict[str, Callable[[Any, Message, Any], Any]] = {
    "receive": lambda queue, _, unit: queue.receive(0, transaction=unit),
    "receive-many": lambda queue, _, unit: queue.receive_many(1, 0, transaction=unit),
    "by-lookup-id": lambda queue, message, unit: queue.receive_by_lookup_id(
        message.lookup_id, transaction=unit
    ),
    "send": lambda queue, _, unit: queue.send("new", transaction=unit),
    "send-many": lambda queue, _, unit: queue.send_many(["new", "new"], transaction=unit),
}
in_unit = pytest.mark.parametrize("call", IN_UNIT.values(), ids=IN_UNIT.keys())
in_progress = pytest.mark.parametrize("in_progress", [False, True], ids=["first call", "second call"])


class CancelledCall:
    """A queue with two messages and a transaction; a call in it is cancelled while its reply is held back."""

    def __init__(self, proxy: Proxy, qm: Async, queue: mqredis.asyncio.Queue) -> None:
        self.proxy, self.qm, self.queue = proxy, qm, queue

    async def cancel(self, call: Callable[..., Any], in_progress: bool) -> mqredis.asyncio.Transaction:
        async with await self.qm.transaction() as unit:
            await self.queue.send_many(["first", "second"], transaction=unit)
        message, unit = await self.queue.peek(0), await self.qm.transaction()
        if in_progress:
            await self.queue.send("begun", transaction=unit)
        rule = self.proxy.add(Hold(reply=True), where=is_script)
        task = asyncio.create_task(call(self.queue, message, unit))
        assert await asyncio.to_thread(rule.wait, 60)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        rule.release()
        return unit

    async def left(self) -> list[str]:
        """Texts of the messages in the queue, after checking that none is locked."""
        info = await self.qm.queue_info("t")
        assert (info.locked, info.ready) == (0, info.messages)
        return [str(message.text) async for message in self.queue.browse()]


@in_unit
@in_progress
async def test_abort_undoes_a_cancelled_call(
    proxy: Proxy, call: Callable[..., Any], in_progress: bool
) -> None:
    async with mqredis.asyncio.connect(proxy.url(), settings=SETTINGS) as qm, qm.open("t") as queue:
        side = CancelledCall(proxy, qm, queue)
        await (await side.cancel(call, in_progress)).abort()
        assert await side.left() == ["first", "second"]


@in_unit
@in_progress
async def test_commit_is_refused_after_a_cancelled_call(
    proxy: Proxy, call: Callable[..., Any], in_progress: bool
) -> None:
    async with mqredis.asyncio.connect(proxy.url(), settings=SETTINGS) as qm, qm.open("t") as queue:
        side = CancelledCall(proxy, qm, queue)
        unit = await side.cancel(call, in_progress)
        with pytest.raises(mqredis.TransactionSequence, match="aborted"):
            await unit.commit()
        assert await side.left() == ["first", "second"]


@in_unit
@in_progress
async def test_commit_includes_a_cancelled_call_after_resolve(
    proxy: Proxy, call: Callable[..., Any], in_progress: bool
) -> None:
    async with mqredis.asyncio.connect(proxy.url(), settings=SETTINGS) as qm, qm.open("t") as queue:
        side = CancelledCall(proxy, qm, queue)
        unit = await side.cancel(call, in_progress)
        (token,) = qm.unknown
        assert (await qm.resolve(token)).outcome == "done"
        await unit.commit()
        sent = {IN_UNIT["send"]: 1, IN_UNIT["send-many"]: 2}.get(call, 0)
        kept = ["first", "second"] if sent else ["second"]
        assert await side.left() == kept + ["begun"] * in_progress + ["new"] * sent


def test_commit_is_refused_after_an_interrupted_blocking_call(proxy: Proxy) -> None:
    with mqredis.connect(proxy.url(), settings=SETTINGS) as qm, qm.open("t") as queue:
        with qm.transaction() as unit:
            queue.send("body", transaction=unit)
        unit = qm.transaction()
        with interrupted(proxy):
            queue.receive(0, transaction=unit)
        with pytest.raises(mqredis.TransactionSequence, match="aborted"):
            unit.commit()
        info = qm.queue_info("t")
        assert (info.ready, info.locked) == (1, 0)


def test_resolve_of_a_call_whose_slot_was_used_again(redis_server: RedisServer) -> None:
    with mqredis.connect(redis_server.url, settings=SETTINGS) as qm:
        qm.create_queue("again")
        with qm.open("again") as queue:
            for _ in range(3):
                queue.send("body")
            slot = f"{qm.driver.session}.0"
            assert [qm.resolve(f"{slot}:{n}").outcome for n in (1, 2)] == ["superseded"] * 2
            assert queue.receive(0).text == "body"  # the slot goes on as before


@pytest.mark.parametrize("end", ["commit", "abort"])
async def test_transaction_counts_as_ended_after_a_cancelled_end(proxy: Proxy, end: str) -> None:
    async with mqredis.asyncio.connect(proxy.url(), settings=SETTINGS) as qm, qm.open("t") as queue:
        tx = await qm.transaction()
        await queue.send("body", transaction=tx)
        rule = proxy.add(Hold(reply=True), where=is_script)
        task = asyncio.ensure_future(getattr(tx, end)())
        assert await asyncio.to_thread(rule.wait, 60)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        rule.release()
        with pytest.raises(TransactionSequence, match="in doubt"):
            await tx.commit()
        (token,) = qm.unknown
        assert (await qm.resolve(token)).outcome == "done"
        assert (await qm.queue_info("t")).ready == (1 if end == "commit" else 0)
        if end == "commit":
            async with qm.transaction() as other:
                await queue.receive(0, transaction=other)


async def test_resolve_opens_a_sealed_message(proxy: Proxy) -> None:
    sealer = AesGcm({"k": b"k" * 32}, "k")
    async with (
        mqredis.asyncio.connect(proxy.url(), settings=SETTINGS, sealer=sealer) as qm,
        qm.open("q") as queue,
    ):
        await queue.send("secret")
        rule = proxy.add(Hold(reply=True), where=is_script)
        task = asyncio.create_task(queue.receive(0))
        assert await asyncio.to_thread(rule.wait, 60)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        rule.release()
        (token,) = qm.unknown
        (found,) = (await qm.resolve(token)).messages
        assert found.text == "secret"


async def test_no_message_is_lost_at_whatever_moment_a_receive_is_cancelled(url: str) -> None:
    settings = SETTINGS.model_copy(update={"allow_volatile": True})
    async with mqredis.asyncio.connect(url, settings=settings) as qm:
        await qm.create_queue("q")
        async with qm.open("q") as queue:
            for after in range(24):
                task = asyncio.create_task(queue.receive(None))
                while not (await qm.queue_info("q")).waiters:
                    await turns()
                await queue.send(f"{after}")
                await turns(after)
                task.cancel()
                (found,) = await asyncio.gather(task, return_exceptions=True)
                got = [found] if isinstance(found, Message) else []
                for token in qm.unknown:
                    got += (await qm.resolve(token)).messages
                if not got:
                    got = [await queue.receive(0)]
                assert [message.text for message in got] == [f"{after}"]
                assert (await qm.queue_info("q")).messages == 0
