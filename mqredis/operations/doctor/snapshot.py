"""Read the whole store for the doctor: first the keys of the manager, then those of its queues, in pages.

``doctor.run`` takes one, and the checks and ``doctor.advice`` read it. The reliability tests take their own.

Pages are consistent if the history number did not change. Definitions of schedules change without it, so they are read
twice; what workers say of themselves is read once.

Change together with: ``lua/admin/audit.lua``, whose head describes the rows that ``_ROWS`` stores
(``tests/contract/test_arguments.py`` compares both), and ``lua/core/queue.lua``, whose headers ``_HEADER`` matches
(``tests/contract/test_constants.py``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
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
    decode,
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

    size: int  # bytes of the record, so without a large body
    head: bytes  # the record up to its body
    large: int | None  # bytes of its large body
    available: bool
    deadline: float | None  # end of its lock, in ms
    state: str  # its text (lua/core/message_state.lua); "" if it has none
    expiry: float | None  # time of its expiry timer, in ms
    delay: float | None  # in ms
    visible: bool  # marked as visible to peeks while locked
    expires: float | None = None  # when the message expires, in ms


@dataclass(slots=True)
class QueueView:
    """One queue."""

    path: str
    keys: dict[str, str]
    """The names of its keys, by their last parts (``keys.QUEUE_PARTS``)."""
    fields: dict[str, str] = field(default_factory=dict)
    """Its properties, with the counters and the config that its header in ``meta`` has."""
    records: dict[str, Record] = field(default_factory=dict)
    """Its messages by lookup id."""
    bodies: dict[str, int] = field(default_factory=dict)  # large bodies without a record
    strays: dict[tuple[str, bytes], str] = field(default_factory=dict)
    """(part, member) -> value, of entries without a matching message"""
    misplaced: dict[tuple[str, bytes], str] = field(default_factory=dict)
    """(part, member) -> score, where it must be 0"""
    waiters: dict[str, float] = field(default_factory=dict)
    """The tickets of waiting readers, by their texts (lua/waiting/waiter_text.lua)."""
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
    # What workers say of themselves, their orders, and pauses (lua/admin/workers.lua).
    workers: dict[bytes, bytes] = field(default_factory=dict)

    def key(self, part: str) -> str:
        """Name of one of the manager's own keys."""
        return self.manager.tag + part

    def path(self, key: str) -> str | None:
        """The queue to which a key belongs; None if it is no key that mqredis makes of the name of a queue."""
        name, _, _ = key.removeprefix(self.key("q:")).rpartition(":")
        try:
            path = decode(name)
            return path if key in self.manager.queue(path) else None
        except ValueError:
            return None

    def existing(self) -> Iterator[QueueView]:
        """The queues that have properties. Of the others, the checks of the list of queues and of headers tell."""
        return (view for view in self.queues.values() if view.keys[PROPERTIES] in self.keys)


@procedure
def take(manager: ManagerKeys) -> Steps[Store]:
    """Take the snapshot."""
    for _ in range(TRIES):
        # This call also tells, with what to do, that the manager itself cannot be read.
        listed = yield from perform(queue_commands.names(manager))
        store = yield from _read_store(manager, listed)
        yield from _read_schedules_and_workers(store)
        if sorted(store.hashes.get("queues", {})) != listed:
            store.consistent = False
        if store.consistent:
            break
    yield from _drop_expanded_locks(store)
    store.found = yield from _scan(manager)
    return store


def _read_schedules_and_workers(store: Store) -> Steps[None]:
    """Read the schedules, their messages and the workers; nothing of a key that is no hash, or that the user may not
    read."""
    definitions, messages = store.manager.schedules
    for key in (definitions, messages, store.manager.workers):
        kind, ttl = (yield Command(("TYPE", key))), (yield Command(("PTTL", key)))
        if isinstance(kind, Refused) or isinstance(ttl, Refused):
            return
        if (name := _text(kind) if isinstance(kind, bytes) else str(kind)) != "none":
            store.keys[key] = (name, int(ttl))
    store.schedules = yield from _hash(store, definitions)
    store.schedule_messages = yield from _hash(store, messages)
    store.workers = yield from _hash(store, store.manager.workers)
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


def _read_store(manager: ManagerKeys, listed: Sequence[str]) -> Steps[Store]:
    store = Store(manager)
    yield from _read_keys(store, (), "+1 0")
    names = sorted({*listed, *_names_in_headers(store)})
    for at in range(0, len(names), CHUNK):
        yield from _read_keys(store, names[at : at + CHUNK], f"+{len(MANAGER_PARTS) + 1} 0")
    _read_headers(store)
    return store


