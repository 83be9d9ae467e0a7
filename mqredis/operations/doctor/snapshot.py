"""Read the whole store for the doctor: in one call if it is small, else in pages.

``run`` makes one; the checks read it.

Pages are consistent if the history number did not change.

Change together with: ``lua/admin/audit.lua``, which makes the rows (``_place`` reads them by their letters), and
``lua/core/queue.lua``, whose headers ``_HEADER`` matches.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from mqredis.commands import doctor as commands
from mqredis.commands import queues as queue_commands
from mqredis.keys import (
    LOCK,
    MANAGER_PARTS,
    META_COUNTS,
    PROPERTIES,
    QUEUE_COUNTS,
    QUEUE_PARTS,
    TRAIL,
    ManagerKeys,
)
from mqredis.steps import Command, Refused, Steps, perform, procedure

# Queues per call of audit.lua.
CHUNK = 48
# How many times the snapshot is tried.
TRIES = 4
# If the server has more keys than this, it is not scanned for stray keys.
MAX_SCAN = 5_000_000

# The header of a queue in ``meta``: config, counters, locks (lua/core/queue.lua).
_HEADER = re.compile(r"(\S+) (\d+ \d+ \d+ \d+ [01] \d+)((?: \d+(?:,\d+,\d+,\d+\.\d+,[0-9a-f]{16})?)*)")


@dataclass(slots=True)
class Record:
    """A message as stored. None: the entry does not exist."""

    size: int
    head: bytes
    large: int | None
    available: bool
    deadline: float | None  # end of its lock, in ms
    state: str
    expiry: float | None  # time of its expiry timer, in ms
    delay: float | None  # in ms
    visible: bool  # marked as visible to peeks while locked
    expires: float | None = None  # when the message expires, in ms


@dataclass(slots=True)
class QueueView:
    """One queue."""

    path: str
    keys: dict[str, str]
    fields: dict[str, str] = field(default_factory=dict)
    records: dict[str, Record] = field(default_factory=dict)
    bodies: dict[str, int] = field(default_factory=dict)  # large bodies without a record
    strays: dict[tuple[str, bytes], str] = field(default_factory=dict)
    """(part, member) -> value, of entries without a matching message"""
    misplaced: dict[tuple[str, bytes], str] = field(default_factory=dict)
    """(part, member) -> score, where it must be 0"""
    waiters: dict[str, float] = field(default_factory=dict)
    missing_index: set[bytes] = field(default_factory=set)  # elements missing from the index
    policies: dict[bytes, float] = field(default_factory=dict)
    """Timers of policies: ``b``, ``s``, ``w`` or ``p`` and an id (lua/features/retry), ``k`` and a dedup key."""


@dataclass(slots=True)
class Store:
    """Everything stored for one queue manager."""

    manager: ManagerKeys
    now_ms: int = 0
    history: int = -1
    consistent: bool = True
    """False: the store changed during the snapshot."""
    keys: dict[str, tuple[str, int]] = field(default_factory=dict)  # declared keys: type and ttl in ms
    found: list[str] | None = None  # all keys with our prefix; None: not searched
    hashes: dict[str, dict[str, str]] = field(default_factory=dict)
    """Hashes by name: meta, queues, txs. Fields of meta are split further: "sessions" with their slots, "headers" (the
    headers of queues), "locks" (texts of packed locks), "trails" (those of messages, and their places)."""
    fences: set[str] = field(default_factory=set)
    """Fences of the lock texts that headers of queues refer to."""
    zsets: dict[str, dict[str, float]] = field(default_factory=dict)  # handles, idle
    queues: dict[str, QueueView] = field(default_factory=dict)
    # Texts of schedules and their messages, by name.
    schedules: dict[bytes, bytes] = field(default_factory=dict)
    schedule_messages: dict[bytes, bytes] = field(default_factory=dict)

    def key(self, part: str) -> str:
        """Name of one of the manager's own keys."""
        return self.manager.tag + part

    def existing(self) -> Iterator[QueueView]:
        """The queues that have properties. Of the others, the check of the list of queues tells."""
        return (view for view in self.queues.values() if view.keys[PROPERTIES] in self.keys)


@procedure
def take(manager: ManagerKeys) -> Steps[Store]:
    """Take the snapshot."""
    for _ in range(TRIES):
        names = yield from perform(queue_commands.names(manager))
        store = yield from _read_store(manager, names)
        yield from _read_schedules(store)
        if sorted(store.hashes.get("queues", {})) != names:
            store.consistent = False
        if store.consistent:
            break
    yield from _drop_expanded_locks(store)
    store.found = yield from _scan(manager)
    return store


def _read_schedules(store: Store) -> Steps[None]:
    """Read the schedules and their messages; nothing of a key that is no hash, or that the user may not read."""
    definitions, messages = store.manager.schedules
    for key in (definitions, messages):
        kind, ttl = (yield Command(("TYPE", key))), (yield Command(("PTTL", key)))
        if isinstance(kind, Refused) or isinstance(ttl, Refused):
            return
        if (name := _text(kind) if isinstance(kind, bytes) else str(kind)) != "none":
            store.keys[key] = (name, int(ttl))
    store.schedules = yield from _hash(store, definitions)
    store.schedule_messages = yield from _hash(store, messages)
    if (yield from _hash(store, definitions)) != store.schedules:
        store.consistent = False


