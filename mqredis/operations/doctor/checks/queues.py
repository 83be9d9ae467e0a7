"""Doctor checks of queues: their properties, their counters and their headers in ``meta``.

``operations.doctor.checks`` lists it; ``run`` calls it.

Change together with: lua/core/queue_config.lua and lua/core/manager_config.lua, whose fields ``META_CONFIG`` and
``QUEUE_CONFIG`` repeat in order (``tests/contract/test_constants.py``); ``commands.queues``, for a new property;
lua/core/locks.lua, for the text of locks.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from mqredis import keys
from mqredis.codec import history
from mqredis.commands.doctor import Edit
from mqredis.commands.queues import FLAGS, POLICY_FLAGS
from mqredis.keys import LOCK, PROPERTIES, QUEUE_COUNTS
from mqredis.models.lookup_ids import LOOKUP_ID
from mqredis.operations.doctor.checks import manager
from mqredis.operations.doctor.checks.claims import NEVER
from mqredis.operations.doctor.fault import Fault, Faults
from mqredis.operations.doctor.snapshot import QueueView, Store
from mqredis.operations.doctor.stored import size_of

_NUMBER = re.compile(r"\d{1,16}")
_TIME = re.compile(r"\d{1,14}")
# Fields that a queue need not have.
_OPTIONAL = {
    "journal_quota_bytes": r"\d*",
    "journal_quota_messages": r"\d*",
    "poison_quota_bytes": r"\d*",
    "poison_quota_messages": r"\d*",
    "failed_ttl": r"\d*",
    "base_priority": r"-?\d*",
}
# The properties that are numbers or flags: a new one needs a row, since nothing else finds a damaged one. ``policies``
# and ``trails`` check retry and trail; any text is valid for label and type_id. The flag s is that of the queues of the
# system (lua/core/queue_config.lua).
_PATTERNS = {
    **dict.fromkeys((name for name in QUEUE_COUNTS if name != "due"), r"\d+"),
    **dict.fromkeys(("generation", "max_bytes"), r"\d+"),
    "flags": f"[s{''.join((*FLAGS.values(), *POLICY_FLAGS.values()))}]*",
    **dict.fromkeys(("quota_messages", "quota_bytes"), r"\d*"),
    **_OPTIONAL,
}
_REACH = re.compile(rf"{LOOKUP_ID.pattern}|0|part")
"""Field ``index`` of a queue: an id, 0 before the first search, or "part" (lua/matching/index_build.lua)."""
# The beginning of a text of packed locks. The doctor reads no more of a long one (lua/core/locks, lua/admin/audit).
_LOCKS = re.compile(r"\d+ \d+ \d+ \d+\.\d+ [0-9a-f]+$")
# The fields whose values a ``config`` holds, in order (lua/core/manager_config.lua, lua/core/queue_config.lua).
META_CONFIG = ("schema", "incarnation", "clock", "throttled", "quota_messages", "quota_bytes", "lead")
QUEUE_CONFIG = ("generation", "flags", "max_bytes", "quota_messages", "quota_bytes", "index")


def _damaged(view: QueueView) -> dict[str, str | None]:
    """The properties that every script reads and that are missing (None) or not well formed."""
    found: dict[str, str | None] = {}
    for name, pattern in _PATTERNS.items():
        # Subqueues have the limits of their queue. Those that the broker creates have no fields for them.
        optional = name in _OPTIONAL or (name.startswith("quota") and ";" in view.path)
        value = view.fields.get(name, "" if optional else None)
        if value is None or not re.fullmatch(pattern, value, re.ASCII):
            found[name] = value
    return found


def fields(store: Store) -> Faults:
    """The properties that every script reads exist and are well formed."""
    for view in store.existing():
        for name, value in _damaged(view).items():
            yield Fault("queue.field", f"{view.path}: {name}", f"is {value!r}")
        # Texts of packed locks belong into ``meta``.
        for name, value in view.fields.items():
            if name.startswith(LOCK):
                text, edit = f"is no text of locks: {value!r:.80}", Edit("hdel", view.keys[PROPERTIES], name)
                yield Fault("queue.locks", f"{view.path}: {name}", text, (edit,))
        yield from _times(view)
        yield from _index(view)
        kept = view.fields.get("statistics")
        if kept is not None and history.end_of(kept) is None:
            edit = Edit("hdel", view.keys[PROPERTIES], "statistics")
            yield Fault("queue.statistics", view.path, f"are no statistics: {kept!r:.80}", (edit,))


def _times(view: QueueView) -> Faults:
    """The times when the queue was created and changed are numbers; if one is not, it gets the value of the other."""
    for name, other in (("created", "modified"), ("modified", "created")):
        value, spare = view.fields.get(name, ""), view.fields.get(other, "")
        if not _TIME.fullmatch(value):
            edit = Edit("hset", view.keys[PROPERTIES], name, spare if _TIME.fullmatch(spare) else "0")
            yield Fault("queue.time", f"{view.path}: {name}", f"is {value!r:.80}", (edit,))


def _index(view: QueueView) -> Faults:
    """The mark of the index of identifiers is well formed; if not, searches build it again
    (lua/matching/index_build)."""
    index, upto = view.fields.get("index", ""), view.fields.get("index_at", "")
    if not _REACH.fullmatch(index) or (upto and (index != "part" or not LOOKUP_ID.fullmatch(upto))):
        key = view.keys[PROPERTIES]
        edits = (Edit("hset", key, "index", "part"), Edit("hdel", key, "index_at"))
        yield Fault("queue.index", view.path, f"its index says {index!r}, up to {upto!r}", edits)


def headers(store: Store) -> Faults:
    """Each header of a queue in ``meta``, and each text of packed locks, belongs to a queue."""
    known, key = {view.keys[PROPERTIES] for view in store.queues.values()}, store.key("meta")
    for name in store.hashes.get("headers", {}):
        if name not in known or name not in store.keys:
            text = "has no properties" if name in known else "the manager does not know"
            yield Fault("queue.header", name, f"is of a queue that {text}", (Edit("hdel", key, name),))
    for name, value in store.hashes.get("locks", {}).items():
        if name.removeprefix(LOCK) not in store.fences:
            text = "is of locks that no queue names"
        elif not _LOCKS.match(value):
            text = f"is no text of locks: {value!r:.80}"
        else:
            continue
        yield Fault("queue.locks", name, text, (Edit("hdel", key, name),))


def counters(store: Store) -> Faults:
    """The counters of queues agree with their messages, and those of parents with their subqueues."""
    for view in store.existing():
        truth = {
            "messages": len(view.records),
            "bytes": sum(size_of(record) for record in view.records.values()),
        }
        stem = view.path + ";"
        below = [
            v for path, v in store.queues.items() if path.startswith(stem) and not keys.has_own_quota(path)
        ]
        if below or "sub_messages" in view.fields:
            truth["sub_messages"] = sum(len(other.records) for other in below)
            truth["sub_bytes"] = sum(size_of(record) for other in below for record in other.records.values())
        for name, total in truth.items():
            counter = view.fields.get(name, "0" if name.startswith("sub_") else None)
            if counter != str(total):
                text = f"says {counter}, there are {total}"
                edits = (
                    Edit("count" if name in QUEUE_COUNTS else "hset", view.keys[PROPERTIES], name, total),
                )
                yield Fault("counter.queue", f"{view.path}: {name}", text, edits)


def header_values(store: Store) -> Faults:
    """Copies and hints in headers are right: the config agrees with the properties, ``due`` is no later than the first
    timer and the end of the open bucket of the statistics, and ``waiting`` is set if a reader waits."""
    meta = store.hashes.get("meta", {})
    yield from _config("meta", store.key("meta"), meta, META_CONFIG, " ", manager.damaged(meta))
    for view in store.existing():
        yield from _config(view.path, view.keys[PROPERTIES], view.fields, QUEUE_CONFIG, "|", _damaged(view))
        times, text = _timers(view), view.fields.get("due", "")
        ends, readable = history.end_of(view.fields.get("statistics", "")), bool(_NUMBER.fullmatch(text))
        if ends is not None and (times or readable):
            times.append(ends)
        if times and (not readable or float(text) > min(times)):
            edit = Edit("count", view.keys[PROPERTIES], "due", f"{max(0, min(times)):.0f}")
            yield Fault(
                "queue.due", view.path, f"has to be looked at by {min(times):.0f}, it says {text!r}", (edit,)
            )
        if view.waiters and view.fields.get("waiting", "0") != "1":
            edit = Edit("count", view.keys[PROPERTIES], "waiting", "1")
            yield Fault("queue.waiting", view.path, "has waiting readers that would not be notified", (edit,))


def _timers(view: QueueView) -> list[float]:
    """When locks, times to live, delays and policies of messages end, in ms."""
    rows = view.records.values()
    times = [at for row in rows for at in (row.deadline, row.expiry, row.delay) if at is not None]
    return [at for at in (*times, *view.policies.values()) if at < NEVER]


def _config(
    where: str,
    key: str,
    fields: Mapping[str, str],
    parts: Sequence[str],
    between: str,
    damaged: Collection[str],
) -> Faults:
    """The config repeats these parts. ``damaged``: fields that cannot be read."""
    config = fields.get("config", "")
    if config and config != between.join(fields.get(name, "") for name in parts):
        # Without a config a script makes it from the fields: of damaged ones, none that a script could read.
        edits = () if set(parts) & set(damaged) else (Edit("hdel", key, "config"),)
        yield Fault("config", where, f"config {config!r} is not what its fields say", edits)
