"""Queues and handles: create, change, delete, open, close, purge, move, cancel (MS-MQDMPR 3.1.7.1.3-7, .16-17)."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping, Sequence
from typing import Any

from mqredis import keys, renamed
from mqredis.commands import queues as commands
from mqredis.commands import read
from mqredis.commands.common import Address, path_of
from mqredis.commands.manager import maintain
from mqredis.errors import (
    InvalidArgument,
    InvalidHandle,
    InvalidName,
    MqError,
    QueueExists,
    QueueNotAvailable,
    QueueNotFound,
    UnsupportedAccess,
    error_for,
)
from mqredis.models import Access, Match, QueueInfo, QueueProperties, Share
from mqredis.models.validation import translated
from mqredis.operations import checks, refusals
from mqredis.operations.context import Context, Handle, UnitOfWork, owner_of
from mqredis.operations.lookup import hex_id
from mqredis.operations.matching import Selection, selection, text_of
from mqredis.operations.queue_call import QueueCall, provide
from mqredis.operations.server_checks import refuse_volatile
from mqredis.operations.settle import settle
from mqredis.status import Status
from mqredis.steps import Steps, perform, procedure

# Properties that a queue of the system has.
_OF_SYSTEM = {"label", "quota_messages", "quota_bytes", "get_inhibited"}
# Properties that cannot be changed.
FIXED = ("transactional", "group_exclusive", "topic")
# Queues that one information call covers.
PAGE = 64


def _properties(values: Mapping[str, Any]) -> dict[str, Any]:
    """All properties of a queue: the given ones, and the others at their defaults. Raises InvalidArgument."""
    with translated(QueueProperties, "property", lambda text, _: InvalidArgument(text)):
        made = QueueProperties(**values)
    return {name: getattr(made, name) for name in QueueProperties.model_fields}


@procedure
def create(
    context: Context, name: object, properties: Mapping[str, Any], exist_ok: bool = False
) -> Steps[QueueInfo]:
    """Create a queue. A subqueue is created by opening it. ``exist_ok``: an existing queue is left as it is."""
    path = path_of(name)
    if ";" in path:
        raise InvalidName("a subqueue is created by opening it, not by create_queue")
    if path == keys.SYSTEM:
        raise InvalidName(f"the name {keys.SYSTEM!r} is kept for the queues of the system")
    checked = _properties(renamed.fields("property", properties))
    if context.server_state.volatile and checked["transactional"]:
        raise refuse_volatile(f"transactional queue {path!r} is not made")
    checks.flag(exist_ok, "exist_ok")
    try:
        yield from perform(commands.create(context.keys, path, checked))
    except QueueExists:
        if not exist_ok:
            raise
    found = yield from info(context, path)
    for name in FIXED:
        if getattr(found, name) != checked[name]:
            raise QueueExists(
                f"queue {path!r} exists already, and its property {name} is {getattr(found, name)}"
            )
    return found


@procedure
def info(context: Context, name: object) -> Steps[QueueInfo]:
    """Properties and state of a queue."""
    path = path_of(name)
    found = (yield from _infos(context, (path,)))[0]
    if found is None and keys.of_system(path):
        yield from perform(commands.ensure(context.keys, (path,)))
        found = (yield from _infos(context, (path,)))[0]
    if found is None:
        raise QueueNotFound(f"there is no queue {path!r}")
    return found


def _infos(context: Context, paths: Sequence[str]) -> Steps[list[QueueInfo | None]]:
    """Properties and state of several queues. A subqueue has no properties of its own; those of its queue are given."""
    parents = {path: path.partition(";")[0] for path in paths if ";" in path and not keys.own_quota(path)}
    wanted = list(dict.fromkeys((*paths, *parents.values())))
    answers = yield from perform(commands.info(context.keys, wanted))
    overdue = [path for path, (_, due) in zip(wanted, answers, strict=True) if due]
    if overdue and not context.settings.read_only:
        for path in overdue:
            yield from serve(context, path)
        answers = yield from perform(commands.info(context.keys, wanted))
    rows = {path: row for path, (row, _) in zip(wanted, answers, strict=True)}
    yield from _count_resting(context, rows)
    found = []
    for path in paths:
        row, parent = rows[path], rows.get(parents.get(path, ""))
        found.append(row.model_copy(update=parent.properties()) if row and parent else row)
    return found


@procedure
def _count_resting(context: Context, rows: dict[str, QueueInfo | None]) -> Steps[None]:
    """Count messages that rest between two attempts as delayed messages of their queue, to which they return."""
    policies = [
        path for path, row in rows.items() if row is not None and row.retry is not None and ";" not in path
    ]
    below = [f"{path};{part}" for path in policies for part in keys.RESTING]
    if not below:
        return
    answers = yield from perform(commands.info(context.keys, below))
    for path, (resting, _) in zip(below, answers, strict=True):
        name = path.partition(";")[0]
        row = rows[name]
        if resting is not None and row is not None:
            more = {"messages": resting.messages, "bytes": resting.bytes, "delayed": resting.messages}
            rows[name] = row.model_copy(
                update={key: getattr(row, key) + value for key, value in more.items()}
            )


@procedure
def serve(context: Context, path: str) -> Steps[int]:
    """Serve all due timers of a queue. Returns the number of calls."""
    calls, more, address = 0, True, Address(context.keys, path)
    while more:
        calls += 1
        more = yield from QueueCall(address, maintain(address))
    return calls


@procedure
def update(context: Context, name: object, changes: Mapping[str, Any]) -> Steps[QueueInfo]:
    """Change properties."""
    path, changes = path_of(name), renamed.fields("property", changes)
    if path.startswith(f"{keys.SYSTEM};"):
        if refused := sorted(set(changes) - _OF_SYSTEM):
            raise InvalidArgument(
                f"{refused[0]} of a queue of the system cannot be changed, only {', '.join(sorted(_OF_SYSTEM))}"
            )
        yield from perform(commands.ensure(context.keys, (path,)))
    elif ";" in path:
        raise InvalidArgument("a subqueue has no properties of its own; update its queue")
    for fixed in FIXED:
        if fixed in changes:
            raise InvalidArgument(f"{fixed} is fixed when the queue is created")
    if not changes:
        return (yield from info(context, path))
    checked = {name: value for name, value in _properties(changes).items() if name in changes}
    yield from perform(commands.update(context.keys, path, checked))
    return (yield from info(context, path))


@procedure
def delete(context: Context, name: object) -> Steps[int]:
    """Delete a queue with its subqueues. Returns how many messages were deleted."""
    paths, removed = [path_of(name)], 0
    beside = [paths[0].partition(";")[0]] if ";" in paths[0] and not keys.own_quota(paths[0]) else []
    while True:
        deleted = yield from perform(commands.delete(context.keys, paths, beside))
        removed += deleted.messages
        if deleted.done:
            return removed
        inside = [path for path in deleted.missing if path.startswith(f"{paths[0]};")]
        outside = [path for path in deleted.missing if path not in inside]
        yield from provide(context.keys, outside)
        paths += [path for path in inside if path not in paths]
        beside += [path for path in outside if path not in beside]


@procedure
def listing(context: Context, pattern: object) -> Steps[list[QueueInfo]]:
    """All queues whose name matches a glob pattern, sorted by name."""
    if pattern is not None and not isinstance(pattern, str):
        raise InvalidArgument(f"pattern must be a str, not {type(pattern).__name__}")
    names = yield from perform(commands.names(context.keys))
    if pattern is not None:
        names = [name for name in names if fnmatch.fnmatchcase(name, pattern)]
    found: list[QueueInfo] = []
    for at in range(0, len(names), PAGE):
        page = yield from _infos(context, names[at : at + PAGE])
        found += [item for item in page if item is not None]
    return found


@procedure
def open_handle(
    context: Context, name: object, access: object, share: object, selector: Selection = None
) -> Steps[Handle]:
    """Open a queue (3.1.7.1.5)."""
    selected = selection(selector)
    if selected is not None and access in (Access.SEND, Access.MOVE):
        raise InvalidArgument("a selector needs a handle that reads", mqrc=2516)
    several = isinstance(name, str) and "," in name
    if several:
        if access is not Access.SEND:
            raise UnsupportedAccess("a multiple-element name can only be opened with Access.SEND")
        if share is not Share.DENY_NONE:
            raise error_for(Status.UNSUPPORTED_ACCESS_MODE, "a multiple-element name cannot deny anything")
    if not isinstance(access, Access):
        raise InvalidArgument(f"access must be a mqredis.Access, not {access!r:.40}")
    if not isinstance(share, Share):
        raise InvalidArgument(f"share must be a mqredis.Share, not {share!r:.40}")
    if access is Access.SEND and share is not Share.DENY_NONE:
        raise error_for(Status.UNSUPPORTED_ACCESS_MODE, "a handle for sending cannot deny anything")
    if several:
        return (yield from _open_several(context, str(name)))
    address = Address(context.keys, path_of(name))
    if ";" in address.path and access is Access.SEND:
        raise UnsupportedAccess("messages cannot be sent to a subqueue: they are moved there")
    if keys.own_quota(address.path):
        if access is Access.MOVE:
            raise UnsupportedAccess("messages cannot be moved to a journal or to a queue of the system")
        yield from perform(commands.ensure(context.keys, (address.path,)))
    context.handles += 1
    number = str(context.handles)
    mode = "deny" if share is Share.DENY_RECEIVE else "none"
    opened = yield from perform(
        commands.open_handle(context.keys, address.family, number, access.value, mode)
    )
    address.generation = opened.generation
    limit = min(opened.max_message_bytes, context.settings.max_message_bytes)
    handle = Handle(context, address, number, access, share, opened.flags, limit)
    context.opened.add(handle)
    handle.selector = selected
    return handle


def _open_several(context: Context, name: str) -> Steps[Handle]:
    """Open a multiple-element name for sending: each element once, all or none (3.1.7.1.5, 3.1.7.3.8)."""
    elements: list[Handle] = []
    wanted = {path_of(part.strip()): None for part in name.split(",")}
    try:
        for path in sorted(wanted, key=str.lower):
            elements.append((yield from open_handle(context, path, Access.SEND, Share.DENY_NONE)))  # noqa: PERF401
    except MqError:
        for element in elements:
            yield from close_handle(element)
        raise
    first = elements[0]
    if len(elements) == 1:
        return first
    address = Address(context.keys, first.path, first.address.generation)
    made = Handle(context, address, "", Access.SEND, Share.DENY_NONE, first.flags, first.max_message_bytes)
    made.elements = tuple(elements)
    return made


@procedure
def close_handle(handle: Handle) -> Steps[None]:
    """Close a handle: its locks are released. The caller has cancelled its waits before."""
    if handle.closed:
        return
    handle.close()
    if handle.elements:
        for element in handle.elements:
            yield from close_handle(element)
        return
    held = [("a", fence, lookup_id) for lookup_id, fence in handle.locks.items()]
    for start in range(0, len(held), read.BATCH):
        yield from settle(handle, held[start : start + read.BATCH])
    yield from perform(commands.close_handle(handle.context.keys, handle.address.family, handle.number))


@procedure
def purge(handle: Handle, match: Match | None = None, selector: Selection = None) -> Steps[int]:
    """Remove every available message, or those that match (3.1.7.1.7). Returns how many."""
    handle.need("receive")
    some = match is not None or selector is not None
    wanted = text_of(handle, match, selector, 0) if some else b""
    removed, limit = yield from QueueCall(handle.address, read.purge(handle.address, match=wanted))
    while limit:
        more, limit = yield from QueueCall(handle.address, read.purge(handle.address, limit, wanted))
        removed += more
    return removed


@procedure
def cancel(handle: Handle, tag: object) -> Steps[None]:
    """End the wait of a reader by its tag (3.1.7.1.17)."""
    if handle.closed:
        raise InvalidHandle(f"this handle of queue {handle.path!r} is closed")
    chosen = checks.tag(tag)
    if chosen is None:
        raise InvalidArgument("cancel takes the tag of a waiting reader, not None")
    yield from perform(read.cancel(handle.address, keys.encode_tag(chosen), int(Status.OPERATION_CANCELLED)))


@procedure
def move(source: Handle, lookup_id: int, target: Handle, unit: UnitOfWork | None) -> Steps[None]:
    """Move a message between a queue and its subqueues (3.1.7.1.16)."""
    source.need("receive")
    if target.closed or target.access not in (Access.MOVE, Access.ADMIN, Access.ALL):
        raise InvalidHandle("the target of a move must be an open handle with Access.MOVE (or ALL, ADMIN)")
    if keys.own_quota(source.path) or keys.own_quota(target.path):
        raise UnsupportedAccess("messages do not move to or from a journal or a queue of the system")
    related = source.address.family[-1] == target.address.family[-1] and source.path != target.path
    if not related or source.context.keys.tag != target.context.keys.tag:
        raise error_for(
            Status.STATUS_INVALID_PARAMETER,
            f"a message moves between a queue and its subqueues; {source.path!r} and {target.path!r} are not related",
        )
    owner, grant = owner_of(source, unit)
    call = read.move(source.address, target.address, hex_id(lookup_id), owner, grant)
    fence = yield from QueueCall(read.between(source.address, target.address), call)
    if unit:
        unit.touched(fence, source)
        unit.touched(fence, target)


@procedure
def still_there(handle: Handle) -> Steps[None]:
    """Raise QueueNotAvailable if the queue behind the handle was deleted."""
    handle.need("peek")
    ((found, _),) = yield from perform(commands.info(handle.context.keys, (handle.path,)))
    if found is None:
        raise QueueNotAvailable(refusals.text(QueueNotAvailable, handle.address))
