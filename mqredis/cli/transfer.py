"""``mqredis export | import | redrive``: a queue as JSON lines, and dead letters back into their queues.

``cli.app`` adds these commands. ``cli.form`` makes and reads the lines, and docs/cli.md ("Export and import") says what
is left out. ``redrive`` ends with 3 if nothing was moved. It is ``QueueManager.redrive``, which takes a rate and no
token; the console uses ``Operator.redrive``.
"""

from __future__ import annotations

import json
import os
import shlex
import stat
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import AbstractContextManager, closing, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from io import UnsupportedOperation
from itertools import islice
from pathlib import Path
from typing import IO, Any, NamedTuple

from mqredis.cli.author import logged, operator_option
from mqredis.cli.common import (
    Arguments,
    Subparsers,
    command,
    existing,
    open_manager,
    receiving,
    standard_input,
    standard_output,
)
from mqredis.cli.exits import Exit
from mqredis.cli.form import from_json, to_json
from mqredis.cli.messages import send_batch
from mqredis.cli.output import Output, counted
from mqredis.cli.reading import exported
from mqredis.cli.show import pages
from mqredis.cli.values import amount, asked, chosen, match_options
from mqredis.client import LockedMessage, QueueManager
from mqredis.commands import read
from mqredis.commands.send import BATCH
from mqredis.errors import (
    DurabilityNotReached,
    InvalidArgument,
    IoTimeout,
    LockLost,
    OutcomeUnknown,
    QueueNotFound,
)
from mqredis.keys import DEAD_LETTER
from mqredis.models import Access, Message, Outgoing

# Bytes of the lines of a batch: far below ``operations.send.CALL_BYTES``, so one call takes the batch.
BATCH_BYTES = 524_288
# Seconds in which a batch of ``--drain`` has to be written, whatever ``lease_seconds`` is: the output may be a pager.
LEASE = 3_600.0


def register(subparsers: Subparsers) -> None:
    """Add the commands."""
    out = command(
        subparsers, "export", "write the available and delayed messages of a queue as JSON lines", _export
    )
    out.add_argument("queue")
    out.add_argument("--file", type=Path, help="write here instead of to standard output")
    out.add_argument(
        "--drain",
        action="store_true",
        help="write only available messages, and remove each one that was written",
    )
    match_options(out)
    operator_option(out)
    back = command(subparsers, "import", "send the messages that export wrote", _import)
    back.add_argument("queue")
    back.add_argument("--file", type=Path, help="read from here instead of from standard input")
    back.add_argument(
        "--skip",
        type=amount,
        default=0,
        metavar="LINES",
        help="skip so many lines, which were imported before",
    )
    operator_option(back)
    again = command(subparsers, "redrive", "put dead letters back into the queues they came from", _redrive)
    again.add_argument("source", nargs="?", default=DEAD_LETTER, help=f"default: {DEAD_LETTER}")
    again.add_argument("--to", metavar="QUEUE", help="into this queue instead")
    again.add_argument("--limit", type=amount, help="at most so many")
    again.add_argument("--rate", type=float, metavar="PER_SECOND", help="no faster than this")
    match_options(again)
    operator_option(again)


def _export(arguments: Arguments, output: Output) -> None:
    how = chosen(arguments)
    done = _Exported()
    with open_manager(arguments) as qm:
        info = qm.queue_info(existing(qm, arguments.queue))
        total = info.ready if arguments.drain else info.ready + info.delayed
        log = logged(arguments, qm, "drain", arguments.queue, changes=arguments.drain, **asked(arguments))
        with _target(arguments.file, new=arguments.drain) as file, log as set_result:
            rows = (
                _drained(arguments, qm, file, how, done, set_result)
                if arguments.drain
                else exported(arguments, qm, **how)
            )
            # If the file cannot be written, locks are given back before the client is closed.
            with done if arguments.drain else nullcontext(), closing(rows):
                for row in output.progress(rows, "exporting", total):
                    done.lines += 1
                    file.write(output.encode(row) + "\n")
            file.flush()
            left = _left(arguments, qm)
    if arguments.file is not None:
        text = f"{counted(done.lines, 'message')} written to {arguments.file}"
        output.line(text, queue=arguments.queue, messages=done.lines)
    if left:
        output.warning(f"not exported: {'; '.join(left)}")


