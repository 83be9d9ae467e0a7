"""Options of the data source: parsed once, on the driver, before a job starts. Every complaint names the
option.

The data source and everything that it makes use it, and so do the pipelines ``archive`` and ``replay``, which make
options of their own.

A new option is a field of :class:`Options`, from whose type and default its text is checked, and a row in the table of
docs/spark.md (a test compares names and defaults). It is a bool, a whole number or a text; ``check_source``,
``check_stream`` and ``check_sink`` say where it is refused. Programs of users hold the names, so an old name stays
(``_SPELLINGS``). A text that is "" was not given. Spark hands over names in lower case, and copies the options to the
tasks in readers and writers.
"""

from __future__ import annotations

import difflib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from fnmatch import fnmatchcase

from mqredis import keys
from mqredis.errors import InvalidArgument, InvalidName
from mqredis.keys import subqueue_parts
from mqredis.spark.lookup_ids import SEQUENTIAL_MASK

STATES = ("available", "locked", "delayed")
# claim_read.lua, which names this limit (tests/contract/test_arguments.py compares), may return each id as a text of
# its own, and Lua's unpack returns 7,999 values at most.
MAX_FETCH_SIZE = 7_000


@dataclass(frozen=True)
class Options:
    """Everything a reader or writer may be told; docs/spark.md explains each."""

    url: str = ""
    queueManager: str = ""
    queueManagers: str = ""
    queue: str = ""
    queues: str = ""
    queuePattern: str = ""
    subQueue: str = ""
    states: str = ""
    selector: str = ""
    includeHeaders: bool = True
    includeBody: bool = True
    minPartitions: int = 0
    maxMessagesPerPartition: int = 150_000
    fetchSize: int = 5_000
    readMode: str = "receive"
    consumerName: str = ""
    startingPosition: str = "earliest"
    startingTimestamp: str = ""
    endingPosition: str = "latest"
    endingTimestamp: str = ""
    minMessagesPerTrigger: int = 0
    maxTriggerDelay: str = "15m"
    maxMessagesPerTrigger: int = 0
    maxBytesPerTrigger: int = 0
    pollTimeoutMs: int = 5_000
    failOnDataLoss: bool = True
    txnAppId: str = ""
    txnVersion: int = -1
    atomicPublishLimit: int = 100_000
    stageTtlSeconds: int = 86_400

    @property
    def managers(self) -> tuple[str, ...]:
        """Names of the queue managers."""
        names = self.queueManagers or self.queueManager
        return tuple(dict.fromkeys(part.strip() for part in names.split(",")))

    @property
    def message_states(self) -> tuple[str, ...]:
        """States of the messages that a batch read shows."""
        return split(self.states) or STATES

    @property
    def address(self) -> str:
        """URL of the broker: the option, else ``MQREDIS_URL`` of the process that asks."""
        return self.url or os.environ.get("MQREDIS_URL", "")


# Options by the lower-case names in which Spark hands them over.
NAMES = {field.name.lower(): field for field in fields(Options)}
# Other spellings: what the Kafka source calls these options.
_SPELLINGS = {
    "minoffsetspertrigger": "minmessagespertrigger",
    "maxoffsetspertrigger": "maxmessagespertrigger",
}
# Whole numbers that may be 0; the others are at least 1. Where 0 or -1 is the default, it says that none was given.
_MAY_BE_ZERO = ("txnVersion", "pollTimeoutMs")
# Options that Spark adds for purposes of its own.
_OF_SPARK = frozenset({"checkpointlocation", "path", "provider", "owner", "queryname"})
# How Spark names the options of CREATE TABLE. It does not hand them over when the table is used.
_OF_TABLE = "option."


