"""``mqredis show ...`` and ``mqredis trail``: who holds messages, what is in each queue, what happened to a message.

``cli.app`` adds these commands. ``operator``, ``reading`` and ``transfer`` read all pages with ``pages``.

These commands change nothing, so they have to work with ``--read-only`` (docs/cli.md). ``--json`` prints every field of
a model, also those without a column: who renames a field in ``models`` changes what programs read, and has to rename
the column here.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator, Sequence, Set
from functools import partial
from typing import Any

from mqredis.cli.common import Arguments, Subparsers, command, open_manager, with_pauses
from mqredis.cli.figures import figure
from mqredis.cli.form import to_json
from mqredis.cli.output import Output
from mqredis.cli.values import chosen, limit_option, lookup_id, match_options, moment
from mqredis.client import QueueManager
from mqredis.errors import MessageNotFound
from mqredis.models.inspection import Page, StoredMessage
from mqredis.models.lookup_ids import hex_id
from mqredis.models.text import identifier_of, typed
from mqredis.models.worker import WorkerInfo

# Rows that are shown without --limit.
MOST = 1000
DEPTHS = (
    "name", "ready", "delayed", "locked", "poison", "dead", "total_in", "total_out", "oldest_seconds",
    "waiters", "paused"
)  # fmt: skip
LOCKS = (
    "lookup_id", "message_id", "kind", "client", "host", "process", "worker", "consumer", "since",
    "lease_until", "attempts", "label"
)  # fmt: skip
TRANSACTIONS = ("id", "client", "host", "process", "since", "lease_until", "operations")
SESSIONS = ("number", "client", "host", "process", "address", "version", "last_seen")
MESSAGES = (
    "lookup_id", "state", "due_at", "priority", "message_id", "label", "arrived_at", "attempts", "bytes"
)  # fmt: skip
MESSAGE = (*MESSAGES, "body")
WORKERS = (
    "id", "name", "host", "pid", "version", "started_at", "last_seen", "consumers", "paused", "busy",
    "running", "handled", "failed", "rejected", "last_error"
)  # fmt: skip
PAUSES = ("kind", "name", "since", "operator", "reason")
TRAIL = ("time", "event", "queue", "target", "client", "detail")
CLAIMS = ("queue", "owner", "sequence", "messages", "bytes", "state", "since", "connected", "removing")


def register(subparsers: Subparsers) -> None:
    """Add the commands."""
    show = subparsers.add_parser("show", help="show who holds messages, and what is in each queue")
    inner = show.add_subparsers(metavar="WHAT", required=True, dest="what")
    overview = command(inner, "overview", "show the figures of all queues", _overview)
    overview.add_argument("pattern", nargs="?", help="only queues whose name matches this glob")
    locks = command(inner, "locks", "show who has locked messages of a queue", _locks)
    locks.add_argument("queue")
    match_options(locks)
    limit_option(locks, MOST)
    transactions = command(inner, "transactions", "show open transactions and what they hold", _transactions)
    limit_option(transactions, MOST)
    limit_option(command(inner, "sessions", "show the sessions of clients", _sessions), MOST)
    messages = command(inner, "messages", "show available messages of a queue", _messages)
    scheduled = command(
        inner, "scheduled", "show delayed messages of a queue, by the time when they are due", _scheduled
    )
    for parser in (messages, scheduled):
        parser.add_argument("queue")
        match_options(parser)
        limit_option(parser, MOST)
    messages.add_argument("--reverse", action="store_true", help="the messages that are delivered last first")
    for name, about in (("since", "first"), ("until", "last")):
        scheduled.add_argument(
            f"--{name}", type=moment, metavar="TIME", help=f"{about} time: 2026-12-01T08:00:00+01:00"
        )
    message = command(inner, "message", "show a message in any state", _message)
    message.add_argument("queue")
    message.add_argument("lookup_id", metavar="ID", type=lookup_id, help="its lookup id")
    command(inner, "workers", "show the workers that live, and what they do", _workers)
    command(inner, "pauses", "show the queues and consumers that operators have paused", _pauses)
    claims = command(inner, "claims", "show what data pipelines have claimed in a queue", _claims)
    claims.add_argument("queue")
    trail = command(subparsers, "trail", "show what has happened to a message", _trail)
    trail.add_argument("queue")
    trail.add_argument(
        "message", metavar="ID", help="its lookup id (0x and up to 16 hex digits) or message id"
    )


def pages(read: Callable[..., Page[Any]]) -> Iterator[Any]:
    """The items of all pages."""
    after = None
    while True:
        page = read(after=after)
        yield from page.items
        after = page.next
        if after is None:
            return


def _row(item: Any) -> dict[str, Any]:
    """The fields of an item; those of its client stand among them."""
    row: dict[str, Any] = item.model_dump()
    client = row.pop("client", None)
    if client is not None:
        row.update(client=client.pop("name"), **client)
    for each in (row, *row.get("holds", ())):
        if "lookup_id" in each:
            each["lookup_id"] = hex_id(each["lookup_id"])
    if row.get("message_id"):
        row["message_id"] = typed(row["message_id"])
    return row


def _show(output: Output, items: Iterator[Any] | Sequence[Any], columns: Sequence[str]) -> None:
    output.rows([_row(item) for item in items], columns)


def _overview(arguments: Arguments, output: Output) -> None:
    with open_manager(arguments) as qm:
        rows = with_pauses(qm, map(_row, qm.overview(arguments.pattern)))
    output.rows(rows, DEPTHS, figure)


def _locks(arguments: Arguments, output: Output) -> None:
    with open_manager(arguments) as qm:
        locks = pages(partial(qm.locks, arguments.queue, **chosen(arguments)))
        found = list(output.first(locks, arguments.limit, MOST))
    # The broker knows no longer when a lock began once its reader has made other calls.
    known = any(lock.since is not None for lock in found)
    _show(output, found, LOCKS if known else tuple(name for name in LOCKS if name != "since"))


def _transactions(arguments: Arguments, output: Output) -> None:
    with open_manager(arguments) as qm:
        _show(output, output.first(pages(qm.transactions), arguments.limit, MOST), TRANSACTIONS)


def _sessions(arguments: Arguments, output: Output) -> None:
    with open_manager(arguments) as qm:
        _show(output, output.first(pages(qm.sessions), arguments.limit, MOST), SESSIONS)


def _stored(stored: StoredMessage) -> dict[str, Any]:
    """A message with what is known of its state."""
    row = to_json(stored.message)
    if not stored.complete:  # the body was left out of the list, since it is large
        del row["body"]
    known = {name: getattr(stored, name) for name in ("state", "due_at", "bytes", "complete", "overdue")}
    shown_always = {
        name: getattr(stored.message, name) for name in ("priority", "label", "attempts", "arrived_at")
    }
    return {**row, **shown_always, **known}


def _messages(arguments: Arguments, output: Output) -> None:
    with open_manager(arguments) as qm:
        read = partial(qm.messages, arguments.queue, reverse=arguments.reverse, **chosen(arguments))
        output.rows([_stored(each) for each in output.first(pages(read), arguments.limit, MOST)], MESSAGES)


def _scheduled(arguments: Arguments, output: Output) -> None:
    with open_manager(arguments) as qm:
        span = {"since": arguments.since, "until": arguments.until}
        read = partial(qm.scheduled, arguments.queue, **span, **chosen(arguments))
        output.rows([_stored(each) for each in output.first(pages(read), arguments.limit, MOST)], MESSAGES)


def _message(arguments: Arguments, output: Output) -> None:
    with open_manager(arguments) as qm:
        row = _stored(qm.message(arguments.queue, arguments.lookup_id))
    if not output.json_lines and "body_base64" in row:
        row["body"] = {"base64": row["body_base64"]}
    output.rows([row], MESSAGE)


def _claims(arguments: Arguments, output: Output) -> None:
    with open_manager(arguments) as qm:
        _show(output, qm.claims(arguments.queue), CLAIMS)


def _trail(arguments: Arguments, output: Output) -> None:
    text: str = arguments.message
    message = int(text, 16) if re.fullmatch(r"0x[0-9a-fA-F]{1,16}", text) else identifier_of(text)
    with open_manager(arguments) as qm:
        found = qm.trail(arguments.queue, message)
        if not found:
            raise MessageNotFound(_no_trail(qm, arguments.queue, text))
    rows = [dataclasses.asdict(entry) for entry in found]
    for row in rows:
        row["lookup_id"] = None if row["lookup_id"] is None else hex_id(row["lookup_id"])
    output.rows(rows, TRAIL)


def _no_trail(qm: QueueManager, queue: str, message: str) -> str:
    """Why no trail of a message is kept, as far as the broker knows, and what to do."""
    share, name = qm.queue_info(queue).trail, queue.partition(";")[0]
    if not share:
        return (
            f"no trail of {message!r:.80} is kept: the queue needs the property trail when the message is sent "
            f"(mqredis queue set {name} --trail 1)"
        )
    why = "" if share == 1 else f", only {share:g} of its messages have a trail"
    return (
        f"no trail of {message!r:.80} is kept: either the queue needs the property trail when the message is sent, and "
        f"got it later{why}; or the message left so long ago that its trail is gone; or there was no such message in "
        f"{queue} (mqredis browse {queue} shows ids)"
    )


def _workers(arguments: Arguments, output: Output) -> None:
    with open_manager(arguments) as qm:
        found = qm.workers()
        paused = {(pause.kind, pause.name) for pause in qm.pauses()}
    output.rows([_worker(worker, paused, output.json_lines) for worker in found], WORKERS)


def _worker(worker: WorkerInfo, paused: Set[tuple[str, str]], full: bool) -> dict[str, Any]:
    """A worker with the totals of its consumers, and the names of what is paused of its consumers and queues."""
    row = worker.model_dump()
    for total in ("busy", "handled", "failed", "rejected"):
        row[total] = sum(getattr(consumer, total) for consumer in worker.consumers)
    row["last_error"] = next((c.last_error for c in worker.consumers if c.last_error), "")
    names = [
        *(("consumer", consumer.name) for consumer in worker.consumers),
        *(("queue", queue) for consumer in worker.consumers for queue in consumer.queues),
    ]
    row["paused"] = [name for kind, name in dict.fromkeys(names) if (kind, name) in paused]
    for handler in row["running"]:
        handler["lookup_ids"] = [hex_id(lookup_id) for lookup_id in handler["lookup_ids"]]
    if not full:
        ids = [lookup_id for handler in row["running"] for lookup_id in handler["lookup_ids"]]
        texts = {
            "consumers": [consumer.name for consumer in worker.consumers],
            "paused": row["paused"],
            "running": ids,
        }
        row.update({name: ", ".join(each) or None for name, each in texts.items()})
    return row


def _pauses(arguments: Arguments, output: Output) -> None:
    with open_manager(arguments) as qm:
        output.rows([pause.model_dump() for pause in qm.pauses()], PAUSES)
