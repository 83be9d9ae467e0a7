"""The doctor: checks the whole store and the server's settings, and repairs what can be repaired without loss."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from mqredis import keys
from mqredis.commands import doctor as commands
from mqredis.commands import queues
from mqredis.commands.doctor import Edit
from mqredis.errors import (
    AccessDenied,
    BrokerRefused,
    BrokerUnavailable,
    InvariantBroken,
    ManagerNotFound,
    MqError,
)
from mqredis.keys import ManagerKeys
from mqredis.models import RetryPolicy
from mqredis.operations import checks, failed, invariants, libraries, server_advice, snapshot
from mqredis.operations.context import Context
from mqredis.operations.durability.levels import levels
from mqredis.operations.faults import Fault
from mqredis.operations.server_facts import read_facts
from mqredis.operations.snapshot import Store
from mqredis.reports import Finding, Report
from mqredis.steps import Steps, perform, procedure

# How often the doctor begins again if the store changed during a repair.
ROUNDS = 5
# A server's clock that differs by more than so many seconds from ours is reported.
CLOCK_SECONDS = 5


@procedure
def examine(context: Context, repair: bool) -> Steps[Report]:
    """Check the store and the server; with ``repair`` repair the store."""
    checks.flag(repair, "repair")
    if context.settings.read_only:
        raise AccessDenied(
            "this client is read-only (Settings.read_only), and the doctor writes: it expands locks that are stored "
            "together. Run it with another client"
        )
    facts = yield from read_facts()
    advice, server = server_advice.advise(facts), facts.summary()
    advice = [*advice, *(yield from libraries.examine(repair))]
    settings = context.settings
    reached = yield from levels(facts, settings.durability_replicas, settings.appendfsync_always)
    try:
        store = yield from snapshot.take(context.keys)
    except (BrokerRefused, BrokerUnavailable):
        raise
    except MqError as error:
        # The manager's own fields are damaged so that not even the doctor's script could read them.
        code = "meta.missing" if isinstance(error, ManagerNotFound) else "meta.unreadable"
        broken = Finding(code=code, severity="error", where=context.keys.tag + "meta", text=str(error))
        return Report(
            manager=context.keys.manager,
            findings=(broken,),
            advice=tuple(advice),
            levels=reached,
            server=server,
        )
    faults = find(store)
    mended: dict[tuple[str, str], Fault] = {}
    for _ in range(ROUNDS if repair else 0):
        todo = [fault for fault in faults if fault.edits and (fault.code, fault.where) not in mended]
        if not todo or not store.consistent:
            break
        if (yield from _mend(context.keys, store, todo)):
            mended.update({(fault.code, fault.where): fault for fault in todo})
        store = yield from snapshot.take(context.keys)
        faults = find(store)
    still = {(fault.code, fault.where) for fault in faults}
    gone = [fault for key, fault in mended.items() if key not in still]
    findings = [_finding(fault, True) for fault in gone] + [_finding(fault, False) for fault in faults]
    advice += [*_clock(store), *_failed(store, settings.failed_messages_warning)]
    return Report(
        manager=context.keys.manager,
        findings=tuple(item for item in findings if item.severity == "error"),
        advice=(*advice, *(item for item in findings if item.severity != "error")),
        queues=len(store.queues),
        messages=sum(len(view.records) for view in store.queues.values()),
        transactions=sum(":" not in name for name in store.hashes.get("txs", {})),
        sessions=sum("." not in name for name in store.hashes.get("sessions", {})),
        consistent=store.consistent,
        levels=reached,
        server=server,
    )


def _clock(store: Store) -> list[Finding]:
    """Findings about the server's clock, and about broker time, which makes up for its steps back."""
    fields, found = store.hashes.get("meta", {}), []
    lead, moved = (int(fields.get(name) or 0) for name in ("lead", "clock"))
    ahead = (store.now_ms - lead - moved) / 1000 - datetime.now(UTC).timestamp()
    if abs(ahead) > CLOCK_SECONDS:
        text = (
            f"differs by {ahead:+.0f} s from the clock of this machine; after a step forward, leases end and delayed "
            "messages arrive too early"
        )
        found.append(Finding(code="server.clock", severity="warning", where="TIME", text=text))
    if lead:
        text = f"was set back, {lead / 1000:.0f} s in all; deadlines are not affected, nothing has to be done"
        found.append(Finding(code="manager.clock", severity="notice", where="the server's clock", text=text))
    return found


def _policy(text: str) -> RetryPolicy | None:
    """The retry policy that this text describes; none if it is damaged, which is a finding of its own."""
    try:
        return queues.parse_policy(text)
    except ValueError:
        return None


def _failed(store: Store, bound: int) -> list[Finding]:
    """Queues with more failed messages than ``bound``."""
    dead_letters = failed.dead_letter_queues(
        _policy(view.fields.get("retry", "")) for view in store.queues.values()
    )
    return [
        Finding(
            code="queue.failed",
            severity="warning",
            where=path,
            text=failed.warning(path, len(view.records), bound),
        )
        for path, view in store.queues.items()
        if len(view.records) > bound and failed.holds_failed(path, dead_letters)
    ]


def find(store: Store) -> list[Fault]:
    """All faults in a snapshot."""
    found: list[Fault] = []
    for check in invariants.CHECKS:
        if store.consistent or check not in invariants.CUT:
            found += check(store)
    return found


def _finding(fault: Fault, repaired: bool) -> Finding:
    return Finding(
        code=fault.code,
        severity=fault.severity,
        where=fault.where,
        text=fault.text,
        repaired=repaired,
        repairable=bool(fault.edits),
    )


def _mend(manager: ManagerKeys, store: Store, faults: Sequence[Fault]) -> Steps[bool]:
    """Carry out the edits, unless the store has changed since the snapshot."""
    history = store.history
    for paths, edits in _batches(manager, [edit for fault in faults for edit in fault.edits]):
        try:
            history = yield from perform(commands.repair(manager, paths, history, edits))
        except InvariantBroken:
            return False  # the manager is damaged in a way that no script can work with
        if history < 0:
            return False
    return True


def _batches(manager: ManagerKeys, edits: Sequence[Edit]) -> list[tuple[list[str], list[Edit]]]:
    """Group edits in order, as many as one call takes, each group with the queues of its keys."""
    batches: list[tuple[list[str], list[Edit]]] = []
    for edit in edits:
        path = _path(manager, edit.key)
        if not batches or len(batches[-1][1]) >= commands.EDITS or len(batches[-1][0]) >= snapshot.CHUNK:
            batches.append(([], []))
        paths, chosen = batches[-1]
        if path is not None and path not in paths:
            paths.append(path)
        chosen.append(edit)
    return batches


def _path(manager: ManagerKeys, key: str) -> str | None:
    """The queue that a key belongs to; None for the manager's own."""
    parts = key[len(manager.tag) :].split(":")
    return keys.decode(parts[1]) if parts[0] == "q" and len(parts) == 3 else None
