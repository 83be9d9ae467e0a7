"""Lookup ids: the numbers of messages in a queue manager. Replies, records and cursors hold them as 16 hex digits.

Models and the codec convert ids with it, commands and operations those of replies and of callers, and so do the doctor,
``worker.heartbeat``, ``worker.transaction_loop``, the console, the command line and Spark.

The first two digits are 7 minus the priority, so that messages sort in delivery order; the others are the SequentialID.
``lua/core/enqueue.lua`` makes the ids, and ``lua/matching/index.lua`` knows message ids that were generated.
"""

from __future__ import annotations

import re
from typing import AnyStr

LOOKUP_ID = re.compile("0[0-7][0-9a-f]{14}")
# The digits of a lookup id.
SIZE = 16
_DIGITS = b"0123456789abcdef"


def format_id(lookup_id: int) -> str:
    """A lookup id as the scripts spell it."""
    return f"{lookup_id:016x}"


def hex_id(lookup_id: int) -> str:
    """A lookup id for people and JSON. Options and fields of forms take it."""
    return f"{lookup_id:#018x}"


def split_ids(ids: AnyStr) -> list[AnyStr]:
    """Ids that stand one behind the other."""
    return [ids[at : at + SIZE] for at in range(0, len(ids), SIZE)]


def checked_ids(ids: bytes) -> bytes:
    """Check the ids in a reply: one or more, one behind the other. Raises ValueError for anything else."""
    # Deleting the digits and comparing with "" costs a quarter of a regular expression. For a single id ``strip`` is
    # faster than a translation table.
    size = len(ids)
    if not size or size % SIZE or (ids.strip(_DIGITS) if size == SIZE else ids.translate(None, _DIGITS)):
        raise ValueError(f"{ids!r:.80} are no lookup ids")
    return ids


def generated_id(lookup_id: str) -> str:
    """The message id of a message whose sender gave none: made from the lookup id, so it needs no index."""
    return "mq-" + lookup_id


def lookup_id_of(message_id: object) -> str | None:
    """The lookup id of a generated message id; None for any other."""
    if not isinstance(message_id, str) or not message_id.startswith("mq-"):
        return None
    lookup_id = message_id.removeprefix("mq-")
    return lookup_id if LOOKUP_ID.fullmatch(lookup_id) else None


def token_of(incarnation: str, lookup_id: str) -> str:
    """The token of a message: names one instance of a message in one life of a queue manager."""
    return f"{incarnation}-{lookup_id}"
