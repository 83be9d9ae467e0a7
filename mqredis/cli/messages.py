"""``mqredis send | receive | peek | browse | move``."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from itertools import islice
from pathlib import Path
from typing import Any

from mqredis.cli.common import (
    Arguments,
    Output,
    Subparsers,
    amount,
    chosen,
    command,
    counted,
    lookup_id,
    match_options,
    open_manager,
)
from mqredis.cli.exits import Exit
from mqredis.cli.form import hex_id, to_json
from mqredis.client import Queue, QueueManager
from mqredis.errors import InvalidArgument, IoTimeout, MessageLocked, MessageNotFound
from mqredis.models import Access, Acknowledge, Journal, Message, Outgoing, PropertyValue
from mqredis.models.text import identifier_of

#: Characters of a body in a table.
WIDTH = 48
COLUMNS = ("lookup_id", "priority", "message_id", "label", "arrived_at", "body")


def register(subparsers: Subparsers) -> None:
    """Add the commands."""
    send = command(subparsers, "send", "send a message, or one for each line of standard input", _send)
    send.add_argument("queue")
    send.add_argument("body", nargs="?", help="text of the body; without it, standard input is the body")
    send.add_argument("--file", type=Path, help="the body is the content of this file")
    send.add_argument("--lines", action="store_true", help="each line of standard input is a message")
    send.add_argument("--priority", type=int, help="0 to 7, 7 first (default: 3)")
    for name in ("message", "correlation", "group"):
        send.add_argument(f"--{name}-id", metavar="ID", help=f"the {name} id; 0x... gives bytes in hex")
    send.add_argument("--label")
    send.add_argument("--content-type")
    send.add_argument(
        "--property", action="append", default=[], metavar="NAME=VALUE", help="NAME=text or NAME:=JSON"
    )
    send.add_argument(
        "--expires", type=float, metavar="SECONDS", help="remove it if nobody received it by then"
    )
    send.add_argument("--delay", type=float, metavar="SECONDS", help="hold it back so long")
    _requests(send)
    for name, about in (("receive", "take messages"), ("peek", "show the first message, leaving it there")):
        read = command(subparsers, name, about, _receive if name == "receive" else _peek)
        read.add_argument("queue")
        read.add_argument(
            "--timeout", type=float, default=0.0, metavar="SECONDS", help="wait so long (default: 0)"
        )
        read.add_argument("--wait", dest="timeout", action="store_const", const=None, help="wait for ever")
        read.add_argument("--lookup-id", type=lookup_id, metavar="ID", help="this very message")
        read.add_argument("--raw", action="store_true", help="nothing but the bytes of the body, as they are")
        match_options(read)
        if name == "receive":
            read.add_argument(
                "--count", type=amount, default=1, help="so many, 0 for all that come (default: 1)"
            )
    browse = command(subparsers, "browse", "show messages in delivery order, leaving them there", _browse)
    browse.add_argument("queue")
    browse.add_argument("--limit", type=amount, default=100, help="at most so many, 0 for all (default: 100)")
    match_options(browse)
    move = command(subparsers, "move", "move messages between a queue and its subqueues", _move)
    move.add_argument("source", help="orders, or orders;retry")
    move.add_argument("target")
    move.add_argument(
        "lookup_id", nargs="*", type=lookup_id, help="which; without any, those that match or --all"
    )
    move.add_argument("--all", action="store_true", help="every available message")
    match_options(move)


def _requests(send: Any) -> None:
    """What a message may ask of the broker besides."""
    group = send.add_argument_group("traces and duplicates")
    group.add_argument(
        "--acknowledge", choices=tuple(ACKNOWLEDGE), help="which acknowledgements --administration-queue gets"
    )
    group.add_argument("--administration-queue", metavar="QUEUE")
    group.add_argument("--response-queue", metavar="QUEUE", help="where replies are expected")
    group.add_argument(
        "--journal", choices=tuple(JOURNAL), help="keep a copy: if it fails, when it is sent, both"
    )
    group.add_argument("--dead-letter-queue", metavar="QUEUE", help="instead of the system's; with --journal")
    group.add_argument("--reach", type=float, metavar="SECONDS", help="time to reach the queue")
    group.add_argument("--dedup-key", metavar="TEXT", help="refuse a second message with this key")
    group.add_argument("--dedup-window", type=float, metavar="SECONDS", help="at least so long")


#: As options spell them: "full-receive", "dead-letter".
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
        raise InvalidArgument(f"--property {text!r:.60}: what stands behind := must be JSON") from None
    if isinstance(decoded, list | dict):
        raise InvalidArgument(f"--property {text!r:.60}: a number, text, true, false or null is allowed")
    return name[:-1], decoded


def _fields(arguments: Arguments) -> dict[str, Any]:
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
    for name in ("message_id", "correlation_id", "group_id"):
        text = getattr(arguments, name)
        fields[name] = identifier_of(text) if text else None
    return {name: value for name, value in fields.items() if value is not None}


def _bodies(arguments: Arguments) -> Iterator[str | bytes]:
    given = [arguments.body is not None, arguments.file is not None, arguments.lines]
    if sum(given) > 1:
        raise InvalidArgument("give the body as an argument, by --file or by --lines, not twice")
    if arguments.lines:
        yield from (line.rstrip("\r\n") for line in sys.stdin)
    elif arguments.file is not None:
        yield arguments.file.read_bytes()
    elif arguments.body is not None:
        yield arguments.body
    else:
        yield sys.stdin.buffer.read()


def _send(arguments: Arguments, output: Output) -> Exit:
    from mqredis.operations.send import outgoing

    fields = _fields(arguments)
    with open_manager(arguments) as qm, qm.open(arguments.queue, Access.SEND) as queue:
        bodies = iter(_bodies(arguments))
        while batch := [outgoing(body, fields) for body in islice(bodies, 256)]:
            for sent in send_batch(qm, queue, batch):
                shown_id = hex_id(sent.lookup_id)
                output.line(shown_id, lookup_id=shown_id, message_id=_text(sent.message_id), queue=queue.name)
    return Exit.DONE


def send_batch(qm: QueueManager, queue: Queue, batch: list[Outgoing]) -> list[Any]:
    """Send, in a transaction of its own where the queue takes only that."""
    unit = qm.transaction() if qm.queue_info(queue.name.partition(";")[0]).transactional else None
    with unit or nullcontext():
        return list(queue.send_many(batch, transaction=unit))


# ---- read ----------------------------------------------------------------------------------------


def _text(value: str | bytes | None) -> str:
    return "0x" + value.hex() if isinstance(value, bytes) else value or ""


def show(message: Message, arguments: Arguments, output: Output) -> None:
    """Print one message: its bytes, a JSON line, or the body as text."""
    if getattr(arguments, "raw", False):
        sys.stdout.buffer.write(message.body)
        sys.stdout.buffer.flush()
    else:
        output.line(message.body.decode("utf-8", "backslashreplace"), **to_json(message))
        sys.stdout.flush()


def _receive(arguments: Arguments, output: Output) -> Exit:
    """Lock, print, commit: what could not be printed stays in the queue."""
    how, done = chosen(arguments), 0
    with open_manager(arguments) as qm, qm.open(arguments.queue, Access.RECEIVE) as queue:
        while not arguments.count or done < arguments.count:
            try:
                if arguments.lookup_id is not None:
                    locked = queue.lock_by_lookup_id(arguments.lookup_id)
                else:
                    locked = queue.lock(arguments.timeout, **how)
            except (IoTimeout, MessageNotFound):
                if done:
                    break
                raise
            with locked:
                show(locked.message, arguments, output)
            done += 1
            if arguments.lookup_id is not None:
                break
    return Exit.DONE


def _peek(arguments: Arguments, output: Output) -> Exit:
    how = chosen(arguments)
    with open_manager(arguments) as qm, qm.open(arguments.queue, Access.PEEK) as queue:
        if arguments.lookup_id is not None:
            message = queue.peek_by_lookup_id(arguments.lookup_id)
        else:
            message = queue.peek(arguments.timeout, **how)
        show(message, arguments, output)
    return Exit.DONE


def _browse(arguments: Arguments, output: Output) -> Exit:
    how = chosen(arguments)
    with open_manager(arguments) as qm, qm.open(arguments.queue, Access.PEEK) as queue:
        messages = islice(queue.browse(**how), arguments.limit or None)
        if output.json_lines:
            for message in messages:
                show(message, arguments, output)
            return Exit.DONE
        rows = [_row(message) for message in messages]
    output.rows(rows, COLUMNS)
    return Exit.DONE


def _row(message: Message) -> dict[str, Any]:
    body = message.body[: WIDTH + 1].decode("utf-8", "backslashreplace")
    if len(message.body) > WIDTH:
        body = body[: WIDTH - 3] + "..."
    return {
        "lookup_id": hex_id(message.lookup_id),
        "priority": message.priority,
        "message_id": _text(message.message_id),
        "label": message.label,
        "arrived_at": message.arrived_at,
        "body": body,
    }


def _move(arguments: Arguments, output: Output) -> Exit:
    how = chosen(arguments)
    if bool(arguments.lookup_id) + bool(how) + arguments.all != 1:
        raise InvalidArgument("say which messages: lookup ids, --all, or options that match")
    with (
        open_manager(arguments) as qm,
        qm.open(arguments.source, Access.RECEIVE) as source,
        qm.open(arguments.target, Access.MOVE) as target,
    ):
        ids = arguments.lookup_id or [message.lookup_id for message in source.browse(**how)]
        moved = 0
        for each in output.progress(ids, "moving", len(ids)):
            try:
                source.move(each, target)
                moved += 1
            except (MessageNotFound, MessageLocked):
                if arguments.lookup_id:
                    raise  # asked for by name; of the others somebody else was faster
    output.line(
        f"moved {counted(moved, 'message')}", source=arguments.source, target=arguments.target, moved=moved
    )
    return Exit.DONE
