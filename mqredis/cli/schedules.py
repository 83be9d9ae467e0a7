"""``mqredis schedules list | create | pause | resume | trigger | remove``.

``cli.app`` adds these commands. ``create`` takes the options of ``send`` (``messages.message_options``), so an option
there is one here. JSON rows have "cron" and "interval", of which one is null; only tables have "times", made from
these. A new field of ``models.ScheduleInfo`` is shown if ``_SHOWN`` names it.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from mqredis.cli.author import operator_of, operator_options
from mqredis.cli.common import Arguments, Subparsers, command, open_manager, with_text
from mqredis.cli.form import to_json
from mqredis.cli.messages import message_fields, message_options
from mqredis.cli.output import Output
from mqredis.errors import ScheduleDamaged, ScheduleNotFound
from mqredis.models.schedule import ScheduleInfo

_SHOWN = ("timezone", "next_at", "last_at", "paused", "declared", "overdue")
COLUMNS = ("name", "queue", "times", *_SHOWN)
# What only a message has that was sent.
_OF_SENT = ("lookup_id", "queue", "message_id", "token", "sent_at", "arrived_at", "expires_at")


def register(subparsers: Subparsers) -> None:
    """Add the commands."""
    schedules = subparsers.add_parser("schedules", help="list, create, pause, trigger and remove schedules")
    inner = schedules.add_subparsers(metavar="ACTION", required=True, dest="action")
    command(inner, "list", "list schedules with their next and last time", _list)
    create = command(inner, "create", "send a message at certain times", _create)
    create.add_argument("name")
    create.add_argument("queue")
    create.add_argument("body", nargs="?", default="", help="text of the body (default: empty)")
    times = create.add_mutually_exclusive_group(required=True)
    times.add_argument("--cron", metavar="TEXT", help='a cron expression: "0 3 * * mon-fri"')
    times.add_argument("--every", type=float, metavar="SECONDS", help="seconds between two times")
    create.add_argument(
        "--timezone", default="UTC", metavar="NAME", help="of the expression: Europe/Berlin (default: UTC)"
    )
    create.add_argument("--paused", action="store_true", help="send nothing until it is resumed")
    message_options(create)
    operator_options(create)
    for name, about, run in (
        ("pause", "have a schedule send nothing until it is resumed", _pause),
        ("resume", "have a paused schedule go on at its next time", _resume),
        ("trigger", "send the message of a schedule now; its next time stays", _trigger),
        ("remove", "remove a schedule", _remove),
    ):
        parser = command(inner, name, about, run)
        parser.add_argument("name")
        operator_options(parser)


def _known(arguments: Arguments) -> AbstractContextManager[None]:
    text = f"there is no schedule {arguments.name!r:.140}: see mqredis schedules list"
    return with_text(ScheduleNotFound, text)


def _row(schedule: ScheduleInfo) -> dict[str, Any]:
    known = {name: getattr(schedule, name) for name in ("name", "queue", "cron", "interval", *_SHOWN)}
    message = {name: value for name, value in to_json(schedule.message).items() if name not in _OF_SENT}
    return {**known, "damaged": schedule.damaged, "message": message}


def _list(arguments: Arguments, output: Output) -> None:
    with open_manager(arguments) as qm:
        rows = [_row(schedule) for schedule in qm.schedules()]
    if not output.json_lines:
        rows = [{**row, "times": row["cron"] or f"every {row['interval']:.15g} s"} for row in rows]
    output.rows(rows, COLUMNS)
    for name in [row["name"] for row in rows if row["damaged"]]:
        output.notice(f"schedule {name} sends nothing: {ScheduleDamaged()}")


def _create(arguments: Arguments, output: Output) -> None:
    with open_manager(arguments) as qm:
        operator_of(arguments, qm).create_schedule(
            arguments.name,
            arguments.every if arguments.cron is None else arguments.cron,
            arguments.queue,
            arguments.body,
            timezone=arguments.timezone,
            paused=arguments.paused,
            token=arguments.token,
            **message_fields(arguments),
        )
    output.line(f"created schedule {arguments.name}", name=arguments.name, paused=arguments.paused)


def _pause(arguments: Arguments, output: Output) -> None:
    with open_manager(arguments) as qm, _known(arguments):
        done = operator_of(arguments, qm).pause_schedule(arguments.name, token=arguments.token)
    text = f"paused schedule {arguments.name}" if done else f"schedule {arguments.name} was paused already"
    output.line(text, name=arguments.name, paused=True)


def _resume(arguments: Arguments, output: Output) -> None:
    with open_manager(arguments) as qm, _known(arguments):
        done = operator_of(arguments, qm).resume_schedule(arguments.name, token=arguments.token)
    text = f"resumed schedule {arguments.name}" if done else f"schedule {arguments.name} was not paused"
    output.line(text, name=arguments.name, paused=False)


def _trigger(arguments: Arguments, output: Output) -> None:
    with open_manager(arguments) as qm, _known(arguments):
        operator_of(arguments, qm).trigger_schedule(arguments.name, token=arguments.token)
    output.line(f"sent the message of schedule {arguments.name}", name=arguments.name)


def _remove(arguments: Arguments, output: Output) -> None:
    with open_manager(arguments) as qm, _known(arguments):
        operator_of(arguments, qm).remove_schedule(arguments.name, token=arguments.token)
    output.line(f"removed schedule {arguments.name}", name=arguments.name)
