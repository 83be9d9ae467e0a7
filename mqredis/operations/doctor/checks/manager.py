"""Doctor checks of a manager's own fields: its properties, its counters and its list of queues.

``operations.doctor.checks`` lists it; ``run`` calls it. The fields are those of lua/core/manager_config.lua, and the
counters those of lua/core/context.lua (``keys.META_COUNTS``); tests/contract/test_constants.py compares the names. The
field ``config``, which repeats the properties, is checked in ``queues``.
"""

from __future__ import annotations

import re

from mqredis import keys
from mqredis.commands.doctor import Edit
from mqredis.operations.doctor.fault import Fault, Faults
from mqredis.operations.doctor.snapshot import Store
from mqredis.operations.doctor.stored import int_of, size_of

PATTERNS = {"schema": keys.SCHEMA, "incarnation": r"\S+", "throttled": r"[01]", "clock": r"-?\d+"}
PATTERNS |= dict.fromkeys(keys.META_COUNTS, r"\d{1,16}")
PATTERNS |= dict.fromkeys(("quota_messages", "quota_bytes", "lead"), r"\d*")


def fields(store: Store) -> Faults:
    """The manager's own fields are there and well formed."""
    meta = store.hashes.get("meta", {})
    for name, pattern in PATTERNS.items():
        value = meta.get(name)
        if value is None or not re.fullmatch(pattern, value):
            yield Fault("meta.field", name, f"is {value!r}")
    if int_of(meta.get("seq")) >= 1 << 53:
        yield Fault("meta.seq", "seq", "SequentialID has left the exact range of a double")


def counters(store: Store) -> Faults:
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
        if view is None or (view.keys[keys.PROPERTIES] not in store.keys):
            # Scripts find a queue by its header.
            edits = () if view is None else (Edit("hdel", store.key("meta"), view.keys[keys.PROPERTIES]),)
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
