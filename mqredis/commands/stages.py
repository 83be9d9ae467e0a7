"""stage*.lua: messages that a data pipeline stages, and publishes once in batches (docs/decisions/pipelines.md).

``mqredis.operations.pipelines`` and ``publications`` call it, and Spark's writers (``spark.staging``, ``spark.sink``,
``spark.pipelines``). ``claims`` has the calls of readers.

A sink is the name under which batches are published: each batch once, by its manifest, the list of its stages.
``codec.sinks`` reads the same state from the stored texts, for a listing of all sinks.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from mqredis import keys
from mqredis.codec.sinks import NONE
from mqredis.commands.replies import check, check_lost, names_in, number, text
from mqredis.errors import InvalidArgument, error_for
from mqredis.keys import ManagerKeys
from mqredis.status import Status
from mqredis.steps import Arg, Call, Payload

# What each word behind LOCK_LOST means for the caller (``tests/contract/test_arguments.py`` compares the words).
_WHY = {
    "closed": "the job was aborted; this task is late",
    "fenced": "a later batch is being published: two runs of the query are active, or this one has continued an old "
    "checkpoint. Stop the other run, or start with the newest checkpoint",
    "identity": "another query has written under this txnAppId; choose another, or continue its checkpoint",
    "expired": "an earlier run of this publication was broken off, and the rest of its messages has expired. Give it "
    "up with mqredis.spark.withdraw, which keeps what is in the queues, and write what is missing under a new name or "
    "version",
    "stage": "staged messages are gone or incomplete: the job took longer than stageTtlSeconds. Nothing was published. "
    "Run the job again, with a longer stageTtlSeconds if it needs more time",
}


# A manifest joins names of stages by ",", and no text of a sink holds more spaces. ``pipelines.sweep`` reads the batch.
_NAME = re.compile(r"\d+-[\w.-]+", re.ASCII)


@dataclass(frozen=True, slots=True)
class Stage:
    """Messages that one task has staged for one queue."""

    name: str
    """The number of its batch, a dash, then letters, digits and ``._-``."""
    queue: str
    messages: int = 0
    bytes: int = 0


def stage(
    manager: ManagerKeys,
    sink: str,
    batch: int,
    where: Stage,
    ttl_ms: int,
    messages: int,
    size: int,
    special: bool,
    elements: Sequence[Arg],
) -> Call[bool]:
    """Stage messages. True if their batch was published already. Raises ClaimLost if the job was aborted, and
    InvalidArgument for a name that no stage can have."""
    if not _NAME.fullmatch(where.name):
        raise InvalidArgument(
            "the name of a stage is the number of its batch, a dash, then letters, digits and ._-, not "
            f"{where.name!r:.80}"
        )

    def parse(status: int, payload: Payload) -> bool:
        check_lost(status, payload, _WHY)
        return text(payload[0]) == "1"

    name = keys.encode(sink)
    args: list[Arg] = [
        name, str(batch), where.name, keys.encode(where.queue), str(ttl_ms), str(messages), str(size),
        "1" if special else "0",
        *elements,
    ]  # fmt: skip
    return Call("stage", manager.sink(name, stages=(where.name,)), args, parse)


@dataclass(slots=True)
class Published:
    """The result of one call of a publication, or what has to be done first."""

    messages: int = 0
    more: bool = False  # call again: some messages of the batch are left
    pending_batch: int = -1  # a batch that was begun and has to be finished first; -1: none
    pending: tuple[Stage, ...] = ()  # its stages, as its stored manifest has them
    missing: tuple[str, ...] = ()  # queues that the call must name as well


def publish(
    manager: ManagerKeys,
    sink: str,
    batch: int,
    identity: str,
    limit: int,
    keep: bool,
    stages: Sequence[Stage],
    beside: Sequence[str] = (),
) -> Call[Published]:
    """Publish a batch, or continue with it: ``limit`` messages at most. Raises QueueNotAvailable if a queue of it was
    deleted.

    ``identity``: of the query that writes; ``NONE`` for an operator. ``keep``: remember that the batch was
    published, so that a repeated one publishes nothing.
    """

    def parse(status: int, payload: Payload) -> Published:
        if status == Status.KEYS_CHANGED:
            return Published(missing=tuple(names_in(payload)))
        if status == Status.LOCK_LOST and payload[0] == b"pending":
            names, queues = text(payload[2]).split(","), text(payload[3]).split(",")
            pending = tuple(Stage(n, keys.decode(q)) for n, q in zip(names, queues, strict=True))
            return Published(pending_batch=number(payload[1]), pending=pending)
        if status == Status.QUEUE_NOT_AVAILABLE:
            raise error_for(
                status,
                f"publication {sink!r} writes to {', '.join(paths)}, and a queue of these was deleted: create it again "
                f"and repeat the call, or discard the rest with mqredis.spark.withdraw(manager, {sink!r})",
            )
        if status != Status.CONTINUE:
            check_lost(status, payload, _WHY)
        return Published(number(payload[0]), status == Status.CONTINUE)

    name = keys.encode(sink)
    paths = tuple(dict.fromkeys([*(stage.queue for stage in stages), *beside]))
    manifest = ",".join(stage.name for stage in stages)
    args: list[Arg] = [
        name,
        str(batch),
        identity,
        str(limit),
        str(len(paths)),
        "1" if keep else "0",
        manifest,
    ]
    return Call("stage_publish", manager.sink(name, paths, tuple(s.name for s in stages)), args, parse)


def discard(
    manager: ManagerKeys, sink: str, stages: Sequence[str], close: int | None = None, ttl_ms: int = 0
) -> Call[int]:
    """Discard stages. ``close``: refuse later stages up to that batch."""

    def parse(status: int, payload: Payload) -> int:
        check(status)
        return number(payload[0])

    name = keys.encode(sink)
    args: list[Arg] = [name, "" if close is None else str(close), str(ttl_ms), *stages]
    return Call("stage_discard", manager.sink(name, stages=tuple(stages)), args, parse)


def withdraw(manager: ManagerKeys, sink: str, batch: int, stages: Sequence[str], keep: bool) -> Call[bool]:
    """Drop the rest of an unfinished publication. False: it is no longer open."""

    def parse(status: int, payload: Payload) -> bool:
        check(status)
        return payload[0] == b"1"

    name = keys.encode(sink)
    args: list[Arg] = [name, str(batch), "1" if keep else "0", ",".join(stages)]
    return Call("stage_withdraw", manager.sink(name, stages=tuple(stages)), args, parse)


@dataclass(slots=True)
class Sink:
    """The stored state of a sink (``lua/claims/sinks.lua``)."""

    identity: str
    committed: int
    publishing: int | None
    manifest: tuple[str, ...]
    stages: list[Stage]


def sink(manager: ManagerKeys, name: str) -> Call[Sink]:
    """State and stages of a sink."""

    def parse(status: int, payload: Payload) -> Sink:
        check(status)
        publishing, manifest = text(payload[2]), text(payload[3])
        stages = [
            Stage(
                name=text(payload[n]),
                queue=keys.decode(text(payload[n + 1])),
                messages=number(payload[n + 2]),
                bytes=number(payload[n + 3]),
            )
            for n in range(4, len(payload), 4)
        ]
        return Sink(
            identity=text(payload[0]),
            committed=number(payload[1]),
            publishing=None if publishing == NONE else int(publishing),
            manifest=tuple(manifest.split(",")) if manifest else (),
            stages=stages,
        )

    encoded = keys.encode(name)
    return Call("stage_list", manager.sink(encoded), [encoded], parse, changes=False)
