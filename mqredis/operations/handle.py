"""Open queues: open and close a handle, purge, move, cancel (MS-MQDMPR 3.1.7.1.5-7, .16, .17).

``QueueManager.open`` and the methods of ``Queue`` make them. ``bulk``, ``redrive`` and ``request`` open a handle for
one operation (``closing``); ``browser`` and ``cursor`` begin with ``still_there``, and ``worker.queues`` and
``kombu.store`` ask it.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TypeVar

from mqredis import keys
from mqredis.commands import contents, waiting
from mqredis.commands import queues as commands
from mqredis.commands.address import Address
from mqredis.commands.settlement import ABORT
from mqredis.errors import (
    InvalidArgument,
    InvalidHandle,
    MqError,
    QueueNotAvailable,
    UnsupportedAccess,
    error_for,
)
from mqredis.keys import path_of
from mqredis.models import Access, Match, Share
from mqredis.operations import checks, leftovers, refusals
from mqredis.operations.context import Context
from mqredis.operations.matching import Selection, filter_text, selection
from mqredis.operations.open_queue import Handle
from mqredis.operations.queue_call import QueueCall
from mqredis.operations.settle import give_back_all
from mqredis.operations.unit_of_work import UnitOfWork, owner_of
from mqredis.status import Status
from mqredis.steps import Operation, Steps, perform, procedure

R = TypeVar("R")


@procedure
def open_handle(
    context: Context, name: object, access: object, share: object, selector: Selection = None
) -> Steps[Handle]:
    """Open a queue (3.1.7.1.5)."""
    selected = selection(selector)
    if selected is not None and access in (Access.SEND, Access.MOVE):
        raise InvalidArgument("a selector needs a handle that reads", mqrc=2516)
    paths = _expanded(name)
    if len(paths) > 1:
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
    if len(paths) > 1:
        return (yield from _open_several(context, paths))
    address = Address(context.keys, paths[0])
    if ";" in address.path and access is Access.SEND:
        raise UnsupportedAccess("messages cannot be sent to a subqueue: they are moved there")
    if keys.is_journal_or_system(address.path):
        if access is Access.MOVE:
            raise UnsupportedAccess("messages cannot be moved to a journal or to a queue of the system")
        yield from perform(commands.ensure(context.keys, (address.path,)))
    yield from leftovers.remove(context)
    number = str(next(context.handle_numbers))
    mode = "deny" if share is Share.DENY_RECEIVE else "none"
    opened = yield from leftovers.undone_unless_returned(
        context,
        commands.open_handle(context.keys, address.family, number, access.value, mode),
        lambda: perform(commands.close_handle(context.keys, address.family, number)),
    )
    address.generation = opened.generation
    limit = min(opened.max_message_bytes, context.settings.max_message_bytes)
    handle = context.handle(Handle(context, address, number, access, share, opened.flags, limit))
    if ";" in address.path:
        context.subqueues[number] = address
    handle.selector = selected
    return handle


def _expanded(name: object) -> list[str]:
    """The names of the queues that a name stands for, each once, in order (Expand Format Name, 3.1.7.3.8)."""
    if not isinstance(name, str) or "," not in name:
        return [path_of(name)]
    return sorted({path_of(part.strip()): None for part in name.split(",")}, key=str.lower)


def _open_several(context: Context, paths: list[str]) -> Steps[Handle]:
    """Open a multiple-element name for sending, all elements or none (3.1.7.1.5)."""
    elements: list[Handle] = []
    try:
        for path in paths:
            elements.append((yield from open_handle(context, path, Access.SEND, Share.DENY_NONE)))  # noqa: PERF401
    except BaseException as error:
        for element in elements:
            _close_later(element)
        if isinstance(error, MqError) and not isinstance(error, leftovers.UNREACHABLE):
            with suppress(MqError):
                yield from leftovers.remove(context)
        raise
    first = elements[0]
    address = Address(context.keys, first.path, first.address.generation)
    made = context.handle(
        Handle(context, address, "", Access.SEND, Share.DENY_NONE, first.flags, first.max_message_bytes)
    )
    made.elements = tuple(elements)
    return made


@procedure
def close_handle(handle: Handle, action: str = ABORT) -> Steps[None]:
    """Close a handle: its locks are given back as ``action`` says. The caller has cancelled its waits before.

    If the server does not answer, the handle is closed later, and the leases end the locks.
    """
    if handle.closed:
        return
    handle.close()
    if handle.elements:
        for element in handle.elements:
            _close_later(element)
        yield from leftovers.remove(handle.context)
        return
    with leftovers.removed_later(handle.context, lambda: _close(handle)):
        with suppress(QueueNotAvailable):  # the locks have gone with their queue
            yield from give_back_all(handle, action)
        yield from _close(handle)


def _close(handle: Handle) -> Operation[None]:
    handle.context.subqueues.pop(handle.number, None)
    return perform(commands.close_handle(handle.context.keys, handle.address.family, handle.number))


def _close_later(handle: Handle) -> None:
    handle.close()
    handle.context.leftovers.append(("", lambda: _close(handle)))


def closing(handle: Handle, steps: Steps[R]) -> Steps[R]:
    """Carry out steps that need the handle, and close it. If it cannot be closed now, it is closed later."""
    try:
        result = yield from steps
    except GeneratorExit:
        raise
    except leftovers.UNREACHABLE:
        _close_later(handle)
        raise
    except BaseException:
        with suppress(MqError):  # the error of the steps is raised
            yield from close_handle(handle)
        raise
    with suppress(*leftovers.UNREACHABLE):
        yield from close_handle(handle)
    return result


@procedure
def purge(handle: Handle, match: Match | None = None, selector: Selection = None) -> Steps[int]:
    """Remove every available message, or those that match (3.1.7.1.7). Returns how many."""
    handle.need("receive")
    wanted = filter_text(handle, match, selector, 0)
    removed, limit = yield from QueueCall(handle.address, contents.purge(handle.address, match=wanted))
    while limit:
        more, limit = yield from QueueCall(handle.address, contents.purge(handle.address, limit, wanted))
        removed += more
    return removed


@procedure
def cancel(handle: Handle, tag: object) -> Steps[None]:
    """End the wait of a reader by its tag (3.1.7.1.17)."""
    if handle.closed:
        raise InvalidHandle(f"this handle of queue {handle.path!r} is closed")
    chosen = keys.encode_tag(checks.name(tag, "tag"))
    call = waiting.cancel(handle.address, chosen, int(Status.OPERATION_CANCELLED))
    yield from QueueCall(handle.address, call)


def refuse_move(*paths: str) -> None:
    """Raise UnsupportedAccess if one of these queues is a journal or a queue of the system."""
    if any(map(keys.is_journal_or_system, paths)):
        raise UnsupportedAccess("messages do not move to or from a journal or a queue of the system")


@procedure
def move(source: Handle, lookup_id: int, target: Handle, unit: UnitOfWork | None) -> Steps[None]:
    """Move a message between a queue and its subqueues (3.1.7.1.16)."""
    source.need("receive")
    if target.closed or target.access not in (Access.MOVE, Access.ADMIN, Access.ALL):
        raise InvalidHandle("the target of a move must be an open handle with Access.MOVE (or ALL, ADMIN)")
    refuse_move(source.path, target.path)
    related = source.address.family[-1] == target.address.family[-1] and source.path != target.path
    if not related or source.context.keys.tag != target.context.keys.tag:
        raise error_for(
            Status.STATUS_INVALID_PARAMETER,
            f"a message moves between a queue and its subqueues; {source.path!r} and {target.path!r} are not related",
        )
    owner, grant = owner_of(source, unit)
    call = contents.move(source.address, target.address, checks.lookup_id(lookup_id), owner, grant)
    fence = yield from QueueCall(contents.between(source.address, target.address), call)
    if unit:
        unit.touched(fence, source)
        unit.touched(fence, target)


@procedure
def still_there(handle: Handle) -> Steps[None]:
    """Raise QueueNotAvailable if the queue behind the handle was deleted, also if there is a new one of its name."""
    handle.need("peek")
    found = yield from perform(commands.generation(handle.context.keys, handle.path))
    if found != handle.address.generation:
        raise QueueNotAvailable(refusals.text(QueueNotAvailable, handle.address))
