"""The kinds of a message's state, which say who holds the message, and the flags behind them.

``commands.inspection``, ``codec.transactions``, the doctor (``operations.doctor``), ``drivers.waiting.handoff`` and
Spark (``spark.unavailable``) use it. The text of a state is described in ``lua/core/message_state.lua``;
``tests/contract/test_constants.py`` compares the letters.
"""

from __future__ import annotations

NOT_LOCKED = "-"
BY_READER = "L"
# In a transaction: received from the queue, sent to it, or to be moved to another one.
RECEIVED, SENT, MOVED = IN_TRANSACTION = ("R", "S", "M")
# By a data pipeline.
CLAIMED = "C"
KINDS = (NOT_LOCKED, BY_READER, *IN_TRANSACTION, CLAIMED)
# Flags behind the kind: peeks see the message; its end needs no look at its record; the queue was purged meanwhile.
VISIBLE, PLAIN, PURGED = "VNP"
# What a reply shows of the state of a message that a reader has locked for the first time.
LOCKED_ONCE = b"1 0 0 0"


def kind_of(text: bytes) -> str:
    """The kind in the text of a state: "deliveries aborts moves last_move_ms size kind ..."."""
    return text.split(b" ")[5][:1].decode()
