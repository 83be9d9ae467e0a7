"""Scenarios with dead letters, journals, retries, dedup keys, topics and waiting."""

from __future__ import annotations

from mqredis.keys import DEAD_LETTER
from mqredis.models import Journal, RetryPolicy
from mqredis.operations.doctor.snapshot import Store
from tests.reliability.engine import Scenario
from tests.reliability.moves import LEASE, Clock, Create, End, Maintain, Purge, Send, Settle, Take
from tests.reliability.policy_moves import (
    Await,
    AwaitLock,
    Beside,
    CreateWith,
    Leave,
    Publish,
    SendOnce,
    SendWith,
    Subscribe,
    TakeMatch,
)
from tests.reliability.world import Broken, World

Q, T, P = "q", "t", "topic"
JOURNAL, POISON, RETRY = "q;journal", "q;poison", "q;retry"
PASSED = LEASE + 1000
ALL = {"journal": Journal.DEAD_LETTER}
ONCE = {"dedup_key": "k", "dedup_window": 3600.0}


def _count(store: Store, path: str) -> int:
    return len(store.queues[path].records) if path in store.queues else 0


def _one_fate(world: World, store: Store) -> None:
    """Each message was taken, or left a dead letter, and never both."""
    taken = sum(state == "taken" for state in world.ledger.state.values())
    dead = _count(store, DEAD_LETTER)
    if taken + dead + _count(store, Q) != len(world.ledger.state):
        raise Broken(f"{len(world.ledger.state)} messages, {taken} taken, {dead} dead letters")


def _journalled(world: World, store: Store) -> None:
    """Each message that was taken left one copy in the journal, and no other did."""
    taken = sum(state == "taken" for state in world.ledger.state.values())
    if _count(store, JOURNAL) != taken:
        raise Broken(f"{taken} messages were taken, the journal has {_count(store, JOURNAL)}")


def _two_deliveries(_world: World, store: Store) -> None:
    """Poison is what was delivered twice, neither sooner nor later."""
    for path, allowed in ((Q, {0, 1}), (POISON, {2})):
        for lid, record in store.queues[path].records.items():
            if int((record.state or "0").split()[0]) not in allowed:
                raise Broken(f"{lid} is in {path} after {record.state.split()[0]} deliveries")


def _no_lost_wake(world: World, store: Store) -> None:
    """No reader waits while a message is available, unless another reader was notified of it."""
    view = store.queues[Q]
    waiting = len(view.waiters)
    available = sum(record.available for record in view.records.values())
    told = sum(name.endswith("!") for name in store.hashes.get("sessions", {}))
    if waiting and available > told:
        raise Broken(
            f"{waiting} readers wait, {available} messages are available, {told} wakes are under way"
        )


POLICIES: tuple[Scenario, ...] = (
    Scenario(
        "dead letters at lapse",
        (Q,),
        (Create(Q), Beside(Q, (DEAD_LETTER,)), SendWith(Q, "ab", life=30_000, fields=ALL)),
        {
            "A": (Take(Q, "lock"), Settle(Q, "c")),
            "B": (Take(Q, "lock"), Settle(Q, "a")),
            "T": (Clock(31_000), Maintain(Q), Clock(PASSED)),
        },
        _one_fate,
        apart=(DEAD_LETTER,),
    ),
    Scenario(
        "journal of what leaves",
        (Q,),
        (CreateWith(Q, {"journaling": True}), Beside(Q, (JOURNAL,)), Send(Q, "abc")),
        {
            "A": (Take(Q, "lock"), Settle(Q, "c")),
            "B": (Take(Q), Take(Q, "lock", settle="c")),
            "T": (Clock(PASSED), Maintain(Q)),
        },
        _journalled,
        apart=(JOURNAL,),
    ),
    Scenario(
        "retry policy against late commit",
        (Q,),
        (
            CreateWith(Q, {"retry": RetryPolicy(immediate=1, final="poison")}),
            Beside(Q, (POISON, RETRY)),
            Send(Q, "a"),
        ),
        {
            "A": (Take(Q, "lock"), Settle(Q, "c")),
            "B": (Take(Q, "lock"), Settle(Q, "a")),
            "T": (Clock(PASSED), Clock(PASSED)),
        },
        _two_deliveries,
        apart=(POISON, RETRY),
    ),
    Scenario(
        "rests in ;retry against purge",
        (Q,),
        (
            CreateWith(Q, {"retry": RetryPolicy(immediate=0, cycles=2, delay=10, final="drop")}),
            Beside(Q, (RETRY,)),
            Send(Q, "ab"),
        ),
        {
            "A": (Take(Q, "lock"), Settle(Q, "a"), Take(Q)),
            "B": (Take(Q, "lock"), Settle(Q, "c")),
            "T": (Clock(11_000), Maintain(Q)),
        },
        apart=(RETRY,),
        drops=True,
    ),
    Scenario(
        "dedup window against abort",
        (T,),
        (Create(T, transactional=True),),
        {
            "A": (SendOnce(T, "a", "x", fields=ONCE), End("x", "abort", (T,))),
            "B": (SendOnce(T, "b", "y", fields=ONCE), End("y", "commit", (T,))),
            "C": (SendOnce(T, "c", "z", fields=ONCE), Clock(PASSED)),
        },
    ),
    Scenario(
        "lock of a particular message against purge",
        (Q,),
        (
            Create(Q),
            SendWith(Q, "ab", fields={"correlation_id": "one"}),
            SendWith(Q, "c", fields={"correlation_id": "two"}),
        ),
        {
            "A": (TakeMatch(Q, "lock", correlation="one"), Settle(Q, "c")),
            "B": (TakeMatch(Q, "take", correlation="one"), Purge(Q)),
            "C": (Take(Q, "lock"), Settle(Q, "a"), TakeMatch(Q, "take", correlation="two")),
        },
    ),
    Scenario(
        "publication against subscription",
        (Q,),
        (CreateWith(P, {"topic": True}), Create(Q)),
        {
            "A": (Publish(P, "a"), Publish(P, "b"), Publish(P, "c")),
            "B": (Subscribe(P, Q), Subscribe(P, Q, on=False)),
            "C": (Take(Q), Take(Q)),
        },
    ),
    Scenario(
        "waiting against sending",
        (Q,),
        (Create(Q),),
        {
            "A": (Await(Q), Await(Q)),
            "B": (Await(Q), Await(Q)),
            "C": (Send(Q, "a"), Send(Q, "b")),
        },
        middle=_no_lost_wake,
    ),
    Scenario(
        "handed over against leaving",
        (Q,),
        (Create(Q),),
        {
            "A": (AwaitLock(Q), AwaitLock(Q), Leave(Q), Settle(Q, "c")),
            "B": (AwaitLock(Q), Leave(Q), Take(Q)),
            "C": (Send(Q, "a"), Send(Q, "b")),
        },
        middle=_no_lost_wake,
    ),
    Scenario(
        "handed over against its lease",
        (Q,),
        (Create(Q),),
        {
            "A": (AwaitLock(Q), AwaitLock(Q), Settle(Q, "c")),
            "B": (Send(Q, "a"), Take(Q, "lock"), Settle(Q, "c")),
            "T": (Clock(PASSED), Maintain(Q)),
        },
    ),
    Scenario(
        "waiting against what is given back",
        (Q,),
        (Create(Q), Send(Q, "a")),
        {
            "A": (Take(Q, "lock"), Settle(Q, "a")),
            "B": (Await(Q), Await(Q)),
            "T": (Clock(PASSED), Maintain(Q)),
        },
        middle=_no_lost_wake,
    ),
)
