"""One run of the doctor: snapshot, checks, repairs, report.

``QueueManager.doctor`` calls ``examine``, and the reliability tests ``find``. lua/repair.lua carries out the edits, and
refuses them if the store has changed since the snapshot.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from mqredis.commands import doctor as commands
from mqredis.commands.doctor import Edit
from mqredis.errors import (
    AccessDenied,
    BrokerRefused,
    InvariantBroken,
    ManagerNotFound,
    SchemaTooNew,
    SchemaTooOld,
)
from mqredis.operations import checks as arguments
from mqredis.operations import libraries
from mqredis.operations.context import Context
from mqredis.operations.doctor import advice, snapshot
from mqredis.operations.doctor.checks import CHECKS
from mqredis.operations.doctor.fault import Fault
from mqredis.operations.doctor.snapshot import Store
from mqredis.operations.durability.levels import levels
from mqredis.operations.server_facts import read_facts
from mqredis.reports import Finding, Report
from mqredis.steps import Steps, perform, procedure

# How often the doctor begins again if the store changed during a repair.
ROUNDS = 5


@procedure
def examine(context: Context, repair: bool) -> Steps[Report]:
    """Check the store and the server; with ``repair`` repair the store."""
    arguments.flag(repair, "repair")
    if context.settings.read_only:
        raise AccessDenied(
            "this client is read-only (Settings.read_only), and the doctor writes: it expands locks that are stored "
            "together. Run it with another client"
        )
    facts = yield from read_facts()
    about_server = [*advice.about_server(facts), *(yield from libraries.examine(repair))]
    settings = context.settings
    reached = yield from levels(facts, settings.durability_replicas, settings.appendfsync_always)
    report = partial(Report, manager=context.keys.manager, levels=reached, server=facts.summary())
    try:
        store = yield from snapshot.take(context.keys)
    except BrokerRefused as error:
        raise BrokerRefused(
            f"{error}. The doctor needs the rights of the role admin (mqredis acl --role admin)"
        ) from None
    except (InvariantBroken, ManagerNotFound, SchemaTooNew, SchemaTooOld) as error:
        # The manager's own fields are damaged so that not even the doctor's script could read them.
        code = "meta.missing" if isinstance(error, ManagerNotFound) else "meta.unreadable"
        broken = Finding(code=code, severity="error", where=context.keys.tag + "meta", text=str(error))
        return report(findings=(broken,), advice=tuple(about_server))
    store, faults, repaired = yield from _repair(store, ROUNDS if repair else 0)
    findings = [_finding(fault, True) for fault in repaired] + [_finding(fault, False) for fault in faults]
    about_store = advice.about_store(store, settings.failed_messages_warning)
    return report(
        findings=tuple(item for item in findings if item.severity == "error"),
        advice=(*about_server, *about_store, *(item for item in findings if item.severity != "error")),
        queues=len(store.queues),
        messages=sum(len(view.records) for view in store.queues.values()),
        transactions=sum(":" not in name for name in store.hashes.get("txs", {})),
        sessions=sum("." not in name for name in store.hashes.get("sessions", {})),
        consistent=store.consistent,
    )


def find(store: Store) -> list[Fault]:
    """All faults in a snapshot."""
    return [
        fault for check in CHECKS if store.consistent or not check.across_keys for fault in check.run(store)
    ]


def _repair(store: Store, rounds: int) -> Steps[tuple[Store, list[Fault], list[Fault]]]:
    """Repair what can be repaired. Returns the last snapshot, the faults in it, and those that are repaired."""
    faults = find(store)
    edited: dict[tuple[str, str], Fault] = {}
    for _ in range(rounds):
        todo = [fault for fault in faults if fault.edits and (fault.code, fault.where) not in edited]
        if not todo or not store.consistent:
            break
        if (yield from _edit(store, todo)):
            edited.update({(fault.code, fault.where): fault for fault in todo})
        store = yield from snapshot.take(store.manager)
        faults = find(store)
    left = {(fault.code, fault.where) for fault in faults}
    return store, faults, [fault for key, fault in edited.items() if key not in left]


def _finding(fault: Fault, repaired: bool) -> Finding:
    return Finding(
        code=fault.code,
        severity=fault.severity,
        where=fault.where,
        text=fault.text,
        repaired=repaired,
        repairable=bool(fault.edits),
    )


def _edit(store: Store, faults: Sequence[Fault]) -> Steps[bool]:
    """Carry out the edits, unless the store has changed since the snapshot."""
    history = store.history
    for paths, edits in _batches(store, [edit for fault in faults for edit in fault.edits]):
        try:
            history = yield from perform(commands.repair(store.manager, paths, history, edits))
        except InvariantBroken:
            return False  # the manager is damaged in a way that no script can work with
        if history < 0:
            return False
    return True


def _batches(store: Store, edits: Sequence[Edit]) -> list[tuple[list[str], list[Edit]]]:
    """Group edits in order, as many as one call takes, each group with the queues of its keys."""
    batches: list[tuple[list[str], list[Edit]]] = []
    for edit in edits:
        path = store.path(edit.key)
        if not batches or len(batches[-1][1]) >= commands.EDITS or len(batches[-1][0]) >= snapshot.CHUNK:
            batches.append(([], []))
        paths, chosen = batches[-1]
        if path is not None and path not in paths:
            paths.append(path)
        chosen.append(edit)
    return batches
