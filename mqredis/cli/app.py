"""The parser of the command line, and how it ends.

``mqredis.cli.main`` is the entry point of the program ``mqredis`` (pyproject.toml) and of ``python -m mqredis``.

Every command sets ``run(arguments, output)``, which returns an ``Exit`` unless all was done. What it raises becomes an
exit code and a text on stderr here, so commands catch errors only to say more.
``completion``, and tests/docs/test_docs.py, walk through ``build()``.
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from pydantic import ValidationError

from mqredis import __version__
from mqredis.cli import (
    admin,
    completion,
    console,
    messages,
    operator,
    pipeline,
    queues,
    schedules,
    scripts,
    show,
    terminal,
    topics,
    transfer,
    watch,
    work,
)
from mqredis.cli.common import Parser, common_options
from mqredis.cli.exits import EXITS, Exit, exit_of
from mqredis.cli.output import Output
from mqredis.errors import InvalidArgument, MqError, complaint

# Each adds its subcommands with ``register(subparsers)``. docs/cli.md names each command (tests/docs).
MODULES: tuple[ModuleType, ...] = (
    queues,
    messages,
    topics,
    transfer,
    operator,
    schedules,
    work,
    admin,
    show,
    scripts,
    watch,
    pipeline,
    console,
    completion,
)


# Commands that are of no use to a client that may change nothing. The others check the option where they connect.
_CHANGE_ALWAYS = ("worker", "broker", "pipeline")


def build() -> argparse.ArgumentParser:
    """The whole parser."""
    codes = "\n".join(f"  {int(code):>3}  {text}" for code, text in EXITS.items())
    parser = Parser(
        prog="mqredis",
        description="A message broker inside Redis. Where it is: --url, else MQREDIS_URL, else a private server.",
        epilog=f"exit codes:\n{codes}\n\nEvery setting has a variable: MQREDIS_URL, MQREDIS_MANAGER, ...",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        parents=[common_options()],
    )
    parser.add_argument("--version", action="version", version=f"mqredis {__version__}")
    subparsers = parser.add_subparsers(metavar="COMMAND", required=True, dest="command")
    for module in MODULES:
        module.register(subparsers)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; its exit code."""
    for stream in ("stdout", "stderr"):
        if getattr(sys, stream) is None:  # it was closed, as by >&-: what would be printed is dropped
            setattr(sys, stream, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 - open until the end
    Parser.json_lines = "--json" in (sys.argv[1:] if argv is None else argv)
    parser = build()
    arguments = parser.parse_args(argv)
    if arguments.command != "worker":  # the logging of an application is its own (mqredis.worker.logs)
        handler = logging.StreamHandler()
        handler.setFormatter(terminal.Formatter("mqredis: %(message)s"))
        logging.basicConfig(level=logging.WARNING, handlers=[handler])
    if arguments.command == "completion":
        arguments.parser = parser
    output = Output(json_lines=getattr(arguments, "json", False))
    try:
        if getattr(arguments, "read_only", False) and arguments.command in _CHANGE_ALWAYS:
            raise InvalidArgument(f"{arguments.command} changes what is stored: leave out --read-only")
        with _terminated_as_interrupted():
            code = int(arguments.run(arguments, output) or Exit.DONE)
        _flush()
        return code
    except BrokenPipeError:  # the reader of our output has closed it
        return int(Exit.DONE)
    except KeyboardInterrupt as error:
        for note in getattr(error, "__notes__", ()):
            output.warning(note)
        return int(Exit.INTERRUPTED)
    except ValidationError as error:
        output.error("InvalidArgument", complaint(error))
        return int(Exit.USAGE)
    except (MqError, OSError, ValueError) as error:
        output.failure(error)
        return int(exit_of(error))
    finally:
        try:
            _flush()
        except OSError:  # what is left must not fail once more when the interpreter ends
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    """SIGTERM ends the block as Ctrl-C does: a command gives back what it holds, and says how far it has come. Commands
    that run until they are ended replace this handler, or suppress KeyboardInterrupt.

    Process 1 of a container has no default action for SIGTERM: it would go on until it is killed.
    """
    if threading.current_thread() is not threading.main_thread():  # of a program that calls ``main``
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _flush() -> None:
    """Write what was printed. The interpreter would do that at its end, and end with 120 if it fails."""
    sys.stdout.flush()
