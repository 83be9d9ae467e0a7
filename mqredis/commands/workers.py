"""worker_beat.lua, worker_list.lua, worker_order.lua: heartbeats of workers, and orders of operators.

``mqredis.operations.workers`` calls it, and ``worker.heartbeat`` sends a ``beat`` every few seconds. ``inspection`` and
``schedules`` ask for the ``listing``, and the doctor reads the fields with ``parse_field``. Workers of other releases
read the orders, and this file reads their reports (``models.worker``).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from mqredis.commands.address import Address
from mqredis.commands.replies import check, number, text
from mqredis.keys import KeySet, ManagerKeys
from mqredis.models.text import time_at
from mqredis.models.worker import Pause, WorkerInfo
from mqredis.steps import Arg, Call, Payload

# What can be paused, by the letters of lua/admin/workers.lua.
KINDS = {"q": "queue", "c": "consumer"}
# Orders for a worker; the lookup id of a message follows the second one.
STOP, CANCEL = "stop", "cancel"


def pause_field(kind: str, name: str) -> str:
    """The field of a pause. ``kind``: one of the values of :data:`KINDS`."""
    return f"{kind[0]}:{name}"


def _keys(manager: ManagerKeys) -> KeySet:
    return KeySet((*manager.call().keys, manager.workers))


def beat(
    manager: ManagerKeys, worker: str, lease_ms: int, begins: bool, record: str, pauses: Sequence[str]
) -> Call[tuple[list[str], frozenset[str]]]:
    """Send a heartbeat; ``lease_ms`` 0: the worker ends. Returns its orders, and which of these pauses are set."""

    def parse(status: int, payload: Payload) -> tuple[list[str], frozenset[str]]:
        check(status)
        orders, *found = payload
        paused = [pause for pause, flag in zip(pauses, found, strict=True) if flag == b"1"]
        return text(orders).splitlines(), frozenset(paused)

    args: list[Arg] = [worker, str(lease_ms), str(int(begins)), record, *pauses]
    return Call("worker_beat", _keys(manager), args, parse)


def parse_field(field: bytes, value: bytes, now_ms: int, lead_ms: int) -> WorkerInfo | Pause:
    """What a field of the hash ``workers`` says of a worker or of a pause.

    Its record is the report of a worker, to which ``worker.heartbeat`` adds ``lease_ms``; or what
    ``operations.workers`` has written of a pause.
    """
    kind, _, name = text(field).partition(":")
    time, _, record = text(value).partition(" ")
    said: dict[str, Any] = json.loads(record)
    if kind == "w":
        expires = max(int(time) - now_ms, 0) / 1000
        last_seen = time_at(int(time) - said.pop("lease_ms") - lead_ms)
        return WorkerInfo(id=name, last_seen=last_seen, expires_in=expires, **said)
    return Pause(kind=KINDS[kind], name=name, since=time_at(int(time)), **said)  # type: ignore[arg-type]


def listing(manager: ManagerKeys) -> Call[tuple[list[WorkerInfo], list[Pause]]]:
    """The live workers, by name, and the pauses that are set."""

    def parse(status: int, payload: Payload) -> tuple[list[WorkerInfo], list[Pause]]:
        check(status)
        now, lead, *rest = payload
        workers: list[WorkerInfo] = []
        pauses: list[Pause] = []
        for field, value in zip(rest[::2], rest[1::2], strict=True):
            found = parse_field(field, value, number(now), number(lead))
            if isinstance(found, WorkerInfo):
                workers.append(found)
            else:
                pauses.append(found)
        workers.sort(key=lambda worker: (worker.name, worker.id))
        return workers, sorted(pauses, key=lambda pause: (pause.kind, pause.name))

    return Call("worker_list", _keys(manager), [], parse, changes=False)


def order(log: Address, with_token: bool, entry: bytes, field: str, value: str) -> Call[bool]:
    """Write or remove a pause, or write an order. Returns whether it changed anything.

    ``log``: the log of actions; the key of the workers, and that of a token, follow its keys. ``entry``: for the log.
    ``field``: a letter of lua/admin/workers.lua, a colon and a name; ``value``: "" to remove it.
    """

    def parse(status: int, payload: Payload) -> bool:
        check(status)
        return text(payload[0]) == "1"

    args: list[Arg] = ["1" if with_token else "", entry, field, value]
    return Call("worker_order", log.call, args, parse)