@dataclass
class _Exported:
    """How far an export has come. As the context of a drain it notes that in an error that ends it."""

    lines: int = 0
    """How many lines were written; an error may have come in the last one."""
    removed: int = 0
    """The messages of so many of them were removed."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, _: object) -> None:
        if error is None or isinstance(error, LockLost):  # this one says it
            return
        text = f"removed {counted(self.removed, 'message')}"
        if self.lines > self.removed:
            still = "may still be" if _in_doubt(error) else "are still"
            text += f"; the lines from {self.removed + 1} on are of messages that {still} in the queue"
        error.add_note(text)


def _drained(
    arguments: Arguments,
    qm: QueueManager,
    file: IO[str],
    how: dict[str, Any],
    done: _Exported,
    set_result: Callable[[str, int], None],
) -> Generator[dict[str, Any]]:
    """Lock a batch, hand it out to be written, and commit it together with locking the next one.

    Raises LockLost if messages that were written went back to the queue: their lines would be written again.
    """
    written: list[LockedMessage] = []
    with receiving(qm, arguments.queue) as queue:
        while True:
            try:
                locks = queue.lock_many(read.BATCH, 0, lease=LEASE, settle=written, **how)
            except IoTimeout:
                locks = []  # what was written was settled by this last look
            kept = sum(not lock.settled for lock in written)
            if kept:
                raise LockLost(
                    f"{kept} of the last {counted(len(written), 'line')} are of messages that were not removed: their "
                    f"locks ended while they were written. Those of the {done.removed} lines before were removed"
                )
            done.removed += len(written)
            set_result(
                f"exported and removed {counted(done.removed, 'message')} of {arguments.queue}", done.removed
            )
            if not locks:
                return
            for lock in locks:
                yield to_json(lock.message)
            _keep(file)
            written = locks


def _keep(file: IO[str]) -> None:
    """Put on the disk what was written, since the broker is about to delete it."""
    file.flush()
    try:
        number = file.fileno()
    except UnsupportedOperation:  # standard output that a program replaced
        return
    if stat.S_ISREG(os.fstat(number).st_mode):  # no pipe, no terminal
        os.fsync(number)


def _left(arguments: Arguments, qm: QueueManager) -> list[str]:
    """What an export has not written of a queue and its subqueues, and how to get it; no matter what matches."""
    info, left = qm.queue_info(arguments.queue), []
    below = qm.queues(f"{info.name};*") if ";" not in info.name else []
    retried = any(each.name.endswith(";retry") for each in below)
    look = arguments.drain or retried
    waiting = [each.state for each in pages(partial(qm.scheduled, info.name))] if look else []
    if info.locked:
        left.append(f"{counted(info.locked, 'locked message')} (export again when no reader has them)")
    if waiting and arguments.drain:
        left.append(
            f"{counted(len(waiting), 'delayed or resting message')} (export without --drain writes them)"
        )
    for each in below:
        # Resting messages are in ;retry, and are exported with their queue.
        count = each.messages - (waiting.count("retry") if each.name.endswith(";retry") else 0)
        if count > 0:
            left.append(
                f"{counted(count, 'message')} of {each.name} (mqredis export {shlex.quote(each.name)})"
            )
    return left


def _import(arguments: Arguments, output: Output) -> None:
    done = _Done(arguments.skip, arguments.skip)
    with (
        open_manager(arguments) as qm,
        qm.open(arguments.queue, Access.SEND) as queue,
        _source(arguments.file) as file,
        logged(arguments, qm, "import", arguments.queue) as set_result,
        done,
    ):
        lines = islice(enumerate(output.progress(file, "importing"), 1), arguments.skip, None)
        set_result(done.text(), 0)
        try:
            for batch in _batches(lines):
                alive = [message for message in batch.messages if message is not None]
                done.sending = batch.last
                if alive:
                    send_batch(qm, queue, alive)
                done.lines = batch.last
                done.sent += len(alive)
                done.expired += len(batch.messages) - len(alive)
                set_result(done.text(), done.sent)
        except BaseException:  # an interruption, too
            if done.sent:
                text = f"sent the first {counted(done.sent, 'message')}, and then failed"
                output.line(text, queue=arguments.queue, messages=done.sent, expired=done.expired)
            raise
    output.line(done.text(), queue=arguments.queue, messages=done.sent, expired=done.expired)


@dataclass
class _Done:
    """How far an import has come. An error that ends it gets a note of that."""

    lines: int
    """The number of the last line that was sent, skipped, or has expired."""
    sending: int
    """The number of the last line of the batch that is being sent, or was sent last."""
    sent: int = 0
    expired: int = 0

    def text(self) -> str:
        """So many messages were sent."""
        expired = f", {self.expired} had expired" if self.expired else ""
        return f"sent {counted(self.sent, 'message')}{expired}"

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, _: object) -> None:
        if error is None:
            return
        text = self.text() if self.lines else "nothing was sent"
        if self.lines:
            text += f"; lines 1 to {self.lines} are done: continue with --skip {self.lines}"
        if _in_doubt(error) and self.sending > self.lines:
            text += (
                f"; lines {self.lines + 1} to {self.sending} may have been sent as well (then continue with "
                f"--skip {self.sending}): look at the queue before you continue"
            )
        error.add_note(text)


def _in_doubt(error: BaseException) -> bool:
    """May the call that this error has ended have been carried out? An interruption may have come in it."""
    return isinstance(error, OutcomeUnknown | DurabilityNotReached) or not isinstance(error, Exception)


class _Batch(NamedTuple):
    """Messages to send in one call."""

    messages: list[Outgoing | None]
    """None for each that has expired."""
    last: int
    """The number of the last line."""


def _batches(lines: Iterable[tuple[int, str]]) -> Iterator[_Batch]:
    """The messages of the lines in batches that the broker accepts as a whole or not at all."""
    messages: list[Outgoing | None] = []
    size = last = 0
    for number, line in lines:
        if not line.strip():
            continue
        message, more = _message(number, line), len(line.encode())
        if messages and (len(messages) == BATCH or size + more > BATCH_BYTES):
            yield _Batch(messages, last)
            messages, size = [], 0
        messages.append(message)
        size, last = size + more, number
    if messages:
        yield _Batch(messages, last)


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
            logged(arguments, qm, "redrive", source, **details) as set_result,
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
            result = f"put back {counted(moved, 'message')} of {source}"
            set_result(result, moved)
    output.line(result, source=source, messages=moved)
    return Exit.DONE if moved else Exit.NOTHING


def _message(number: int, line: str) -> Outgoing | None:
    """The message of a line; None if it has expired. Raises InvalidArgument, which names the line."""
    try:
        return from_json(json.loads(line))
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
    return nullcontext(standard_output()) if path is None else path.open("w", encoding="utf-8")


def _source(path: Path | None) -> AbstractContextManager[IO[str]]:
    return nullcontext(standard_input()) if path is None else path.open(encoding="utf-8")
