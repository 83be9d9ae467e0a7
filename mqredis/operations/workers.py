"""Workers that send heartbeats, and orders of operators to them. ``QueueManager`` and ``Operator`` make them.

``worker.heartbeat`` sends the heartbeats and gets the orders by itself (``commands.workers.beat``).

Change together with: lua/admin/workers.lua, which has the fields and the orders; worker/heartbeat.py, which carries out
orders; console/sentences.py, which reads the details of the actions that are logged; cli/operator.py.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from mqredis import keys
from mqredis.commands import workers as commands
from mqredis.commands.address import Address
from mqredis.errors import InvalidArgument
from mqredis.keys import path_of
from mqredis.models.worker import Pause, WorkerInfo
from mqredis.operations import actions, checks
from mqredis.operations.context import Context
from mqredis.operations.queue import info
from mqredis.operations.queue_call import QueueCall
from mqredis.steps import Steps, perform, procedure


@procedure
def workers(context: Context) -> Steps[list[WorkerInfo]]:
    """The live workers, by name."""
    found, _ = yield from perform(commands.listing(context.keys))
    return found


@procedure
def pauses(context: Context) -> Steps[list[Pause]]:
    """The queues and consumers that are paused."""
    _, found = yield from perform(commands.listing(context.keys))
    return found


def _field(queue: object, consumer: object) -> str:
    """The field of a pause. Raises InvalidArgument unless exactly one of the two is given."""
    if (queue is None) == (consumer is None):
        raise InvalidArgument("give either queue= or consumer=")
    if consumer is None:
        return commands.pause_field("queue", path_of(queue))
    if not actions.text(consumer, "the name of a consumer"):
        raise InvalidArgument("the name of a consumer is empty")
    return commands.pause_field("consumer", str(consumer))


@procedure
def pause(
    context: Context,
    operator: actions.Author,
    queue: object,
    consumer: object,
    reason: object,
    token: str | None,
) -> Steps[None]:
    """Pause a queue for all workers, or a consumer in all workers. Raises QueueNotFound."""
    field, why = _field(queue, consumer), actions.text(reason, "reason", 1000)
    if consumer is None:
        path = path_of(queue)
        # A subqueue that the broker keeps is created with its first message.
        by_itself = keys.kept_by_broker(path) and not keys.is_system_queue(path)
        yield from info(context, path.partition(";")[0] if by_itself else path)
    said = json.dumps({"operator": operator.name, "reason": why})
    yield from _tell(context, operator, "pause", field, said, {"reason": why}, token)


@procedure
def resume(
    context: Context, operator: actions.Author, queue: object, consumer: object, token: str | None
) -> Steps[bool]:
    """End a pause. False if there was none."""
    field = _field(queue, consumer)
    return (yield from _tell(context, operator, "resume", field, "", {}, token))


@procedure
def stop(context: Context, operator: actions.Author, worker: object, token: str | None) -> Steps[None]:
    """Ask a worker to stop."""
    yield from _order(context, operator, worker, "stop_worker", commands.STOP, {}, token)


@procedure
def cancel(
    context: Context, operator: actions.Author, worker: object, lookup_id: int, token: str | None
) -> Steps[None]:
    """Ask a worker to cancel the handler of a message."""
    told = checks.lookup_id(lookup_id)
    details = {"lookup_id": told}
    order = f"{commands.CANCEL} {told}"
    yield from _order(context, operator, worker, "cancel_handler", order, details, token)


def _order(
    context: Context,
    operator: actions.Author,
    worker: object,
    action: str,
    value: str,
    details: Mapping[str, object],
    token: str | None,
) -> Steps[None]:
    """Give an order to one worker. ``action``: its name in the log; ``value``: the order, as workers read it."""
    if not isinstance(worker, str) or not worker.isalnum():
        raise InvalidArgument(f"worker must be the id of a WorkerInfo, not {worker!r:.40}")
    told = yield from _tell(
        context, operator, action, f"o:{worker}", value, {"worker": worker, **details}, token
    )
    if not told:
        raise InvalidArgument(f"no worker with the id {worker!r:.40} lives; workers() lists them")


def _tell(
    context: Context,
    operator: actions.Author,
    action: str,
    field: str,
    value: str,
    details: Mapping[str, object],
    token: str | None,
) -> Steps[bool]:
    """Write a field of the hash ``workers`` ("" removes it), and log the action. Returns whether anything changed."""
    kind, _, name = field.partition(":")
    if kind == "c":
        details = {"consumer": name, **details}
    entry = actions.entry(operator, action, name if kind == "q" else "", details)
    token_key = actions.token_key(context.keys, token, field, value)
    log = Address(context.keys, keys.ACTIONS, extra=(context.keys.workers, *token_key))
    return (yield from QueueCall(log, commands.order(log, bool(token_key), entry, field, value)))