def parse(texts: Mapping[str, str]) -> Options:
    """Check and convert what Spark hands over. Raises InvalidArgument naming the option and what it may be."""
    values: dict[str, object] = {}
    for key, text in texts.items():
        name = key.lower()
        field = NAMES.get(_SPELLINGS.get(name, name))
        if field is None:
            if name in _OF_SPARK:
                continue
            if name.startswith(_OF_TABLE):
                raise InvalidArgument(
                    "CREATE TABLE cannot be used: Spark does not keep its options for a source written in Python. Use "
                    "CREATE TEMPORARY VIEW"
                )
            known = ", ".join(sorted(each.name for each in NAMES.values()))
            near = difflib.get_close_matches(name, NAMES, 1, 0.7)
            hint = f"; did you mean {NAMES[near[0]].name!r}?" if near else ""
            raise InvalidArgument(f"unknown option {key!r}{hint} (known: {known})")
        values[field.name] = _value(field.name, str(field.type), str(text).strip())
    if not (values.get("queueManager") or values.get("queueManagers")):
        # Here, on the driver: the variable of an executor may name another one.
        values["queueManager"] = os.environ.get("MQREDIS_MANAGER") or "default"
    options = Options(**values)  # type: ignore[arg-type]
    _check(options)
    return options


def _value(name: str, kind: str, text: str) -> object:
    if kind == "bool":
        if text.lower() not in ("true", "false"):
            raise InvalidArgument(f"option {name} must be true or false, not {text!r}")
        return text.lower() == "true"
    if kind == "int":
        try:
            number = int(text)
        except ValueError:
            raise InvalidArgument(f"option {name} must be a whole number, not {text!r}") from None
        least = 0 if name in _MAY_BE_ZERO else 1
        if not least <= number < 1 << 53:
            raise InvalidArgument(f"option {name} must be at least {least}, not {text}")
        return number
    return text


def _check(options: Options) -> None:
    if options.queueManager and options.queueManagers:
        raise InvalidArgument("give either queueManager or queueManagers, not both")
    for name in options.managers:
        keys.check_name(name, "queueManager")
    if options.readMode not in ("receive", "browse"):
        raise InvalidArgument(f"option readMode must be receive or browse, not {options.readMode!r}")
    if options.consumerName:
        keys.check_name(options.consumerName, "consumerName")
    if options.txnAppId:
        # It may be a source of batch_numbers: the names of a manager, of a queue or subqueue, and of a reader.
        keys.check_name(options.txnAppId.replace(";", ""), "txnAppId", 1_000)
    for state in split(options.states):
        if state not in STATES:
            raise InvalidArgument(f"option states may name {', '.join(STATES)}, not {state!r}")
    if options.fetchSize > MAX_FETCH_SIZE:
        raise InvalidArgument(f"option fetchSize must be at most {MAX_FETCH_SIZE}")


_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def delay_seconds(text: str) -> float:
    """The option maxTriggerDelay: a whole number and a unit, as in 30s or 15m."""
    found = re.fullmatch(r"(\d+) *(ms|s|m|h|d)", text)
    if found is None:
        raise InvalidArgument(
            f"option maxTriggerDelay must be a number and one of {', '.join(_UNITS)}, as in 15m, not {text!r}"
        )
    return int(found[1]) * _UNITS[found[2]]


def positions(name: str, text: str) -> dict[str, str]:
    """The option startingPosition or endingPosition: by queue, "" for every queue that is not named.

    It is ``earliest``, ``latest``, a SequentialID, or a JSON object of these by queue (``orders`` or ``shop/orders``).
    """
    chosen: dict[str, object] = {"": text}
    if text.startswith("{"):
        try:
            chosen = json.loads(text)
        except ValueError:
            raise InvalidArgument(f"option {name} is no JSON object: {text!r:.200}") from None
    for position in chosen.values():
        if str(position) not in ("earliest", "latest") and not _is_sequential(str(position)):
            raise InvalidArgument(
                f"option {name} must be earliest, latest or a SequentialID (the low 7 bytes of a lookup id), or a JSON "
                f"object of these by queue, not {position!r}"
            )
    return {queue: str(position) for queue, position in chosen.items()}


def _is_sequential(text: str) -> bool:
    """Can this be a SequentialID? A whole lookup id is refused, too."""
    return re.fullmatch(r"\d{1,17}", text) is not None and int(text) <= SEQUENTIAL_MASK


