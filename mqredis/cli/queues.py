"""``mqredis queue ...``: create, list, info, set, delete, purge.

``cli.app`` adds these commands, and ``admin`` shows its queues with ``COLUMNS``. The options of ``create`` and ``set``
are made from the fields of ``models.QueueProperties``, and their help from the docstrings there: a new property of a
type that ``_options`` knows needs no change here. ``tools.settings_docs`` uses ``docstrings``, too. ``retry``, an
object, has an option of its own. An option that is not given leaves a property as it is, so None is written "none".
``purge`` takes delayed messages, too; the one of the console does not (docs/console.md).
"""

from __future__ import annotations

import argparse
import ast
import inspect
import json
import re
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from functools import cache
from itertools import pairwise
from typing import Any, cast

from mqredis.cli.author import logged, operator_option
from mqredis.cli.common import Arguments, Subparsers, command, existing, open_manager, with_pauses, with_text
from mqredis.cli.figures import figure
from mqredis.cli.output import Output, counted
from mqredis.cli.values import asked, chosen, match_options, number
from mqredis.errors import InvalidArgument, QueueExists
from mqredis.keys import ACTIONS
from mqredis.models import Access, QueueProperties
from mqredis.models.queue import counted_once
from mqredis.operations.queue import FIXED

COLUMNS = (
    "name", "ready", "delayed", "locked", "messages", "bytes", "waiters", "paused", "transactional",
    "label"
)  # fmt: skip


def register(subparsers: Subparsers) -> None:
    """Add the commands."""
    queue = subparsers.add_parser("queue", help="create, list, change, purge and delete queues")
    inner = queue.add_subparsers(metavar="ACTION", required=True, dest="action")
    create = command(inner, "create", "create a queue", _create)
    create.add_argument("name")
    _properties(create)
    create.add_argument(
        "--exist-ok", action="store_true", help="do not fail if the queue exists; it is left as it is"
    )
    operator_option(create)
    listing = command(inner, "list", "list queues and subqueues", _list)
    listing.add_argument("pattern", nargs="?", help="only names that match this glob")
    listing.add_argument("--names", action="store_true", help="only the names, one per line")
    info = command(inner, "info", "show properties and state of a queue", _info)
    info.add_argument("name")
    change = command(inner, "set", "change properties of a queue", _set)
    change.add_argument("name")
    _properties(change, hidden=FIXED)
    operator_option(change)
    delete = command(inner, "delete", "delete a queue, its subqueues and all their messages", _delete)
    delete.add_argument("name")
    delete.add_argument("--yes", action="store_true", help="even if the queue or a subqueue holds messages")
    operator_option(delete)
    purge = command(inner, "purge", "remove the messages of a queue at once (there is no --yes)", _purge)
    purge.add_argument("name")
    match_options(purge)
    operator_option(purge)


def _options() -> dict[str, str]:
    """Properties that can be set, with their type: bool, int, float or str."""
    found = {}
    for name, info in QueueProperties.model_fields.items():
        kind = re.search(r"\b(bool|int|float|str)\b", str(info.annotation))
        if kind:
            found[name] = kind[0]
    return found


@cache
def docstrings(model: type[Any]) -> dict[str, str]:
    """The docstrings below the fields of a class. They are in the source only; without it there are none."""
    try:
        tree = ast.parse(inspect.getsource(sys.modules[model.__module__]))
    except OSError:
        return {}
    found: dict[str, str] = {}
    classes = (each for each in tree.body if isinstance(each, ast.ClassDef))
    body = next(each.body for each in classes if each.name == model.__name__)
    for statement, following in pairwise(body):
        if isinstance(statement, ast.AnnAssign) and isinstance(following, ast.Expr):
            text = cast("ast.Constant", following.value).value
            found[cast("ast.Name", statement.target).id] = " ".join(str(text).split())
    return found


def _about(name: str) -> str:
    """The help of an option: the first sentence on its property, in which argparse would expand "%"."""
    text, _, _ = docstrings(QueueProperties).get(name, "").partition(". ")
    return text.rstrip(".").replace("``", "").replace("None:", "none:").replace("%", "%%")