def _hash(store: Store, key: str) -> Steps[dict[bytes, bytes]]:
    if store.keys.get(key, ("", 0))[0] != "hash":
        return {}
    reply = yield Command(("HGETALL", key))
    return {} if isinstance(reply, Refused) else dict(zip(reply[::2], reply[1::2], strict=True))


def _drop_expanded_locks(store: Store) -> Steps[None]:
    """Drop lock texts that no longer exist.

    Expanding a lock does not change the history number, so a text may have been read before the header that no longer
    refers to it.
    """
    locks = store.hashes.get("locks", {})
    for name in [name for name in locks if name.removeprefix(LOCK) not in store.fences]:
        text = yield Command(("HGET", store.key("meta"), name))
        if text is None:
            del locks[name]


def _read_store(manager: ManagerKeys, names: Sequence[str]) -> Steps[Store]:
    store = Store(manager)
    for at in range(0, max(1, len(names)), CHUNK):
        chunk = names[at : at + CHUNK]
        views = {key: _view(store, path) for path in chunk for key in manager.queue(path)}
        place = "" if at == 0 else f"+{len(MANAGER_PARTS) + 1} 0"
        while True:
            page = yield from perform(commands.audit(manager, chunk, place))
            store.now_ms = page.now_ms
            if store.history not in (-1, page.history):
                store.consistent = False
            store.history = page.history
            for letter, row in page.rows:
                _place(store, views, letter, row)
            place = page.place
            if not place:
                break
    _read_headers(store)
    return store


def _view(store: Store, path: str) -> QueueView:
    view = store.queues.get(path)
    if view is None:
        keys = dict(zip(QUEUE_PARTS, store.manager.queue(path), strict=True))
        view = store.queues[path] = QueueView(path, keys)
    return view


def _place(store: Store, views: dict[str, QueueView], letter: str, row: list[bytes]) -> None:
    """Store one row of lua/admin/audit.lua."""
    key = _text(row[0])
    if letter == "K":
        store.keys[key] = (_text(row[1]), int(row[2]))
        return
    view, part = views.get(key), key.rpartition(":")[2]
    if view is None:
        if letter == "H":
            if part == "meta":
                part = _meta_group(store, _text(row[1]))
            _fields(store.hashes.setdefault(part, {}), row, META_COUNTS if part == "meta" else ())
        else:
            store.zsets.setdefault(part, {})[_text(row[1])] = float(row[2])
    elif letter == "H":
        _fields(view.fields, row, QUEUE_COUNTS)
    elif letter == "Z":
        view.waiters[_text(row[1])] = float(row[2])
    elif letter == "B":
        view.bodies[_text(row[1])] = int(row[2])
    elif letter == "O":
        view.strays[part, row[1]] = _text(row[2])
    elif letter == "S":
        view.misplaced[part, row[1]] = _text(row[2])
    elif letter == "T":
        view.policies[row[1]] = float(row[2])
    elif letter == "X":
        view.missing_index.add(row[1])
    elif letter == "M":
        view.records[_text(row[1])] = Record(
            size=int(row[2]),
            head=row[3],
            large=int(row[4]) if row[4] else None,
            available=row[5] != b"",
            deadline=_score(row[6]),
            state=_text(row[7]),
            expiry=_score(row[8]),
            delay=_score(row[9]),
            visible=row[10] != b"",
            expires=_score(row[11]),
        )
    else:
        raise ValueError(f"unknown row {letter!r} of audit.lua")


def _meta_group(store: Store, name: str) -> str:
    """Key in Store.hashes for a field of ``meta``."""
    if name[:1].isdigit():
        return "sessions"
    if name.startswith(LOCK):
        return "locks"
    if name.startswith(TRAIL):
        return "trails"
    return "headers" if name.startswith(store.manager.tag) else "meta"


def _read_headers(store: Store) -> None:
    """Copy the values of each header into the fields of its queue; headers that cannot be parsed are skipped."""
    for view in store.queues.values():
        header = _HEADER.fullmatch(store.hashes.get("headers", {}).get(view.keys["q"], ""))
        if header:
            view.fields.update(zip(QUEUE_COUNTS, header[2].split(" "), strict=True), config=header[1])
            store.fences.update(entry for entry in header[3].split(" ") if entry and "," not in entry)


def _fields(into: dict[str, str], row: list[bytes], counts: Sequence[str]) -> None:
    """Store a field. "counters" becomes one entry for each name in ``counts``, or nothing if their number differs."""
    name, value = _text(row[1]), _text(row[2])
    if name == "counters" and counts:
        numbers = value.split(" ")
        into.update(zip(counts, numbers, strict=True) if len(numbers) == len(counts) else ())
    else:
        into[name] = value


def _score(data: bytes) -> float | None:
    return float(data) if data else None


def _text(data: bytes) -> str:
    return data.decode("utf-8", "backslashreplace")


def _scan(manager: ManagerKeys) -> Steps[list[str] | None]:
    """Every key with the manager's prefix; None: too many keys, or the command was refused."""
    size = yield Command(("DBSIZE",))
    if isinstance(size, Refused) or int(size) > MAX_SCAN:
        return None
    found: set[str] = set()
    cursor = "0"
    while True:
        # The braces and the encoded name contain no glob characters.
        reply = yield Command(("SCAN", cursor, "MATCH", manager.tag + "*", "COUNT", "1000"))
        if isinstance(reply, Refused):
            return None
        found.update(_text(key) for key in reply[1])
        cursor = _text(reply[0])
        if cursor == "0":
            return sorted(found)
