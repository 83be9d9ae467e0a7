"""Concurrent sends are batched into one call; each caller gets the result of its own message."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import mqredis
import mqredis.asyncio
from mqredis import (
    Acknowledge,
    Journal,
    MqError,
    Outgoing,
    QueueQuotaExceeded,
)
from mqredis.commands import send as commands
from mqredis.operations import send as operations
from tests.coalescing.kit import (
    SETTINGS,
    Gate,
    bodies,
    gathered,
    kinds,
    outcomes,
    turns,
)

# ---- how many calls ------------------------------------------------------------------------------


async def test_sends_during_a_call_are_batched_into_the_next_one(queue, gate):
    sent = await asyncio.gather(*(queue.send(b"%d" % n, correlation_id=f"c{n}") for n in range(100)))
    assert gate.sizes == [1, 99]
    assert [one.lookup_id for one in sent] == sorted(one.lookup_id for one in sent)
    found = await queue.receive_many(256, 0)
    assert [message.body for message in found] == [b"%d" % n for n in range(100)]
    assert [(m.lookup_id, m.correlation_id) for m in found] == [
        (one.lookup_id, f"c{n}") for n, one in enumerate(sent)
    ]


@pytest.mark.parametrize("tasks", [1, 2, 20])
async def test_tasks_that_send_repeatedly_share_one_call_per_round(queue, gate, tasks):
    times = 30

    async def work(task: int) -> None:
        for n in range(times):
            await queue.send(b"%d %d" % (task, n))

    await asyncio.gather(*map(work, range(tasks)))
    assert sum(gate.sizes) == tasks * times
    assert len(gate.sizes) <= times + 2, "each round of all tasks is one call"
    found = [tuple(map(int, body.split())) for body in await bodies(queue)]
    for task in range(tasks):
        assert [n for which, n in found if which == task] == list(range(times))


async def test_batches_are_limited_in_messages_and_bytes(queue, gate, monkeypatch):
    monkeypatch.setattr(operations, "CALL_BYTES", 10_000)
    many = [queue.send(b"") for _ in range(commands.BATCH + 10)]
    large = [queue.send(b"x" * 6000) for _ in range(3)]
    found = await outcomes(gate, await gathered(gate, *many, *large))
    assert kinds(found) == [""] * len(found)
    assert gate.sizes == [1, commands.BATCH, 10, 1, 1]


async def test_sends_with_special_handling_are_not_batched(qm, queue, gate):
    await qm.create_queue("admin")
    await qm.create_queue("t", transactional=True)
    plain = await qm.open("t")
    unit = await qm.transaction()
    asks = {"acknowledge": Acknowledge.NEGATIVE_ARRIVAL, "administration_queue": "admin"}
    gate.open.clear()
    tasks = [
        asyncio.ensure_future(one)
        for one in (
            queue.send(b"first"),
            queue.send(b"a", **asks),
            queue.send(Outgoing(body=b"b", journal=Journal.DEAD_LETTER)),
            queue.send(b"c", durability="memory"),
            plain.send(b"d", transaction=unit),
        )
    ]
    await turns()
    assert gate.waiting == 5
    assert kinds(await outcomes(gate, tasks)) == [""] * 5
    await unit.abort()


# ---- refusals ------------------------------------------------------------------------------------


async def test_quota_accepts_batched_messages_in_order(qm, queue, gate):
    await qm.update_queue("q", quota_messages=7)
    found = await outcomes(gate, await gathered(gate, *(queue.send(b"%d" % n) for n in range(20))))
    assert kinds(found) == [""] * 7 + ["QueueQuotaExceeded"] * 13
    assert len({id(one) for one in found}) == 20
    assert await bodies(queue) == [b"%d" % n for n in range(7)]
    assert gate.sizes == [1, 19] + [1] * 19


async def test_smaller_message_after_a_refused_larger_one_is_accepted(qm, queue, gate):
    await qm.update_queue("q", quota_bytes=1000)
    sizes = [500, 600, 100, 600, 50]
    found = await outcomes(gate, await gathered(gate, *(queue.send(b"x" * size) for size in sizes)))
    assert kinds(found) == ["", "QueueQuotaExceeded", "", "QueueQuotaExceeded", ""]
    assert [len(body) for body in await bodies(queue)] == [500, 100, 50]


async def test_error_of_one_message_is_raised_in_its_own_send(qm, queue, gate):
    await qm.update_queue("q", max_message_bytes=10_000)  # the handle was opened before
    tasks = await gathered(
        gate,
        queue.send(b"0"),
        queue.send(b"1", dedup_key="k", dedup_window=60),
        queue.send(b"x" * 20_000),
        queue.send(b"2", dedup_key="k", dedup_window=60),
        queue.send(b"late", time_to_reach_queue=1.0, sent_seconds_ago=2.0),
        queue.send(b"bad", priority=9),
        queue.send(b"y" * 5_000_000),
        queue.send(b"3", delay=0.001),
        queue.send(b"4", properties={"n": 4}, group_id="g", last_in_group=True),
    )
    assert [task.done() for task in tasks] == [n in (5, 6) for n in range(9)], "those never joined"
    found = await outcomes(gate, tasks)
    assert kinds(found) == [
        "", "", "MessageTooLarge", "DuplicateMessage", "MessageTimedOut", "InvalidArgument", "MessageTooLarge", "", "",
    ]  # fmt: skip
    assert gate.sizes == [1, 6] + [1] * 6
    assert (await qm.queue_info("q")).messages == 4


async def test_refused_batch_sends_no_acknowledgements_of_its_own(qm, queue, gate):
    await qm.create_queue("admin")
    await qm.update_queue("q", quota_messages=3)
    asks = {"acknowledge": Acknowledge.NEGATIVE_ARRIVAL, "administration_queue": "admin"}
    fields = [{}, {}, asks, {}, {}, asks]
    gate.open.clear()
    tasks = [asyncio.ensure_future(queue.send(b"%d" % n, **more)) for n, more in enumerate(fields)]
    await turns()
    found = await outcomes(gate, tasks)
    refused = [n for n, one in enumerate(found) if isinstance(one, QueueQuotaExceeded)]
    assert len(refused) == 3
    assert (await qm.queue_info("admin")).messages == len({2, 5} & {*refused})


async def test_inhibited_or_deleted_queue_refuses_all_batched_sends(qm, queue, gate):
    await qm.update_queue("q", put_inhibited=True)
    found = await outcomes(gate, await gathered(gate, *(queue.send(b"x") for _ in range(5))))
    assert kinds(found) == ["PutInhibited"] * 5
    await qm.delete_queue("q")
    gate.sizes.clear()
    found = await outcomes(gate, await gathered(gate, *(queue.send(b"x") for _ in range(5))))
    assert kinds(found) == ["QueueNotAvailable"] * 5
    assert len({id(one) for one in found}) == 5
    assert gate.sizes == [1, 4], "the error is the same for all of them"


# ---- ends ----------------------------------------------------------------------------------------


async def test_close_of_the_manager_fails_batched_sends(qm, queue, gate):
    tasks = await gathered(gate, *(queue.send(b"%d" % n) for n in range(4)))
    await qm.close()
    async with asyncio.timeout(30):
        found = await outcomes(gate, tasks)
    assert kinds(found) == ["InvalidHandle"] * 4
    assert len({id(one) for one in found}) == 4
    with pytest.raises(mqredis.InvalidHandle):
        await queue.send(b"x")


async def test_close_of_the_handle_lets_batched_sends_finish(qm, queue, gate):
    tasks = await gathered(gate, *(queue.send(b"%d" % n) for n in range(4)))
    closing = asyncio.ensure_future(queue.close())
    await turns()
    assert kinds(await outcomes(gate, tasks)) == [""] * 4, "they were sent before"
    await closing
    with pytest.raises(mqredis.InvalidHandle):
        await queue.send(b"x")
    assert (await qm.queue_info("q")).messages == 4


def test_client_works_in_a_new_event_loop_after_the_first_was_abandoned(url: str) -> None:
    first, second = asyncio.new_event_loop(), asyncio.new_event_loop()
    gates: list[Gate] = []

    async def start() -> Any:
        qm = await mqredis.asyncio.connect(url, settings=SETTINGS)
        await qm.create_queue("q")
        return qm, await qm.open("q")

    async def left() -> list[asyncio.Task[Any]]:
        gates.append(Gate(manager))
        return await gathered(gates[0], *(handle.send(b"lost %d" % n) for n in range(3)))

    async def go_on() -> list[bytes]:
        gates.pop().remove()
        async with asyncio.timeout(30):
            await asyncio.gather(*(handle.send(b"%d" % n) for n in range(3)))
        found = await bodies(handle)
        await manager.close()
        return found

    manager, handle = first.run_until_complete(start())
    tasks = first.run_until_complete(left())
    links = list(manager._driver.backend._free)
    assert second.run_until_complete(go_on()) == [b"0", b"1", b"2"]
    for task in tasks:
        task.cancel()
    first.run_until_complete(
        asyncio.gather(*tasks, *(link.close() for link in links), return_exceptions=True)
    )
    first.close()
    second.close()


def test_client_of_a_running_event_loop_is_refused_in_the_loop_of_another_thread(url: str) -> None:
    async def main() -> None:
        async with mqredis.asyncio.connect(url, settings=SETTINGS) as qm:
            await qm.create_queue("q")
            async with qm.open("q") as queue:
                waiting = asyncio.create_task(queue.receive(30))
                for call in (queue.send(b"1"), queue.receive(1), qm.close()):
                    with pytest.raises(mqredis.InvalidHandle, match="connect once in each event loop"):
                        await asyncio.to_thread(asyncio.run, call)
                await queue.send(b"2")
                assert (await waiting).body == b"2"

    asyncio.run(main())


def test_client_connects_works_and_closes_in_different_event_loops(url: str) -> None:
    async def use(qm: Any) -> bytes:
        async with asyncio.timeout(30):
            await qm.create_queue("q")
            async with qm.open("q") as queue:
                await queue.send(b"1")
                message = await queue.receive(0)
                with pytest.raises(mqredis.IoTimeout):
                    await queue.receive(0.01)  # begins the tasks of the waits
        return message.body

    with asyncio.Runner() as first, asyncio.Runner() as second, asyncio.Runner() as third:
        manager = first.run(mqredis.asyncio.connect(url, settings=SETTINGS))
        left = list(manager._driver.backend._free)
        assert second.run(use(manager)) == b"1"
        for link in left:
            first.run(link.close())
        left = list(manager._driver.backend._free)
        waiters = manager._driver._waiters
        third.run(manager.close())
        second.run(waiters.close())
        for link in left:
            second.run(link.close())


async def test_send_error_belongs_to_its_own_task(queue, gate):
    """A tracing span of one task, for example, must not cover what another task does."""
    errors: list[MqError] = []

    async def work(number: int) -> None:
        try:
            await queue.send(b"%d" % number)
        except MqError as error:
            error.add_note(f"task {number}")
            errors.append(error)

    await queue._manager.update_queue("q", put_inhibited=True)
    await asyncio.gather(*map(work, range(4)))
    assert [error.__notes__ for error in errors] == [[f"task {n}"] for n in range(4)]