def _properties(parser: argparse.ArgumentParser, hidden: Sequence[str] = ()) -> None:
    group = parser.add_argument_group("properties")
    for name, kind in _options().items():
        option, about = "--" + name.replace("_", "-"), argparse.SUPPRESS if name in hidden else _about(name)
        if kind == "bool":
            group.add_argument(option, action=argparse.BooleanOptionalAction, default=None, help=about)
        elif kind == "str":
            group.add_argument(option, metavar="TEXT", help=about)
        else:
            group.add_argument(option, metavar="NUMBER", type=number, help=about)
    group.add_argument(
        "--retry",
        type=_json,
        metavar="JSON",
        help='retry policy: {"immediate": 2, "cycles": 3, "delay": 10}; delays in seconds; none: no policy',
    )


def _json(text: str) -> Any:
    """A property that is an object, or "none"."""
    try:
        return "none" if text.lower() == "none" else json.loads(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r:.40} is neither JSON nor 'none'") from None


def _chosen_properties(arguments: Arguments) -> dict[str, Any]:
    """The properties that the options of ``_properties`` give."""
    values = {name: getattr(arguments, name) for name in (*_options(), "retry")}
    return {name: None if value == "none" else value for name, value in values.items() if value is not None}


def _create(arguments: Arguments, output: Output) -> None:
    text = f"queue {arguments.name!r:.140} exists already (--exist-ok: do not fail)"
    hint = nullcontext() if arguments.exist_ok else with_text(QueueExists, text)
    properties = _chosen_properties(arguments)
    with (
        open_manager(arguments) as qm,
        hint,
        logged(arguments, qm, "create_queue", arguments.name, **properties),
    ):
        try:
            info, created = qm.create_queue(arguments.name, **properties), True
        except QueueExists:
            if not arguments.exist_ok:
                raise
            info, created = qm.create_queue(arguments.name, exist_ok=True, **properties), False
    output.line(f"queue {info.name} {'was created' if created else 'exists'}", **info.model_dump())


def _list(arguments: Arguments, output: Output) -> None:
    with open_manager(arguments) as qm:
        found = qm.queues(arguments.pattern)
        # Without a pattern the log of actions is left out: `mqredis actions` shows it.
        listed = [info.model_dump() for info in found if arguments.pattern or info.name != ACTIONS]
        rows = with_pauses(qm, listed)
    if arguments.names and not output.json_lines:
        for row in rows:
            output.line(row["name"])
    else:
        output.rows(rows, COLUMNS, figure)


def _info(arguments: Arguments, output: Output) -> None:
    with open_manager(arguments) as qm:
        (row,) = with_pauses(qm, [qm.queue_info(arguments.name).model_dump()])
    output.fields(row)


def _set(arguments: Arguments, output: Output) -> None:
    changes = _chosen_properties(arguments)
    if not changes:
        raise InvalidArgument("nothing to set: name a property, for example --quota-messages 1000")
    with open_manager(arguments) as qm, logged(arguments, qm, "set_queue", arguments.name, **changes):
        info = qm.update_queue(arguments.name, **changes)
    output.fields(info.model_dump())


def _delete(arguments: Arguments, output: Output) -> None:
    with open_manager(arguments) as qm:
        info = qm.queue_info(arguments.name)
        held = [each for each in counted_once(info, qm.queues(f"{info.name};*")) if each.messages]
        if held and not arguments.yes:
            where = ", ".join(f"{each.name} holds {counted(each.messages, 'message')}" for each in held)
            raise InvalidArgument(f"{where}: add --yes to delete the queue all the same")
        with logged(arguments, qm, "delete_queue", arguments.name) as set_result:
            removed = qm.delete_queue(arguments.name)
            set_result(f"deleted {arguments.name} with {counted(removed, 'message')}", removed)
    output.line(
        f"deleted {arguments.name} with {counted(removed, 'message')}", name=arguments.name, removed=removed
    )


def _purge(arguments: Arguments, output: Output) -> None:
    how = chosen(arguments)
    with open_manager(arguments) as qm, qm.open(existing(qm, arguments.name), Access.RECEIVE) as queue:
        total = None if how else qm.queue_info(arguments.name).ready
        with (
            logged(arguments, qm, "purge", arguments.name, **asked(arguments)) as set_result,
            output.counter("purging", total) as tick,
        ):
            removed = queue.purge(**how)
            tick(removed)
            set_result(f"removed {counted(removed, 'message')} of {arguments.name}", removed)
    output.line(f"removed {counted(removed, 'message')}", name=arguments.name, removed=removed)
