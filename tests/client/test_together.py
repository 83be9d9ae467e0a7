"""asyncio: sends of several tasks go in one call, and each caller sees what he would have seen alone."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import pytest
import pytest_asyncio

import mqredis
import mqredis.asyncio
from mqredis import (
    Acknowledge,
    Durability,
    DurabilityNotReached,
    Journal,
    MqError,
    Outgoing,
    QueueQuotaExceeded,
    Settings,
)
from mqredis.commands import send as commands
from mqredis.operations import send as operations
from tests.support.backend import ServerKind
from tests.support.faults import CutReply, CutRequest, Hold
from tests.support.proxy import Proxy
from tests.support.server import RedisServer

SETTINGS = Settings(allow_volatile=True)
IMPATIENT = SETTINGS.model_copy(update={"retry_seconds": 0})
Queue = mqredis.asyncio.Queue


class Gate:
    """Keeps the calls of a client at its door, and counts those that send."""

    def __init__(self, qm: Any) -> None:
        self.open = asyncio.Event()
        self.open.set()
        self.waiting = 0
        #: How many messages went with each call.
        self.sizes: list[int] = []
        self._call = qm._driver._call
        qm._driver._call = self.call

    async def call(self, call: Any, *args: Any) -> Any:
        if call.script == "send":
            self.sizes.append(len(call.args[3]))
        self.waiting += 1
        await turns(1)  # a fake answers at once
        await self.open.wait()
        self.waiting -= 1
        return await self._call(call, *args)


@pytest.fixture
def where(server_kind: ServerKind, request: pytest.FixtureRequest) -> str:
    if server_kind == "fake":
        return f"memory://{uuid.uuid4().hex}"
    server: RedisServer = request.getfixturevalue("redis_server")
    return server.url


@pytest_asyncio.fixture
async def qm(where: str) -> AsyncIterator[mqredis.asyncio.QueueManager]:
    async with mqredis.asyncio.connect(where, settings=SETTINGS) as manager:
        await manager.create_queue("q")
        yield manager


@pytest_asyncio.fixture
async def queue(qm: mqredis.asyncio.QueueManager) -> Queue:
    return await qm.open("q")


@pytest.fixture
def gate(queue: Queue) -> Gate:
    return Gate(queue._manager)


async def turns(count: int = 3) -> None:
    """Let the others go on."""
    loop = asyncio.get_running_loop()
    for _ in range(count):
        turned = loop.create_future()
        loop.call_soon(turned.set_result, None)
        await turned


async def gathered(gate: Gate, *sends: Coroutine[Any, Any, Any]) -> list[asyncio.Task[Any]]:
    """The first of them is under way, and stays so until the gate is opened; the others wait for it."""
    gate.open.clear()
    tasks = [asyncio.ensure_future(one) for one in sends]
    await turns()
    assert gate.waiting == 1
    return tasks


async def outcomes(gate: Gate, tasks: list[asyncio.Task[Any]]) -> list[Any]:
    gate.open.set()
    return await asyncio.gather(*tasks, return_exceptions=True)


async def bodies(queue: Queue) -> list[bytes]:
    found: list[bytes] = []
    while True:
        try:
            found += [message.body for message in await queue.receive_many(256, 0)]
        except mqredis.IoTimeout:
            return found


def kinds(found: list[Any]) -> list[str]:
    return ["" if isinstance(one, mqredis.Sent) else type(one).__name__ for one in found]


# ---- how many calls ------------------------------------------------------------------------------


async def test_what_comes_while_a_call_is_under_way_goes_in_one_call(queue, gate):
    sent = await asyncio.gather(*(queue.send(b"%d" % n, correlation_id=f"c{n}") for n in range(100)))
    assert gate.sizes == [1, 99]
    assert [one.lookup_id for one in sent] == sorted(one.lookup_id for one in sent)
    found = await queue.receive_many(256, 0)
    assert [message.body for message in found] == [b"%d" % n for n in range(100)]
    assert [(m.lookup_id, m.correlation_id) for m in found] == [
        (one.lookup_id, f"c{n}") for n, one in enumerate(sent)
    ]


@pytest.mark.parametrize("tasks", [1, 2, 20])
async def test_tasks_that_go_on_sending_go_together(queue, gate, tasks):
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


async def test_a_call_takes_no_more_than_a_batch(queue, gate, monkeypatch):
    monkeypatch.setattr(operations, "CALL_BYTES", 10_000)
    many = [queue.send(b"") for _ in range(commands.BATCH + 10)]
    large = [queue.send(b"x" * 6000) for _ in range(3)]
    found = await outcomes(gate, await gathered(gate, *many, *large))
    assert kinds(found) == [""] * len(found)
    assert gate.sizes == [1, commands.BATCH, 10, 1, 1]


async def test_what_a_batch_would_treat_otherwise_goes_alone(qm, queue, gate):
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


async def test_those_that_fit_are_taken_in_order(qm, queue, gate):
    await qm.update_queue("q", quota_messages=7)
    found = await outcomes(gate, await gathered(gate, *(queue.send(b"%d" % n) for n in range(20))))
    assert kinds(found) == [""] * 7 + ["QueueQuotaExceeded"] * 13
    assert len({id(one) for one in found}) == 20
    assert await bodies(queue) == [b"%d" % n for n in range(7)]
    assert gate.sizes == [1, 19] + [1] * 19


async def test_a_smaller_one_behind_a_larger_one_fits(qm, queue, gate):
    await qm.update_queue("q", quota_bytes=1000)
    sizes = [500, 600, 100, 600, 50]
    found = await outcomes(gate, await gathered(gate, *(queue.send(b"x" * size) for size in sizes)))
    assert kinds(found) == ["", "QueueQuotaExceeded", "", "QueueQuotaExceeded", ""]
    assert [len(body) for body in await bodies(queue)] == [500, 100, 50]


async def test_what_is_wrong_with_one_is_told_to_that_one(qm, queue, gate):
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


async def test_a_refused_batch_leaves_nothing_behind(qm, queue, gate):
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


async def test_a_queue_that_is_gone_or_closed_for_sending(qm, queue, gate):
    await qm.update_queue("q", put_inhibited=True)
    found = await outcomes(gate, await gathered(gate, *(queue.send(b"x") for _ in range(5))))
    assert kinds(found) == ["PutInhibited"] * 5
    await qm.delete_queue("q")
    gate.sizes.clear()
    found = await outcomes(gate, await gathered(gate, *(queue.send(b"x") for _ in range(5))))
    assert kinds(found) == ["QueueNotAvailable"] * 5
    assert len({id(one) for one in found}) == 5
    assert gate.sizes == [1, 4], "that is the same for all of them"


# ---- cancelled senders ---------------------------------------------------------------------------


async def test_a_sender_cancelled_before_his_message_went_never_sent_it(queue, gate):
    tasks = await gathered(gate, *(queue.send(b"%d" % n) for n in range(6)))
    for n in (1, 4):
        tasks[n].cancel()
    found = await outcomes(gate, tasks)
    assert kinds(found) == ["", "CancelledError", "", "", "CancelledError", ""]
    assert await bodies(queue) == [b"0", b"2", b"3", b"5"]
    assert queue._manager._driver.unknown == []


async def test_nobody_is_left_when_all_who_gathered_are_cancelled(queue, gate):
    tasks = await gathered(gate, *(queue.send(b"%d" % n) for n in range(4)))
    for task in tasks[1:]:
        task.cancel()
    assert kinds(await outcomes(gate, tasks)) == ["", *["CancelledError"] * 3]
    assert gate.sizes == [1]
    await queue.send(b"next")
    assert await bodies(queue) == [b"0", b"next"]


async def test_the_first_is_cancelled_and_the_others_go(queue, gate):
    tasks = await gathered(gate, *(queue.send(b"%d" % n) for n in range(4)))
    tasks[0].cancel()
    assert kinds(await outcomes(gate, tasks)) == ["CancelledError", "", "", ""]
    assert await bodies(queue) == [b"1", b"2", b"3"]


async def under_way(gate: Gate, tasks: list[asyncio.Task[Any]]) -> None:
    """The first is answered, and the others are under way, at the gate."""
    gate.open.set()
    await asyncio.wait([tasks[0]])
    gate.open.clear()
    while gate.waiting == 0:
        await turns(1)


async def test_a_sender_cancelled_while_his_message_is_under_way_disturbs_nobody(qm, queue, gate):
    tasks = await gathered(gate, *(queue.send(b"%d" % n) for n in range(5)))
    original, reached = gate._call, asyncio.Event()
    answered = asyncio.Event()

    async def held(call: Any, *args: Any) -> Any:
        answer = await original(call, *args)
        if call.script == "send" and len(call.args[3]) > 1:
            reached.set()  # it is done there, and nobody here knows
            await answered.wait()
        return answer

    gate._call = held
    gate.open.set()
    await reached.wait()
    tasks[2].cancel()
    tasks[3].cancel()
    await turns()
    answered.set()
    found = await outcomes(gate, tasks)
    assert kinds(found) == ["", "", "CancelledError", "CancelledError", ""]
    tokens = qm._driver.unknown
    assert len(tokens) == 2
    assert len({*tokens}) == 1
    for token in tokens:
        resolution = await qm.resolve(token)
        assert (resolution.outcome, resolution.status, len(resolution.payload[0])) == ("done", 0, 4 * 16)
    assert qm._driver.unknown == []
    assert await bodies(queue) == [b"0", b"1", b"2", b"3", b"4"]


async def test_a_sender_cancelled_between_the_answer_and_his_next_step_may_ask_for_it(qm, queue, gate):
    tasks = await gathered(gate, *(queue.send(b"%d" % n) for n in range(3)))
    tell = queue._sends._tell

    def and_cancel(*args: Any) -> None:
        tell(*args)
        tasks[1].cancel()

    queue._sends._tell = and_cancel
    found = await outcomes(gate, tasks)
    assert kinds(found) == ["", "CancelledError", ""]
    await queue.send(b"3")  # in another slot
    assert [(await qm.resolve(token)).outcome for token in qm._driver.unknown] == ["done"]
    assert await bodies(queue) == [b"0", b"1", b"2", b"3"]


async def test_cancelled_at_any_moment(qm, queue, gate):
    seed = random.randrange(1 << 32)
    dice = random.Random(seed)
    sent: set[bytes] = set()

    async def one(body: bytes) -> None:
        await queue.send(body)
        sent.add(body)

    async def cancelled(task: asyncio.Task[None], after: int) -> None:
        await turns(after)
        task.cancel()

    cancels = 0
    for lap in range(60):
        tasks = [asyncio.create_task(one(b"%d %d" % (lap, n))) for n in range(8)]
        await asyncio.gather(*(cancelled(task, dice.randrange(16)) for task in tasks))
        found = await asyncio.gather(*tasks, return_exceptions=True)
        cancels += sum(isinstance(one, asyncio.CancelledError) for one in found)
    while queue._sends.under_way:
        await turns(1)
    unknown = qm._driver.unknown
    done = [(await qm.resolve(token)).outcome for token in unknown].count("done")
    there = await bodies(queue)
    assert len(there) == len({*there}), f"seed {seed}"
    assert sent <= {*there}, f"seed {seed}: lost"
    assert len(there) - len(sent) == done, f"seed {seed}: {cancels} cancelled, {len(unknown)} unknown"


async def test_somebody_cancels_the_task_that_is_ours(qm, queue, gate):
    tasks = await gathered(gate, *(queue.send(b"%d" % n) for n in range(3)))
    await under_way(gate, tasks)
    later = asyncio.ensure_future(queue.send(b"3"))
    await turns()
    queue._sends._task.cancel()
    await turns()
    found = await outcomes(gate, [*tasks, later])
    assert kinds(found) == [""] * 4, "it had not left: another task takes it"
    assert await bodies(queue) == [b"0", b"1", b"2", b"3"]


# ---- ends ----------------------------------------------------------------------------------------


async def test_the_manager_is_closed_while_sends_gather(qm, queue, gate):
    tasks = await gathered(gate, *(queue.send(b"%d" % n) for n in range(4)))
    qm._driver.core.patience = 0.05
    await qm.close()
    async with asyncio.timeout(30):
        found = await outcomes(gate, tasks)
    assert kinds(found) == ["BrokerUnavailable", *["InvalidHandle"] * 3], "the first was under way already"
    assert len({id(one) for one in found}) == 4
    with pytest.raises(mqredis.InvalidHandle):
        await queue.send(b"x")


async def test_the_handle_is_closed_while_sends_gather(qm, queue, gate):
    tasks = await gathered(gate, *(queue.send(b"%d" % n) for n in range(4)))
    closing = asyncio.ensure_future(queue.close())
    await turns()
    assert kinds(await outcomes(gate, tasks)) == [""] * 4, "they were sent before"
    await closing
    with pytest.raises(mqredis.InvalidHandle):
        await queue.send(b"x")
    assert (await qm.queue_info("q")).messages == 4


def test_an_event_loop_ends_in_the_middle(where: str) -> None:
    first, second = asyncio.new_event_loop(), asyncio.new_event_loop()

    async def start() -> Any:
        qm = await mqredis.asyncio.connect(where, settings=SETTINGS)
        await qm.create_queue("q")
        return qm, await qm.open("q")

    async def left() -> list[asyncio.Task[Any]]:
        return await gathered(Gate(manager), *(handle.send(b"lost %d" % n) for n in range(3)))

    async def go_on() -> list[bytes]:
        del manager._driver._call
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


# ---- what is not known ---------------------------------------------------------------------------


@pytest.fixture
def proxy(redis_server: RedisServer) -> Any:
    with Proxy(redis_server.socket_path) as between:
        yield between


async def through(
    proxy: Proxy, settings: Settings, work: Callable[[Any, Queue], Coroutine[Any, Any, None]]
) -> None:
    async with mqredis.asyncio.connect(proxy.url(), settings=settings) as qm:
        await qm.create_queue("q")
        queue = await qm.open("q")
        await queue.send(b"warm")
        assert await bodies(queue) == [b"warm"]
        await work(qm, queue)


def batch(request: Any) -> bool:
    """A call that sends three messages."""
    return b"333" in request.args


@pytest.mark.parametrize(
    "fault, outcome", [(CutReply(), "done"), (CutRequest(), "never"), (CutRequest(200), "never")]
)
async def test_nobody_knows_what_became_of_a_call(proxy, redis_server, fault, outcome):
    async def work(qm: Any, queue: Queue) -> None:
        rule = proxy.add(fault, where=batch)
        found = await asyncio.gather(*(queue.send(b"%d" % n) for n in range(4)), return_exceptions=True)
        assert rule.hits == 1
        assert kinds(found) == ["", *["OutcomeUnknown"] * 3]
        unknown: list[Any] = found[1:]
        assert len({id(error) for error in unknown}) == 3
        assert len({error.token for error in unknown}) == 1
        assert len({str(error) for error in unknown}) == 1
        for error in unknown:
            resolution = await qm.resolve(error.token)
            assert (resolution.outcome, resolution.status) == (outcome, 0)
        wanted = [b"0", b"1", b"2", b"3"] if outcome == "done" else [b"0"]
        assert await bodies(queue) == wanted, "nobody sent it again"

    await through(proxy, IMPATIENT, work)


async def test_a_lost_answer_is_asked_for_again(proxy):
    async def work(qm: Any, queue: Queue) -> None:
        rule = proxy.add(CutReply(5), where=batch)
        found = await asyncio.gather(*(queue.send(b"%d" % n) for n in range(4)))
        assert rule.hits == 1
        assert [one.lookup_id for one in found] == [
            message.lookup_id for message in await queue.receive_many(9, 0)
        ]

    await through(proxy, SETTINGS, work)


async def test_somebody_cancels_the_task_that_is_ours_when_all_is_sent(proxy):
    async def work(qm: Any, queue: Any) -> None:
        rule = proxy.add(Hold(reply=True), where=batch)
        tasks = [asyncio.ensure_future(queue.send(b"%d" % n)) for n in range(4)]
        assert await asyncio.to_thread(rule.wait)
        later = asyncio.ensure_future(queue.send(b"4"))
        await turns()
        queue._sends._task.cancel()
        await turns()
        rule.release()
        found: list[Any] = await asyncio.gather(*tasks, later, return_exceptions=True)
        assert kinds(found) == ["", *["OutcomeUnknown"] * 3, ""]
        assert {(await qm.resolve(error.token)).outcome for error in found[1:4]} == {"done"}
        assert await bodies(queue) == [b"0", b"1", b"2", b"3", b"4"]

    await through(proxy, SETTINGS, work)


async def test_no_server(proxy):
    async def work(qm: Any, queue: Queue) -> None:
        proxy.down = True
        proxy.cut_all()
        gate = Gate(qm)
        found = await outcomes(gate, await gathered(gate, *(queue.send(b"%d" % n) for n in range(4))))
        proxy.down = False
        assert {*kinds(found)} == {"BrokerUnavailable"}
        assert len({id(error) for error in found}) == 4
        await queue.send(b"x")
        assert await bodies(queue) == [b"x"]

    await through(proxy, IMPATIENT, work)


async def test_who_has_patience_left_goes_again(queue, gate, monkeypatch):
    """The time of one caller is over before that of those who came after him."""
    driver = queue._manager._driver
    monkeypatch.setattr(driver.core, "patience", 1000.0)
    tasks = await gathered(gate, *(queue.send(b"%d" % n) for n in range(4)))
    for one in list(queue._sends.gathered)[:2]:
        one.since -= 1000.0
    original, deadlines = gate._call, []

    async def down(call: Any, run: Any, *args: Any) -> Any:
        deadlines.append(run.deadline)
        if len(deadlines) == 2:
            raise mqredis.BrokerUnavailable("down")
        return await original(call, run, *args)

    gate._call = down
    assert kinds(await outcomes(gate, tasks)) == ["", "BrokerUnavailable", "BrokerUnavailable", ""]
    assert deadlines[0] is None
    assert deadlines[2] - deadlines[1] == pytest.approx(1000, abs=100)
    assert await bodies(queue) == [b"0", b"3"]


async def test_what_falls_short_is_told_to_each_with_his_result(redis_server):
    short = Settings(durability=Durability.REPLICA, durability_seconds=0.02)
    with mqredis.connect(redis_server.url) as plain:
        plain.create_queue("q")
    async with mqredis.asyncio.connect(redis_server.url, settings=short) as qm:
        queue = await qm.open("q")
        found: list[Any] = await asyncio.gather(
            *(queue.send(b"%d" % n) for n in range(4)), return_exceptions=True
        )
        assert all(isinstance(error, DurabilityNotReached) for error in found)
        assert len({error.token for error in found}) == 2
        there = [message.lookup_id async for message in queue.browse()]
        assert [error.result.lookup_id for error in found] == there


async def test_each_send_is_in_its_own_context(queue, gate):
    """A span, say, that is open in one task is not open in what another one does."""
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
