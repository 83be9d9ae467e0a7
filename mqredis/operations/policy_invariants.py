"""Invariants of what queues do by themselves: dedup keys (see :mod:`mqredis.operations.invariants`)."""

from __future__ import annotations

import re

from mqredis.commands.doctor import Edit
from mqredis.operations.faults import Fault, Faults, at, shown
from mqredis.operations.snapshot import Store

#: The score of a dedup key that a message in the queue holds (lib/special.lua); others have the end of their window.
HELD = 9_000_000_000_000_000
_KEY = re.compile(rb"\x03k([^\x01\x03\x00]*)")


def dedup(store: Store) -> Faults:
    """A dedup key is held as long as a message of the family has it, and by nothing else."""
    for view in store.queues.values():
        if view.keys["q"] not in store.keys:
            continue
        held = {member[1:] for member, score in view.policies.items() if member[:1] == b"k" and score >= HELD}
        if ";" in view.path:  # the queue holds the keys of its subqueues too
            for key in held:
                edit = Edit("zrem", view.keys["t"], b"k" + key)
                yield Fault("dedup.leak", f"{view.path}: {shown(key)}", "is held by a subqueue", (edit,))
            continue
        had: dict[bytes, str] = {}
        family = (
            v for path, v in store.queues.items() if path == view.path or path.startswith(f"{view.path};")
        )
        for member in family:
            for lid, record in member.records.items():
                match = _KEY.search(record.head)
                if match:
                    had[match[1]] = at(member, lid)
        for key in held - had.keys():
            edit = Edit("zrem", view.keys["t"], b"k" + key)
            yield Fault("dedup.leak", f"{view.path}: {shown(key)}", "is held by no message", (edit,))
        for key in had.keys() - held:
            edit = Edit("zadd", view.keys["t"], b"k" + key, HELD)
            yield Fault(
                "dedup.missing", had[key], f"has the dedup key {shown(key)} and does not hold it", (edit,)
            )
