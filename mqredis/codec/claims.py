"""The texts of claims, as ``lua/claims/claim.lua`` and ``lua/claims/claim_pages.lua`` write them: fields of a queue's
hash. ``tests/contract/test_stored_texts.py`` compares both sides.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_CLAIM = re.compile(r"\S+ \d+ \d+ \d+ \d+ \d+ \d+ [012] \d+(?: \d+)?")
_PAGE_LISTS = re.compile(r"(?:\d+ \d+ \d+ \d+ \d+ \d+ \S+ \d+;)*")


@dataclass(slots=True)
class Claim:
    """What a data pipeline has locked in a queue: the field ``claim:<owner>``."""

    lineage: str  # which checkpoint of the owner has made the claim
    committed: int  # last sequence number whose claim is committed
    sequence: int  # of the present claim; equal to committed if there is none
    number: int  # names the claim's pages
    wanted: int  # messages at most
    count: int  # messages claimed
    bytes: int
    sealed: int  # 0 still filling, 1 complete, 2 released by an operator
    since_ms: int
    draining: int = 0  # number of a committed claim whose messages are not all removed; 0: none

    @classmethod
    def parse(cls, text: str) -> Claim:
        """Raises ValueError for any other text."""
        if not _CLAIM.fullmatch(text):
            raise ValueError(f"{text!r:.80} is no claim")
        lineage, *rest = text.split(" ")
        return cls(lineage, *(int(item) for item in rest))

    def format(self) -> str:
        """The text as it is stored."""
        text = (
            f"{self.lineage} {self.committed} {self.sequence} {self.number} {self.wanted} {self.count} "
            f"{self.bytes} {self.sealed} {self.since_ms}"
        )
        return f"{text} {self.draining}" if self.draining else text


@dataclass(slots=True)
class PageList:
    """The pages of one claim; the field ``pages`` has those of all claims of the queue."""

    number: int  # of the claim
    first: int  # page that is there still
    upto: int  # and the one behind the last
    packed: int  # messages in pages that are packed
    loose: int  # and in others
    step: int  # messages of each page but the last, 0 if they differ
    owner: str
    sequence: int

    @classmethod
    def parse_all(cls, text: str) -> list[PageList]:
        """Raises ValueError for any other text."""
        if not _PAGE_LISTS.fullmatch(text):
            raise ValueError(f"{text!r:.80} is no list of pages")
        found = []
        for item in text.split(";")[:-1]:
            *numbers, owner, sequence = item.split(" ")
            number, first, upto, packed, loose, step = map(int, numbers)
            found.append(cls(number, first, upto, packed, loose, step, owner, int(sequence)))
        return found

    def format(self) -> str:
        """The text as it is stored, one of several in the field."""
        return (
            f"{self.number} {self.first} {self.upto} {self.packed} {self.loose} {self.step} {self.owner} "
            f"{self.sequence};"
        )
