"""What the commands share: options, the connection, and how results are shown."""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from enum import Enum
from typing import Any, TypeVar

from mqredis import embedded
from mqredis.cli import terminal
from mqredis.client import QueueManager, connect
from mqredis.errors import MqError, OutcomeUnknown
from mqredis.keys import kept_by_broker
from mqredis.models import Match
from mqredis.models.text import identifier_of
from mqredis.settings import Settings

Arguments = argparse.Namespace
Subparsers = Any  # argparse keeps the class private
T = TypeVar("T")
#: What people see of the value of a field with this name.
Show = Callable[[str, Any], str]


def common_options() -> argparse.ArgumentParser:
    """Options that every command takes, before or behind its name."""
    parser = argparse.ArgumentParser(add_help=False, argument_default=argparse.SUPPRESS)
    group = parser.add_argument_group("where, and how to show it")
    group.add_argument(
        "--url",
        help="redis://, unix://, ...; a password is better kept in MQREDIS_URL, where ps cannot see it",
    )
    group.add_argument("--manager", help="name of the queue manager (default: default)")
    group.add_argument("--read-only", action="store_true", help="refuse every change")
    group.add_argument("--json", action="store_true", help="one JSON object per line, for machines")
    return parser


class Parser(argparse.ArgumentParser):
    """Takes options between and behind arguments, as in ``send orders --priority 7 hello``.

    argparse gives an argument that may be missing up at the first option, unless arguments are parsed intermixed, which
    it does not do for the parsers of subcommands.
    """

    _intermixed = False

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """See argparse."""
        rest = (argparse.PARSER, argparse.REMAINDER)
        if self._intermixed or any(action.nargs in rest for action in self._get_positional_actions()):
            return super().parse_known_args(args, namespace)
        self._intermixed = True
        try:
            return self.parse_known_intermixed_args(args, namespace)
        finally:
            self._intermixed = False


def command(subparsers: Subparsers, name: str, about: str, run: Any) -> argparse.ArgumentParser:
    """Add a subcommand that ``run(arguments, output)`` carries out."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        name, help=about, description=about[0].upper() + about[1:] + ".", parents=[common_options()]
    )
    parser.set_defaults(run=run)
    return parser


def given_settings(arguments: Arguments, **settings: Any) -> Settings:
    """The settings that the options and variables name."""
    names = ("url", "manager", "read_only")
    return Settings.from_env(
        **{name: getattr(arguments, name) for name in names if getattr(arguments, name, None)}, **settings
    )


def open_manager(arguments: Arguments, **settings: Any) -> QueueManager:
    """The queue manager that the options and variables name."""
    wanted = given_settings(arguments, **settings)
    manager = connect(settings=wanted)
    if wanted.url is None:
        server = embedded.join()
        if server.kind != "memory":  # of that a log entry has warned
            text = f"neither --url nor MQREDIS_URL is given: {server.describe()}"
            Output(getattr(arguments, "json", False)).notice(text)
        server.leave()
    return manager


def existing(qm: QueueManager, name: str) -> str:
    """The name of a queue that is read. Opening a subqueue creates it, so a mistyped one would look empty.

    Raises QueueNotFound, but not for a subqueue that the broker creates with its first message.
    """
    if ";" in name and not kept_by_broker(name):
        qm.queue_info(name)
    return name


def with_pauses(qm: QueueManager, rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Rows of queues, each with ``paused``: has an operator paused the queue for all workers?"""
    paused = {pause.name for pause in qm.pauses() if pause.kind == "queue"}
    return [{**row, "paused": row["name"] in paused} for row in rows]


@contextmanager
def saying(kind: type[MqError], text: str) -> Iterator[None]:
    """Replace the text of an error of this class by ``text``, which names options and commands."""
    try:
        yield
    except kind as error:
        error.args = (text,)
        raise


def match_options(parser: argparse.ArgumentParser) -> None:
    """Options that choose messages."""
    group = parser.add_argument_group("which messages")
    for name in ("message", "correlation", "group"):
        group.add_argument(
            f"--{name}-id", metavar="ID", help=f"only this {name} id; 0x... gives bytes in hex"
        )
    group.add_argument(
        "--selector", metavar="TEXT", help="only messages for which this is true: region = 'EU'"
    )


def chosen(arguments: Arguments) -> dict[str, Any]:
    """``match=`` and ``selector=`` of a read, from the options; nothing if none was given."""
    ids: dict[str, Any] = {
        name: identifier_of(getattr(arguments, name))
        for name in ("message_id", "correlation_id", "group_id")
        if getattr(arguments, name, None)
    }
    how: dict[str, Any] = {"match": Match(**ids)} if ids else {}
    if arguments.selector:
        how["selector"] = arguments.selector
    return how


def asked(arguments: Arguments) -> dict[str, Any]:
    """The values of ``match_options``, for the log of actions."""
    names = ("message_id", "correlation_id", "group_id", "selector")
    return {name: getattr(arguments, name) for name in names if getattr(arguments, name)}


def lookup_id(text: str) -> int:
    """A lookup id from an option: decimal, or hex with 0x in front (as all commands print it)."""
    try:
        value = int(text, 0)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r:.40} is not a lookup id") from None
    if not 0 <= value < 1 << 64:
        raise argparse.ArgumentTypeError(f"{text!r:.40} is not a lookup id")
    return value


def amount(text: str) -> int:
    """How many, from an option: 0 or more."""
    try:
        value = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r:.40} is not a whole number") from None
    if value < 0:
        raise argparse.ArgumentTypeError(f"{text!r:.40} is less than 0")
    return value


