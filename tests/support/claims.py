"""Read the messages claimed by data pipelines from the store (lua/claims/claim_pages.lua)."""

from __future__ import annotations

from typing import Any


def packed(raw: Any, stem: str) -> list[bytes]:
    """Ids of the messages in packed pages of the claims on a queue; ``stem``: its keys without their last part."""
    found: list[bytes] = []
    for book in (raw.hget(f"{stem}:q", "pages") or b"").decode().split(";")[:-1]:
        number, first, upto, *_ = book.split(" ")
        for k in range(int(first), int(upto)):
            ids, told = raw.hmget(f"{stem}:s", f"c{number}:{k}", f"b{number}:{k}")
            if told.endswith(b"1"):
                found += [ids[at : at + 16] for at in range(0, len(ids), 16)]
    return found


def locked(raw: Any, stem: str) -> set[bytes]:
    """Ids of all locked messages of a queue."""
    return {*raw.zrange(f"{stem}:l", 0, -1), *packed(raw, stem)}
