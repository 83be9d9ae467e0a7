"""Actions on workers: pause, resume, stop, cancel a handler.

``console.actions`` lists them; ``pages.action`` runs them.

"pause" and "resume" have either the field ``queue`` or ``consumer``; templates/queue.html and workers.html give one of
them. A worker reads its orders at a heartbeat, so the results say what was asked for and not what has happened. A
handler is named by any of the messages that it has.
"""

from __future__ import annotations

from mqredis.asyncio import QueueManager
from mqredis.console import formats
from mqredis.console.actions.base import Action, Field, Preview, Values, lookup_id, needed, operator_of, to
from mqredis.errors import InvalidArgument
from mqredis.models.lookup_ids import hex_id
from mqredis.models.worker import Pause, WorkerInfo

# ---- pause and resume ----------------------------------------------------------------------------


def _paused(values: Values) -> tuple[str | None, str | None]:
    """The queue or the consumer in the form; the other one is None. Raises InvalidArgument."""
    queue, consumer = values.get("queue") or None, values.get("consumer") or None
    if (queue is None) == (consumer is None):
        raise InvalidArgument("name either a queue or a consumer")
    return queue, consumer


def _what(values: Values) -> str:
    queue, consumer = _paused(values)
    return f"the queue {queue}" if queue else f"the consumer {consumer}"


async def _readers(manager: QueueManager, values: Values) -> str:
    """How many workers a pause concerns."""
    queue, consumer = _paused(values)
    concerned = [
        worker
        for worker in await manager.workers()
        if any(queue in each.queues or each.name == consumer for each in worker.consumers)
    ]
    return formats.plural(len(concerned), "worker")


async def _preview_pause(manager: QueueManager, values: Values) -> Preview:
    queue, _ = _paused(values)
    if queue:
        await manager.queue_info(queue)
    does = f"No worker reads {_what(values)}" if queue else f"{_what(values).capitalize()} reads nothing"
    readers = await _readers(manager, values)
    return Preview(f"{does} until somebody resumes it. This concerns {readers} now. Other readers go on.")


async def _pause(manager: QueueManager, values: Values) -> str:
    queue, consumer = _paused(values)
    await operator_of(manager, values).pause(
        queue, consumer=consumer, reason=values.get("reason", ""), token=values.get("token")
    )
    return f"Workers pause {_what(values)} from their next heartbeat on."


async def _pause_of(manager: QueueManager, values: Values) -> Pause:
    queue, consumer = _paused(values)
    wanted = ("queue", queue) if queue else ("consumer", consumer)
    for pause in await manager.pauses():
        if (pause.kind, pause.name) == wanted:
            return pause
    raise InvalidArgument(f"{_what(values)} is not paused")


async def _preview_resume(manager: QueueManager, values: Values) -> Preview:
    pause = await _pause_of(manager, values)
    reason = f": {pause.reason}" if pause.reason else ""
    readers = await _readers(manager, values)
    return Preview(f"{pause.operator} has paused {_what(values)}{reason}. This concerns {readers} now.")


async def _resume(manager: QueueManager, values: Values) -> str:
    queue, consumer = _paused(values)
    operator = operator_of(manager, values)
    if not await operator.resume(queue, consumer=consumer, token=values.get("token")):
        raise InvalidArgument(f"{_what(values)} is not paused")
    return f"Workers resume {_what(values)} from their next heartbeat on."


# ---- one worker ----------------------------------------------------------------------------------


async def _worker(manager: QueueManager, values: Values) -> WorkerInfo:
    wanted = needed(values, "worker")
    for worker in await manager.workers():
        if worker.id == wanted:
            return worker
    raise InvalidArgument(f"the worker {wanted!r:.40} has ended")


def _named(worker: WorkerInfo) -> str:
    return f"{worker.name} on {worker.host} (process {worker.pid})"


async def _preview_stop(manager: QueueManager, values: Values) -> Preview:
    worker = await _worker(manager, values)
    running = formats.plural(len(worker.running), "handler")
    return Preview(
        f"The worker {_named(worker)} ends as after SIGTERM. It runs {running} now; those that do not end within its "
        "time for shutdown are cancelled, and their messages are given back."
    )


async def _stop(manager: QueueManager, values: Values) -> str:
    worker = needed(values, "worker")
    await operator_of(manager, values).stop_worker(worker, token=values.get("token"))
    return f"The worker {worker} is asked to stop."


async def _preview_cancel(manager: QueueManager, values: Values) -> Preview:
    worker, number = await _worker(manager, values), lookup_id(values)
    for handler in worker.running:
        if number in handler.lookup_ids:
            others = len(handler.lookup_ids) - 1
            more = f" It also has {formats.plural(others, 'other message')}." if others else ""
            return Preview(
                f"This cancels the handler of {handler.consumer} in the worker {_named(worker)} that has had message "
                f"{hex_id(number)} of {handler.queue} for {formats.duration(handler.seconds)}.{more} It is a "
                "failed attempt."
            )
    raise InvalidArgument(f"no handler of this worker has message {hex_id(number)} any more")


async def _cancel(manager: QueueManager, values: Values) -> str:
    number = lookup_id(values)
    await operator_of(manager, values).cancel_handler(
        needed(values, "worker"), number, token=values.get("token")
    )
    return f"The worker is asked to cancel the handler of message {hex_id(number)}."


_QUEUE, _CONSUMER = Field("queue", "Queue", "hidden"), Field("consumer", "Consumer", "hidden")
_WORKER = Field("worker", "Worker", "hidden")

ACTIONS = (
    Action(
        "pause",
        "Pause for workers",
        (_QUEUE, _CONSUMER, Field("reason", "Reason", help="Shown to everybody who sees the pause.")),
        _preview_pause,
        _pause,
        to("/workers"),
        by_operator=True,
    ),
    Action(
        "resume",
        "Resume for workers",
        (_QUEUE, _CONSUMER),
        _preview_resume,
        _resume,
        to("/workers"),
        by_operator=True,
    ),
    Action(
        "stop-worker", "Stop the worker", (_WORKER,), _preview_stop, _stop, to("/workers"), by_operator=True
    ),
    Action(
        "cancel-handler",
        "Cancel the handler",
        (_WORKER, Field("id", "Message", "hidden")),
        _preview_cancel,
        _cancel,
        to("/workers"),
        by_operator=True,
    ),
)
