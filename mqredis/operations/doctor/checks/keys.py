"""Doctor checks of the keys of a manager: their types, their times to live and their names.

``operations.doctor.checks`` lists it; ``run`` calls it. A new key needs its name in ``mqredis.keys`` and a row in
``TYPES``; ``tests/contract/test_constants.py`` compares both. A key that is neither of all managers nor of all queues
is checked only if ``snapshot._read_schedules_and_workers`` reads it, and repaired only if it is among the keys of
``commands.doctor.repair``. Those of data pipelines (sinks, stages) are not.
"""

from __future__ import annotations

from mqredis.commands.doctor import Edit
from mqredis.keys import (
    AVAILABLE,
    INDEX,
    LOCKED,
    MANAGER_PARTS,
    OPTIONAL,
    OPTIONAL_PREFIXES,
    PROPERTIES,
    RECORDS,
    STATES,
    TIMERS,
    WAITERS,
    WORKERS,
)
from mqredis.operations.doctor.fault import Fault, Faults
from mqredis.operations.doctor.snapshot import Store

# The type of a key by the last part of its name. lua/admin/audit.lua has those of the keys that it reads
# (tests/contract/test_stored_texts.py).
TYPES = {
    **dict.fromkeys(
        ("meta", "txs", "queues", PROPERTIES, RECORDS, STATES, "schedules", "messages", WORKERS), "hash"
    ),
    **dict.fromkeys(("handles", "idle", AVAILABLE, LOCKED, TIMERS, WAITERS, INDEX), "zset"),
}


def types(store: Store) -> Faults:
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


def names(store: Store) -> Faults:
    """Every key with the manager's prefix belongs to it."""
    tag = store.manager.tag
    known = {tag + part for part in MANAGER_PARTS}
    for view in store.queues.values():
        known.update(view.keys.values())
    present = set(store.found or ())
    for key in store.found or ():
        rest = key[len(tag) :]
        if key in known or rest in OPTIONAL or rest.startswith(OPTIONAL_PREFIXES):
            continue
        if store.path(key) is not None:
            # A list without messages can be deleted; records cannot.
            stem = key.rpartition(":")[0]
            bare = f"{stem}:{RECORDS}" not in present and f"{stem}:{PROPERTIES}" not in present
            edits = (Edit("unlink", key),) if bare else ()
            yield Fault("key.orphan", key, "belongs to a queue that the manager does not know", edits)
        else:
            yield Fault("key.unknown", key, "is none of the keys that mqredis writes")
