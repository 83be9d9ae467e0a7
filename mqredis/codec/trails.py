"""The text of a message's trail, field ``trail:<number>`` of ``meta``, as ``lua/features/trail_store.lua`` writes it.

``commands.trails`` and the doctor (``operations.doctor.checks.trails``) read it;
``tests/contract/test_stored_texts.py`` compares both sides.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_TRAIL = re.compile(r"(\d+) (\d+)(?: (\S+))?\n(.+)", re.DOTALL)
_ENTRY = re.compile(r"(\d+) ([a-z_]+) (\S+) (\d+|-) (\S+) (\S+) ([0-9a-f]{16}|-) (.*)")


@dataclass(frozen=True, slots=True)
class EntryRecord:
    """What happened to the message once. A part that is not known, or that there is none of, is "-"."""

    ms: int
    event: str
    queue: str  # encoded name
    session: str
    client: str  # encoded name
    target: str  # encoded name of the queue that the message went to
    lookup_id: str  # in that queue, if it is a new one
    detail: str

    @classmethod
    def parse(cls, text: str) -> EntryRecord | None:
        """None: the text is not an entry."""
        match = _ENTRY.fullmatch(text)
        return cls(int(match[1]), *match.groups()[1:]) if match else None


@dataclass(frozen=True, slots=True)
class TrailRecord:
    """A trail."""

    end: int  # how many trails had ended when this one did; 0 while its message is there
    omitted: int  # entries that were dropped behind the first one
    entries: tuple[EntryRecord, ...]
    message_id: str = ""  # encoded; "": the sender has chosen none

    @classmethod
    def parse(cls, text: str) -> TrailRecord | None:
        """None: the text is not a trail."""
        match = _TRAIL.fullmatch(text)
        if match is None:
            return None
        found = [EntryRecord.parse(line) for line in match[4].split("\n")]
        entries = tuple(entry for entry in found if entry is not None)
        return (
            cls(int(match[1]), int(match[2]), entries, match[3] or "") if len(entries) == len(found) else None
        )
