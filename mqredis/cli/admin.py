"""``mqredis doctor | resolve | throttle | quota | maintain | stats | acl | broker``.

``cli.app`` adds these commands. ``doctor`` ends with 7 for a broken invariant and with 6 for warnings under
``--strict``; ``acl`` prints comments on stderr, so that its stdout can be piped to the server. With ``--json``,
``doctor`` and ``stats`` print the fields of ``reports`` and of the models, which programs read.
"""

from __future__ import annotations

import argparse

from mqredis import embedded
from mqredis.cli import acl
from mqredis.cli.author import logged, operator_option
from mqredis.cli.common import Arguments, Subparsers, command, open_manager, with_pauses
from mqredis.cli.exits import Exit
from mqredis.cli.figures import figure
from mqredis.cli.output import Output, counted
from mqredis.cli.queues import COLUMNS
from mqredis.cli.scripts import functions_option
from mqredis.cli.values import amount, number
from mqredis.drivers.net.urls import parse
from mqredis.errors import InvalidArgument
from mqredis.operations.history import BUCKET_SECONDS
from mqredis.reports import Finding
from mqredis.settings import Settings


def register(subparsers: Subparsers) -> None:
    """Add the commands."""
    doctor = command(subparsers, "doctor", "check the store and the server's settings", _doctor)
    doctor.add_argument(
        "--repair", action="store_true", help="mend what can be mended without losing anything"
    )
    doctor.add_argument("--strict", action="store_true", help="warnings end with 6 too")
    operator_option(doctor)
    resolve = command(subparsers, "resolve", "ask what became of a call whose outcome is unknown", _resolve)
    resolve.add_argument("token")
    throttle = command(subparsers, "throttle", "refuse every send, or accept them again", _throttle)
    throttle.add_argument("switch", choices=("on", "off"))
    operator_option(throttle)
    quota = command(subparsers, "quota", "show or limit what all queues of the manager hold together", _quota)
    for name in ("messages", "bytes"):
        quota.add_argument(
            f"--{name}", metavar="NUMBER", type=number, help="none: no limit (default: as it is)"
        )
    operator_option(quota)
    command(subparsers, "maintain", "serve the due timers of every queue", _maintain)
    stats = command(
        subparsers, "stats", "show the manager and its queues, or what passes through one", _stats
    )
    stats.add_argument(
        "queue", nargs="?", help="counts, bytes, ages by priority, totals and rates of this queue"
    )
    stats.add_argument(
        "--history",
        action="store_true",
        help=f"what came, left, failed and was tried again in each {BUCKET_SECONDS // 60} minutes of the last day",
    )
    rules = command(subparsers, "acl", "print minimal ACL rules for a user of the manager", _acl)
    rules.add_argument("--role", choices=tuple(acl.ROLES), help="one role only (default: each)")
    rules.add_argument(
        "--database",
        type=amount,
        metavar="NUMBER",
        help="the database of the users (default: that of the URL)",
    )
    rules.add_argument(
        "--preloaded",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="the role deploy loads the scripts (default); --no-preloaded: each user does, and can run any Lua",
    )
    functions_option(rules)
    rules.add_argument(
        "--fsync", action="store_true", help='users may ask for durability="fsync" (WAITAOF, Redis 7.2)'
    )
    broker = command(subparsers, "broker", "run the private server in the foreground", _broker)
    broker.add_argument(
        "directory", nargs="?", help="where its data are (default: MQREDIS_DIR or the user's data)"
    )


def _finding(finding: Finding) -> str:
    done = " [repaired]" if finding.repaired else " [--repair mends it]" if finding.repairable else ""
    return f"{finding.severity:<8} {finding.code:<20} {finding.where}: {finding.text}{done}"


def _doctor(arguments: Arguments, output: Output) -> Exit:
    with (
        open_manager(arguments, allow_eviction=True) as qm,
        logged(arguments, qm, "repair", changes=arguments.repair) as set_result,
    ):
        report = qm.doctor(repair=arguments.repair)
        repaired = sum(finding.repaired for finding in report.everything)
        set_result(f"repaired {counted(repaired, 'finding')}")
    if output.json_lines:
        output.fields(report.model_dump(mode="json"))
    else:
        for finding in report.everything:
            output.line(_finding(finding))
        for level in report.levels:
            output.line(f"durability={level.name:<14} {'yes' if level.reachable else 'no'}: {level.text}")
        cut = "" if report.consistent else ", too busy for sums and cross references"
        output.line(
            f"{report.manager}: {counted(report.queues, 'queue')}, {counted(report.messages, 'message')}, "
            f"{counted(report.transactions, 'open transaction')}, {counted(report.sessions, 'session')}{cut}; "
            f"{counted(len(report.findings), 'broken invariant')}, "
            f"acknowledged changes have reached: {report.server['ack_level']}"
        )
    if not report.healthy:
        return Exit.BROKEN
    warned = any(item.severity == "warning" and not item.repaired for item in report.advice)
    return Exit.WARNINGS if arguments.strict and warned else Exit.DONE


