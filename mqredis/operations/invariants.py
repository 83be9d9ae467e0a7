"""The invariants of the store, one function each, which check a snapshot (:mod:`mqredis.operations.snapshot`).

To add one: write a generator of :class:`~mqredis.operations.faults.Fault` and put it into ``CHECKS``. ``CUT`` marks
those that compare things from different keys: they run only on a consistent picture. A fault carries the edits
that mend it, if there are any that lose nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from mqredis import keys
from mqredis.codec import history
from mqredis.codec.transactions import OperationRecord, TransactionRecord
from mqredis.commands.doctor import Edit
from mqredis.keys import MANAGER_PARTS, QUEUE_COUNTS, QUEUE_PARTS
from mqredis.operations.claim_invariants import NEVER, claim_pages, claims
from mqredis.operations.faults import Fault, Faults, at, int_of, size_of, state_of, without_holder
from mqredis.operations.message_invariants import LOOKUP_ID, positions, records, strays, timers
from mqredis.operations.policy_invariants import dedup, retries, topics
from mqredis.operations.schedule_invariants import schedules
from mqredis.operations.snapshot import QueueView, Store
from mqredis.operations.trail_invariants import trail_shares, trails

TYPES = {
    **dict.fromkeys(("meta", "txs", "queues", "q", "m", "s", "schedules", "messages"), "hash"),
    **dict.fromkeys(("handles", "idle", "a", "l", "t", "w", "i"), "zset"),
}
_WAITER = re.compile(r"(\d+)\.\d+ [DCP] [kp]\d+ [^ ,]+(?:,\d+)?( .*)?", re.DOTALL)
_NUMBER = re.compile(r"\d{1,16}")
_REACH = re.compile(rf"{LOOKUP_ID.pattern}|0|part")
"""Field ``index`` of a queue: an id, 0 before the first search, or "part" (lua/matching/index_build.lua)."""
# The beginning of a text of packed locks. The doctor reads no more of a long one (lua/core/locks, lua/admin/audit).
_LOCKS = re.compile(r"\d+ \d+ \d+ \d+\.\d+ [0-9a-f]+$")
# Keys that a manager may have beside those of its queues.
_BESIDE = ("sinks", "workers", "schedules", "schedules:messages")
_META = {"schema": r"6", "incarnation": r"\S+", "throttled": r"[01]", "clock": r"-?\d+"}
_META |= dict.fromkeys(("history", "seq", "messages", "bytes", "time"), r"\d{1,16}")
_META |= dict.fromkeys(("quota_messages", "quota_bytes", "lead"), r"\d*")


# ---- each key ------------------------------------------------------------------------------------


def key_types(store: Store) -> Faults:
    """Keys have the right types, and none has a time to live."""
    for key, (kind, ttl) in store.keys.items():
        wanted = TYPES.get(key.rpartition(":")[2])
        if wanted and kind != wanted:
            yield Fault("key.type", key, f"is a {kind}, must be a {wanted}")
        if ttl >= 0:
            yield Fault(
                "key.ttl",
                key,
                f"will vanish in {ttl / 1000:.0f} s",
                (Edit("persist", key),) if wanted else (),
            )


def key_names(store: Store) -> Faults:
    """Every key with the manager's prefix belongs to it."""
    tag = store.manager.tag
    known = {tag + part for part in MANAGER_PARTS}
    for view in store.queues.values():
        known.update(view.keys.values())
    present = set(store.found or ())
    for key in store.found or ():
        rest = key[len(tag) :]
        if key in known or rest.startswith(("wake:", "stage:", "action:")) or rest in _BESIDE:
            continue
        stem, _, part = key.rpartition(":")
        if rest.startswith("q:") and part in QUEUE_PARTS:
            # A list without messages can be deleted; records cannot.
            bare = f"{stem}:m" not in present and f"{stem}:q" not in present
            edits = (Edit("unlink", key),) if bare else ()
            yield Fault("key.orphan", key, "belongs to a queue that the manager does not know", edits)
        else:
            yield Fault("key.unknown", key, "is none of the keys that mqredis writes")


