"""Invariants of the claims of data pipelines (see :mod:`mqredis.operations.invariants`)."""

from __future__ import annotations

import re

from mqredis.commands.pipelines import Book, Claim
from mqredis.operations.faults import Fault, Faults, at, state_of
from mqredis.operations.snapshot import Store

_CLAIM = re.compile(r"\S+ \d+ \d+ \d+ \d+ \d+ \d+ [012] \d+(?: \d+)?")
_BOOKS = re.compile(r"(?:\d+ \d+ \d+ \d+ \d+ \d+ \S+ \d+;)*")
#: Scores from here on are no times: claims, and dedup keys of messages that are still there (lua/core/due.lua).
NEVER = float(1 << 52)


def claims(store: Store) -> Faults:
    """What a data pipeline has claimed is locked for it, all of it, and nothing else is but what it has received and is
    not removed yet (lua/claims/claim.lua)."""
    for view in store.queues.values():
        held: dict[str, int] = {}
        for lid, record in view.records.items():
            state = state_of(record)
            if state is None or state.kind != "C":
                continue
            text = view.fields.get(f"claim:{state.owner}")
            if record.deadline is None or record.deadline != _draining(text):
                held[state.owner] = held.get(state.owner, 0) + 1
            if text is None:
                yield Fault("claim.owner", at(view, lid), f"claimed by {state.owner}, who has no claim")
        for name, text in view.fields.items():
            owner = name.removeprefix("claim:")
            if owner == name:
                continue
            claim, have = _claim(text), held.get(owner, 0)
            if claim is None:
                yield Fault("claim.malformed", f"{view.path} {name}", f"is {text!r:.60}")
            elif claim.count != have and claim.sealed == 1:
                yield Fault(
                    "claim.count", f"{view.path} {name}", f"says {claim.count} messages, holds {have}"
                )


def claim_pages(store: Store) -> Faults:
    """The pages that are known of belong to claims, which hold what stands in them (lua/claims/claim_pages.lua)."""
    for view in store.queues.values():
        text = view.fields.get("pages", "")
        if not _BOOKS.fullmatch(text):
            yield Fault("claim.malformed", f"{view.path} pages", f"is {text!r:.60}")
            continue
        for book in Book.all(text):
            where, claim = f"{view.path} {book.owner}", _claim(view.fields.get(f"claim:{book.owner}"))
            if claim is None or book.number not in (claim.number, claim.draining):
                yield Fault("claim.pages", where, f"has pages under {book.number}, which is not its number")
            elif book.number == claim.number and claim.sealed == 1 and claim.committed < claim.sequence:
                score, said = NEVER + book.number, book.packed + book.loose
                have = sum(record.deadline == score for record in view.records.values())
                if have != said:
                    yield Fault("claim.pages", where, f"its pages say {said} messages, it holds {have}")


def _claim(text: str | None) -> Claim | None:
    """What is kept of a claim; None if there is none, or it cannot be read."""
    return Claim.parse(text) if text and _CLAIM.fullmatch(text) else None


def _draining(text: str | None) -> float | None:
    """Score of the messages that a claim has received and that are not all removed."""
    claim = _claim(text)
    return NEVER + claim.draining if claim and claim.draining else None