def _resolve(arguments: Arguments, output: Output) -> None:
    with open_manager(arguments) as qm:
        found = qm.resolve(arguments.token)
    ids = [f"0x{lookup_id}" for lookup_id in found.lookup_ids]
    status = [f"status {found.status:#010x}"] if found.outcome == "done" else []
    output.line(
        " ".join([found.outcome, *status, *ids]),
        token=arguments.token,
        outcome=found.outcome,
        status=found.status,
        lookup_ids=ids,
    )


def _throttle(arguments: Arguments, output: Output) -> None:
    on = arguments.switch == "on"
    text = "sends are refused" if on else "sends are accepted"
    with open_manager(arguments) as qm, logged(arguments, qm, "throttle", on=on) as set_result:
        qm.throttle(on)
        set_result(text)
    output.line(text, throttled=on)


def _quota(arguments: Arguments, output: Output) -> None:
    with open_manager(arguments) as qm:
        info = qm.info()
        found = {"messages": info.quota_messages, "bytes": info.quota_bytes}
        changes = {name: value for name in found if (value := getattr(arguments, name)) is not None}
        if changes:
            found |= {name: None if value == "none" else value for name, value in changes.items()}
            with logged(arguments, qm, "quota", **changes):
                qm.set_quota(**found)
    output.fields({f"quota_{name}": value for name, value in found.items()}, figure)


def _maintain(arguments: Arguments, output: Output) -> None:
    with open_manager(arguments) as qm:
        calls = qm.maintain()
    output.line(f"served in {counted(calls, 'call')}", calls=calls)


# Columns of the history of a queue.
HISTORY = (
    "start", "messages_in", "messages_out", "failed", "retried", "messages", "oldest_seconds", "complete"
)  # fmt: skip


def _stats(arguments: Arguments, output: Output) -> None:
    if arguments.history:
        if arguments.queue is None:
            raise InvalidArgument("--history needs the name of a queue")
        with open_manager(arguments) as qm:
            periods = qm.history(arguments.queue)
        output.rows([{name: getattr(each, name) for name in HISTORY} for each in periods], HISTORY, figure)
        return
    if arguments.queue is not None:
        with open_manager(arguments) as qm:
            (row,) = with_pauses(qm, [qm.statistics(arguments.queue).model_dump()])
        output.fields(row, figure)
        return
    with open_manager(arguments) as qm:
        manager, rows = qm.info().model_dump(), with_pauses(qm, (info.model_dump() for info in qm.queues()))
        warnings = [each.warning for each in qm.failed_messages() if each.warning]
    if output.json_lines:
        output.line("", manager=manager, queues=rows, warnings=warnings)
    else:
        output.fields(manager, figure)
        print()
        output.rows(rows, COLUMNS, figure)
        for text in warnings:
            output.line(f"warning: {text}")


def _acl(arguments: Arguments, output: Output) -> None:
    """Print the rules; this connects to no server."""
    settings = Settings.from_env()
    manager = getattr(arguments, "manager", None) or settings.manager
    database = arguments.database
    if database is None:
        url = getattr(arguments, "url", None) or settings.url
        database = parse(url).database if url else 0
    how = {name: getattr(arguments, name) for name in ("preloaded", "functions", "fsync")}
    for role in (arguments.role,) if arguments.role else acl.ROLES:
        text = acl.line(role, manager, database, **how)
        title = f"{role}: {acl.ROLES[role]}"
        if role in ("worker", "admin"):
            title += f"; manager {manager}, database {database}"
            if not arguments.preloaded:
                title += "; loads scripts, so it can run Lua of its own: for development"
        output.comment(title)
        output.line(
            text,
            role=role,
            manager=manager,
            database=database,
            rules=acl.rules(role, manager, database, **how),
            command=text,
        )


def _broker(arguments: argparse.Namespace, output: Output) -> None:
    def ready(server: embedded.Embedded) -> None:
        output.line(
            f"{server.describe()}: {server.url}", url=server.url, kind=server.kind, directory=server.directory
        )
        print(end="", flush=True)

    embedded.run_foreground(arguments.directory, ready)