# ---- the manager ---------------------------------------------------------------------------------


def meta_fields(store: Store) -> Faults:
    """The manager's own fields are there and well formed."""
    meta = store.hashes.get("meta", {})
    for name, pattern in _META.items():
        value = meta.get(name)
        if value is None or not re.fullmatch(pattern, value):
            yield Fault("meta.field", name, f"is {value!r}")
    if int_of(meta.get("seq")) >= 1 << 53:
        yield Fault("meta.seq", "seq", "SequentialID has left the exact range of a double")


def meta_counters(store: Store) -> Faults:
    """The manager's counters agree with its queues, but for the log of actions."""
    meta = store.hashes.get("meta", {})
    counted = [view.records for path, view in store.queues.items() if path != keys.ACTIONS]
    for name, total in (
        ("messages", sum(map(len, counted))),
        ("bytes", sum(size_of(record) for each in counted for record in each.values())),
    ):
        if meta.get(name) != str(total):
            yield Fault(
                "counter.manager",
                name,
                f"says {meta.get(name)}, there are {total}",
                (Edit("count", store.key("meta"), name, total),),
            )


def queue_list(store: Store) -> Faults:
    """The list of queues names existing queues with their generation."""
    seen: dict[str, str] = {}
    for path, generation in store.hashes.get("queues", {}).items():
        view = store.queues.get(path)
        fields = view.fields if view else {}
        if view is None or (view.keys["q"] not in store.keys):
            # Scripts find a queue by its header.
            edits = () if view is None else (Edit("hdel", store.key("meta"), view.keys["q"]),)
            if view is None or not view.records:
                edits = (*edits, Edit("hdel", store.key("queues"), path))
            yield Fault("queue.missing", path, "is listed but has no properties", edits)
        elif fields.get("generation") != generation:
            text = f"has generation {fields.get('generation')}, the list says {generation}"
            edits = (Edit("hset", store.key("queues"), path, fields.get("generation", "")),)
            yield Fault("queue.generation", path, text, edits)
        if generation in seen:
            yield Fault("queue.generation", path, f"has the generation of {seen[generation]}")
        seen[generation] = path
        if int_of(generation) > int_of(store.hashes.get("meta", {}).get("generations")):
            yield Fault("queue.generation", path, f"has generation {generation}, which was never given out")
        parent = path.partition(";")[0]
        if parent != keys.SYSTEM and parent not in store.hashes["queues"]:
            yield Fault("queue.parent", path, f"is a subqueue of {parent!r}, which does not exist")


def handles(store: Store) -> Faults:
    """Handles are well formed; those of sessions or queues that are gone are left over."""
    names = {keys.encode(path) for path in store.queues}
    for member in store.zsets.get("handles", {}):
        edits = (Edit("zrem", store.key("handles"), member),)
        match = re.fullmatch(r"([^|]+)\|(\d+)\|[^|]+\|[a-z]+\|[a-z_]+", member)
        if match is None:
            yield Fault("handle.malformed", member, "is not a handle", edits)
        elif match[2] not in store.hashes.get("sessions", {}):
            yield Fault("handle.left", member, "belongs to a session that is gone", edits, "notice")
        elif match[1] not in names:
            yield Fault("handle.left", member, "is open on a queue that is gone", edits, "notice")


