"""The queue manager: info, throttle, quota, clock, resolve, maintenance (MS-MQDMPR 3.1.1.1, 3.1.7.2.5-6).

``QueueManager`` makes them, and after ``resolve`` tells the driver that the outcome is known.
"""

from __future__ import annotations

from mqredis import keys
from mqredis.commands import features, queues, transactions
from mqredis.commands import manager as commands
from mqredis.commands.address import Address
from mqredis.commands.arguments import mode_of
from mqredis.commands.manager import Resolution
from mqredis.commands.read import Found
from mqredis.commands.replies import OK
from mqredis.errors import InvalidArgument, QueueNotFound
from mqredis.models import ManagerInfo
from mqredis.operations import checks, queue
from mqredis.operations.context import Context
from mqredis.steps import Call, Steps, perform, procedure, understand


@procedure
def info(context: Context) -> Steps[ManagerInfo]:
    """State of the manager."""
    return (yield from perform(commands.info(context.keys)))


@procedure
def throttle(context: Context, on: object) -> Steps[None]:
    """Begin or end flow control: while it is on, every send is refused with status 2."""
    value = "1" if checks.flag(on, "on") else "0"
    yield from perform(commands.update(context.keys, "throttled", value))


def _quota(value: object, what: str) -> str:
    return "" if value is None else str(checks.count(value, what, (1 << 53) - 1, least=0))


@procedure
def set_quota(context: Context, messages: object, bytes_: object) -> Steps[None]:
    """Quota over all queues, in messages and in bytes; None: no limit."""
    values = _quota(messages, "messages"), _quota(bytes_, "bytes")
    yield from perform(commands.update(context.keys, "quota", *values))


@procedure
def advance_clock(context: Context, by: object) -> Steps[None]:
    """Move the clock of a test manager forward by so many seconds. Raises AccessDenied, InvalidArgument."""
    ms = round(checks.seconds(by, "seconds") * 1000)
    if ms < 0:
        raise InvalidArgument(f"the clock only moves forward, not by {by!r:.40} seconds")
    yield from perform(commands.update(context.keys, "clock", str(ms)))


@procedure
def resolve(context: Context, token: object, call: Call[Found] | None = None) -> Steps[Resolution]:
    """Find out the outcome of a call. ``call``: the call itself, if it reads messages.

    A call that took messages keeps them in its reply, since they are nowhere else. Messages that are locked or belong
    to a transaction are still in their queue, and the reply names them by their ids.
    """
    if not isinstance(token, str):
        raise InvalidArgument(f"token must be a str, not {type(token).__name__}")
    resolution = yield from perform(commands.resolve(context.keys, token))
    done = resolution.outcome == "done" and resolution.status == OK
    if done and call is not None and mode_of(call) == "take":
        found = understand(call, (OK, list(resolution.payload)))
        path = context.keys.path_of(call.keys)
        resolution.messages = tuple(context.messages(path, found.messages, taken=True))
        resolution.payload = ()
    return resolution


@procedure
def maintain(context: Context) -> Steps[int]:
    """Serve every due timer of every queue, and forget lapsed transactions. Returns the number of calls."""
    calls, cursor = 1, "0"
    while cursor := (yield from perform(transactions.sweep(context.keys, cursor))):
        calls += 1
    for path in (yield from perform(features.orphans(context.keys))):
        calls += 1
        try:
            yield from queue.delete(context, path)
        except QueueNotFound:
            continue
    for path in (yield from perform(queues.names(context.keys))):
        calls += yield from queue.serve(context, path)
        if ";" in path and not keys.kept_by_broker(path):
            # An empty subqueue that is not open is deleted, as after its last close. No handle has the number 0.
            calls += 1
            address = Address(context.keys, path)
            yield from perform(queues.close_handle(context.keys, address.family, "0"))
    return calls
