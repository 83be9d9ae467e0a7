"""The texts of the transaction log, as ``lua/transactions/tx.lua`` writes them: fields of the manager's hash ``txs``.

``commands.inspection`` and the doctor (``operations.doctor.checks.transactions``) use it.

``tests/contract/test_stored_texts.py`` compares both sides.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from mqredis.codec import states

_TRANSACTION = re.compile(r"(\d+) (\d+) (\d+) (\S+) (\d+)")
# What a transaction has done with a message. REJECTED: it was received before.
KINDS = SENT, RECEIVED, REJECTED, MOVED = "S", "R", "X", "M"
_OPERATION = re.compile(rf"([{''.join(KINDS)}]) (\S+) ([0-9a-f]{{16}})(?: (\S+)|  (.*))?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class TransactionRecord:
    """An open transaction: the field ``<id>``."""

    deadline_ms: int
    fence: int
    operations: int  # how many
    session: str
    since_ms: int  # when it began

    @classmethod
    def parse(cls, text: str) -> TransactionRecord | None:
        """None: the text is not the record of a transaction."""
        match = _TRANSACTION.fullmatch(text)
        return cls(int(match[1]), int(match[2]), int(match[3]), match[4], int(match[5])) if match else None


@dataclass(frozen=True, slots=True)
class OperationRecord:
    """What a transaction has done with one message: the field ``<id>:<k>``."""

    kind: str  # SENT, RECEIVED, REJECTED or MOVED
    queue: str  # encoded name
    lookup_id: str
    target: str = ""  # of a move: encoded name of the queue
    reason: str = ""  # of a rejection

    @classmethod
    def parse(cls, text: str) -> OperationRecord | None:
        """None: the text is not an operation."""
        match = _OPERATION.fullmatch(text)
        return cls(match[1], match[2], match[3], match[4] or "", match[5] or "") if match else None

    @property
    def state_kind(self) -> str:
        """The kind of the message's state (``lua/core/message_state.lua``) while the transaction holds it."""
        return states.RECEIVED if self.kind == REJECTED else self.kind
