"""Scenarios in which claims of a data pipeline compete with readers, operators and each other."""

from __future__ import annotations

from mqredis.operations.doctor.snapshot import Store
from tests.reliability.claim_moves import Claim, CommitClaim, ReleaseClaim
from tests.reliability.engine import Scenario
from tests.reliability.moves import LEASE, Clock, Create, Purge, Send, Settle, Take
from tests.reliability.policy_moves import Beside, CreateWith
from tests.reliability.world import Broken, World

Q = "q"
JOURNAL = "q;journal"
# One more than a call takes of messages that ask for something.
MANY = 257


def _journalled(world: World, store: Store) -> None:
    """The journal has each received message once and no other."""
    taken = sum(state == "taken" for state in world.ledger.state.values())
    there = len(store.queues[JOURNAL].records) if JOURNAL in store.queues else 0
    if there != taken:
        raise Broken(f"{taken} messages were received, the journal has {there}")


# Claims do not lapse: at the end an operator gives back what is held.
_OVER = (ReleaseClaim(Q, forget=True), ReleaseClaim(Q, forget=True), ReleaseClaim(Q, forget=True))

CLAIMS: tuple[Scenario, ...] = (
    Scenario(
        "claim against locks and purge",
        (Q,),
        (Create(Q), Send(Q, "abc")),
        {
            "A": (Claim(Q), CommitClaim(Q), Claim(Q, 2)),
            "B": (Take(Q, "lock"), Settle(Q, "a")),
            "P": (Purge(Q), Send(Q, "d")),
        },
        closing=_OVER,
    ),
    Scenario(
        "claim against its release",
        (Q,),
        (Create(Q), Send(Q, "abc")),
        {
            "A": (Claim(Q), CommitClaim(Q), Claim(Q, 2, first=False)),
            "B": (Take(Q, "lock"), Take(Q)),
            "O": (ReleaseClaim(Q), ReleaseClaim(Q, forget=True)),
        },
        closing=_OVER,
    ),
    Scenario(
        "claim taken over",
        (Q,),
        (Create(Q), Send(Q, "abc")),
        {
            "A": (Claim(Q), CommitClaim(Q), Claim(Q, 2, first=False)),
            "B": (Claim(Q, lineage="y"), CommitClaim(Q, lineage="y"), Claim(Q, 2, lineage="y", first=False)),
            "T": (Take(Q, "lock"), Clock(LEASE + 1000)),
        },
        closing=_OVER,
    ),
    Scenario(
        "claim that is committed and not removed yet",
        (Q,),
        (CreateWith(Q, {"journaling": True}), Beside(Q, (JOURNAL,)), Send(Q, [f"m{n}" for n in range(MANY)])),
        {
            "A": (Claim(Q, wanted=MANY), CommitClaim(Q), CommitClaim(Q)),
            "B": (Claim(Q, wanted=MANY), Claim(Q, 2, wanted=1, first=False)),
            "O": (Purge(Q), ReleaseClaim(Q)),
        },
        _journalled,
        apart=(JOURNAL,),
        closing=_OVER,
        weight=0.1,
    ),
)
