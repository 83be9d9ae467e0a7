"""trail_read.lua: what has happened to one message.

``mqredis.operations.inspection`` calls it; the console asks that operation for the ``Trail`` itself. A new event needs
its word in ``models.inspection.TrailEvent`` (``tests/contract/test_constants.py``).
"""

from __future__ import annotations

from dataclasses import dataclass

from mqredis import keys
from mqredis.codec.trails import EntryRecord, TrailRecord
from mqredis.commands.filters import comparable
from mqredis.commands.replies import check_queue, number, text
from mqredis.keys import ManagerKeys
from mqredis.models.inspection import TrailEntry
from mqredis.models.text import Identifier, time_at, unescape
from mqredis.steps import Call, Payload


@dataclass(frozen=True, slots=True)
class Trail:
    """The trail of one message."""

    lookup_id: str
    """Its lookup id: the one that was asked for, or the first one of the message with the message id; "" if that is
    not known."""
    entries: list[TrailEntry]
    """Empty if no trail is kept."""


def trail(manager: ManagerKeys, path: str, wanted: str) -> Call[Trail]:
    """The trail of one message. ``wanted``: its lookup id, or what ``chosen_id`` makes of its message id."""

    def parse(status: int, payload: Payload) -> Trail:
        check_queue(status, path)
        lead, told = number(payload[0]), text(payload[1])
        record = TrailRecord.parse(told) if told else None
        if record is None:
            if told:
                raise ValueError(f"{told!r:.80} is not a trail")
            return Trail(text(payload[2]), [])
        entries = [
            _entry(each, lead, record.omitted if n == 1 else 0) for n, each in enumerate(record.entries)
        ]
        return Trail(text(payload[2]), entries)

    return Call("trail_read", manager.call(path), [wanted], parse, changes=False)


def chosen_id(message_id: Identifier) -> str:
    """What ``trail`` takes in place of a lookup id: a message id that the sender has chosen."""
    return "=" + keys.encode(comparable(message_id, "message_id"))


def _entry(record: EntryRecord, lead: int, omitted: int) -> TrailEntry:
    return TrailEntry(
        time=time_at(record.ms - lead),
        event=record.event,  # type: ignore[arg-type]  # the scripts write one of these
        queue=keys.decode(record.queue),
        session="" if record.session == "-" else record.session,
        client="" if record.client == "-" else keys.decode(record.client),
        target=None if record.target == "-" else keys.decode(record.target),
        lookup_id=None if record.lookup_id == "-" else int(record.lookup_id, 16),
        detail=unescape(record.detail),
        omitted=omitted,
    )