def milliseconds(text: str, name: str = "startingTimestamp") -> int:
    """The option startingTimestamp or endingTimestamp: ms since the epoch, or ISO 8601 (UTC unless it says
    otherwise)."""
    try:
        if text.isdecimal():
            return int(text)
        instant = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidArgument(
            f"option {name} must be milliseconds since 1970 or as in 2026-01-31T12:00:00, not {text!r}"
        ) from None
    return int((instant if instant.tzinfo else instant.replace(tzinfo=UTC)).timestamp() * 1000)


def split(text: str) -> tuple[str, ...]:
    """Parts of a list separated by commas."""
    return tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))


def check_source(options: Options) -> None:
    """What only a reader needs: exactly one of queue, queues, queuePattern."""
    names = [name for name in ("queue", "queues", "queuePattern") if getattr(options, name)]
    if len(names) != 1:
        what = " and ".join(names) or "none of them"
        raise InvalidArgument(f"give exactly one of the options queue, queues and queuePattern, not {what}")
    for path in listed(options):
        subqueue_parts(path)
    for end in ("starting", "ending"):
        position, timestamp = getattr(options, f"{end}Position"), getattr(options, f"{end}Timestamp")
        for name in positions(f"{end}Position", position):
            if name and not _is_read(name, options):
                raise InvalidArgument(
                    f"option {end}Position names {name!r}, which is none of the queues to read"
                )
        if timestamp:
            milliseconds(timestamp, f"{end}Timestamp")
        if timestamp and position != getattr(Options, f"{end}Position"):
            raise InvalidArgument(f"give either {end}Position or {end}Timestamp, not both")


def _is_read(name: str, options: Options) -> bool:
    """Do the options name this queue? It is a path, which a queue manager may precede, as in shop/orders."""
    paths = {name, *(name.removeprefix(f"{manager}/") for manager in options.managers)}
    return not paths.isdisjoint(listed(options)) or any(matches_pattern(path, options) for path in paths)


def check_stream(options: Options) -> None:
    """What only a streaming reader needs."""
    check_source(options)
    if options.readMode == "browse" and options.consumerName:
        raise InvalidArgument("option consumerName belongs to readMode=receive: a browse takes nothing")
    if options.states:
        raise InvalidArgument("option states belongs to batch reads: a stream takes the available messages")
    if options.endingTimestamp or options.endingPosition != "latest":
        raise InvalidArgument(
            "options endingPosition and endingTimestamp belong to batch reads: a stream has no end"
        )
    delay_seconds(options.maxTriggerDelay)
    if 0 < options.maxMessagesPerTrigger < options.minMessagesPerTrigger:
        raise InvalidArgument("option minMessagesPerTrigger must not be more than maxMessagesPerTrigger")


def check_sink(options: Options) -> None:
    """What only a writer needs."""
    for name in ("queues", "queuePattern", "subQueue"):
        if getattr(options, name):
            raise InvalidArgument(
                f"option {name} belongs to reading; a writer takes queue, or a column queue"
            )
    if len(options.managers) > 1:
        raise InvalidArgument("a writer takes one queue manager: one unit of work does not span several")
    if ";" in options.queue:
        raise InvalidName("a writer cannot send to a subqueue: messages are moved there")
    if options.queue:
        keys.check_name(options.queue)


def listed(options: Options) -> tuple[str, ...]:
    """Paths of the queues that the options name; empty for a pattern."""
    names = split(options.queues) if options.queues else (options.queue,) if options.queue else ()
    return tuple(path_of(name, options.subQueue) for name in names)


def patterns(options: Options) -> list[str]:
    """The patterns for paths of queues in the option queuePattern."""
    return [path_of(pattern, options.subQueue) for pattern in split(options.queuePattern)]


def matches_pattern(path: str, options: Options) -> bool:
    """Does the path match one of the patterns? A pattern without a subqueue matches no subqueue."""
    return any(
        fnmatchcase(path, pattern) and (";" in pattern or ";" not in path) for pattern in patterns(options)
    )


def path_of(name: str, sub: str) -> str:
    """A queue's path with the subqueue of the option, unless the path names one itself."""
    return f"{name};{sub}" if sub and sub != "main" and ";" not in name else name
