"""Request and reply: a temporary reply queue, a deadline, the answer with the right correlation id.

``QueueManager.request`` and ``reply`` make them, and ``shutdown`` deletes the reply queues of a client
(``discard_all``). The broker's maintenance deletes those of ended sessions: lua/queue_orphans.lua knows them by the
beginning of their names, which ``_stem`` makes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from mqredis.errors import (
    InvalidArgument,
    IoTimeout,
    MessageNotFound,
    MqError,
    QueueExists,
    QueueNotFound,
    TransactionUsage,
)
from mqredis.keys import REPLIES
from mqredis.models import Access, Acknowledge, Identifier, Message, Outgoing, Sent, Share
from mqredis.models.text import names
from mqredis.operations import checks, leftovers, queue
from mqredis.operations.context import Context
from mqredis.operations.handle import closing, open_handle
from mqredis.operations.leftovers import UNREACHABLE
from mqredis.operations.open_queue import Handle
from mqredis.operations.receive import Receive
from mqredis.operations.send import Send, outgoing
from mqredis.steps import Steps, TimeLimit, procedure


@procedure
def reply_queue(context: Context, session: Callable[[], str]) -> Steps[Handle]:
    """A temporary reply queue of this client, a free one or a new one. It is deleted with its session
    (queue_orphans.lua), so it must belong to the present one.

    The broker may have forgotten the session of a client that was idle. The next call that changes something begins a
    new one.
    """
    yield from leftovers.remove(context)
    while free := _pop_free(context):
        handle, last_used = free
        if handle.closed:
            continue
        idle = context.clock() - last_used
        if handle.path.startswith(_stem(session())) and idle < context.settings.session_ttl_seconds / 2:
            return handle
        yield from discard(context, handle)
    while True:
        context.has_requested = True
        stem = _stem(session())
        name = f"{stem}{next(context.reply_queue_numbers)}"
        with leftovers.removed_later(context, partial(queue.delete, context, name)):
            try:
                yield from queue.create(context, name, {})
            except QueueExists:
                continue
            handle = yield from open_handle(context, name, Access.RECEIVE, Share.DENY_NONE)
        if stem == _stem(session()):
            return handle
        yield from discard(context, handle)


def _pop_free(context: Context) -> tuple[Handle, float] | None:
    """A free reply queue, and when it was used last; None if there is none, as another thread may have taken it."""
    try:
        return context.replies.pop()
    except IndexError:
        return None


def _stem(session: str) -> str:
    """How the names of the reply queues of a session begin."""
    return f"{REPLIES}{session}."


@procedure
def request(
    context: Context,
    session: Callable[[], str],
    target: Handle,
    body: object,
    timeout: float,
    fields: Mapping[str, Any],
) -> Steps[Message]:
    """Send a request and wait for its reply until the deadline. The request expires at the deadline, too. It is several
    calls; a server that does not answer ends it a reply's time after ``timeout``, or after ``retry_seconds`` if that is
    later.

    ``session``: returns the number of the client's present session.
    """
    limit = checks.seconds(timeout, "timeout", positive=True)
    if target.transactional:
        raise TransactionUsage(
            f"queue {target.path!r} is transactional, and a request takes no transaction, since a reply can come only "
            "after its commit: request needs a queue that is not transactional"
        )
    message = outgoing(body, fields)
    if message.response_queue is not None:
        raise InvalidArgument("request makes its own response queue")
    start = context.clock()
    yield TimeLimit(limit)
    handle = yield from reply_queue(context, session)
    changes: dict[str, Any] = {"response_queue": handle.path}
    if message.time_to_be_received is None:
        changes["time_to_be_received"] = max(limit - (context.clock() - start), 0.0)
    try:
        sent = yield from Send(target, message.replace(**changes), {})
        wanted = {_passed(message, each.message_id) for each in sent.copies or (sent,)}
        while True:
            left = limit - (context.clock() - start)
            if left <= 0:
                raise IoTimeout(f"no reply came from {target.path!r} within {timeout} s")
            try:
                reply = (yield from Receive(handle, 1, left))[0]
            except IoTimeout:
                raise IoTimeout(f"no reply came from {target.path!r} within {timeout} s") from None
            if reply.correlation_id in wanted:
                context.replies.append((handle, context.clock()))
                return reply
    except GeneratorExit:
        raise
    except UNREACHABLE:
        handle.close()
        context.leftovers.append(("", partial(queue.delete, context, handle.path)))
        raise
    except BaseException:
        with suppress(MqError):  # the first error says what became of the request
            yield from discard(context, handle)
        raise


def _passed(request: Message | Outgoing, message_id: Identifier) -> Identifier | None:
    """The correlation id of a reply: the message id of its request, or the id that the request wants to be passed."""
    if Acknowledge.PASS_CORRELATION_ID not in request.acknowledge:
        return message_id
    return request.correlation_id if names(request.correlation_id) else None


@procedure
def discard(context: Context, handle: Handle) -> Steps[None]:
    """Delete a reply queue: a late reply finds no queue."""
    handle.close()
    with (
        leftovers.removed_later(context, partial(queue.delete, context, handle.path)),
        suppress(QueueNotFound),
    ):
        yield from queue.delete(context, handle.path)


@procedure
def discard_all(context: Context) -> Steps[None]:
    """Delete the reply queues of this client that no request uses."""
    yield from leftovers.remove(context)
    while free := _pop_free(context):
        yield from discard(context, free[0])


@procedure
def reply(context: Context, message: Message, body: object, fields: Mapping[str, Any]) -> Steps[Sent]:
    """Answer a message: to its response queue, with its message id as correlation id."""
    if not checks.message(message).response_queue:
        raise MessageNotFound("the message names no response queue")
    made: Outgoing = outgoing(body, fields)
    changes: dict[str, Any] = {}
    if not names(made.correlation_id):
        changes["correlation_id"] = _passed(message, message.message_id)
    if not names(made.message_id) and Acknowledge.PASS_MESSAGE_ID in message.acknowledge:
        changes["message_id"] = message.message_id
    made = made.replace(**changes)
    handle = yield from open_handle(context, message.response_queue, Access.SEND, Share.DENY_NONE)
    return (yield from closing(handle, _send(handle, made)))


def _send(handle: Handle, message: Outgoing) -> Steps[Sent]:
    """Send a message. It is a generator, so that ``closing`` also sees what ``Send`` refuses when it is made."""
    return (yield from Send(handle, message, {}))