def sessions(store: Store) -> Faults:
    """Sessions, their slots and the list of idle ones agree."""
    kept = store.hashes.get("sessions", {})
    idle = store.zsets.get("idle", {})
    key = store.key("meta")
    last = int_of(store.hashes.get("meta", {}).get("sessno"))
    for name, value in kept.items():
        number, dot, place = name.partition(".")
        edits = (Edit("hdel", key, name),)
        if not re.fullmatch(r"\d+(\.\d+!?)?", name):
            yield Fault("session.malformed", name, "is neither a session nor a slot", edits)
        elif not dot:
            if number not in idle:
                edit = Edit("zadd", store.key("idle"), number, store.now_ms)
                yield Fault("session.idle", number, "is not among the sessions to look at", (edit,))
            if not re.fullmatch(r"\d{1,16}( \d{1,9})?", value):
                yield Fault("session.malformed", number, f"its time to live and highest slot are {value!r}")
            if int(number) > last:
                yield Fault("session.number", number, f"was never given out (last: {last})")
        elif place.endswith("!"):
            if not re.match(r"[hmc] ", value):
                yield Fault("slot.malformed", name, "what it was handed cannot be read", edits)
            elif number not in kept:
                yield Fault(
                    "slot.left", name, "was handed something after its session ended", edits, "notice"
                )
        elif number not in kept:
            yield Fault("slot.orphan", name, "its session does not exist", edits)
        elif not re.match(r"\d+ \d+ \S", value):
            yield Fault("slot.malformed", name, "its last sequence and reply cannot be read")
    for name in store.hashes.get("meta", {}):
        if name.startswith("client:") and name.removeprefix("client:") not in kept:
            edits = (Edit("hdel", key, name),)
            yield Fault("session.client", name, "tells of a session that is gone", edits, "notice")
    for number in idle.keys() - kept.keys():
        edits = (Edit("zrem", store.key("idle"), number),)
        yield Fault("session.idle", number, "is to be looked at but does not exist", edits)


# ---- transactions --------------------------------------------------------------------------------


def transactions(store: Store) -> Faults:
    """A transaction has all its operations, and each of them names a message that it holds."""
    texts = store.hashes.get("txs", {})
    for name, text in texts.items():
        owner, colon, place = name.rpartition(":")
        if colon and place.isdigit() and owner in texts:
            record = TransactionRecord.parse(texts[owner])
            if record is None or 1 <= int(place) <= record.operations:
                yield from _operation(store, owner, place, text)
                continue
        if colon and place.isdigit() and re.match(r"[SRXM] ", text):
            edits = (Edit("hdel", store.key("txs"), name),)
            yield Fault("tx.orphan", name, "is an operation of no transaction", edits)
            continue
        record = TransactionRecord.parse(text)
        if record is None:
            yield Fault("tx.malformed", name, f"is {text!r:.60}")
            continue
        for k in range(1, record.operations + 1):
            if f"{name}:{k}" not in texts:
                yield Fault("tx.operation", name, f"its operation {k} of {record.operations} is missing")


def _operation(store: Store, owner: str, place: str, text: str) -> Faults:
    operation = OperationRecord.parse(text)
    if operation is None:
        yield Fault("tx.malformed", f"{owner}:{place}", f"is {text!r:.60}")
        return
    view = store.queues.get(keys.decode(operation.queue))
    record = view.records.get(operation.lookup_id) if view else None
    if record is None:
        return  # the message has gone with its queue, which the transaction finds out when it ends
    state = state_of(record)
    if state is None or state.owner != owner or state.kind != operation.state_kind:
        what = f"names message {operation.lookup_id}, which it does not hold"
        yield Fault("tx.message", f"{owner}:{place}", what)


def owners(store: Store) -> Faults:
    """A message locked by a transaction is named by it, or its lease is over."""
    texts = store.hashes.get("txs", {})
    operations = ((name, OperationRecord.parse(text)) for name, text in texts.items())
    named = {(name.rpartition(":")[0], found.queue, found.lookup_id) for name, found in operations if found}
    for view in store.queues.values():
        for lid, record in view.records.items():
            state = state_of(record)
            if state is None or state.kind not in "RSM" or record.deadline is None:
                continue
            if record.deadline <= store.now_ms:
                continue  # the next call on its queue takes it back; the id may be in use again by then
            lapse = Edit("zadd", view.keys["l"], lid, 0)
            if state.owner not in texts:
                text = f"locked by transaction {state.owner}, which does not exist"
                yield Fault("lock.owner", at(view, lid), text, (lapse,))
            elif (state.owner, keys.encode(view.path), lid) not in named:
                text = f"locked by transaction {state.owner}, which does not name it"
                edit = Edit("hset", view.keys["s"], lid, without_holder(record.state))
                edits = (edit, lapse) if state.kind != "S" else ()
                yield Fault("lock.owner", at(view, lid), text, edits)


