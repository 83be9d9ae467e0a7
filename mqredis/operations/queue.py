"""Create, change, list and delete queues (MS-MQDMPR 3.1.7.1.3, .4).

The methods of ``QueueManager`` make them; the console lists ``names``, kombu's store makes ``touch``, and other
operations ask for ``info`` and ``serve`` the due timers of a queue. CONTRIBUTING.md shows how to add a property; one
that cannot be changed is in ``FIXED`` (``cli.queues`` does not offer it), one that queues of the system have in
``_OF_SYSTEM``.
"""

from __future__ import annotations

import fnmatch
import logging
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

from mqredis import keys
from mqredis.commands import queues as commands
from mqredis.commands.address import Address
from mqredis.commands.manager import maintain
from mqredis.errors import (
    InvalidArgument,
    InvalidName,
    QueueExists,
    QueueNotFound,
)
from mqredis.keys import path_of
from mqredis.models import QueueInfo, QueueProperties
from mqredis.models.validation import translated
from mqredis.operations import checks
from mqredis.operations.context import Context
from mqredis.operations.queue_call import QueueCall, provide
from mqredis.operations.server_checks import refuse_volatile
from mqredis.steps import Steps, perform, procedure

log = logging.getLogger("mqredis")

# Properties that a queue of the system has.
_OF_SYSTEM = {"label", "quota_messages", "quota_bytes", "get_inhibited"}
# Properties that cannot be changed.
FIXED = ("transactional", "group_exclusive", "topic")
# Queues that one information call covers, each with its subqueues of resting messages.
PAGE = 32


