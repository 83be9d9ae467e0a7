"""Doctor checks of a manager's own fields: its properties, its counters and its list of queues.

``operations.doctor.checks`` lists it; ``run`` calls it. The fields are those of lua/core/manager_config.lua, and the
counters those of lua/core/context.lua (``keys.META_COUNTS``); tests/contract/test_constants.py compares the names. The
field ``config``, which repeats the properties, is checked in ``queues``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from mqredis import keys
from mqredis.commands.doctor import Edit
from mqredis.operations.doctor.fault import Fault, Faults
from mqredis.operations.doctor.snapshot import QueueView, Store
from mqredis.operations.doctor.stored import int_of, size_of

PATTERNS = {
    "schema": keys.SCHEMA,
    "incarnation": r"\S+",
    "throttled": r"[01]",
    "clock": r"-?\d{1,15}",
    "lead": r"\d{0,15}",
}
PATTERNS |= dict.fromkeys(keys.META_COUNTS, r"\d{1,16}")
PATTERNS |= dict.fromkeys(("quota_messages", "quota_bytes"), r"\d*")


def damaged(meta: Mapping[str, str]) -> dict[str, str | None]:
    """The manager's own fields that are missing (None) or not well formed."""
    values = {name: meta.get(name) for name in PATTERNS}
    return {
        name: text
        for name, text in values.items()
        if text is None or not re.fullmatch(PATTERNS[name], text, re.ASCII)
    }


def fields(store: Store) -> Faults:
    """The manager's own fields are there and well formed."""
    meta = store.hashes.get("meta", {})
    for name, value in damaged(meta).items():
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


def _list(store: Store, view: QueueView) -> tuple[Edit, ...]:
    """What puts a queue into the list with its generation; nothing if that is damaged."""
    generation = view.fields.get("generation", "")
    return (Edit("hset", store.key("queues"), view.path, generation),) if int_of(generation) else ()


def queue_list(store: Store) -> Faults:
    """The list of queues names all queues that exist, with their generation."""
    seen: dict[str, str] = {}
    listed = store.hashes.get("queues", {})
    for path, generation in listed.items():
        view = store.queues[path]
        if view.keys[keys.PROPERTIES] not in store.keys:
            # Its header, by which scripts find a queue, is another fault (``headers``). Messages stay where they are:
            # only an operator can say which properties their queue had.
            entry = () if view.records else (Edit("hdel", store.key("queues"), path),)
            yield Fault("queue.missing", path, "is listed but has no properties", entry)
        elif view.fields.get("generation") != generation:
            text = f"has generation {view.fields.get('generation')}, the list says {generation}"
            yield Fault("queue.generation", path, text, _list(store, view))
        if generation in seen:
            yield Fault("queue.generation", path, f"has the generation of {seen[generation]}")
        seen[generation] = path
        if int_of(generation) > int_of(store.hashes.get("meta", {}).get("generations")):
            yield Fault("queue.generation", path, f"has generation {generation}, which was never given out")
        parent = path.partition(";")[0]
        if parent != keys.SYSTEM and parent not in store.queues:
            yield Fault("queue.parent", path, f"is a subqueue of {parent!r}, which does not exist")
    for view in store.existing():
        if view.path not in listed:
            edits = () if view.fields.get("generation") in seen else _list(store, view)
            yield Fault("queue.unlisted", view.path, "has a header and is not in the list of queues", edits)