# ---- queues --------------------------------------------------------------------------------------


def queue_fields(store: Store) -> Faults:
    """The properties that every script reads exist and are well formed."""
    for view in store.queues.values():
        if view.keys["q"] not in store.keys:
            continue
        for name, pattern in (
            ("generation", r"\d+"), ("flags", r"[a-z]*"), *((name, r"\d+") for name in QUEUE_COUNTS if name != "due"),
            ("max_bytes", r"\d+"), ("quota_messages", r"\d*"), ("quota_bytes", r"\d*"),
        ):  # fmt: skip
            # Subqueues have the limits of their queue. Those that the broker creates have no fields for them.
            optional = name.startswith("quota") and ";" in view.path
            value = view.fields.get(name, "" if optional else None)
            if value is None or not re.fullmatch(pattern, value):
                yield Fault("queue.field", f"{view.path}: {name}", f"is {value!r}")
        # Texts of packed locks belong into ``meta``.
        for name, value in view.fields.items():
            if name.startswith("lock:"):
                text, edit = f"is no text of locks: {value!r:.80}", Edit("hdel", view.keys["q"], name)
                yield Fault("queue.locks", f"{view.path}: {name}", text, (edit,))
        yield from _index(view)
        kept = view.fields.get("statistics")
        if kept is not None and history.end_of(kept) is None:
            edit = Edit("hdel", view.keys["q"], "statistics")
            yield Fault("queue.statistics", view.path, f"are no statistics: {kept!r:.80}", (edit,))


def lines(store: Store) -> Faults:
    """Each header of a queue in ``meta``, and each text of packed locks, belongs to a queue."""
    known, key = {view.keys["q"] for view in store.queues.values()}, store.key("meta")
    for name in store.hashes.get("headers", {}):
        if name not in known or name not in store.keys:
            text = "has no properties" if name in known else "the manager does not know"
            yield Fault("queue.header", name, f"is of a queue that {text}", (Edit("hdel", key, name),))
    for name, value in store.hashes.get("locks", {}).items():
        if name.removeprefix("lock:") not in store.fences:
            text = "is of locks that no queue names"
        elif not _LOCKS.match(value):
            text = f"is no text of locks: {value!r:.80}"
        else:
            continue
        yield Fault("queue.locks", name, text, (Edit("hdel", key, name),))


def _index(view: QueueView) -> Faults:
    """The mark of the index of identifiers is well formed; if not, searches build it again
    (lua/matching/index_build)."""
    index, upto = view.fields.get("index", ""), view.fields.get("index_at", "")
    if not _REACH.fullmatch(index) or (upto and (index != "part" or not LOOKUP_ID.fullmatch(upto))):
        key = view.keys["q"]
        edits = (Edit("hset", key, "index", "part"), Edit("hdel", key, "index_at"))
        yield Fault("queue.index", view.path, f"its index says {index!r}, up to {upto!r}", edits)


def queue_counters(store: Store) -> Faults:
    """The counters of queues agree with their messages, and those of parents with their subqueues."""
    for view in store.queues.values():
        if view.keys["q"] not in store.keys:
            continue
        truth = {
            "messages": len(view.records),
            "bytes": sum(size_of(record) for record in view.records.values()),
        }
        stem = view.path + ";"
        below = [
            v for path, v in store.queues.items() if path.startswith(stem) and not keys.counts_apart(path)
        ]
        if below or "sub_messages" in view.fields:
            truth["sub_messages"] = sum(len(other.records) for other in below)
            truth["sub_bytes"] = sum(size_of(record) for other in below for record in other.records.values())
        for name, total in truth.items():
            said = view.fields.get(name, "0" if name.startswith("sub_") else None)
            if said != str(total):
                text = f"says {said}, there are {total}"
                edits = (Edit("count" if name in QUEUE_COUNTS else "hset", view.keys["q"], name, total),)
                yield Fault("counter.queue", f"{view.path}: {name}", text, edits)


