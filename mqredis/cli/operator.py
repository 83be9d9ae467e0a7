"""``mqredis delete | cancel | restore | move | reschedule | run-now | priority | release | abort | actions``.

It also has ``pause``, ``resume`` and ``stop-worker``. ``cli.app`` adds these commands.

``_SCHEDULED`` has to name the messages that the methods of ``Operator`` take, else ``--count`` counts others. Programs
read the JSON fields: the number is "messages", but "moved" for ``move``. ``actions`` reads the log that
``console.pages.log`` shows (operations/actions.py and lua/admin/operator.lua write it), and prints properties of its
entries as they are stored. A new action needs a method of ``Operator`` first (``operations.bulk``), and a row in
docs/cli.md.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from mqredis.cli.author import operator_of, operator_options
from mqredis.cli.common import Arguments, Subparsers, command, open_manager
from mqredis.cli.exits import Exit
from mqredis.cli.output import Output, counted
from mqredis.cli.show import pages
from mqredis.cli.values import chosen, limit_option, lookup_id, match_options, moment
from mqredis.errors import InvalidArgument, MessageLocked, MessageNotFound, QueueNotFound
from mqredis.keys import ACTIONS
from mqredis.models.operator import BulkResult

# Entries of the log that are shown without --limit.
MOST_ACTIONS = 100
COLUMNS = ("time", "operator", "source", "action", "queue", "changed", "finished", "details")


# Which messages an action takes: only delayed ones, or only available ones.
_SCHEDULED = {"cancel": True, "reschedule": True, "run_now": True, "move": False}


def register(subparsers: Subparsers) -> None:
    """Add the commands."""
    _register_messages(subparsers)
    _register_holders(subparsers)
    _register_workers(subparsers)
    log = command(subparsers, "actions", "show what operators have done, the latest first", _actions)
    limit_option(log, MOST_ACTIONS)


def _register_messages(subparsers: Subparsers) -> None:
    """Add the commands for messages that wait."""
    delete = _command(subparsers, "delete", "delete messages that wait", _delete)
    cancel = _command(subparsers, "cancel", "delete delayed messages", _cancel)
    for parser in (delete, cancel):
        parser.add_argument(
            "--trash", type=float, metavar="SECONDS", help="keep them in the subqueue ;trash so long"
        )
    _command(subparsers, "restore", "bring messages back from the subqueue ;trash of a queue", _restore)
    move = _command(
        subparsers,
        "move",
        "move available messages between a queue and its subqueues",
        _move,
        "source",
        "target",
    )
    move.description = "Move available messages between a queue and its subqueues; orders and orders;retry."
    later = _command(subparsers, "reschedule", "give delayed messages another time", _reschedule)
    later.add_argument("--delay", type=float, metavar="SECONDS", help="available so many seconds from now")
    later.add_argument(
        "--at", type=moment, metavar="TIME", help="available at this time: 2026-12-24T18:00+01:00"
    )
    _command(subparsers, "run-now", "make delayed messages available at once", _run_now)
    priority = _command(subparsers, "priority", "give messages that wait another priority", _priority)
    priority.add_argument("--to", type=int, required=True, metavar="0..7", help="the new priority")
    for parser in (delete, priority):
        which = parser.add_mutually_exclusive_group()
        which.add_argument("--scheduled", action="store_const", const=True, help="only delayed messages")
        which.add_argument(
            "--ready", dest="scheduled", action="store_const", const=False, help="only available messages"
        )


def _register_holders(subparsers: Subparsers) -> None:
    """Add the commands for locks and transactions."""
    release = command(subparsers, "release", "end the locks of readers on messages", _release)
    release.description = (
        "End the locks of readers on messages: they are given back. With --reject they are rejected instead: a "
        "rejected message is deleted, unless it asked for a dead letter when it was sent."
    )
    release.add_argument("queue")
    release.add_argument("lookup_id", nargs="+", type=lookup_id)
    release.add_argument(
        "--reject",
        metavar="REASON",
        help="reject the messages instead: those that asked for no dead letter are deleted; needs --yes",
    )
    release.add_argument(
        "--yes", action="store_true", help="reject the messages, although they may be deleted by that"
    )
    operator_options(release)
    abort = command(subparsers, "abort", "abort an open transaction of any client", _abort)
    abort.add_argument("transaction", help="its id")
    operator_options(abort)


def _register_workers(subparsers: Subparsers) -> None:
    """Add the commands for workers."""
    for name, about, run in (
        ("pause", "stop workers from reading a queue, or one consumer from reading", _pause),
        ("resume", "end a pause", _resume),
    ):
        parser = command(subparsers, name, about, run)
        parser.add_argument("queue", nargs="?")
        parser.add_argument(
            "--consumer", metavar="NAME", help=f"{name} the consumers of this name instead of a queue"
        )
        if name == "pause":
            parser.add_argument("--reason", default="", help="why, for everybody who sees the pause")
        operator_options(parser)
    stop = command(subparsers, "stop-worker", "ask a worker to stop, or to cancel one of its handlers", _stop)
    stop.add_argument("worker", help="its id (mqredis show workers)")
    stop.add_argument(
        "--cancel", type=lookup_id, metavar="ID", help="cancel the handler of this message, and go on"
    )
    operator_options(stop)


def _command(subparsers: Subparsers, name: str, about: str, run: Any, *where: str) -> Any:
    parser = command(subparsers, name, about, run)
    for each in where or ("queue",):
        parser.add_argument(each)
    parser.add_argument(
        "lookup_id", nargs="*", type=lookup_id, help="which; without any, those that match or --all"
    )
    parser.add_argument("--all", action="store_true", help="all of them")
    parser.add_argument("--limit", type=int, help="at most so many")
    parser.add_argument(
        "--count", action="store_true", help="change nothing, and say how many messages it would be"
    )
    operator_options(parser)
    match_options(parser)
    return parser


def _act(
    arguments: Arguments,
    output: Output,
    verb: str,
    action: str,
    queue: str,
    *values: Any,
    where: Mapping[str, str] | None = None,
    **how: Any,
) -> None:
    """Run an action, or count what it would change, and show the result.

    ``values``, ``how``: arguments of the method ``action`` of Operator, behind the queue. ``where``: the fields that
    name its queues in JSON; None: {"queue": queue}.
    """
    choice = _choice(arguments)
    with open_manager(arguments) as qm:
        operator = operator_of(arguments, qm)
        if arguments.count:
            scheduled = how.get("scheduled", _SCHEDULED.get(action))
            path = f"{queue};trash" if action == "restore" else queue
            result = operator.count(path, scheduled=scheduled, **choice)
            verb = "counted"
        else:
            with output.counter(action) as tick:
                result = _with_progress(
                    tick, getattr(operator, action), queue, *values, token=arguments.token, **how, **choice
                )
    if arguments.lookup_id and result.locked:
        raise MessageLocked(
            f"{counted(result.locked, 'message')} of queue {queue!r} locked, {result.changed} {verb}"
        )
    if arguments.lookup_id and result.missing:
        raise MessageNotFound(f"{counted(result.missing, 'message')} not found, {result.changed} {verb}")
    text = f"{verb} {counted(result.changed, 'message')}"
    if how.get("trash") is not None and not arguments.count:
        text = f"moved {counted(result.changed, 'message')} to the trash for {how['trash']:g} s"
    where = where or {"queue": queue}
    output.line(text, **where, **{"moved" if action == "move" else "messages": result.changed})


def _choice(arguments: Arguments) -> dict[str, Any]:
    """Which messages the options choose, as arguments of an action. Raises InvalidArgument."""
    choice = chosen(arguments)
    if bool(arguments.lookup_id) + bool(choice) + arguments.all != 1:
        raise InvalidArgument("say which messages: lookup ids, --all, or options that match")
    if arguments.lookup_id:
        choice["lookup_ids"] = arguments.lookup_id
    if arguments.limit is not None:
        choice["limit"] = arguments.limit
    return choice


def _with_progress(tick: Any, run: Any, *values: Any, **how: Any) -> BulkResult:
    """Run an action and move the progress display on."""
    before = 0

    def progress(result: BulkResult) -> None:
        nonlocal before
        tick(result.changed - before)
        before = result.changed

    result: BulkResult = run(*values, progress=progress, **how)
    return result


def _delete(arguments: Arguments, output: Output) -> None:
    how = {"trash": arguments.trash, "scheduled": arguments.scheduled}
    _act(arguments, output, "deleted", "delete", arguments.queue, **how)


def _cancel(arguments: Arguments, output: Output) -> None:
    _act(arguments, output, "cancelled", "cancel", arguments.queue, trash=arguments.trash)


def _restore(arguments: Arguments, output: Output) -> None:
    _act(arguments, output, "restored", "restore", arguments.queue)


def _move(arguments: Arguments, output: Output) -> None:
    where = {"source": arguments.source, "target": arguments.target}
    _act(arguments, output, "moved", "move", arguments.source, arguments.target, where=where)


def _reschedule(arguments: Arguments, output: Output) -> None:
    how = {"delay": arguments.delay, "at": arguments.at}
    _act(arguments, output, "rescheduled", "reschedule", arguments.queue, **how)


def _run_now(arguments: Arguments, output: Output) -> None:
    _act(arguments, output, "made available", "run_now", arguments.queue)


def _priority(arguments: Arguments, output: Output) -> None:
    how = {"scheduled": arguments.scheduled}
    _act(arguments, output, "changed", "change_priority", arguments.queue, arguments.to, **how)


def _release(arguments: Arguments, output: Output) -> None:
    verb = "released" if arguments.reject is None else "rejected"
    if arguments.reject is not None and not arguments.yes:
        raise InvalidArgument(
            "a rejected message is deleted unless it asked for a dead letter: add --yes to reject all the same"
        )
    with open_manager(arguments) as qm:
        operator = operator_of(arguments, qm)
        result = operator.release(
            arguments.queue, arguments.lookup_id, reject=arguments.reject, token=arguments.token
        )
    if result.locked:
        raise MessageLocked(
            f"a transaction or a pipeline holds {counted(result.locked, 'message')}; {result.changed} {verb}"
        )
    if result.missing:
        raise MessageNotFound(f"{counted(result.missing, 'message')} not locked; {result.changed} {verb}")
    output.line(
        f"{verb} {counted(result.changed, 'message')}", queue=arguments.queue, messages=result.changed
    )


def _abort(arguments: Arguments, output: Output) -> None:
    with open_manager(arguments) as qm:
        operator_of(arguments, qm).abort(arguments.transaction, token=arguments.token)
    output.line(f"aborted {arguments.transaction}", transaction=arguments.transaction)


def _one_of_two(arguments: Arguments) -> None:
    """Raise InvalidArgument unless either a queue or a consumer is named."""
    if (arguments.queue is None) == (arguments.consumer is None):
        raise InvalidArgument("give either a queue or --consumer")


def _pause(arguments: Arguments, output: Output) -> None:
    _one_of_two(arguments)
    with open_manager(arguments) as qm:
        operator_of(arguments, qm).pause(
            arguments.queue, consumer=arguments.consumer, reason=arguments.reason, token=arguments.token
        )
        known = arguments.consumer is None or any(
            consumer.name == arguments.consumer for worker in qm.workers() for consumer in worker.consumers
        )
    name = arguments.queue or arguments.consumer
    output.line(f"paused {name}", name=name, paused=True)
    if not known:
        output.notice("no worker has a consumer of this name now")


def _resume(arguments: Arguments, output: Output) -> None:
    _one_of_two(arguments)
    name = arguments.queue or arguments.consumer
    with open_manager(arguments) as qm:
        was_paused = operator_of(arguments, qm).resume(
            arguments.queue, consumer=arguments.consumer, token=arguments.token
        )
    output.line(f"resumed {name}" if was_paused else f"{name} was not paused", name=name, paused=False)


def _stop(arguments: Arguments, output: Output) -> Exit:
    """A worker that does not run is no wrong argument: REFUSED in place of the USAGE of InvalidArgument."""
    with open_manager(arguments) as qm:
        operator = operator_of(arguments, qm)
        try:
            if arguments.cancel is None:
                operator.stop_worker(arguments.worker, token=arguments.token)
            else:
                operator.cancel_handler(arguments.worker, arguments.cancel, token=arguments.token)
        except InvalidArgument as error:
            if any(worker.id == arguments.worker for worker in qm.workers()):
                raise
            text = (
                f"there is no running worker with the id {arguments.worker!r:.140}: see mqredis show workers"
            )
            output.error(type(error).__name__, text, int(error.status))
            return Exit.REFUSED
    text = (
        "the worker is asked to stop"
        if arguments.cancel is None
        else "the worker is asked to cancel the handler"
    )
    output.line(text, worker=arguments.worker)
    return Exit.DONE


def _actions(arguments: Arguments, output: Output) -> None:
    rows = []
    with open_manager(arguments) as qm, suppress(QueueNotFound):  # before the first action there is no log
        entries = pages(partial(qm.messages, ACTIONS, reverse=True))
        for stored in output.first(entries, arguments.limit, MOST_ACTIONS):
            entry = stored.message
            details: Any = json.loads(entry.body)
            row = {"time": entry.arrived_at, "action": entry.label, "source": None}
            row |= {**entry.properties, "details": details}
            rows.append(row if output.json_lines else row | {"details": json.dumps(details)})
    output.rows(rows, COLUMNS)
