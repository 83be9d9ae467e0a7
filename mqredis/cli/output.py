"""How commands show results: tables for people, JSON lines for machines.

All modules of commands print with it, and ``common`` and ``figures`` use it. Programs read what ``--json`` prints: one
object in each line of stdout, and errors ({"error", "text", "status"}) and warnings ({"warning"}) on stderr. Without
``--json``, stderr has what is not a result, since stdout may be a pipe. rich is optional (the extra ``cli``), so every
view has a plain form.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from enum import Enum
from itertools import islice
from typing import Any, TypeVar

from mqredis.cli import terminal
from mqredis.errors import MqError, OutcomeUnknown

T = TypeVar("T")
# What people see of the value of a field with this name.
Show = Callable[[str, Any], str]


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

    def progress(self, items: Iterable[T], about: str, total: int | None = None) -> Iterator[T]:
        """The items, with a progress bar in a terminal that has rich."""
        with self.counter(about, total) as tick:
            for item in items:
                yield item
                tick(1)

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

    def first(self, items: Iterable[T], limit: int | None, most: int) -> Iterator[T]:
        """The first ``limit`` items, 0: all. Without a limit the first ``most``, and on stderr that there are more."""
        left = iter(items)
        yield from islice(left, most if limit is None else limit or None)
        if limit is None and next(left, None) is not None:
            self.warning(f"there are more than the first {most:,}: --limit 0 shows all")

    def notice(self, text: str) -> None:
        """Say something to a person, on stderr; machines read the results only."""
        if not self.json_lines:
            self._report(text)

    def warning(self, text: str) -> None:
        """Say on stderr what a person or a machine has to know beside the results."""
        self._report(text, warning=text)

    def comment(self, text: str) -> None:
        """Print a comment on stderr, since another program may read the lines on stdout."""
        if not self.json_lines:
            print(f"# {terminal.lines(text)}", file=sys.stderr, flush=True)

    def failure(self, error: BaseException) -> None:
        """An error, with what can be done about an unknown outcome."""
        text = "; ".join([str(error), *getattr(error, "__notes__", ())])
        if isinstance(error, OutcomeUnknown) and error.token:
            text += f" (mqredis resolve {error.token})"
        status = int(error.status) if isinstance(error, MqError) else None
        self.error(type(error).__name__, text, status)

    def error(self, kind: str, text: str, status: int | None = None) -> None:
        """Say on stderr what went wrong."""
        self._report(text, error=kind, text=text, status=status)

    def _report(self, line: str, **fields: Any) -> None:
        """Print on stderr: ``line`` for people, ``fields`` for machines."""
        text = self.encode(fields) if self.json_lines else f"mqredis: {terminal.lines(line)}"
        print(text, file=sys.stderr)

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
