"""Scenarios of two or three concurrent clients, each run in every order, with every crash and lost message."""

from __future__ import annotations

from mqredis.operations.doctor.snapshot import Store
from tests.reliability.claim_scenarios import CLAIMS
from tests.reliability.engine import Scenario
from tests.reliability.moves import (
    LEASE,
    Begin,
    Clock,
    CloseSub,
    Create,
    Delete,
    End,
    Lookup,
    Maintain,
    Move,
    OpenSub,
    Purge,
    Renew,
    Send,
    Settle,
    Step,
    Take,
)
from tests.reliability.policy_scenarios import POLICIES
from tests.reliability.world import Broken, World

Q, T, U = "q", "t", "u"
PASSED = LEASE + 1000


def _no_units(world: World, store: Store) -> None:
    """No transaction outlives the queues it worked on."""
    if left := [name for name in store.hashes.get("txs", {}) if ":" not in name]:
        raise Broken(f"transactions {left} are left over")


def _tx(*steps: Step) -> tuple[Step, ...]:
    return (Create(T, transactional=True), *steps)


SCENARIOS: tuple[Scenario, ...] = (
    Scenario(
        "two producers, two consumers",
        (Q,),
        (Create(Q),),
        {"A": (Send(Q, "a"), Send(Q, "b")), "B": (Take(Q), Take(Q)), "C": (Send(Q, "c"), Take(Q))},
    ),
    Scenario(
        "lock, lapse, late commit",
        (Q,),
        (Create(Q), Send(Q, "ab")),
        {
            "A": (Take(Q, "lock"), Settle(Q, "c")),
            "B": (Take(Q, "lock"), Settle(Q, "c")),
            "T": (Clock(PASSED), Clock(PASSED)),
        },
    ),
    Scenario(
        "renewal against lapse",
        (Q,),
        (Create(Q), Send(Q, "a")),
        {
            "A": (Take(Q, "lock"), Settle(Q, "x"), Settle(Q, "c")),
            "B": (Take(Q, "lock"), Settle(Q, "a")),
            "T": (Clock(LEASE // 2 + 1000), Clock(LEASE // 2 + 1000)),
        },
    ),
    Scenario(
        "settle and lock next in one call",
        (Q,),
        (Create(Q), Send(Q, "abc")),
        {
            "A": (Take(Q, "lock"), Take(Q, "lock", settle="c"), Settle(Q, "a")),
            "B": (Take(Q, "lock", count=2), Take(Q, "lock", settle="j")),
            "T": (Clock(PASSED),),
        },
    ),
    Scenario(
        "quota at its limit",
        (Q,),
        (Create(Q, quota=3), Send(Q, "a")),
        {
            "A": (Send(Q, "bc"), Take(Q)),
            "B": (Send(Q, "d"), Send(Q, "e")),
            "C": (Take(Q, "lock"), Settle(Q, "c")),
        },
    ),
    Scenario(
        "quota and transactions",
        (T,),
        (Create(T, transactional=True, quota=3),),
        {
            "A": (Send(T, "ab", "x"), End("x", "commit", (T,))),
            "B": (Send(T, "cd", "y"), End("y", "abort", (T,)), Send(T, "ef", "z")),
            "T": (Clock(PASSED),),
        },
    ),
    Scenario(
        "purge against locks",
        (Q,),
        (Create(Q), Send(Q, "abc")),
        {
            "A": (Take(Q, "lock"), Settle(Q, "a")),
            "B": (Take(Q, "lock"), Settle(Q, "c")),
            "P": (Purge(Q), Send(Q, "d")),
        },
    ),
    Scenario(
        "abort against purge",
        (T,),
        _tx(Send(T, "ab", "s"), End("s", "commit", (T,))),
        {
            "A": (Take(T, "tx", "x"), Send(T, "c", "x"), End("x", "abort", (T,))),
            "P": (Purge(T), Purge(T)),
            "T": (Clock(PASSED),),
        },
        _no_units,
    ),
    Scenario(
        "commit against purge",
        (T,),
        _tx(Send(T, "ab", "s"), End("s", "commit", (T,))),
        {
            "A": (Take(T, "tx", "x"), Send(T, "c", "x"), End("x", "commit", (T,))),
            "B": (Take(T, "tx", "y", count=2), End("y", "abort", (T,))),
            "P": (Purge(T),),
        },
        _no_units,
    ),
    Scenario(
        "two sweepers",
        (Q, T),
        (*_tx(Send(T, "s", "s"), End("s", "commit", (T,))), Create(Q), Send(Q, "ab")),
        {
            "A": (Take(Q, "lock", count=2), Take(T, "tx", "x"), Clock(PASSED)),
            "B": (Maintain(Q), Maintain(T)),
            "C": (Maintain(T), Maintain(Q)),
        },
    ),
    Scenario(
        "delete under readers",
        (Q,),
        (Create(Q), Send(Q, "ab")),
        {
            "A": (Take(Q, "lock"), Settle(Q, "c")),
            "D": (Delete(Q), Create(Q)),
            "B": (Send(Q, "c"), Take(Q)),
        },
    ),
    Scenario(
        "delete under a transaction",
        (T, U),
        (*_tx(), Create(U, transactional=True), Send(T, "a", "s"), End("s", "commit", (T,))),
        {
            "A": (Take(T, "tx", "x"), Send(U, "b", "x"), End("x", "commit", (T, U))),
            "D": (Delete(T), Create(T, transactional=True)),
            "T": (Clock(PASSED),),
        },
    ),
    Scenario(
        "two enders of one transaction",
        (T,),
        _tx(Send(T, "a", "s"), End("s", "commit", (T,)), Send(T, "b", "x")),
        {
            "A": (End("x", "commit", (T,), share="setup"), Take(T, "tx", "y")),
            "B": (End("x", "abort", (T,), share="setup"), Take(T, "tx", "z")),
            "T": (Clock(PASSED),),
        },
    ),
    Scenario(
        "commit that must name more queues",
        (T, U),
        (*_tx(), Create(U, transactional=True)),
        {
            "A": (Send(T, "a", "x"), Send(U, "b", "x"), End("x", "commit"), End("x", "commit")),
            "B": (Take(U, "tx", "y"), End("y", "commit", (U,))),
        },
    ),
    Scenario(
        "lease of a transaction renewed",
        (T,),
        _tx(Send(T, "a", "s"), End("s", "commit", (T,))),
        {
            "A": (Take(T, "tx", "x"), Renew("x"), End("x", "commit", (T,))),
            "B": (Take(T, "tx", "y"), End("y", "commit", (T,))),
            "T": (Clock(LEASE // 2 + 1000), Clock(LEASE // 2 + 1000)),
        },
    ),
    Scenario(
        "a chosen transaction id used again",
        (T, U),
        (*_tx(), Create(U, transactional=True), Send(T, "a", "s"), End("s", "commit", (T,))),
        {
            "A": (Begin("x"), Take(T, "tx", "x"), Send(U, "b", "x")),
            "B": (Begin("x"), Send(U, "c", "x"), End("x", "commit", (U, T))),
            "T": (Clock(PASSED), Maintain(T)),
        },
    ),
    Scenario(
        "prepare, then commit or lapse",
        (T,),
        _tx(Send(T, "a", "s"), End("s", "commit", (T,))),
        {
            "A": (Take(T, "tx", "x"), Send(T, "b", "x"), End("x", "prepare", (T,)), End("x", "commit", (T,))),
            "T": (Clock(PASSED), Maintain(T)),
        },
    ),
    Scenario(
        "move against receive",
        (Q, "q;s"),
        (Create(Q), OpenSub("q;s"), Send(Q, "ab")),
        {
            "A": (Move(Q, "q;s", "a"), Move("q;s", Q, "a")),
            "B": (Take(Q), Take("q;s")),
            "C": (Take(Q, "lock"), Settle(Q, "c")),
        },
    ),
    Scenario(
        "move in a transaction",
        (T, "t;s"),
        (*_tx(), OpenSub("t;s"), Send(T, "ab", "s"), End("s", "commit", (T,))),
        {
            "A": (Move(T, "t;s", "a", "x"), End("x", "commit", (T, "t;s"))),
            "B": (Take(T, "tx", "y"), End("y", "abort", (T,))),
            "P": (Purge(T), Purge("t;s")),
        },
    ),
    Scenario(
        "the last handle of a subqueue",
        (Q, "q;s"),
        (Create(Q), Send(Q, "a")),
        {
            "A": (OpenSub("q;s"), Move(Q, "q;s", "a"), CloseSub("q;s")),
            "B": (OpenSub("q;s"), Take("q;s"), CloseSub("q;s")),
        },
    ),
    Scenario(
        "delete with a subqueue",
        (Q, "q;s"),
        (Create(Q), Send(Q, "ab")),
        {
            "A": (OpenSub("q;s"), Move(Q, "q;s", "a"), Take("q;s", "lock")),
            "D": (Delete(Q), Delete(Q), Create(Q)),
        },
    ),
    Scenario(
        "expiry against readers",
        (Q,),
        (Create(Q), Send(Q, "a", life=30_000), Send(Q, "b")),
        {
            "A": (Take(Q, "lock"), Settle(Q, "a")),
            "B": (Take(Q), Take(Q)),
            "T": (Clock(31_000), Maintain(Q)),
        },
    ),
    Scenario(
        "one particular message, wanted by two",
        (Q,),
        (Create(Q), Send(Q, "ab")),
        {
            "A": (Lookup(Q, "a"), Take(Q)),
            "B": (Lookup(Q, "a"), Lookup(Q, "b")),
            "C": (Take(Q, "lock"), Settle(Q, "a")),
        },
    ),
    Scenario(
        "large bodies",
        (Q, T),
        (*_tx(), Create(Q), Send(Q, "ab", large=True)),
        {
            "A": (Take(Q, "lock"), Settle(Q, "c")),
            "B": (Take(Q, "lock"), Purge(Q)),
            "C": (Send(T, "c", "x", large=True), End("x", "abort", (T,))),
        },
    ),
    *POLICIES,
    *CLAIMS,
)
