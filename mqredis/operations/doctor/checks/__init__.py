"""All invariants of the store that the doctor checks: ``CHECKS``. ``doctor.run`` calls each with a snapshot.

To add a check:

1. Write a generator of :class:`~mqredis.operations.doctor.fault.Fault` in the file of its group. It gets the snapshot,
   and its docstring is the invariant. Give a fault the edits that repair it, if there are any that lose no data, and
   after which scripts can read the store: of two copies the damaged one must not take the place of the other.
2. Add it to ``CHECKS``, with ``across_keys=True`` if it compares rows of the snapshot, which were read at different
   moments.
3. Plant the fault in ``tests/doctor/faults.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mqredis.operations.doctor.checks import (
    claims,
    keys,
    manager,
    messages,
    policies,
    queues,
    schedules,
    sessions,
    trails,
    transactions,
    workers,
)
from mqredis.operations.doctor.fault import Faults
from mqredis.operations.doctor.snapshot import Store


@dataclass(frozen=True, slots=True)
class Check:
    """One invariant."""

    run: Callable[[Store], Faults]
    across_keys: bool = False
    """Does it compare rows of the snapshot, which were read at different moments? If the store has changed meanwhile,
    it is left out."""


# The order of the report and of the repairs: positions of messages come before the counters of them.
CHECKS = (
    Check(manager.fields),
    Check(keys.types),
    Check(keys.names, across_keys=True),
    Check(queues.fields),
    Check(queues.headers, across_keys=True),
    Check(messages.records),
    Check(messages.positions),
    Check(messages.timers),
    Check(policies.dedup_keys, across_keys=True),
    Check(policies.retry_policies),
    Check(policies.subscriptions),
    Check(messages.strays),
    Check(transactions.locked_messages, across_keys=True),
    Check(claims.claims, across_keys=True),
    Check(claims.pages, across_keys=True),
    Check(transactions.operations, across_keys=True),
    Check(manager.queue_list, across_keys=True),
    Check(queues.counters, across_keys=True),
    Check(manager.counters, across_keys=True),
    Check(queues.header_values, across_keys=True),
    Check(sessions.sessions, across_keys=True),
    Check(sessions.handles, across_keys=True),
    Check(sessions.waiters, across_keys=True),
    Check(trails.trails, across_keys=True),
    Check(trails.shares),
    Check(schedules.schedules, across_keys=True),
    Check(workers.workers),
)
