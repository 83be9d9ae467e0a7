"""Doctor checks of the claims of data pipelines, and of their pages.

``operations.doctor.checks`` lists it; ``run`` calls it. It reads texts with ``codec.claims``;
``tests/contract/test_stored_texts.py`` compares those, and ``NEVER``, with the scripts.
"""

from __future__ import annotations

from mqredis.codec.claims import COMPLETE, Claim, PageList
from mqredis.codec.states import CLAIMED
from mqredis.keys import CLAIM
from mqredis.operations.doctor.fault import Fault, Faults, at
from mqredis.operations.doctor.snapshot import Store
from mqredis.operations.doctor.stored import state_of

# Scores from here on are not times (`queue.claimed` in lua/core/queue.lua): claims, and dedup keys of messages that are
# still in the queue.
NEVER = float(1 << 52)


def claims(store: Store) -> Faults:
    """Exactly the messages of a data pipeline's claim are locked for it, and those that it has received and that are
    not removed yet (lua/claims/claims.lua)."""
    for view in store.queues.values():
        held: dict[str, int] = {}
        for lid, record in view.records.items():
            state = state_of(record)
            if state is None or state.kind != CLAIMED:
                continue
            text = view.fields.get(f"{CLAIM}{state.owner}")
            if record.deadline is None or record.deadline != _draining(text):
                held[state.owner] = held.get(state.owner, 0) + 1
            if text is None:
                yield Fault("claim.owner", at(view, lid), f"claimed by {state.owner}, who has no claim")
        for name, text in view.fields.items():
            owner = name.removeprefix(CLAIM)
            if owner == name:
                continue
            claim, have = _claim(text), held.get(owner, 0)
            if claim is None:
                yield Fault("claim.malformed", f"{view.path} {name}", f"is {text!r:.60}")
            elif claim.count != have and claim.sealed == COMPLETE:
                yield Fault(
                    "claim.count", f"{view.path} {name}", f"says {claim.count} messages, holds {have}"
                )


def pages(store: Store) -> Faults:
    """Each page belongs to a claim, which holds the messages of the page (lua/claims/claim_pages.lua)."""
    for view in store.queues.values():
        text = view.fields.get("pages", "")
        try:
            lists = PageList.parse_all(text)
        except ValueError:
            yield Fault("claim.malformed", f"{view.path} pages", f"is {text!r:.60}")
            continue
        for pages in lists:
            where, claim = f"{view.path} {pages.owner}", _claim(view.fields.get(f"{CLAIM}{pages.owner}"))
            if claim is None or pages.number not in (claim.number, claim.draining):
                yield Fault("claim.pages", where, f"has pages under {pages.number}, which is not its number")
            elif (
                pages.number == claim.number and claim.sealed == COMPLETE and claim.committed < claim.sequence
            ):
                score, listed = NEVER + pages.number, pages.packed + pages.loose
                have = sum(record.deadline == score for record in view.records.values())
                if have != listed:
                    yield Fault("claim.pages", where, f"its pages say {listed} messages, it holds {have}")


def _claim(text: str | None) -> Claim | None:
    """The stored claim of an owner; None if there is none, or it cannot be read."""
    try:
        return Claim.parse(text or "")
    except ValueError:
        return None


def _draining(text: str | None) -> float | None:
    """Score of messages that a claim has received and that are not removed yet."""
    claim = _claim(text)
    return NEVER + claim.draining if claim and claim.draining else None
