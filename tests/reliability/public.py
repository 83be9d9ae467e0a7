"""Every public call as one short story, written once for both interfaces: ``b(...)`` awaits what is awaitable."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from mqredis import Access, MqError, Outgoing, Seek


@dataclass
class Stage:
    """Two queues with a few messages, handles and a transaction on them, all through the client under test."""

    qm: Any
    name: str
    plain: Any = None
    sub: Any = None
    tx: Any = None
    unit: Any = None
    locked: Any = None
    cursor: Any = None
    ids: list[int] = field(default_factory=list)

    async def __call__(self, value: Any) -> Any:
        return await value if inspect.isawaitable(value) else value

    async def prepare(self) -> None:
        """What every story finds: a, b, c in the plain queue, d, e in the transactional one, one lock, one unit."""
        b = self
        await b(self.qm.create_queue(self.name))
        await b(self.qm.create_queue(self.name + "-t", transactional=True))
        self.plain = await b(self.qm.open(self.name))
        self.sub = await b(self.qm.open(self.name + ";s"))
        self.tx = await b(self.qm.open(self.name + "-t"))
        self.ids = [m.lookup_id for m in await b(self.plain.send_many([b"a", b"b", b"c"]))]
        first = await b(self.qm.transaction())
        await b(self.tx.send_many([b"d", b"e"], transaction=first))
        await b(first.commit())
        self.locked = await b(self.plain.lock(0, lease=60))
        self.unit = await b(self.qm.transaction(lease=60))
        await b(self.tx.receive(0, transaction=self.unit))
        self.cursor = await b(self.plain.cursor())

    async def state(self) -> list[Any]:
        """What is in the queues, and in which place."""
        out: list[Any] = []
        for name in (self.name, self.name + ";s", self.name + "-t"):
            try:
                info = await self(self.qm.queue_info(name))
            except MqError as error:
                out.append(type(error).__name__)
                continue
            out.append((info.messages, info.ready, info.locked, info.quota_messages))
        return out


Story = Callable[[Stage], Coroutine[Any, Any, Any]]
STORIES: dict[str, Story] = {}


def story(call: Story) -> Story:
    """Register a story under its name; what it returns is compared with an undisturbed run."""
    STORIES[call.__name__] = call
    return call


def bodies(messages: Any) -> list[bytes]:
    return [message.body for message in messages]


@story
async def create_queue(b: Stage) -> Any:
    return (await b(b.qm.create_queue(b.name + "-n", quota_messages=5))).quota_messages


@story
async def queue_info(b: Stage) -> Any:
    return (await b(b.qm.queue_info(b.name))).messages


@story
async def update_queue(b: Stage) -> Any:
    return (await b(b.qm.update_queue(b.name, quota_messages=7))).quota_messages


@story
async def delete_queue(b: Stage) -> Any:
    return await b(b.qm.delete_queue(b.name))


@story
async def listing(b: Stage) -> Any:
    return len(await b(b.qm.queues(b.name + "*")))


@story
async def open_and_close(b: Stage) -> Any:
    handle = await b(b.qm.open(b.name, Access.PEEK))
    await b(handle.close())


@story
async def send(b: Stage) -> Any:
    await b(b.plain.send(b"new", priority=7, properties={"n": 1}))


@story
async def send_large(b: Stage) -> Any:
    await b(b.plain.send(b"x" * 9000))


@story
async def send_many(b: Stage) -> Any:
    return len(await b(b.plain.send_many([b"1", Outgoing(body=b"2"), b"3"])))


@story
async def send_in_transaction(b: Stage) -> Any:
    await b(b.tx.send(b"new", transaction=b.unit))


@story
async def receive(b: Stage) -> Any:
    return (await b(b.plain.receive(0))).body


@story
async def receive_many(b: Stage) -> Any:
    return bodies(await b(b.plain.receive_many(9, 0)))


@story
async def receive_in_transaction(b: Stage) -> Any:
    return (await b(b.tx.receive(0, transaction=b.unit))).body


@story
async def receive_selected(b: Stage) -> Any:
    return (await b(b.plain.receive(0, selector="JMSPriority >= 0"))).body


@story
async def receive_by_lookup_id(b: Stage) -> Any:
    return (await b(b.plain.receive_by_lookup_id(b.ids[2]))).body


@story
async def peek(b: Stage) -> Any:
    return (await b(b.plain.peek(0))).body


@story
async def peek_by_lookup_id(b: Stage) -> Any:
    return (await b(b.plain.peek_by_lookup_id(b.ids[1], seek=Seek.NEXT))).body


@story
async def lock(b: Stage) -> Any:
    return (await b(b.plain.lock(0, lease=60))).message.body


@story
async def lock_many(b: Stage) -> Any:
    return [locked.message.body for locked in await b(b.plain.lock_many(5, 0, lease=60))]


@story
async def lock_by_lookup_id(b: Stage) -> Any:
    return (await b(b.plain.lock_by_lookup_id(b.ids[1], seek=Seek.CURRENT, lease=60))).message.body


@story
async def commit_lock(b: Stage) -> Any:
    await b(b.locked.commit())


@story
async def abort_lock(b: Stage) -> Any:
    await b(b.locked.abort())


@story
async def reject_lock(b: Stage) -> Any:
    await b(b.locked.reject())


@story
async def extend_lock(b: Stage) -> Any:
    await b(b.locked.extend(60))


@story
async def cursor(b: Stage) -> Any:
    first = (await b(b.cursor.peek(0))).body
    second = (await b(b.cursor.peek_next(0))).body
    return first, second, (await b(b.cursor.receive(0))).body


@story
async def move(b: Stage) -> Any:
    await b(b.plain.move(b.ids[1], b.sub))


@story
async def purge(b: Stage) -> Any:
    return await b(b.plain.purge())


@story
async def commit(b: Stage) -> Any:
    await b(b.unit.commit())


@story
async def abort(b: Stage) -> Any:
    await b(b.unit.abort())


@story
async def prepare(b: Stage) -> Any:
    await b(b.unit.prepare())


@story
async def extend_transaction(b: Stage) -> Any:
    await b(b.unit.extend(60))


@story
async def info(b: Stage) -> Any:
    return (await b(b.qm.info())).throttled


@story
async def throttle(b: Stage) -> Any:
    await b(b.qm.throttle(False))


@story
async def maintain(b: Stage) -> Any:
    await b(b.qm.maintain())


def drive(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Run a story on the blocking interface: it never really waits."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value
    raise AssertionError("the blocking interface waited for a loop")