def _properties(path: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """All properties of a queue: the given ones, and the others at their defaults. Raises InvalidArgument."""
    with translated(QueueProperties, "property", lambda text, _: InvalidArgument(text)):
        made = QueueProperties(**values)
    if made.retry is not None and made.retry.dead_letter_queue == path:
        raise InvalidArgument(
            f"property retry: dead_letter_queue is the queue {path!r} itself, where messages that fail would be tried "
            "again without end: name another queue, or None for the dead-letter queue of the system"
        )
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
    checked = _properties(path, properties)
    if context.server_state.volatile and checked["transactional"]:
        raise refuse_volatile(f"transactional queue {path!r} is not made")
    checks.flag(exist_ok, "exist_ok")
    try:
        yield from perform(commands.create(context.keys, path, checked))
    except QueueExists:
        if not exist_ok:
            raise
    else:
        return (yield from info(context, path))
    found = yield from info(context, path)
    for fixed in FIXED:
        if getattr(found, fixed) != checked[fixed]:
            raise QueueExists(
                f"queue {path!r} exists already, and its property {fixed} is {getattr(found, fixed)}"
            )
    if differing := [given for given in properties if getattr(found, given) != checked[given]]:
        log.warning(
            "queue %r exists already and keeps its properties, of which %s differ from the given ones; update_queue "
            "(mqredis queue set) changes them",
            path,
            ", ".join(differing),
        )
    return found


@procedure
def info(context: Context, name: object) -> Steps[QueueInfo]:
    """Properties and state of a queue. Raises QueueNotFound."""
    path = path_of(name)
    found = (yield from _infos(context, (path,)))[0]
    if found is None and keys.is_system_queue(path) and not context.settings.read_only:
        yield from perform(commands.ensure(context.keys, (path,)))
        found = (yield from _infos(context, (path,)))[0]
    if found is None:
        raise QueueNotFound(f"there is no queue {path!r}")
    return found


def _infos(context: Context, paths: Sequence[str]) -> Steps[list[QueueInfo | None]]:
    """Properties and state of several queues, None for one that does not exist. A subqueue has no properties of its
    own; those of its queue are given. Messages that rest between two attempts count as delayed messages of their queue,
    to which they return."""
    parents = {path: queue for path in paths if (queue := keys.parent_of(path))}
    resting = {path: [f"{path};{part}" for part in keys.RESTING] for path in paths if ";" not in path}
    wanted = list(dict.fromkeys((*paths, *parents.values(), *chain(*resting.values()))))
    answers = yield from perform(commands.info(context.keys, wanted))
    overdue = [path for path, (_, due) in zip(wanted, answers, strict=True) if due]
    if overdue and not context.settings.read_only:
        for path in overdue:
            yield from serve(context, path)
        answers = yield from perform(commands.info(context.keys, wanted))
    rows = {path: row for path, (row, _) in zip(wanted, answers, strict=True)}
    found = []
    for path in paths:
        row, parent = rows[path], rows.get(parents.get(path, ""))
        if row and parent:
            row = row.model_copy(update=parent.properties())
        elif row:
            for rest in filter(None, map(rows.get, resting.get(path, ()))):
                more = {"messages": rest.messages, "bytes": rest.bytes, "delayed": rest.messages}
                row = row.model_copy(update={key: getattr(row, key) + value for key, value in more.items()})
        found.append(row)
    return found


@procedure
def serve(context: Context, path: str) -> Steps[int]:
    """Serve all due timers of a queue, so many with each call as maintain.lua takes. Returns the number of calls."""
    calls, more, address = 0, True, Address(context.keys, path)
    while more:
        calls += 1
        more = yield from QueueCall(address, maintain(address))
    return calls


@procedure
def update(context: Context, name: object, changes: Mapping[str, Any]) -> Steps[QueueInfo]:
    """Change properties."""
    path = path_of(name)
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
    checked = {name: value for name, value in _properties(path, changes).items() if name in changes}
    yield from _change(context, path, checked)
    return (yield from info(context, path))


@procedure
def touch(context: Context, name: object) -> Steps[None]:
    """Set the time of the last change of a queue, and nothing else. Raises QueueNotFound."""
    yield from _change(context, path_of(name), {})


def _change(context: Context, path: str, changes: Mapping[str, Any]) -> Steps[None]:
    """Change properties that were checked, once the timers that are due are served."""
    beside: list[str] = []
    while (missing := (yield from perform(commands.update(context.keys, path, changes, beside)))) is not None:
        yield from provide(context.keys, missing)
        beside += [each for each in missing if each not in beside]


@procedure
def delete(context: Context, name: object) -> Steps[int]:
    """Delete a queue with its subqueues. Returns how many messages were deleted. Raises QueueNotFound.

    Each call deletes a page of messages, or names queues that the next one has to bring: subqueues, and queues that get
    dead letters or reports.
    """
    paths, removed = [path_of(name)], 0
    parent = keys.parent_of(paths[0])
    beside = [parent] if parent else []
    while True:
        deleted = yield from perform(commands.delete(context.keys, paths, beside))
        removed += deleted.messages
        if deleted.done:
            return removed
        inside = [path for path in deleted.missing if path.startswith(f"{paths[0]};")]
        outside = [path for path in deleted.missing if path not in inside]
        yield from provide(context.keys, deleted.missing)
        paths += [path for path in inside if path not in paths]
        beside += [path for path in outside if path not in beside]


@procedure
def names(context: Context, pattern: object) -> Steps[list[str]]:
    """The names of all queues and subqueues that match a glob pattern, sorted. None: of all."""
    if pattern is not None and not isinstance(pattern, str):
        raise InvalidArgument(f"pattern must be a str, not {type(pattern).__name__}")
    found = yield from perform(commands.names(context.keys))
    return found if pattern is None else [name for name in found if fnmatch.fnmatchcase(name, pattern)]


@procedure
def listing(context: Context, pattern: object) -> Steps[list[QueueInfo]]:
    """All queues whose name matches a glob pattern, sorted by name."""
    paths = yield from names(context, pattern)
    found: list[QueueInfo] = []
    for at in range(0, len(paths), PAGE):
        page = yield from _infos(context, paths[at : at + PAGE])
        found += [item for item in page if item is not None]
    return found
