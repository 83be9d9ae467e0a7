"""Text format of the locks in the header of a queue, and of the texts beside it.

Spark's batch reader uses it, which finds locked messages without a script (``spark.unavailable``).
``lua/core/locks.lua`` writes them; ``tests/spark/test_batch.py`` compares both sides. The doctor reads the same texts
with patterns of its own (``operations/doctor/snapshot.py``, ``operations/doctor/checks/queues.py``).
"""

from __future__ import annotations

import re

from mqredis.keys import LOCK, QUEUE_COUNTS

# The text of a lock of several messages: deadline, bytes, size, slot, and the ids without anything between them.
_TEXT = re.compile(rb"\d+ \d+ \d+ \S+ ([0-9a-f]+)")
# How many parts of the header come before the locks: the config and the counters (lua/core/queue.lua).
_BEFORE_LOCKS = 1 + len(QUEUE_COUNTS)


def in_header(header: bytes) -> tuple[list[bytes], list[bytes]]:
    """The ids of messages that are locked one by one, and the fields of ``meta`` with the texts of the other locks."""
    ids, fields = [], []
    for entry in header.split(b" ")[_BEFORE_LOCKS:]:
        if b"," in entry:  # "fence,size,deadline,slot,id"
            ids.append(entry.rpartition(b",")[2])
        else:  # the fence
            fields.append(LOCK.encode() + entry)
    return ids, fields


def ids_in(text: bytes) -> bytes:
    """The ids in the text of a lock, 16 digits each; none if the text is damaged."""
    found = _TEXT.fullmatch(text)
    return found[1] if found else b""
