"""queue_*.lua: MS-MQDMPR 3.1.7.1.3-6, 3.1.1.2."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mqredis.codec import time_at
from mqredis.commands.common import check, number, text
from mqredis.keys import ManagerKeys
from mqredis.models import QueueInfo
from mqredis.status import Status
from mqredis.steps import Arg, Call, Payload

#: Properties kept as one character of ``flags`` (True when set).
FLAGS = {
    "transactional": "t",
    "journaling": "j",
    "put_inhibited": "p",
    "get_inhibited": "g",
    "group_exclusive": "x",
}
#: Properties kept in a field of their own, with the field's name; None is kept as "".
FIELDS = {
    "label": "label",
    "quota_bytes": "quota_bytes",
    "quota_messages": "quota_messages",
    "max_message_bytes": "max_bytes",
    "journal_quota_bytes": "journal_quota_bytes",
    "journal_quota_messages": "journal_quota_messages",
    "base_priority": "base_priority",
    "type_id": "type_id",
}
_TEXT_FIELDS = frozenset({"label", "type_id"})
_NUMBER_FIELDS = frozenset({"max_message_bytes", "base_priority"})


def _fields(properties: Mapping[str, Any]) -> list[Arg]:
    args: list[Arg] = []
    for name, value in properties.items():
        if name in FIELDS:
            args += [FIELDS[name], "" if value is None else value]
    return args


def create(manager: ManagerKeys, path: str, properties: Mapping[str, Any]) -> Call[str]:
    """Create a queue; answers its generation."""
    flags = "".join(flag for name, flag in FLAGS.items() if properties.get(name))

    def parse(status: int, payload: Payload) -> str:
        check(status, f"queue {path!r} exists already" if status == Status.QUEUE_EXISTS else "")
        return text(payload[0])

    args: list[Arg] = [path, "flags", flags, *_fields(properties)]
    return Call("queue_create", manager.admin(path), args, parse)


def update(manager: ManagerKeys, path: str, changes: Mapping[str, Any]) -> Call[None]:
    """Change properties of a queue."""
    to_set = "".join(flag for name, flag in FLAGS.items() if changes.get(name) is True)
    to_clear = "".join(flag for name, flag in FLAGS.items() if changes.get(name) is False)
    args: list[Arg] = [to_set, to_clear, *_fields(changes)]
    if len(args) == 2:
        args += ["flags_changed", "1"]

    def parse(status: int, _payload: Payload) -> None:
        check(status, f"there is no queue {path!r}" if status == Status.QUEUE_NOT_FOUND else "")

    return Call("queue_update", manager.admin(path), args, parse)


@dataclass(slots=True)
class Opened:
    """What a handle needs to know of its queue."""

    generation: str
    flags: str
    max_message_bytes: int


def open_handle(
    manager: ManagerKeys, family: Sequence[str], number_: str, access: str, share: str
) -> Call[Opened]:
    """Open a handle on ``family[0]``; ``family[1]`` is the parent of a subqueue."""
    path = family[0]

    def parse(status: int, payload: Payload) -> Opened:
        check(status, f"there is no queue {family[-1]!r}" if status == Status.QUEUE_NOT_FOUND else "")
        return Opened(text(payload[0]), text(payload[1]), number(payload[2]))

    return Call("queue_open", manager.admin(*family), [path, number_, access, share], parse)


def close_handle(manager: ManagerKeys, family: Sequence[str], number_: str) -> Call[None]:
    """Close a handle."""
    return Call("queue_close", manager.admin(*family), [family[0], number_], lambda code, _: check(code))


def delete(manager: ManagerKeys, paths: Sequence[str]) -> Call[tuple[int, list[str]]]:
    """Delete a queue with its subqueues; answers how many messages went, or which subqueues must be named too."""

    def parse(status: int, payload: Payload) -> tuple[int, list[str]]:
        if status == Status.KEYS_CHANGED:
            return 0, [text(item) for item in payload]
        check(status, f"there is no queue {paths[0]!r}" if status == Status.QUEUE_NOT_FOUND else "")
        return number(payload[0]), []

    return Call("queue_delete", manager.admin(*paths), list(paths), parse)


def names(manager: ManagerKeys) -> Call[list[str]]:
    """Names of all queues and subqueues."""

    def parse(status: int, payload: Payload) -> list[str]:
        check(status)
        return sorted(text(item) for item in payload)

    return Call("queue_list", manager.admin(), [], parse, changes=False)


def info(manager: ManagerKeys, paths: Sequence[str]) -> Call[list[QueueInfo | None]]:
    """Properties and state of queues; None for one that does not exist."""

    def parse(status: int, payload: Payload) -> list[QueueInfo | None]:
        check(status)
        found: list[QueueInfo | None] = []
        at = 0
        for path in paths:
            size = payload[at]
            at += 1
            if size == b"":
                found.append(None)
                continue
            stop = at + number(size)
            found.append(_info(path, payload[at:stop]))
            at = stop
        return found

    return Call("queue_info", manager.admin(*paths), [], parse, changes=False)


def _info(path: str, row: list[bytes]) -> QueueInfo:
    fields = {text(row[n]): text(row[n + 1]) for n in range(0, len(row) - 4, 2)}
    ready, locked, waiters, handles = (number(item) for item in row[-4:])
    messages = int(fields["messages"])
    values: dict[str, Any] = {name: flag in fields["flags"] for name, flag in FLAGS.items()}
    for name, stored in FIELDS.items():
        value = fields.get(stored, "")
        if name in _TEXT_FIELDS:
            values[name] = value
        elif value != "":
            values[name] = int(value)
        elif name not in _NUMBER_FIELDS:
            values[name] = None
    return QueueInfo(
        name=path,
        created_at=time_at(int(fields["created"])),
        modified_at=time_at(int(fields["modified"])),
        ready=ready,
        locked=locked,
        delayed=messages - ready - locked,
        messages=messages,
        bytes=int(fields["bytes"]),
        active=handles > 0,
        waiters=waiters,
        **values,
    )
