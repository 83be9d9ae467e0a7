"""The statistics of a queue: ``QueueManager.statistics``.

``commands.features.statistics`` makes them from the names in the reply of lua/stats.lua.
"""

from __future__ import annotations

from mqredis import keys
from mqredis.commands import features
from mqredis.commands import queues as queue_commands
from mqredis.keys import path_of
from mqredis.models import QueueStatistics
from mqredis.operations import failed
from mqredis.operations.context import Context
from mqredis.operations.queue import serve
from mqredis.steps import Steps, perform, procedure


@procedure
def statistics(context: Context, name: object) -> Steps[QueueStatistics]:
    """The statistics of a queue."""
    path = path_of(name)
    bound, reading = context.settings.failed_messages_warning, context.settings.read_only
    if keys.is_system_queue(path) and not reading:
        yield from perform(queue_commands.ensure(context.keys, (path,)))
    found, sample_due = yield from perform(features.statistics(context.keys, path))
    if found.overdue and not reading:
        yield from serve(context, path)
        found, sample_due = yield from perform(features.statistics(context.keys, path))
    if sample_due and not reading:
        yield from perform(features.sample(context.keys, path))
    return _with_warnings(found, bound)


def _with_warnings(found: QueueStatistics, bound: int) -> QueueStatistics:
    """The statistics of a queue with a warning if it, or the ``;poison`` that it has a part in, holds too many failed
    messages. Dead-letter queues that retry policies name are not known here: that takes a listing of all queues.
    """
    held = {f"{found.name.partition(';')[0]}{failed.POISON}": found.poison_messages}
    if failed.holds_failed(found.name, failed.SYSTEM_DEAD_LETTERS):
        held = {found.name: found.messages}
    texts = tuple(
        failed.warning(path, messages, bound) for path, messages in held.items() if messages > bound
    )
    return found.model_copy(update={"warnings": texts}) if texts else found
