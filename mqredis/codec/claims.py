"""Text format of claims and their page lists, which are fields of a queue's hash.

``commands.claims``, the doctor (``operations.doctor.checks.claims``) and Spark (``spark.planning``, and
``spark.unavailable``, which reads the texts without a script) use it.

``lua/claims/claims.lua`` and ``lua/claims/claim_pages.lua`` write them; ``tests/contract/test_stored_texts.py``
compares both sides.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_CLAIM = re.compile(r"\S+ \d+ \d+ \d+ \d+ \d+ \d+ [012] \d+(?: \d+)?", re.ASCII)
# Values of Claim.sealed: it is being filled, it is complete, an operator has released it. ``_CLAIM`` and
# ``commands.claims`` know them, too.
FILLING, COMPLETE, RELEASED = 0, 1, 2
_PAGE_LISTS = re.compile(r"(?:\d+ \d+ \d+ \d+ \d+ \d+ [^\s;]+ \d+;)*", re.ASCII)


@dataclass(slots=True)
class Claim:
    """What a data pipeline has locked in a queue: the field ``claim:<owner>``."""

    lineage: str  # id of the owner's checkpoint that made the claim
    committed: int  # sequence number of the last committed claim
    sequence: int  # of the current claim; equal to committed if there is none
    number: int  # id of the claim in the names of its pages
    wanted: int  # most messages to claim
    count: int  # messages claimed
    bytes: int  # of the claimed messages
    sealed: int  # FILLING, COMPLETE or RELEASED
    since_ms: int  # when the claim began, in ms
    draining: int = 0  # number of a committed claim that still has messages to remove; 0: none

    @classmethod
    def parse(cls, text: str) -> Claim:
        """Parse the stored text. Raises ValueError if it is malformed."""
        if not _CLAIM.fullmatch(text):
            raise ValueError(f"{text!r:.80} is not a valid claim")
        lineage, *rest = text.split(" ")
        return cls(lineage, *(int(item) for item in rest))


@dataclass(slots=True)
class PageList:
    """The pages of one claim. The field ``pages`` holds one entry for each claim of the queue."""

    number: int  # of the claim
    first: int  # first remaining page
    upto: int  # the page after the last one
    packed: int  # messages in packed pages
    loose: int  # messages in other pages
    step: int  # messages of each page except the last; 0 if they differ
    owner: str
    sequence: int

    @classmethod
    def parse_all(cls, text: str) -> list[PageList]:
        """Parse the stored text. Raises ValueError if it is malformed."""
        if not _PAGE_LISTS.fullmatch(text):
            raise ValueError(f"{text!r:.80} is not a valid list of pages")
        found = []
        for item in text.split(";")[:-1]:
            *numbers, owner, sequence = item.split(" ")
            number, first, upto, packed, loose, step = map(int, numbers)
            found.append(cls(number, first, upto, packed, loose, step, owner, int(sequence)))
        return found

    def ids_fields(self) -> list[bytes]:
        """The fields of a queue's ``states`` that hold the ids of its pages (lua/claims/claim_pages.lua)."""
        return [b"c%d:%d" % (self.number, page) for page in range(self.first, self.upto)]
