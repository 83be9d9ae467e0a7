"""Claims and publications of data pipelines: loops over the pages that one script call covers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mqredis.commands import pipelines as commands
from mqredis.commands import read
from mqredis.commands.common import Address
from mqredis.commands.pipelines import Backlog, Claimed, Order, Published, Stage
from mqredis.commands.read import Waiter
from mqredis.errors import error_for
from mqredis.operations.context import Context
from mqredis.operations.reach import provide, reach
from mqredis.status import Status
from mqredis.steps import NOW, Listen, Operation, Wait, perform

Between = Callable[[], None] | None

#: Stages that one call throws away.
PAGE = 256


def look(
    context: Context, path: str, owner: str = "", bound: str = "", bands: bool = False, after: str = ""
) -> Operation[Backlog]:
    """How much is there, and where a claim stands. Raises QueueNotFound."""
    address = Address(context.keys, path)
    return (yield from reach(address, commands.look(address, owner, bound, bands, after)))


def claim(
    queue: Address,
    owner: str,
    lineage: str,
    sequence: int,
    order: Order,
    first: bool = False,
    between: Between = None,
) -> Operation[Claimed]:
    """Claim messages under (owner, sequence); a repetition answers the same. Raises ClaimLost.

    ``between`` is called between two pages, here and below: the kill tests end the process there.
    """
    place = ""
    while True:
        call = commands.claim(queue, owner, lineage, sequence, order, first, place)
        found = yield from reach(queue, call)
        if found.sealed:
            return found
        place = found.place
        if between:
            between()


def matches(queue: Address, order: Order) -> Operation[bool]:
    """Is there a message that a claim of this order would take? Raises QueueNotFound."""
    place = ""
    while True:
        found = yield from reach(queue, commands.match(queue, order, place))
        if isinstance(found, bool):
            return found
        place = found


def commit(
    queue: Address, owner: str, lineage: str, sequence: int, between: Between = None
) -> Operation[int]:
    """Receive everything that is claimed up to ``sequence``, and remove it; answers how many messages. Sequence 0: only
    remove what is received already. Raises ClaimLost."""
    total = 0
    while True:
        page = yield from reach(queue, commands.claim_commit(queue, owner, lineage, sequence))
        total += page.count
        if not page.more:
            return total
        if between:
            between()


def receive(
    queue: Address, owner: str, lineage: str, sequence: int, between: Between = None
) -> Operation[bool]:
    """Receive everything that is claimed up to ``sequence``, and leave its removal to a later ``commit``; False if
    nothing is left to remove. What is left of the claim before is removed first. Raises ClaimLost."""
    while True:
        page = yield from reach(queue, commands.claim_commit(queue, owner, lineage, sequence))
        if page.done:
            return page.more
        if between:
            between()


def release(context: Context, path: str, owner: str, forget: bool) -> Operation[int]:
    """Give back what an owner has claimed; answers how many. Raises WaiterNotFound if it has no claim."""
    total, more, address = 0, True, Address(context.keys, path)
    while more:
        count, more = yield from reach(address, commands.claim_release(address, owner, forget))
        total += count
    return total


def wait(context: Context, places: Sequence[tuple[Address, str]], timeout: float) -> Operation[bool]:
    """Wait up to ``timeout`` seconds until a queue holds a message that is newer than the SequentialID beside it ("":
    any message), or gets one back; takes nothing."""
    start: float = yield NOW
    mode: str = yield Listen()
    member = f"P {mode}{context.database} -" if mode else ""
    waiters = [Waiter(member) for _ in places]
    found = False
    while not found:
        nap = timeout
        for (queue, after), waiter in zip(places, waiters, strict=True):
            seen = yield from reach(queue, commands.wait(queue, after, waiter))
            if seen is None:
                found, waiter.member = True, ""
                break
            waiter.ticket = seen.ticket
            if seen.due_ms >= 0:
                nap = min(nap, seen.due_ms / 1000)
        now: float = yield NOW
        left = timeout - (now - start)
        if found or left <= 0:
            break
        yield Wait(min(nap, left), ())
    for (queue, _), waiter in zip(places, waiters, strict=True):
        if waiter.member and waiter.ticket:
            yield from perform(read.leave(queue, waiter.member))
    return found


def publish(
    context: Context,
    sink: str,
    batch: int,
    identity: str,
    limit: int,
    keep: bool,
    stages: Sequence[Stage],
    between: Between = None,
) -> Operation[int]:
    """Publish a batch once, whatever happened to earlier tries; answers how many messages this call
    published.

    A batch that was begun is finished first, by its stored manifest. Raises ClaimLost and the refusals of a
    send.
    """
    total = 0
    beside: tuple[str, ...] = ()
    while True:
        done: Published = yield from perform(
            commands.publish(context.keys, sink, batch, identity, limit, keep, stages, beside)
        )
        if done.missing:
            yield from provide(context.keys, done.missing)
            if set(done.missing) <= set(beside):
                raise error_for(Status.QUEUE_NOT_AVAILABLE, f"there is no queue {done.missing[0]!r}")
            beside += done.missing
            continue
        if done.pending_batch >= 0:
            count = yield from publish(context, sink, done.pending_batch, identity, limit, True, done.pending)
            if done.pending_batch == batch:
                return total + count
            continue
        total += done.messages
        if not done.more:
            return total
        if between:
            between()


def sweep(context: Context, sink: str, upto: int, close: bool = False, ttl_ms: int = 0) -> Operation[int]:
    """Throw away what is staged for batches up to ``upto``; ``close``: and take no more for them.

    That comes first: a late task may lay something aside between two calls.
    """
    if close:
        yield from perform(commands.discard(context.keys, sink, (), upto, ttl_ms))
    state = yield from perform(commands.sink(context.keys, sink))
    names = [stage.name for stage in state.stages if int(stage.name.partition("-")[0]) <= upto]
    gone = 0
    for at in range(0, len(names), PAGE):
        gone += yield from perform(commands.discard(context.keys, sink, names[at : at + PAGE]))
    return gone
