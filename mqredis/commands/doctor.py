"""audit.lua and repair.lua: read the whole store, and edit it.

``mqredis.operations.doctor`` calls it: ``snapshot`` reads the rows, the checks make the edits, ``run`` sends them.
``tests/contract/test_arguments.py`` compares rows and edits with the scripts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from mqredis.commands.replies import check, number
from mqredis.keys import KeySet, ManagerKeys
from mqredis.status import Status
from mqredis.steps import Arg, Call, Payload

# Elements that one call reads, roughly: some tens of milliseconds of the server.
BUDGET = 2500
# Edits of one call.
EDITS = 500

# A row of the reply of lua/admin/audit.lua: its letter and its elements.
Row = tuple[str, list[bytes]]


@dataclass(slots=True)
class Page:
    """The part of a snapshot that one call returns."""

    place: str
    now_ms: int
    history: int
    rows: list[Row] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Edit:
    """One write of a repair, on a key; ``what``: its name in repair.lua."""

    what: str
    key: str
    element: str | bytes = ""
    value: str | int = ""


def audit(manager: ManagerKeys, paths: Sequence[str], place: str) -> Call[Page]:
    """Read one page."""

    def parse(status: int, payload: Payload) -> Page:
        check(status)
        page = Page(_text(payload[0]), number(payload[1]), number(payload[2]))
        at = 3
        while at < len(payload):
            stop = at + 2 + number(payload[at + 1])
            page.rows.append((_text(payload[at]), [_bytes(item) for item in payload[at + 2 : stop]]))
            at = stop
        return page

    return Call("audit", manager.admin(*paths), [place, str(BUDGET)], parse, changes=False)


def repair(manager: ManagerKeys, paths: Sequence[str], history: int, edits: Sequence[Edit]) -> Call[int]:
    """Carry out edits if the history number is still ``history``. Returns the new one, or -1 if it was another."""
    keys = KeySet((*manager.admin(*paths).keys, *manager.schedules, manager.workers))
    places = {key: place for place, key in enumerate(keys.keys, 1)}
    args: list[Arg] = [str(history)]
    for edit in edits:
        args += [edit.what, str(places[edit.key]), edit.element, str(edit.value)]

    def parse(status: int, payload: Payload) -> int:
        if status == Status.CONTINUE:
            return -1
        check(status)
        return number(payload[0])

    return Call("repair", keys, args, parse)


def _text(data: bytes | int) -> str:
    return _bytes(data).decode("utf-8", "replace")


def _bytes(data: bytes | int) -> bytes:
    return data if isinstance(data, bytes) else b"%d" % data
