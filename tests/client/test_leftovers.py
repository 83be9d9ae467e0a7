"""Calls whose caller is cancelled, or whose server does not answer: what they opened or created does not stay."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Coroutine, Iterator
from contextlib import suppress
from typing import Any

import pytest

import mqredis.asyncio
from mqredis import Access, OutcomeUnknown, Settings, Share
from mqredis.keys import ManagerKeys
from mqredis.operations import request
from mqredis.operations.context import Context
from tests.support.faults import CutRequest, Hold, is_script
from tests.support.proxy import Proxy
from tests.support.server import RedisServer


class Taken(deque[Any]):
    """Another thread always takes the last element between a look and a pop."""

    def __bool__(self) -> bool:
        return True


PATIENT = Settings(reply_timeout_seconds=60)
HASTY = Settings(retry_seconds=0)
# The calls of a request: it creates and reads its reply queue, opens it, sends, registers, and waits.
CALLS = ["create", "info", "open", "send", "receive"]


@pytest.fixture
def proxy(redis_server: RedisServer) -> Iterator[Proxy]:
    with mqredis.connect(redis_server.url) as qm:
        qm.create_queue("q")
        with qm.open("q") as queue:  # loads the scripts, so that a test knows which call is which
            with pytest.raises(mqredis.IoTimeout):
                qm.request(queue, "warm", timeout=0.001)
            queue.purge()
    with Proxy(redis_server.socket_path) as made:
        yield made


async def cancelled_at(proxy: Proxy, call: int, coroutine: Coroutine[Any, Any, object]) -> None:
    """Cancel the coroutine when the server has carried out its call with this number, whose reply has not come."""
    rule = proxy.add(Hold(reply=True), where=is_script, skip=call)
    task = asyncio.create_task(coroutine)
    assert await asyncio.to_thread(rule.wait, 60)
    task.cancel()
    rule.release()
    with pytest.raises(asyncio.CancelledError):
        await task


async def opened(qm: mqredis.asyncio.QueueManager) -> mqredis.asyncio.Queue:
    return await qm.open("q", Access.RECEIVE, Share.DENY_RECEIVE)


async def test_queue_whose_open_was_cancelled_is_closed(proxy: Proxy) -> None:
    async with mqredis.asyncio.connect(proxy.url(), settings=PATIENT) as qm:
        await cancelled_at(proxy, 0, opened(qm))
        async with await opened(qm):
            assert qm.unknown == []


async def test_queue_whose_close_was_cancelled_is_closed(proxy: Proxy) -> None:
    async with mqredis.asyncio.connect(proxy.url(), settings=PATIENT) as qm:
        queue = await opened(qm)
        rule = proxy.add(Hold(), where=is_script)
        task = asyncio.create_task(queue.close())
        assert await asyncio.to_thread(rule.wait, 60)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        proxy.cut_all()
        async with await opened(qm):
            rule.release()


async def test_all_queues_of_a_multiple_element_name_are_closed_after_a_lost_close(proxy: Proxy) -> None:
    async with mqredis.asyncio.connect(proxy.url(), settings=HASTY) as qm:
        await qm.create_queue("r")
        both = await qm.open("q,r", Access.SEND)
        proxy.add(CutRequest(), where=is_script)
        with suppress(OutcomeUnknown):
            await both.close()
        async with await opened(qm):
            assert [(await qm.queue_info(name)).active for name in ("q", "r")] == [True, False]


@pytest.mark.parametrize("call", range(len(CALLS)), ids=CALLS)
async def test_cancelled_request_leaves_no_reply_queue(proxy: Proxy, call: int) -> None:
    async with mqredis.asyncio.connect(proxy.url(), settings=PATIENT) as qm, qm.open("q") as queue:
        await cancelled_at(proxy, call, qm.request(queue, "x", timeout=60))
        async with qm.open("q"):
            assert await qm.queues("reply$*") == []


async def test_request_is_cancelled_while_the_server_is_down(proxy: Proxy) -> None:
    async with mqredis.asyncio.connect(proxy.url(), settings=HASTY) as qm, qm.open("q") as queue:
        rule = proxy.add(Hold(reply=True), where=is_script, skip=CALLS.index("receive"))
        task = asyncio.create_task(qm.request(queue, "x", timeout=60))
        assert await asyncio.to_thread(rule.wait, 60)
        proxy.add(CutRequest(), times=None)
        task.cancel()
        rule.release()
        with pytest.raises(asyncio.CancelledError):
            await task
        proxy.clear()
        async with qm.open("q"):
            assert await qm.queues("reply$*") == []


async def test_request_with_an_unknown_outcome_names_its_send(proxy: Proxy) -> None:
    async with mqredis.asyncio.connect(proxy.url(), settings=HASTY) as qm, qm.open("q") as queue:
        proxy.add(CutRequest(after=10), where=is_script, skip=CALLS.index("send"), times=None)
        with pytest.raises(OutcomeUnknown, match="call send "):
            await qm.request(queue, "x", timeout=60)
        proxy.clear()
        async with qm.open("q"):
            assert await qm.queues("reply$*") == []


async def test_sent_reply_is_reported_though_its_handle_cannot_be_closed(proxy: Proxy) -> None:
    async with mqredis.asyncio.connect(proxy.url(), settings=HASTY) as qm, qm.open("q") as queue:
        await queue.send("x", response_queue="q")
        question = await queue.receive(0)
        proxy.add(CutRequest(), where=is_script, skip=2)
        await qm.reply(question, "y")
        assert (await queue.receive(0)).text == "y"


async def test_block_has_its_result_though_its_queue_cannot_be_closed(proxy: Proxy) -> None:
    async with mqredis.asyncio.connect(proxy.url(), settings=HASTY) as qm, qm.open("q") as queue:
        await queue.send("x")
        proxy.add(CutRequest(), where=is_script)


async def test_block_has_its_error_though_its_queue_cannot_be_closed(proxy: Proxy) -> None:
    async def failing() -> None:
        async with qm.open("q", Access.SEND):
            proxy.add(CutRequest(), where=is_script)
            raise ZeroDivisionError

    async with mqredis.asyncio.connect(proxy.url(), settings=HASTY) as qm:
        with pytest.raises(ZeroDivisionError):
            await failing()


async def test_slots_of_forgotten_calls_are_used_again(proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mqredis.drivers.outcomes.MAX_UNKNOWN", 2)
    async with mqredis.asyncio.connect(proxy.url(), settings=PATIENT) as qm, qm.open("q") as queue:
        slots = set()
        for _ in range(8):
            await cancelled_at(proxy, 0, queue.send("x"))
            slots.add(qm.unknown[-1].partition(":")[0])
        outcomes = [(await qm.resolve(token)).outcome for token in qm.unknown]
        assert (len(slots), outcomes) == (3, ["done", "done"])
        assert (await qm.queue_info("q")).ready == 8


def test_another_thread_may_take_the_last_leftover_and_the_last_free_reply_queue() -> None:
    context: Any = Context(ManagerKeys("m"), Settings())
    context.leftovers = context.replies = Taken()
    assert list(request.discard_all(context)) == []
