"""Unfinished publications of data pipelines, read from the stored texts of their sinks (``codec.sinks``).

Called by ``QueueManager.publications``, the console's page In flight, ``spark.sink`` and ``spark.admin``, where
``finish`` is called ``recover``. lua/stage_withdraw.lua and lua/stage_publish.lua change what is read here by plain
commands, so a user needs the right to these (``cli/acl.py``).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from mqredis import keys
from mqredis.codec.sinks import NONE, SinkRecord, StageRecord
from mqredis.commands import stages as commands
from mqredis.errors import ClaimLost
from mqredis.models.text import time_at
from mqredis.operations import pipelines
from mqredis.operations.broker_time import broker_time
from mqredis.operations.context import Context
from mqredis.steps import Steps, perform, plain_command, procedure

# Seconds without a step after which a publication counts as abandoned; a step takes less than a second.
ABANDONED_SECONDS = 10.0
# Messages that one step publishes when an operator finishes a publication.
STEP = 100_000
# Prefix of the names of writes without ``txnAppId``, which ``spark.sink`` makes.
UNNAMED = "job-"


@dataclass(frozen=True)
class Publication:
    """A write of several steps of which some are done: its first messages are in the queues, the others are not."""

    name: str
    """``app-<txnAppId>``, ``query-<id of the streaming query>``, or ``job-...`` for a write without a name."""
    version: int
    """``txnVersion``, or the id of the micro-batch."""
    queues: tuple[str, ...]
    messages: int
    """All messages of the publication."""
    left: int
    """How many of them are not in the queues yet; about as many, where bodies of more than 4 KiB are among them."""
    since: datetime
    """When the last step was done."""
    abandoned: bool
    """Has its driver stopped, as far as can be told? No step was done for ten seconds."""
    expires: datetime | None
    """When the messages that are left expire. None: never, as those of a streaming query, which finishes them
    itself."""
    expired: bool
    """They have expired. The publication is listed until it is withdrawn, since its version must not be written
    again."""


@procedure
def publications(context: Context) -> Steps[list[Publication]]:
    """All open publications of a queue manager, by name. Forgets writes without a name that have expired.

    Raises BrokerRefused if the user may not read what is stored of them.
    """
    reply: list[bytes] = yield from plain_command("HGETALL", context.keys.sinks)
    now, lead = yield from broker_time(context)
    found = []
    for field, text in zip(reply[::2], reply[1::2], strict=True):
        sink = SinkRecord.parse(text.decode())
        if sink.publishing is not None:
            one = yield from _publication(
                context, field.decode(), sink.publishing, sink.since_ms - lead, sink.stages, now
            )
            if not one.expired or _keeps(one.name):
                found.append(one)
            elif not context.settings.read_only:
                # A write without a name is never repeated, so its version need not be kept.
                yield from perform(commands.withdraw(context.keys, one.name, one.version, sink.stages, False))
    return sorted(found, key=lambda each: each.name)


def _publication(
    context: Context, field: str, version: int, since_ms: int, names: tuple[str, ...], now: datetime
) -> Steps[Publication]:
    """The publication of the sink ``field`` (its encoded name), from the stages with these names."""
    registry, *lists = context.keys.stages(field, names)
    texts: list[bytes | None] = yield from plain_command("HMGET", registry, *names)
    ttl: int = yield from plain_command("PTTL", registry)
    messages = left = 0
    queues = []
    for key, text in zip(lists, texts, strict=True):
        if text is None:
            continue
        stage = StageRecord.parse(text.decode())
        queues.append(keys.decode(stage.queue))
        messages += stage.messages
        waiting: int = yield from plain_command("LLEN", key)
        left += round(waiting * stage.messages / max(1, stage.elements))
    since = time_at(since_ms)
    return Publication(
        keys.decode(field),
        version,
        tuple(dict.fromkeys(queues)),
        messages,
        left,
        since,
        abandoned=now - since > timedelta(seconds=ABANDONED_SECONDS),
        expires=now + timedelta(milliseconds=ttl) if ttl > 0 else None,
        expired=None in texts,
    )


@procedure
def finish(context: Context, name: str) -> Steps[int]:
    """Publish the rest of a publication. Returns the number of messages; 0 if none of this name is open.

    Its driver may be at work on it: each step takes what the one before has left. Raises ClaimLost if the rest has
    expired.
    """
    state = yield from perform(commands.sink(context.keys, name))
    if state.publishing is None:
        return 0
    rest = pipelines.publish(
        context, name, state.publishing, identity=NONE, limit=STEP, keep=_keeps(name), stages=()
    )
    return (yield from rest)


@procedure
def withdraw(context: Context, name: str) -> Steps[int]:
    """Drop the rest of a publication. Returns the number of messages. Those that are in queues stay there.

    The version counts as written from then on: a job that writes the same name and version again writes nothing. 0
    if no publication of this name is open. Raises ClaimLost while its driver is at work on it.
    """
    for each in (yield from publications(context)):
        if each.name == name:
            if not each.abandoned:
                raise ClaimLost(
                    f"{name!r} is being published: a step was done within the last {ABANDONED_SECONDS:.0f} seconds",
                    why="running",
                )
            state = yield from perform(commands.sink(context.keys, name))
            if state.publishing != each.version:
                return 0  # a step was done meanwhile, and it was the last
            withdrawn = yield from perform(
                commands.withdraw(context.keys, name, each.version, state.manifest, _keeps(name))
            )
            return each.left if withdrawn else 0
    return 0


def _keeps(name: str) -> bool:
    """Is the last version of this sink kept? Not for a job without a name, which is never repeated."""
    return not name.startswith(UNNAMED)
