"""What the modules of the commands share: common options, the parser, and the connection.

All modules of commands use it, and so do ``author`` and ``reading``; ``app`` takes the parser from here.

The common options stand in no namespace unless they were given (``argparse.SUPPRESS``), else a default behind the
command's name would replace what was given before it. So they are read with ``getattr(arguments, name, None)``, also in
other modules.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, NoReturn, TextIO

from mqredis import embedded
from mqredis.cli.exits import Exit
from mqredis.cli.output import Output
from mqredis.client import Queue, QueueManager, connect
from mqredis.errors import BrokerRefused, InvalidArgument, MqError, lacks_right
from mqredis.keys import kept_by_broker
from mqredis.models import Access
from mqredis.operations import giveback
from mqredis.operations.settle import give_back_all
from mqredis.settings import Settings

Arguments = argparse.Namespace
Subparsers = Any  # argparse keeps the class private


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

    json_lines = False
    """Was ``--json`` given? ``app.main`` sets it for all parsers, since an error may come before the option is read."""
    _intermixed = False

    def error(self, message: str) -> NoReturn:
        """See argparse."""
        if self.json_lines:
            Output(json_lines=True).error(InvalidArgument.__name__, message)
            self.exit(Exit.USAGE)
        super().error(message)

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
    try:
        manager = connect(settings=wanted)
    except BrokerRefused as error:
        if lacks_right(error) and not wanted.read_only:
            error.add_note("if this user may only read, set MQREDIS_READ_ONLY=1 or give --read-only")
        raise
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
def receiving(qm: QueueManager, name: str) -> Iterator[Queue]:
    """A queue that is open for reads. Locks that the block has not settled are given back.

    That the output could not be written, or Ctrl-C, is no failed attempt of a message: after some of these a retry
    policy deletes it.
    """
    with qm.open(name, Access.RECEIVE) as queue:
        try:
            yield queue
        finally:
            with suppress(MqError):  # the leases end
                qm.run(give_back_all(queue.handle, giveback.unattempted()))


@contextmanager
def with_text(kind: type[MqError], text: str) -> Iterator[None]:
    """Replace the text of an error of this class by ``text``, which names options and commands."""
    try:
        yield
    except kind as error:
        error.args = (text,)
        raise


def standard_input() -> TextIO:
    """Standard input. Raises InvalidArgument if it was closed, as by ``<&-``."""
    if sys.stdin is None:
        raise InvalidArgument(
            "standard input is closed: give the command an argument or a file, or a pipe to read"
        )
    return sys.stdin


def standard_output() -> TextIO:
    """Standard output, for messages that leave the broker when they are printed.

    Raises InvalidArgument if it was closed, as by ``>&-``: ``app.main`` has put a file in its place that drops what is
    printed then.
    """
    if sys.__stdout__ is None:
        raise InvalidArgument(
            "standard output is closed, so the messages would be lost: let it lead to a file or a pipe"
        )
    return sys.stdout
