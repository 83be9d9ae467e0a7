"""The kinds of a message's state, which say who holds the message (``lua/core/message_state.lua``).

``commands.inspection``, the doctor and the Spark batch reader use it.
"""

from __future__ import annotations

NOT_LOCKED = "-"
BY_READER = "L"
# In a transaction: received from the queue, sent to it, or moved to it.
RECEIVED, SENT, MOVED = IN_TRANSACTION = ("R", "S", "M")
# By a data pipeline.
CLAIMED = "C"


def kind_of(text: bytes) -> str:
    """The kind in the text of a state: "deliveries aborts moves last_move_ms size kind ..."."""
    return text.split(b" ")[5][:1].decode()
