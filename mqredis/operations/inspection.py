"""Reads for operators: the holders of messages, and the contents of each queue. Each call has a bounded cost.

The methods of ``Inspection`` in both interfaces make them; ``browse_scheduled`` is the end of ``Queue.browse``. The
console's pages In flight and Trail call ``locks`` and ``trail`` themselves, since they need more than the methods
return.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta

from mqredis import keys
from mqredis.codec import decode_each
from mqredis.commands import claims as claim_commands
from mqredis.commands import inspection as commands
from mqredis.commands import queues, stored_messages, trails
from mqredis.commands import workers as worker_commands
from mqredis.commands.address import Address
from mqredis.commands.replies import MAX_PAGE
from mqredis.commands.stored_messages import StoredRow
from mqredis.errors import InvalidArgument, MessageNotFound, NotSupported, SealBroken
from mqredis.keys import path_of
from mqredis.models import Match
from mqredis.models.inspection import (
    ClaimInfo,
    LockInfo,
    Page,
    QueueDepth,
    SessionInfo,
    StoredMessage,
    TransactionInfo,
)
from mqredis.models.lookup_ids import lookup_id_of
from mqredis.models.text import Identifier, names
from mqredis.models.worker import RunningHandler, WorkerInfo
from mqredis.operations import checks, matching, queue
from mqredis.operations.context import Context
from mqredis.operations.matching import Selection
from mqredis.operations.open_queue import Handle
from mqredis.operations.peek import PAGE
from mqredis.steps import Steps, perform, procedure

# What a row of ``overview`` has of the properties of its queue.
_PROPERTIES = {"transactional", "topic", "put_inhibited", "get_inhibited"}


@procedure
def locks(
    context: Context,
    name: object,
    after: str | None,
    limit: object,
    match: Match | None = None,
    selector: Selection = None,
    workers: Sequence[WorkerInfo] | None = None,
) -> Steps[Page[LockInfo]]:
    """A page of the locks of a queue. ``workers``: the live ones; None: read them. Raises QueueNotFound."""
    path, most = path_of(name), checks.count(limit, "limit", MAX_PAGE)
    wanted = matching.operator_filter(context, match, selector)
    page = yield from perform(commands.locks(context.keys, path, after, most, wanted))
    if workers is None and page.items:
        workers, _ = yield from perform(worker_commands.listing(context.keys))
    running = {
        (worker.host, worker.pid, lookup_id): (worker, handler)
        for worker in workers or ()
        for handler in worker.running
        if handler.queue == path
        for lookup_id in handler.lookup_ids
    }
    return Page(tuple(_with_handler(lock, running) for lock in page.items), page.next)


def _with_handler(
    lock: LockInfo, running: Mapping[tuple[str, int, int], tuple[WorkerInfo, RunningHandler]]
) -> LockInfo:
    """The lock with the handler that has its message. ``running``: handlers by host, process and lookup id."""
    found = running.get((lock.client.host, lock.client.process, lock.lookup_id))
    if found is None:
        return lock
    worker, handler = found
    since = lock.since or worker.last_seen - timedelta(seconds=handler.seconds)
    return lock.model_copy(update={"worker": worker.name, "consumer": handler.consumer, "since": since})


@procedure
def transactions(context: Context, after: str | None) -> Steps[Page[TransactionInfo]]:
    """A page of the open transactions."""
    return (yield from perform(commands.transactions(context.keys, after)))


@procedure
def sessions(context: Context, after: str | None, limit: object) -> Steps[Page[SessionInfo]]:
    """A page of the sessions."""
    most = checks.count(limit, "limit", MAX_PAGE)
    page = yield from perform(commands.sessions(context.keys, after, most))
    waiting: dict[str, dict[str, int]] = {each.number: {} for each in page.items}
    paths = (yield from perform(queues.names(context.keys))) if waiting else []
    at = 0
    while at < len(paths):
        told = yield from perform(commands.waiters(context.keys, paths[at : at + commands.QUEUES]))
        for path, readers in zip(paths[at:], told, strict=False):  # one call tells of one queue at least
            for session in readers.keys() & waiting.keys():
                waiting[session][path] = readers[session]
        at += len(told)
    items = tuple(each.model_copy(update={"waiting": waiting[each.number]}) for each in page.items)
    return Page(items, page.next)


@procedure
def claims(context: Context, name: object) -> Steps[list[ClaimInfo]]:
    """The readers of data pipelines on a queue, with the claim of each. Raises QueueNotFound."""
    return (yield from perform(claim_commands.listing(Address(context.keys, path_of(name)))))


@procedure
def messages(
    context: Context,
    name: object,
    match: Match | None,
    selector: Selection,
    after: object,
    limit: object,
    reverse: object,
    complete: object,
) -> Steps[Page[StoredMessage]]:
    """A page of the available messages of a queue. ``complete``: with large bodies. Raises QueueNotFound."""
    path, most = path_of(name), checks.count(limit, "limit", MAX_PAGE)
    reverse, complete = checks.flag(reverse, "reverse"), checks.flag(complete, "complete")
    wanted = matching.operator_filter(context, match, selector)
    call = stored_messages.available(Address(context.keys, path), after, most, wanted, reverse, complete)
    page = yield from perform(call)
    return Page(_stored(context, path, page), page.next)


@procedure
def scheduled(
    context: Context,
    name: object,
    span: tuple[object, object],
    match: Match | None,
    selector: Selection,
    after: object,
    limit: object,
    complete: object,
) -> Steps[Page[StoredMessage]]:
    """A page of the delayed and the resting messages of a queue, in the order of their times. Raises QueueNotFound."""
    complete = checks.flag(complete, "complete")
    path, most = path_of(name), checks.count(limit, "limit", MAX_PAGE)
    since, until = _moment(span[0], "since"), _moment(span[1], "until")
    wanted = matching.operator_filter(context, match, selector)
    call = stored_messages.scheduled(
        Address(context.keys, path), after, most, (since, until), wanted, complete
    )
    page = yield from perform(call)
    return Page(_stored(context, path, page), page.next)


@procedure
def browse_scheduled(
    handle: Handle, after: str | None, match: Match | None = None, selector: Selection = None
) -> Steps[Page[StoredMessage]]:
    """The next delayed or resting messages of a browse, with their bodies.

    Raises NotSupported through a handle with a selector.
    """
    handle.need("peek")
    if handle.selector is not None:
        raise NotSupported("delayed messages are not shown through a handle that was opened with a selector")
    span = (None, None)
    return (
        yield from scheduled(handle.context, handle.path, span, match, selector, after, PAGE, complete=True)
    )


@procedure
def message(context: Context, name: object, lookup_id: object) -> Steps[StoredMessage]:
    """One message of a queue, in whatever state. Raises QueueNotFound, MessageNotFound."""
    path = path_of(name)
    page = yield from perform(stored_messages.one(Address(context.keys, path), checks.lookup_id(lookup_id)))
    if not page.items:
        raise MessageNotFound(f"queue {path!r} has no message with the lookup id {lookup_id:#018x}")
    return _stored(context, path, page)[0]


@procedure
def trail(context: Context, name: object, message: object) -> Steps[trails.Trail]:
    """What has happened to a message. ``message``: its lookup id, or its identifier. Raises QueueNotFound."""
    path = path_of(name)
    if not isinstance(message, str | bytes):
        return (yield from perform(trails.trail(context.keys, path, checks.lookup_id(message))))
    if not names(message):
        raise InvalidArgument("message is empty: give the lookup id or the message id of a message")
    lookup_id = lookup_id_of(message)
    found = yield from perform(trails.trail(context.keys, path, lookup_id or trails.chosen_id(message)))
    if found.entries or lookup_id:
        return found
    # It may have been sent to another queue, as a dead letter was.
    available = yield from _available(context, path, message)
    return (yield from perform(trails.trail(context.keys, path, available))) if available else found


def _available(context: Context, path: str, message_id: Identifier) -> Steps[str | None]:
    """The lookup id of an available message with this identifier."""
    wanted, after = matching.operator_filter(context, Match(message_id=message_id), None), None
    while True:
        call = stored_messages.available(Address(context.keys, path), after, 1, wanted)
        page = yield from perform(call)
        if page.items:
            return page.items[0].raw[0].decode()
        after = page.next
        if after is None:
            return None


def _moment(value: object, what: str) -> str:
    """A time in ms since 1970; "" for None. Raises InvalidArgument."""
    if value is None:
        return ""
    if not isinstance(value, datetime) or value.tzinfo is None:
        raise InvalidArgument(f"{what} must be a datetime with a time zone or None, not {value!r:.60}")
    return str(max(0, round(value.timestamp() * 1000)))


def _stored(context: Context, path: str, page: Page[StoredRow]) -> tuple[StoredMessage, ...]:
    found = []
    for row in page.items:
        resting = row.state == "retry" and ";" not in path  # it was listed with the queue to which it returns
        where = f"{path};retry" if resting else path
        shown = decode_each(where, context.incarnation, [row.raw])
        if row.complete:
            # A body that cannot be opened is shown as it is stored, so that one message does not hide the others.
            with suppress(SealBroken):
                shown = context.unsealed(shown)
        found.append(StoredMessage(shown[0], row.state, row.due_at, row.bytes, row.complete, row.overdue))
    return tuple(found)


@procedure
def overview(context: Context, pattern: object) -> Steps[list[QueueDepth]]:
    """The contents of each queue, by name. Subqueues that the broker fills are shown with their queue."""
    found_names = yield from queue.names(context, pattern)
    shown = [
        name for name in found_names if name.startswith(f"{keys.SYSTEM};") or not keys.kept_by_broker(name)
    ]
    # A subqueue has no properties of its own, so its queue is read as well.
    parents = {name: parent for name in shown if (parent := keys.parent_of(name))}
    wanted = list(dict.fromkeys((*shown, *parents.values())))
    rows: dict[str, QueueDepth] = {}
    at = 0
    while at < len(wanted):
        told = yield from perform(commands.overview(context.keys, wanted[at : at + commands.QUEUES]))
        rows |= {row.name: row for row in told.queues}
        at += told.done
    for name, parent in parents.items():
        if name in rows and parent in rows:
            rows[name] = rows[name].model_copy(update=rows[parent].model_dump(include=_PROPERTIES))
    return [rows[name] for name in shown if name in rows]
