"""``mqredis export | import | redrive``: a queue as JSON lines, and dead letters back into their queues.

``cli.app`` adds these commands.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext, suppress
from itertools import islice
from pathlib import Path
from typing import IO, Any

from mqredis.cli.author import logged, operator_option
from mqredis.cli.common import Arguments, Subparsers, command, existing, open_manager
from mqredis.cli.exits import Exit
from mqredis.cli.form import from_json, to_json
from mqredis.cli.messages import send_batch
from mqredis.cli.output import Output, counted
from mqredis.cli.values import amount, asked, chosen, match_options
from mqredis.client import LockedMessage, Queue
from mqredis.errors import InvalidArgument, IoTimeout, QueueNotFound
from mqredis.keys import DEAD_LETTER
from mqredis.models import Access, Message, Outgoing

# Messages of one call.
BATCH = 256


def register(subparsers: Subparsers) -> None:
    """Add the commands."""
    out = command(subparsers, "export", "write the messages of a queue as JSON lines", _export)
    out.add_argument("queue")
    out.add_argument("--file", type=Path, help="write here instead of to standard output")
    out.add_argument("--drain", action="store_true", help="remove each message once its line is written")
    match_options(out)
    operator_option(out)
    back = command(subparsers, "import", "send the messages that export wrote", _import)
    back.add_argument("queue")
    back.add_argument("--file", type=Path, help="read from here instead of from standard input")
    operator_option(back)
    again = command(subparsers, "redrive", "put dead letters back into the queues they came from", _redrive)
    again.add_argument("source", nargs="?", default=DEAD_LETTER, help=f"default: {DEAD_LETTER}")
    again.add_argument("--to", metavar="QUEUE", help="into this queue instead")
    again.add_argument("--limit", type=amount, help="at most so many")
    again.add_argument("--rate", type=float, metavar="PER_SECOND", help="no faster than this")
    match_options(again)
    operator_option(again)


def _export(arguments: Arguments, output: Output) -> Exit:
    how = chosen(arguments)
    count = 0
    access = Access.RECEIVE if arguments.drain else Access.PEEK
    with (
        open_manager(arguments) as qm,
        qm.open(existing(qm, arguments.queue), access) as queue,
        _target(arguments.file, new=arguments.drain) as file,
    ):
        total = qm.queue_info(arguments.queue).ready
        log = logged(arguments, qm, "drain", arguments.queue, changes=arguments.drain, **asked(arguments))
        messages = _drained(queue, file, how) if arguments.drain else queue.browse(**how)
        with log as told:
            for message in output.progress(messages, "exporting", total):
                file.write(output.encode(to_json(message)) + "\n")
                count += 1
            file.flush()
            told(f"exported and removed {counted(count, 'message')} of {arguments.queue}")
    if arguments.file is not None:
        output.line(
            f"{counted(count, 'message')} written to {arguments.file}", queue=arguments.queue, messages=count
        )
    return Exit.DONE


def _drained(queue: Queue, file: IO[str], how: dict[str, Any]) -> Iterator[Message]:
    """Lock a batch, hand it out to be written, and commit it together with locking the next one."""
    written: list[LockedMessage] = []
    while True:
        try:
            locks = queue.lock_many(BATCH, 0, settle=written, **how)
        except IoTimeout:
            return  # what was written was settled by this last look
        for lock in locks:
            yield lock.message
        file.flush()
        written = locks


def _import(arguments: Arguments, output: Output) -> Exit:
    sent = expired = 0
    with (
        open_manager(arguments) as qm,
        qm.open(arguments.queue, Access.SEND) as queue,
        _source(arguments.file) as file,
    ):
        rows = _rows(iter(output.progress(file, "importing")))
        with logged(arguments, qm, "import", arguments.queue) as told:
            try:
                while batch := list(islice(rows, BATCH)):
                    alive = [message for message in batch if message is not None]
                    if alive:
                        send_batch(qm, queue, alive)
                    expired += len(batch) - len(alive)
                    sent += len(alive)
            except BaseException:  # an interruption, too: whoever imports the file again must leave these out
                if sent:
                    text = f"sent the first {counted(sent, 'message')} that had not expired, and then failed"
                    output.line(text, queue=arguments.queue, messages=sent, expired=expired)
                raise
            text = f"sent {counted(sent, 'message')}" + (f", {expired} had expired" if expired else "")
            told(text)
    output.line(text, queue=arguments.queue, messages=sent, expired=expired)
    return Exit.DONE


def _redrive(arguments: Arguments, output: Output) -> Exit:
    how = chosen(arguments)
    with open_manager(arguments) as qm:
        total = arguments.limit
        with suppress(QueueNotFound):  # nothing has died yet
            if not how:  # else nobody knows how many it will be
                ready = qm.queue_info(arguments.source).ready
                total = ready if total is None else min(ready, total)
        source = existing(qm, arguments.source)
        details = asked(arguments) | {"to": arguments.to, "limit": arguments.limit}
        with (
            logged(arguments, qm, "redrive", source, **details) as told,
            output.counter("putting back", total) as tick,
        ):

            def each(_: Message) -> bool:
                tick(1)
                return True

            moved = qm.redrive(
                source,
                where=each,
                to=arguments.to,
                limit=arguments.limit,
                rate=arguments.rate,
                **how,
            )
            told(f"put back {counted(moved, 'message')} of {source}")
    output.line(f"put back {counted(moved, 'message')}", source=arguments.source, messages=moved)
    return Exit.DONE if moved else Exit.NOTHING


def _rows(lines: Iterator[str]) -> Iterator[Outgoing | None]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            yield from_json(json.loads(line))
        except InvalidArgument as error:
            raise InvalidArgument(f"line {number}: {error}") from None
        except RecursionError:
            raise InvalidArgument(f"line {number}: its JSON is nested too deeply") from None
        except ValueError as error:
            raise InvalidArgument(f"line {number} is not JSON: {error}") from None


def _target(path: Path | None, new: bool) -> AbstractContextManager[IO[str]]:
    """Where to write; ``new``: raise InvalidArgument rather than replace what is in the file."""
    if new and path is not None and path.exists() and path.stat().st_size:
        raise InvalidArgument(
            f"{path} is not empty, and may hold the only copy of messages that were removed before: name another file"
        )
    return nullcontext(sys.stdout) if path is None else path.open("w", encoding="utf-8")


def _source(path: Path | None) -> AbstractContextManager[IO[str]]:
    return nullcontext(sys.stdin) if path is None else path.open(encoding="utf-8")
