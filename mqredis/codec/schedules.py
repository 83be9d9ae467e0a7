"""The text of a schedule, as it is kept in the hash ``schedules``: its next time, a space, and JSON.

``operations.schedules``, ``worker.schedule`` and the doctor use it. ``lua/schedule_list.lua`` reads the time alone;
``lua/schedule_write.lua`` compares the whole text with the one that a client has read. A field needs a row in
``_TYPES``, and a default, since stored texts do not have it; CHANGELOG.md says under **Stored data** that clients of
earlier releases refuse a text with it, as their doctor does. ``operations.schedules.declare`` says which fields outlive
the start of a worker.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass

from mqredis.errors import InvariantBroken

# A message as a schedule keeps it: its priority, its flags and its fields, then the body (lua/admin/schedules.lua).
MESSAGE = re.compile(rb"[0-7][0-9a-v][^\x00]*\x00.*", re.DOTALL)
_MS = re.compile(r"\d{1,16}")
_TYPES: dict[str, set[type]] = {
    "queue": {str},
    "when": {str, int, float},
    "timezone": {str},
    "declared": {bool},
    "last_ms": {int},
}


@dataclass(frozen=True, slots=True)
class Definition:
    """A schedule without its name and its message. Scripts read the time alone."""

    next_ms: int
    """The next time in ms since 1970; 0: the schedule is paused."""
    queue: str
    when: str | float
    """A cron expression, or seconds between two times."""
    timezone: str
    declared: bool
    """Does the code of a worker declare it?"""
    last_ms: int = 0
    """When its message was last sent, in ms since 1970; 0: never."""

    @property
    def text(self) -> str:
        """The text as it is stored."""
        fields = asdict(self)
        return f"{fields.pop('next_ms')} {json.dumps(fields)}"

    @classmethod
    def parse(cls, text: str) -> Definition:
        """Parse the stored text. Raises InvariantBroken if it is malformed."""
        next_ms, _, rest = text.partition(" ")
        try:
            if not _MS.fullmatch(next_ms):
                raise ValueError("it does not begin with a time")
            fields = json.loads(rest)
            if not all(type(value) in _TYPES[name] for name, value in fields.items()):
                raise TypeError("a field has the wrong type")
            return cls(next_ms=int(next_ms), **fields)
        except (KeyError, AttributeError, ValueError, TypeError, RecursionError) as error:
            raise InvariantBroken(f"the text of a schedule cannot be read: {text!r:.200} ({error})") from None
