"""Claims and publications of data pipelines: each loop repeats a script call that handles one page.

``mqredis.spark`` makes them: its readers the claims, ``spark.waits`` the waits, ``spark.sink`` and
``spark.pipelines.migrate`` the publications; ``spark.admin`` releases, and ``spark.connection`` looks.
``publications.finish`` publishes what was begun and gives no stages. docs/decisions/pipelines.md tells what happens if
a process dies between two pages.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mqredis.commands import claims
from mqredis.commands import stages as stage_commands
from mqredis.commands.address import Address
from mqredis.commands.claims import Backlog, Claimed, Order
from mqredis.commands.stages import Published, Stage
from mqredis.commands.waiting import PEEKS, Waiter, leave, register_as
from mqredis.errors import OperationCancelled, error_for
from mqredis.operations import refusals
from mqredis.operations.context import Context
from mqredis.operations.leftovers import UNREACHABLE
from mqredis.operations.queue_call import QueueCall, provide
from mqredis.operations.wait import leave_all
from mqredis.status import Status
from mqredis.steps import Listen, Steps, Wait, Woken, perform, procedure

PageHook = Callable[[], None] | None

# Most stages that one call discards.
DISCARD_PAGE = 256


@procedure
def look(context: Context, path: str, owner: str = "", bound: str = "", after: str = "") -> Steps[Backlog]:
    """The backlog of a queue and the state of the owner's claim. Raises QueueNotFound.

    The last three are those of lua/claim_backlog.lua: the claim of this owner, up to a SequentialID, behind a
    SequentialID.
    """
    address = Address(context.keys, path)
    return (yield from QueueCall(address, claims.backlog(address, owner, bound, after)))


@procedure
def claim(
    queue: Address,
    owner: str,
    lineage: str,
    sequence: int,
    order: Order,
    first: bool = False,
    after_page: PageHook = None,
) -> Steps[Claimed]:
    """Claim messages under (owner, sequence); a repeated call returns the same result. Raises ClaimLost.

    ``after_page`` is called between two pages, here and below: ``spark.claim_commits`` pauses a removal there for
    urgent calls, and tests end the process. Two threads may run one claim without a filter, or one commit, at the same
    time.
    """
    place = ""
    while True:
        call = claims.claim(queue, owner, lineage, sequence, order, first, place)
        found = yield from QueueCall(queue, call)
        if found.sealed:
            return found
        place = found.place
        if after_page:
            after_page()


@procedure
def matches(queue: Address, order: Order) -> Steps[bool]:
    """Is there a message that a claim of this order would take? Raises QueueNotFound."""
    place = ""
    while True:
        found = yield from QueueCall(queue, claims.match(queue, order, place))
        if isinstance(found, bool):
            return found
        place = found


@procedure
def commit(
    queue: Address, owner: str, lineage: str, sequence: int, after_page: PageHook = None
) -> Steps[int]:
    """Receive everything that is claimed up to ``sequence``, and remove it; returns the number of messages.

    Sequence 0: only remove what is received already. Raises ClaimLost.
    """
    total = 0
    while True:
        page = yield from QueueCall(queue, claims.commit(queue, owner, lineage, sequence))
        total += page.count
        if not page.more:
            return total
        if after_page:
            after_page()


@procedure
def receive(
    queue: Address, owner: str, lineage: str, sequence: int, after_page: PageHook = None
) -> Steps[bool]:
    """Receive everything that is claimed up to ``sequence``, and leave its removal to a later ``commit``.

    False if nothing is left to remove. Leftovers of the previous claim are removed first. Raises ClaimLost.
    """
    while True:
        page = yield from QueueCall(queue, claims.commit(queue, owner, lineage, sequence))
        if page.done:
            return page.more
        if after_page:
            after_page()


@procedure
def release(context: Context, path: str, owner: str, forget: bool) -> Steps[int]:
    """Release the messages that an owner has claimed; returns how many. Raises WaiterNotFound if it has no claim.

    ``forget``: remove what is known of the owner, too.
    """
    total, more, address = 0, True, Address(context.keys, path)
    while more:
        count, more = yield from QueueCall(address, claims.release(address, owner, forget))
        total += count
    return total


@procedure
def wait(context: Context, places: Sequence[tuple[Address, str]], timeout: float) -> Steps[bool]:
    """Wait up to ``timeout`` seconds for a message in one of these queues; takes none. False if the time is over.

    A queue counts once it has a message above the SequentialID given with it ("": any), or one was returned to it.
    Raises QueueNotAvailable; OperationCancelled if the client is closed.
    """
    end = context.clock() + timeout
    mode: str = yield Listen()
    waiters = [(*place, Waiter(register_as(PEEKS, mode, context.database))) for place in places]
    try:
        found = yield from _arrival(context, waiters, end)
    except (GeneratorExit, *UNREACHABLE):
        raise
    except BaseException:
        yield from _leave(waiters)
        raise
    yield from _leave(waiters)
    return found


def _arrival(context: Context, waiters: Sequence[tuple[Address, str, Waiter]], end: float) -> Steps[bool]:
    """Look into the queues and sleep, in turn, until one has a message or the time is over."""
    while True:
        timers = []
        for queue, after, waiter in waiters:
            call = claims.wait(queue, after, waiter)
            waiter.ticket = waiter.ticket or "0"  # if the call is interrupted, it may be registered
            waiting = yield from QueueCall(queue, call)
            if waiting is None:
                waiter.registration = ""  # it was found, so nothing is registered
                return True
            waiter.ticket = waiting.ticket
            if waiting.due_ms >= 0:
                timers.append(waiting.due_ms / 1000)
        left = end - context.clock()
        if left <= 0:
            return False
        if (yield Wait(min([left, *timers]), ())) is Woken.CANCELLED:
            raise OperationCancelled("the wait for messages ended: its client was closed")


def _leave(waiters: Sequence[tuple[Address, str, Waiter]]) -> Steps[None]:
    """Remove the registrations."""
    yield from leave_all(
        [leave(queue, waiter.registration) for queue, _, waiter in waiters if waiter.registered]
    )


@procedure
def publish(
    context: Context,
    sink: str,
    batch: int,
    identity: str,
    limit: int,
    keep: bool,
    stages: Sequence[Stage],
    after_page: PageHook = None,
) -> Steps[int]:
    """Publish a batch once, even if earlier attempts failed; returns how many messages of it this call published.

    A batch that was started before is completed first, from its stored manifest; if it is this one, the stages given
    here do not count. ``identity``, ``limit``, ``keep``: as of ``commands.stages.publish``. Raises ClaimLost and the
    refusals of a send.
    """
    total = 0
    beside: tuple[str, ...] = ()
    while True:
        try:
            done: Published = yield from perform(
                stage_commands.publish(context.keys, sink, batch, identity, limit, keep, stages, beside)
            )
        except refusals.OF_BATCHES as error:
            raise refusals.of_batch(error, context.keys.manager, [stage.queue for stage in stages]) from None
        if done.missing:
            yield from provide(context.keys, done.missing)
            if set(done.missing) <= set(beside):
                raise error_for(Status.QUEUE_NOT_AVAILABLE, f"there is no queue {done.missing[0]!r}")
            beside += done.missing
            continue
        if done.pending_batch >= 0:
            # Kept, since the driver that has begun the batch may be at work on it: it finds it published.
            count = yield from publish(
                context, sink, done.pending_batch, identity, limit, True, done.pending, after_page
            )
            if done.pending_batch == batch:
                return total + count
            continue
        total += done.messages
        if not done.more:
            return total
        if after_page:
            after_page()


@procedure
def sweep(context: Context, sink: str, upto: int, close_ttl_ms: int | None = None) -> Steps[int]:
    """Discard the stages of batches up to ``upto``; returns how many.

    ``close_ttl_ms``: also refuse new stages for them, for so many ms. Closing comes first, since a late task may stage
    messages between two calls.
    """
    if close_ttl_ms is not None:
        yield from perform(stage_commands.discard(context.keys, sink, (), upto, close_ttl_ms))
    state = yield from perform(stage_commands.sink(context.keys, sink))
    names = [stage.name for stage in state.stages if int(stage.name.partition("-")[0]) <= upto]
    gone = 0
    for at in range(0, len(names), DISCARD_PAGE):
        gone += yield from perform(stage_commands.discard(context.keys, sink, names[at : at + DISCARD_PAGE]))
    return gone