def hints(store: Store) -> Faults:
    """Copies and hints in headers are right: the config agrees with the properties, ``due`` is no later than the first
    timer and the end of the open bucket of the statistics, and ``waiting`` is set if a reader waits."""
    yield from _config("meta", store.key("meta"), store.hashes.get("meta", {}), _META_CONFIG, " ")
    for view in store.queues.values():
        if view.keys["q"] not in store.keys:
            continue
        yield from _config(view.path, view.keys["q"], view.fields, _QUEUE_CONFIG, "|")
        rows = view.records.values()
        times = [at for row in rows for at in (row.deadline, row.expiry, row.delay) if at is not None]
        times += view.policies.values()
        times = [at for at in times if at < NEVER]
        text = view.fields.get("due", "")
        ends, readable = history.end_of(view.fields.get("statistics", "")), bool(_NUMBER.fullmatch(text))
        if ends is not None and (times or readable):
            times.append(ends)
        if times and (not readable or float(text) > min(times)):
            edit = Edit("count", view.keys["q"], "due", f"{max(0, min(times)):.0f}")
            yield Fault(
                "queue.due", view.path, f"has to be looked at by {min(times):.0f}, it says {text!r}", (edit,)
            )
        if view.waiters and view.fields.get("waiting", "0") != "1":
            edit = Edit("count", view.keys["q"], "waiting", "1")
            yield Fault("queue.waiting", view.path, "has waiting readers that would not be notified", (edit,))


# Of which fields a ``config`` is made (lua/core/context.lua, lua/core/queue.lua).
_META_CONFIG = ("schema", "incarnation", "clock", "throttled", "quota_messages", "quota_bytes", "lead")
_QUEUE_CONFIG = ("generation", "flags", "max_bytes", "quota_messages", "quota_bytes", "index")


def _config(where: str, key: str, fields: Mapping[str, str], parts: Sequence[str], between: str) -> Faults:
    # Without one a script makes it from the fields.
    said = fields.get("config", "")
    if said and said != between.join(fields.get(name, "") for name in parts):
        yield Fault(
            "config", where, f"config {said!r} is not what its fields say", (Edit("hdel", key, "config"),)
        )


def waiters(store: Store) -> Faults:
    """Waiting readers are well formed; readers of ended sessions are removed."""
    for view in store.queues.values():
        for member, ticket in view.waiters.items():
            match = _WAITER.fullmatch(member)
            if (
                ticket < 0
            ):  # readers of particular messages come before the others, see waiting/match_waiters.lua
                ticket += 1 << 50 if ticket > -(1 << 50) else 1 << 51
            edits = (Edit("zrem", view.keys["w"], member),)
            where = f"{view.path}: {member}"
            if match is None:
                yield Fault("waiter.malformed", where, "is not a waiting reader", edits)
            elif not 1 <= ticket <= int_of(view.fields.get("tickets")):
                yield Fault(
                    "waiter.ticket", where, f"holds ticket {ticket:.0f}, which was never given out", edits
                )
            elif match[1] not in store.hashes.get("sessions", {}):
                yield Fault("waiter.left", where, "belongs to a session that is gone", edits, "notice")


Check = Callable[[Store], Faults]
# In the order of the report and of the repairs: positions before the counters of them.
CHECKS: tuple[Check, ...] = (
    meta_fields, key_types, key_names, queue_fields, lines, records, positions, timers, dedup, retries, topics, strays,
    owners, claims, claim_pages, transactions, queue_list, queue_counters, meta_counters, hints, sessions, handles,
    waiters, trails, trail_shares, schedules,
)  # fmt: skip
# Invariants over several keys, which need a consistent snapshot.
CUT: frozenset[Check] = frozenset(
    (
        key_names,
        lines,
        owners,
        transactions,
        queue_list,
        claims,
        claim_pages,
        queue_counters,
        meta_counters,
        hints,
        sessions,
        schedules,
        handles,
        waiters,
        trails,
    )
)