def port(text: str) -> int:
    """A port from an option: 0 to 65535; 0 is any free one."""
    value = amount(text)
    if value > 65_535:
        raise argparse.ArgumentTypeError(f"{text!r:.40} is not a port: ports go from 0 to 65535")
    return value


def wait_seconds(text: str) -> float:
    """The longest time to wait, from an option: 0 or more seconds."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not value >= 0:
        raise argparse.ArgumentTypeError(f"{text!r:.40} is not a time of 0 or more seconds")
    return value


def number(text: str) -> int | float | str:
    """A number from an option, or "none" for no limit."""
    if text.lower() == "none":
        return "none"
    try:
        return int(text) if re.fullmatch(r"[+-]?\d+", text) else float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r:.40} is neither a number nor 'none'") from None


def counted(count: int, thing: str) -> str:
    """So many of a thing, for a line of output: "1 message", "2 messages"."""
    return f"{count} {thing}" if count == 1 else f"{count} {thing}s"


def shown(value: Any) -> str:
    """A value in a table."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, datetime):
        return f"{value.astimezone(UTC):%Y-%m-%d %H:%M:%SZ}"
    if isinstance(value, Mapping):
        return ", ".join(
            f"{terminal.cell(str(name)).replace('_', ' ')} {shown(one)}" for name, one in value.items()
        )
    return terminal.cell(str(value))


def plain(value: Any) -> Any:
    """A value as JSON can hold it: times as ISO 8601, enumerations by value."""
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Enum):
        return value.value
    return repr(value)


class Output:
    """Results for people (aligned text, or rich tables in a terminal) or for machines (JSON lines)."""

    def __init__(self, json_lines: bool = False) -> None:
        self.json_lines = json_lines

    def line(self, text: str, **fields: Any) -> None:
        """One result: ``text`` for people, ``fields`` for machines."""
        print(self.encode(fields) if self.json_lines else terminal.lines(text))

    def rows(
        self,
        rows: Sequence[Mapping[str, Any]],
        columns: Sequence[str],
        show: Show = lambda _, value: shown(value),
    ) -> None:
        """A table of these columns; machines get every field of each row."""
        if self.json_lines:
            for row in rows:
                print(self.encode(row))
        elif not self._rich(rows, columns, show):
            cells = [[show(name, row[name]) for name in columns] for row in rows]
            print(aligned([[name.replace("_", " ") for name in columns], *cells]), end="")

    def fields(self, fields: Mapping[str, Any], show: Show = lambda _, value: shown(value)) -> None:
        """One thing with its fields."""
        if self.json_lines:
            print(self.encode(fields))
        else:
            print(
                aligned([[name.replace("_", " "), show(name, value)] for name, value in fields.items()]),
                end="",
            )

    def progress(self, items: Iterable[T], about: str, total: int | None = None) -> Iterable[T]:
        """The items, with a progress bar in a terminal that has rich."""
        if self.json_lines or not sys.stderr.isatty():
            return items
        try:
            from rich.console import Console
            from rich.progress import track
        except ImportError:
            return items
        return track(items, about, total, console=Console(stderr=True), transient=True)

    @contextmanager
    def counter(self, about: str, total: int | None = None) -> Iterator[Callable[[int], None]]:
        """A progress bar for work without items: a function that takes how much more was done."""
        if self.json_lines or not sys.stderr.isatty():
            yield lambda _: None
            return
        try:
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn
        except ImportError:
            yield lambda _: None
            return
        columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
        with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
            task = progress.add_task(about, total=total)
            yield lambda more: progress.advance(task, more)

    def notice(self, text: str) -> None:
        """Say something to a person, on stderr; machines read the results only."""
        if not self.json_lines:
            print(f"mqredis: {terminal.lines(text)}", file=sys.stderr)

    def comment(self, text: str) -> None:
        """Print a comment on stderr, since another program may read the lines on stdout."""
        if not self.json_lines:
            print(f"# {terminal.lines(text)}", file=sys.stderr, flush=True)

    def failure(self, error: BaseException) -> None:
        """An error, with what can be done about an unknown outcome."""
        text = str(error)
        if isinstance(error, OutcomeUnknown) and error.token:
            text += f" (mqredis resolve {error.token})"
        status = int(error.status) if isinstance(error, MqError) else None
        self.error(type(error).__name__, text, status)

    def error(self, kind: str, text: str, status: int | None = None) -> None:
        """Say on stderr what went wrong."""
        if self.json_lines:
            print(self.encode({"error": kind, "text": text, "status": status}), file=sys.stderr)
        else:
            print(f"mqredis: {terminal.lines(text)}", file=sys.stderr)

    @staticmethod
    def encode(fields: Mapping[str, Any]) -> str:
        """One line of JSON."""
        return terminal.json_line(json.dumps(fields, default=plain, ensure_ascii=False, allow_nan=False))

    @staticmethod
    def _rich(rows: Sequence[Mapping[str, Any]], columns: Sequence[str], show: Show) -> bool:
        if not sys.stdout.isatty():
            return False
        try:
            from rich.console import Console
            from rich.table import Table
            from rich.text import Text
        except ImportError:
            return False
        table = Table(box=None, header_style="bold")
        for name in columns:
            number = all(isinstance(row[name], int | float) for row in rows)
            table.add_column(name.replace("_", " "), justify="right" if number and rows else "left")
        for row in rows:
            table.add_row(*(Text(show(name, row[name])) for name in columns))  # Text: no markup of strangers
        Console().print(table)
        return True


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Rows as lines whose columns stand below each other."""
    widths = [max(len(row[n]) for row in rows) for n in range(len(rows[0]))] if rows else []
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
    return "".join(line.rstrip() + "\n" for line in lines)