def _names_in_headers(store: Store) -> Iterator[str]:
    """The queues that have a header, by which scripts find them, also if they are not in the list."""
    headers = (key for key in store.hashes.get("headers", {}) if _part(key) == PROPERTIES)
    return filter(None, map(store.path, headers))


def _read_keys(store: Store, names: Sequence[str], place: str) -> Steps[None]:
    """Read the keys of these queues. ``place``: where lua/audit.lua begins (ARGV there)."""
    views = {}  # the queues by each of their keys
    for path in names:
        queue_keys = store.manager.queue(path)
        store.queues[path] = view = QueueView(path, dict(zip(QUEUE_PARTS, queue_keys, strict=True)))
        views.update(dict.fromkeys(queue_keys, view))
    while True:
        page = yield from perform(commands.audit(store.manager, names, place))
        store.now_ms = page.now_ms
        if store.history not in (-1, page.history):
            store.consistent = False
        store.history = page.history
        for letter, row in page.rows:
            _ROWS[letter](store, views.get(_text(row[0])), *row)
        place = page.place
        if not place:
            break


def _key(store: Store, _: QueueView | None, key: bytes, kind: bytes, ttl_ms: bytes) -> None:
    store.keys[_text(key)] = (_text(kind), int(ttl_ms))


def _field(store: Store, view: QueueView | None, key: bytes, name: bytes, value: bytes) -> None:
    """A field of a hash. "counters" becomes one entry for each counter, or nothing if there are fewer or more."""
    field_name, text = _text(name), _text(value)
    counts: Sequence[str]
    if view is not None:
        into, counts = view.fields, QUEUE_COUNTS
    else:
        part = _part(_text(key))
        group = _meta_group(store, field_name) if part == "meta" else part
        into, counts = store.hashes.setdefault(group, {}), META_COUNTS if group == "meta" else ()
    if field_name == "counters" and counts:
        numbers = text.split(" ")
        into.update(zip(counts, numbers, strict=True) if len(numbers) == len(counts) else ())
    else:
        into[field_name] = text


def _element(store: Store, view: QueueView | None, key: bytes, member: bytes, score: bytes) -> None:
    into = store.zsets.setdefault(_part(_text(key)), {}) if view is None else view.waiters
    into[_text(member)] = float(score)


def _message(
    _: Store,
    view: QueueView,
    _key: bytes,
    lookup_id: bytes,
    size: bytes,
    head: bytes,
    large: bytes,
    available: bytes,
    deadline: bytes,
    state: bytes,
    expiry: bytes,
    delay: bytes,
    visible: bytes,
    expires: bytes,
) -> None:
    view.records[_text(lookup_id)] = Record(
        size=int(size),
        head=head,
        large=int(large) if large else None,
        available=available != b"",
        deadline=_score(deadline),
        state=_text(state),
        expiry=_score(expiry),
        delay=_score(delay),
        visible=visible != b"",
        expires=_score(expires),
    )


def _orphaned_body(_: Store, view: QueueView, _key: bytes, lookup_id: bytes, size: bytes) -> None:
    view.bodies[_text(lookup_id)] = int(size)


def _missing_in_index(_: Store, view: QueueView, _key: bytes, member: bytes) -> None:
    view.missing_index.add(member)


def _policy_timer(_: Store, view: QueueView, _key: bytes, member: bytes, score: bytes) -> None:
    view.policies[member] = float(score)


def _misplaced(_: Store, view: QueueView, key: bytes, member: bytes, score: bytes) -> None:
    view.misplaced[_part(_text(key)), member] = _text(score)


def _stray(_: Store, view: QueueView, key: bytes, member: bytes, value: bytes) -> None:
    view.strays[_part(_text(key)), member] = _text(value)


# What stores a row, by its letter. The parameters behind the first two are the elements of the row, of which the first
# is a key. Rows of the letters from M on come only for keys of queues, so their view is there.
_ROWS: dict[str, Callable[..., None]] = {
    "K": _key,
    "H": _field,
    "Z": _element,
    "M": _message,
    "B": _orphaned_body,
    "X": _missing_in_index,
    "T": _policy_timer,
    "S": _misplaced,
    "O": _stray,
}


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


def _score(data: bytes) -> float | None:
    return float(data) if data else None


def _text(data: bytes) -> str:
    return data.decode("utf-8", "backslashreplace")


def _part(key: str) -> str:
    """The last part of the name of a key: one of MANAGER_PARTS or QUEUE_PARTS."""
    return key.rpartition(":")[2]


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
