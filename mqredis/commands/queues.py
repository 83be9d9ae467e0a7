"""queue_*.lua: MS-MQDMPR 3.1.7.1.3-6, 3.1.1.2.

``mqredis.operations`` calls it: ``queue``, ``handle``, ``manager`` and ``queue_call``; ``send`` and ``schedules`` ask
for ``info``, ``inspection`` and the doctor for ``names``. The doctor also reads flags and policies with the tables and
functions of this file.

A property of queues has a row in FLAGS, FIELDS or POLICY_FLAGS; ``tests/contract/test_fields.py`` compares them with
``QueueProperties`` and ``lua/core/queue_config.lua``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mqredis import keys
from mqredis.commands.replies import check, check_queue, names_in, number, text
from mqredis.keys import QUEUE_COUNTS, ManagerKeys
from mqredis.models import QueueInfo, RetryPolicy
from mqredis.models.text import milliseconds, time_at
from mqredis.status import Status
from mqredis.steps import Arg, Call, Payload

# Properties kept as one character of ``flags`` (lua/core/queue_config.lua), which is there if they are True.
FLAGS = {
    "transactional": "t",
    "journaling": "j",
    "put_inhibited": "p",
    "get_inhibited": "g",
    "group_exclusive": "x",
    "topic": "f",
}
# Properties kept in a field of their own, with the field's name; None is kept as "".
FIELDS = {
    "label": "label",
    "quota_bytes": "quota_bytes",
    "quota_messages": "quota_messages",
    "max_message_bytes": "max_bytes",
    "journal_quota_bytes": "journal_quota_bytes",
    "journal_quota_messages": "journal_quota_messages",
    "poison_quota_bytes": "poison_quota_bytes",
    "poison_quota_messages": "poison_quota_messages",
    "failed_time_to_live": "failed_ttl",
    "base_priority": "base_priority",
    "type_id": "type_id",
}
# Those whose value is a text, and numbers that are never None. The others are None if nothing is stored.
_TEXT_FIELDS = frozenset({"label", "type_id"})
_NUMBER_FIELDS = frozenset({"max_message_bytes", "base_priority"})


def _fields(properties: Mapping[str, Any]) -> list[Arg]:
    """Name and text of each field of the hash ``q`` that these properties set; those in FLAGS set none."""
    args: list[Arg] = []
    for name, value in properties.items():
        if name in FIELDS:
            args += [FIELDS[name], "" if value is None else value]
    if "retry" in properties:
        args += ["retry", format_policy(properties["retry"])]
    if "trail" in properties:
        args += ["trail", repr(float(properties["trail"]))]
    return args


# Properties stored as a text in a field of their own, and as a character of ``flags`` if they are set.
POLICY_FLAGS = {"retry": "r", "trail": "l"}


def format_policy(policy: RetryPolicy | None) -> str:
    """The stored text, which lua/features/retry_policy.lua and the doctor read; "" without a policy."""
    if policy is None:
        return ""
    delay, most = milliseconds(policy.delay), milliseconds(policy.max_delay)
    letters = keys.encode(policy.dead_letter_queue) if policy.dead_letter_queue else "-"
    return (
        f"{policy.immediate} {policy.cycles} {delay} {policy.factor!r} {most} {policy.final} "
        f"{policy.jitter!r} {int(policy.isolate)} {letters}"
    )


def parse_policy(text_: str) -> RetryPolicy | None:
    """The inverse of :func:`format_policy`. Raises ValueError for any other text."""
    if not text_:
        return None
    immediate, cycles, delay, factor, most, final, jitter, isolate, letters = text_.split()
    return RetryPolicy(
        immediate=int(immediate),
        cycles=int(cycles),
        delay=int(delay) / 1000,
        factor=float(factor),
        max_delay=int(most) / 1000,
        final=final,  # type: ignore[arg-type]  # pydantic checks it
        jitter=float(jitter),
        isolate=isolate == "1",
        dead_letter_queue=None if letters == "-" else keys.decode(letters),
    )


def create(manager: ManagerKeys, path: str, properties: Mapping[str, Any]) -> Call[str]:
    """Create a queue. Returns its generation."""
    flags = "".join(flag for name, flag in FLAGS.items() if properties.get(name))
    flags += "".join(flag for name, flag in POLICY_FLAGS.items() if properties.get(name))

    def parse(status: int, payload: Payload) -> str:
        check(
            status,
            f"queue {path!r} exists already: open it, or create it with exist_ok"
            if status == Status.QUEUE_EXISTS
            else "",
        )
        return text(payload[0])

    args: list[Arg] = [path, "flags", flags, *_fields(properties)]
    return Call("queue_create", manager.admin(path), args, parse)


def update(
    manager: ManagerKeys, path: str, changes: Mapping[str, Any], beside: Sequence[str] = ()
) -> Call[list[str] | None]:
    """Change properties of a queue. Returns None if it was done. Otherwise the call is to be repeated, and ``beside``
    must name these queues as well: subqueues, and those that get dead letters or reports."""
    given = {flag: changes[name] for name, flag in (FLAGS | POLICY_FLAGS).items() if name in changes}
    to_set = "".join(flag for flag, value in given.items() if value)
    to_clear = "".join(flag for flag, value in given.items() if not value)
    args: list[Arg] = [to_set, to_clear, *_fields(changes)]

    def parse(status: int, payload: Payload) -> list[str] | None:
        if status == Status.KEYS_CHANGED:
            return names_in(payload)
        check_queue(status, path)
        return None

    return Call("queue_update", manager.admin(path, *beside), args, parse)


@dataclass(slots=True)
class Opened:
    """The reply of queue_open.lua: what a handle needs to know of its queue."""

    generation: str
    flags: str
    max_message_bytes: int


def open_handle(
    manager: ManagerKeys, family: Sequence[str], number_: str, access: str, share: str
) -> Call[Opened]:
    """Open a handle on ``family[0]``; ``family[1]`` is the parent of a subqueue."""
    path = family[0]
    refusals: dict[int, str] = {
        Status.QUEUE_NOT_FOUND: f"there is no queue {family[-1]!r} in queue manager {manager.manager!r}: create it "
        "with create_queue (mqredis queue create)",
        Status.SHARING_VIOLATION: f"another open handle of queue {path!r} excludes this one: close it, or wait; that "
        "of a dead client counts until its session is forgotten",
    }

    def parse(status: int, payload: Payload) -> Opened:
        check(status, refusals.get(status, ""))
        return Opened(text(payload[0]), text(payload[1]), number(payload[2]))

    return Call("queue_open", manager.admin(*family), [path, number_, access, share], parse)


def close_handle(manager: ManagerKeys, family: Sequence[str], number_: str) -> Call[None]:
    """Close a handle."""
    return Call("queue_close", manager.admin(*family), [family[0], number_], lambda code, _: check(code))


@dataclass(slots=True)
class Deleted:
    """The result of one call: deleted messages, is the queue deleted, and queues that must be named as well."""

    messages: int = 0
    done: bool = False
    missing: Sequence[str] = ()


def delete(manager: ManagerKeys, paths: Sequence[str], beside: Sequence[str]) -> Call[Deleted]:
    """Delete a queue with its subqueues. ``beside``: queues that get dead letters or reports of its messages."""

    def parse(status: int, payload: Payload) -> Deleted:
        if status == Status.KEYS_CHANGED:
            return Deleted(missing=names_in(payload))
        if status == Status.CONTINUE:
            return Deleted(number(payload[0]))
        check_queue(status, paths[0])
        return Deleted(number(payload[0]), True)

    return Call("queue_delete", manager.admin(*paths, *beside), list(paths), parse)


def ensure(manager: ManagerKeys, paths: Sequence[str], subqueues: bool = False) -> Call[None]:
    """Create those of these queues that the broker maintains (:func:`mqredis.keys.kept_by_broker`); with ``subqueues``
    all subqueues of users, too."""
    wanted = [path for path in paths if keys.kept_by_broker(path) or (subqueues and keys.parent_of(path))]
    owners = [path.partition(";")[0] for path in wanted]
    owners = [name for name in dict.fromkeys(owners) if name != keys.SYSTEM and name not in wanted]
    return Call("queue_ensure", manager.admin(*wanted, *owners), wanted, lambda code, _: check(code))


def names(manager: ManagerKeys) -> Call[list[str]]:
    """Names of all queues and subqueues."""

    def parse(status: int, payload: Payload) -> list[str]:
        check(status)
        return sorted(text(item) for item in payload)

    return Call("queue_list", manager.admin(), [], parse, changes=False)


def info(manager: ManagerKeys, paths: Sequence[str]) -> Call[list[tuple[QueueInfo | None, bool]]]:
    """Properties and state of queues, and whether a queue has due timers; None for a queue that does not exist."""

    def parse(status: int, payload: Payload) -> list[tuple[QueueInfo | None, bool]]:
        check(status)
        found: list[tuple[QueueInfo | None, bool]] = []
        at = 0
        for path in paths:
            size = payload[at]
            at += 1
            if size == b"":
                found.append((None, False))
                continue
            stop = at + number(size)
            overdue = payload[stop - 1] == b"1"
            found.append((_info(path, payload[at : stop - 1], overdue), overdue))
            at = stop
        return found

    return Call("queue_info", manager.admin(*paths), [], parse, changes=False)


def generation(manager: ManagerKeys, path: str) -> Call[str | None]:
    """The generation of the queue of this name; None if there is no such queue."""

    def parse(status: int, payload: Payload) -> str | None:
        check(status)
        return None if payload[0] == b"" else _stored(payload[1:-1])["generation"]

    return Call("queue_info", manager.admin(path), [], parse, changes=False)


def _stored(row: list[bytes]) -> dict[str, str]:
    """The fields in a row of queue_info.lua: pairs of name and value, before the five numbers at its end."""
    return {text(row[n]): text(row[n + 1]) for n in range(0, len(row) - 5, 2)}


def _info(path: str, row: list[bytes], overdue: bool) -> QueueInfo:
    fields = _stored(row)
    ready, locked, waiters, handles, receivers = (number(item) for item in row[-5:])
    # The config, then counters (lua/core/queue.lua).
    _, *numbers = fields["header"].split(" ")[: 1 + len(QUEUE_COUNTS)]
    counts = dict(zip(QUEUE_COUNTS, map(int, numbers), strict=True))
    values: dict[str, Any] = {name: flag in fields["flags"] for name, flag in FLAGS.items()}
    for name, stored in FIELDS.items():
        value = fields.get(stored, "")
        if name in _TEXT_FIELDS:
            values[name] = value
        elif value != "":
            values[name] = int(value)
        elif name not in _NUMBER_FIELDS:
            values[name] = None
    values["retry"] = parse_policy(fields.get("retry", ""))
    values["trail"] = float(fields.get("trail", 0))
    return QueueInfo(
        name=path,
        created_at=time_at(int(fields["created"])),
        modified_at=time_at(int(fields["modified"])),
        ready=ready,
        locked=locked,
        delayed=counts["messages"] - ready - locked,
        messages=counts["messages"],
        bytes=counts["bytes"],
        active=handles > 0,
        receivers=receivers,
        waiters=waiters,
        overdue=overdue,
        **values,
    )
