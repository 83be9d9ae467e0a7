"""``mqredis send | receive | peek | browse``.

``cli.app`` adds these commands. ``schedules`` takes the options and fields of a message from here (``message_options``,
``message_fields``), ``topics`` prints with ``show``, and ``transfer`` sends with ``send_batch``.

Programs read the JSON lines of ``--json`` (``cli.form``; ``send`` has its own fields) and the exit code 3 of
``receive`` and ``peek`` when there is no message (IoTimeout, MessageNotFound). A new option also changes docs/cli.md,
of which a test compares the names of commands, and whether its options exist.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from io import BufferedReader
from pathlib import Path
from typing import Any, cast

from mqredis.cli.common import (
    Arguments,
    Subparsers,
    command,
    given_settings,
    open_manager,
    receiving,
    standard_input,
    standard_output,
)
from mqredis.cli.form import to_json
from mqredis.cli.output import Output
from mqredis.cli.reading import browse
from mqredis.cli.values import IDS, amount, chosen, limit_option, lookup_id, match_options, wait_seconds
from mqredis.client import Queue, QueueManager
from mqredis.commands.send import BATCH
from mqredis.errors import InvalidArgument, IoTimeout, MessageNotFound
from mqredis.models import Access, Acknowledge, Journal, Message, Outgoing, PropertyValue
from mqredis.models.lookup_ids import hex_id
from mqredis.models.text import identifier_of, typed
from mqredis.operations.send import outgoing

# The most characters of a body in a table.
BODY_WIDTH = 48
# Messages that a browse shows without --limit.
MOST_BROWSED = 100
# Bytes read from standard input at once.
_CHUNK = 65_536
COLUMNS = ("lookup_id", "priority", "message_id", "label", "arrived_at", "body")
# Queues of failed messages also show why each has failed.
FAILED_COLUMNS = (*COLUMNS[:-1], "reason", "body")


def register(subparsers: Subparsers) -> None:
    """Add the commands."""
    send = command(subparsers, "send", "send a message, or one for each line of standard input", _send)
    send.add_argument("queue")
    send.add_argument("body", nargs="?", help="text of the body; without it, standard input is the body")
    send.add_argument("--file", type=Path, help="the body is the content of this file")
    send.add_argument("--lines", action="store_true", help="each line of standard input is a message")
    message_options(send)
    for name, about in (("receive", "take messages"), ("peek", "show the first message, leaving it there")):
        read = command(subparsers, name, about, _receive if name == "receive" else _peek)
        read.add_argument("queue")
        read.add_argument(
            "--timeout",
            type=wait_seconds,
            default=0.0,
            metavar="SECONDS",
            help="longest time to wait (default: 0)",
        )
        read.add_argument("--wait", dest="timeout", action="store_const", const=None, help="wait for ever")
        read.add_argument(
            "--lookup-id", type=lookup_id, metavar="ID", help="only the message with this lookup id"
        )
        read.add_argument("--raw", action="store_true", help="write only the bytes of the body")
        match_options(read)
        if name == "receive":
            read.add_argument(
                "--count",
                type=amount,
                default=1,
                help="number of messages; 0: until none is left (default: 1)",
            )
    listing = command(subparsers, "browse", "show messages in delivery order, leaving them there", _browse)
    listing.add_argument("queue")
    limit_option(listing, MOST_BROWSED)
    match_options(listing)


def message_options(parser: Any) -> None:
    """Options for the fields of a message that is sent. ``message_fields`` reads them: change both."""
    parser.add_argument(
        "--priority", type=int, help=f"0 to 7; 7 is delivered first (default: {Outgoing.FIELDS['priority']})"
    )
    for name in IDS:
        what = name.replace("_", " ")
        parser.add_argument(
            f"--{name.replace('_', '-')}", metavar="ID", help=f"the {what}; 0x... gives bytes in hex"
        )
    parser.add_argument("--label")
    parser.add_argument("--content-type")
    parser.add_argument(
        "--property", action="append", default=[], metavar="NAME=VALUE", help="NAME=text or NAME:=JSON"
    )
    parser.add_argument(
        "--expires", type=float, metavar="SECONDS", help="seconds until an unreceived message expires"
    )
    parser.add_argument("--delay", type=float, metavar="SECONDS", help="seconds before it can be received")
    _add_broker_options(parser)


def _add_broker_options(send: Any) -> None:
    """Options for acknowledgements, journals and deduplication."""
    group = send.add_argument_group("traces and duplicates")
    group.add_argument(
        "--acknowledge", choices=tuple(ACKNOWLEDGE), help="acknowledgements to send to --administration-queue"
    )
    group.add_argument("--administration-queue", metavar="QUEUE")
    group.add_argument("--response-queue", metavar="QUEUE", help="where replies are expected")
    group.add_argument(
        "--journal", choices=tuple(JOURNAL), help="keep a copy: if it fails, when it is sent, or both"
    )
    group.add_argument(
        "--dead-letter-queue", metavar="QUEUE", help="used instead of the system's; needs --journal"
    )
    group.add_argument(
        "--reach", type=float, metavar="SECONDS", help="seconds in which it must reach the queue"
    )
    group.add_argument("--dedup-key", metavar="TEXT", help="refuse a second message with this key")
    group.add_argument(
        "--dedup-window", type=float, metavar="SECONDS", help="shortest time for which the key is remembered"
    )


# As options spell them: "full-receive", "dead-letter".
ACKNOWLEDGE = {name.lower().replace("_", "-"): value for name, value in Acknowledge.__members__.items()}
JOURNAL = {"dead-letter": Journal.DEAD_LETTER, "journal": Journal.JOURNAL, "both": Journal(3)}


# ---- send ----------------------------------------------------------------------------------------


def _property(text: str) -> tuple[str, PropertyValue]:
    name, sign, value = text.partition("=")
    if not sign:
        raise InvalidArgument(f"--property {text!r:.60} is not NAME=VALUE")
    if not name.endswith(":"):
        return name, value
    try:
        decoded: Any = json.loads(value)
    except ValueError:
        raise InvalidArgument(f"--property {text!r:.60}: the value after := must be JSON") from None
    if isinstance(decoded, list | dict):
        raise InvalidArgument(f"--property {text!r:.60}: a number, text, true, false or null is allowed")
    return name[:-1], decoded


def message_fields(arguments: Arguments) -> dict[str, Any]:
    """The fields that the options of ``message_options`` give. Raises InvalidArgument."""
    fields: dict[str, Any] = {
        "priority": arguments.priority,
        "label": arguments.label,
        "content_type": arguments.content_type,
        "time_to_be_received": arguments.expires,
        "time_to_reach_queue": arguments.reach,
        "delay": arguments.delay,
        "acknowledge": ACKNOWLEDGE.get(arguments.acknowledge),
        "journal": JOURNAL.get(arguments.journal),
        "properties": dict(map(_property, arguments.property)) or None,
    }
    for name in ("administration_queue", "response_queue", "dead_letter_queue", "dedup_key", "dedup_window"):
        fields[name] = getattr(arguments, name)
    for name in IDS:
        text = getattr(arguments, name)
        fields[name] = identifier_of(text) if text else None
    return {name: value for name, value in fields.items() if value is not None}


def _batches(arguments: Arguments) -> Iterator[Sequence[str | bytes]]:
    """The bodies to send: one, or those of the lines in batches of up to ``BATCH``."""
    if arguments.lines:
        yield from _lines()
    elif arguments.file is not None:
        yield [arguments.file.read_bytes()]
    elif arguments.body is not None:
        yield [arguments.body]
    else:
        yield [standard_input().buffer.read()]


def _lines() -> Iterator[list[str | bytes]]:
    """The lines of standard input in batches, each as soon as it can be read: the other end of a pipe may pause."""
    stdin, rest = cast("BufferedReader", standard_input().buffer), b""
    while chunk := stdin.read1(_CHUNK):
        *lines, rest = (rest + chunk).split(b"\n")
        for start in range(0, len(lines), BATCH):
            yield [_line(line) for line in lines[start : start + BATCH]]
    if rest:
        yield [_line(rest)]


def _line(line: bytes) -> str | bytes:
    """The body of a line: text if it is UTF-8."""
    line = line.removesuffix(b"\r")
    try:
        return line.decode()
    except UnicodeDecodeError:
        return line


def _send(arguments: Arguments, output: Output) -> None:
    if (arguments.body is not None) + (arguments.file is not None) + arguments.lines > 1:
        raise InvalidArgument("give the body as an argument, by --file or by --lines: only one of them")
    fields = message_fields(arguments)
    with open_manager(arguments) as qm, qm.open(arguments.queue, Access.SEND) as queue:
        for bodies in _batches(arguments):
            for sent in send_batch(qm, queue, [outgoing(body, fields) for body in bodies]):
                shown_id = hex_id(sent.lookup_id)
                output.line(shown_id, lookup_id=shown_id, message_id=typed(sent.message_id), queue=queue.name)


def send_batch(qm: QueueManager, queue: Queue, batch: list[Outgoing]) -> list[Any]:
    """Send a batch as a whole; in a transaction of its own if the queue is transactional."""
    transaction = qm.transaction() if qm.queue_info(queue.name.partition(";")[0]).transactional else None
    with transaction or nullcontext():
        return list(queue.send_many(batch, transaction=transaction))


# ---- read ----------------------------------------------------------------------------------------


def show(message: Message, arguments: Arguments, output: Output) -> None:
    """Print one message: its bytes, a JSON line, or the body as text."""
    if getattr(arguments, "raw", False):
        sys.stdout.buffer.write(message.body)
        sys.stdout.buffer.flush()
    else:
        output.line(message.body.decode("utf-8", "backslashreplace"), **to_json(message))
        sys.stdout.flush()


def _receive(arguments: Arguments, output: Output) -> None:
    """Lock, print, commit: a message that could not be printed stays in the queue."""
    filters, done = _filters(arguments), 0
    if arguments.lookup_id is not None and arguments.count != 1:
        raise InvalidArgument("--lookup-id names one message: leave out --count")
    standard_output()  # refuses a closed one, before any message is removed
    with open_manager(arguments) as qm, receiving(qm, arguments.queue) as queue:
        while not arguments.count or done < arguments.count:
            try:
                if arguments.lookup_id is not None:
                    locked = queue.lock_by_lookup_id(arguments.lookup_id)
                else:
                    locked = queue.lock(arguments.timeout, **filters)
            except (IoTimeout, MessageNotFound):
                if done:
                    break
                raise
            show(locked.message, arguments, output)
            locked.commit()
            done += 1
            if arguments.lookup_id is not None:
                break


def _filters(arguments: Arguments) -> dict[str, Any]:
    """What ``--selector`` and the ids select; not beside ``--lookup-id``, which waits for nothing either."""
    filters = chosen(arguments)
    if arguments.lookup_id is not None and (filters or arguments.timeout != 0):
        raise InvalidArgument("--lookup-id names one message: leave out --timeout, --wait and all filters")
    return filters


def _peek(arguments: Arguments, output: Output) -> None:
    filters = _filters(arguments)
    if given_settings(arguments).read_only:
        _peek_read_only(arguments, output, filters)
        return
    with open_manager(arguments) as qm, qm.open(arguments.queue, Access.PEEK) as queue:
        if arguments.lookup_id is not None:
            message = queue.peek_by_lookup_id(arguments.lookup_id)
        else:
            message = queue.peek(arguments.timeout, **filters)
        show(message, arguments, output)


def _peek_read_only(arguments: Arguments, output: Output, filters: dict[str, Any]) -> None:
    """A read-only client opens no queue, and does not wait."""
    if arguments.timeout != 0:
        raise InvalidArgument("a read-only client cannot wait: leave out --timeout and --wait")
    with open_manager(arguments) as qm:
        if arguments.lookup_id is not None:
            message = qm.message(arguments.queue, arguments.lookup_id).message
        else:
            found = next(browse(arguments, qm, **filters), None)
            if found is None:
                raise IoTimeout(f"no message is available in queue {arguments.queue!r}")
            message = found
        show(message, arguments, output)


def _browse(arguments: Arguments, output: Output) -> None:
    filters = chosen(arguments)
    with open_manager(arguments) as qm:
        messages = output.first(browse(arguments, qm, **filters), arguments.limit, MOST_BROWSED)
        if output.json_lines:
            for message in messages:
                show(message, arguments, output)
            return
        rows = [_row(message) for message in messages]
    output.rows(rows, FAILED_COLUMNS if any(row["reason"] for row in rows) else COLUMNS)


def _row(message: Message) -> dict[str, Any]:
    # A character has up to four bytes.
    body = message.body[: 4 * BODY_WIDTH + 4].decode("utf-8", "backslashreplace")
    return {
        "lookup_id": hex_id(message.lookup_id),
        "priority": message.priority,
        "message_id": typed(message.message_id),
        "label": message.label,
        "arrived_at": message.arrived_at,
        "reason": _shortened(message.reason or ""),
        "body": _shortened(body),
    }


def _shortened(text: str) -> str:
    return text if len(text) <= BODY_WIDTH else text[: BODY_WIDTH - 3] + "..."
