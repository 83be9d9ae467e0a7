"""The calls of a client whose outcome is unknown, for ``resolve`` and for the end of their transactions.

``drivers.core`` has one. ``attempt`` and ``coalescing`` add a call when its reply is lost. ``QueueManager.resolve`` and
operations that clean up (the step OutcomeKnown) take it out when they have asked for the reply, and give its slot back.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import Any

from mqredis.commands.arguments import READS
from mqredis.commands.transactions import Doubt, doubt
from mqredis.drivers.session import Run, Slot
from mqredis.steps import Call

# Tokens of unknown outcome that are remembered at most.
MAX_UNKNOWN = 1000


class UnknownOutcomes:
    """The latest calls of unknown outcome of one driver. Its threads share it."""

    def __init__(self) -> None:
        self.after_fork()

    def after_fork(self) -> None:
        """Forget all, also in a child process: the calls are the parent's."""
        self._lock = threading.RLock()  # re-entrant, since a signal handler may make a call
        # One token for each caller; the calls among them that read messages.
        self.tokens: list[str] = []
        self.reads: dict[str, Call[Any]] = {}
        # Slots of these calls that can be used again when their tokens are forgotten, oldest first.
        self._spent: deque[tuple[str, Slot]] = deque()
        # The calls among them in a transaction, including calls whose outcome is known by now.
        self.doubts: deque[Doubt] = deque(maxlen=MAX_UNKNOWN)

    def add(self, token: str, call: Call[Any] | None = None, slot: Slot | None = None) -> None:
        """Keep a token for ``resolve``, and its call if ``resolve`` needs it.

        ``slot``: its slot, if it may be used again when the token is forgotten.
        """
        with self._lock:
            self.tokens.append(token)
            if slot is not None:
                self._spent.append((token, slot))
            if call is not None:
                if call.script in READS:
                    self.reads[token] = call
                if found := doubt(token, call):
                    self.doubts.append(found)
            for old in self.tokens[:-MAX_UNKNOWN]:
                self.reads.pop(old, None)
            del self.tokens[:-MAX_UNKNOWN]
            self._reuse()

    def _reuse(self) -> None:
        """Give the slots of forgotten tokens back. Otherwise the server would keep a reply for each cancelled call."""
        doubted = {each.token for each in list(self.doubts)} if len(self._spent) > MAX_UNKNOWN else set()
        for _ in range(len(self._spent) - MAX_UNKNOWN):
            token, slot = self._spent.popleft()
            if token in doubted:  # the end of its transaction asks for it
                self._spent.append((token, slot))
            else:
                slot.last = int(token.rpartition(":")[2])
                slot.session.give(slot)

    def resolved(self, token: str) -> None:
        """The outcome of this token is known now."""
        with self._lock:
            self.reads.pop(token, None)
            for each in list(self.doubts):
                each.unseen = each.unseen and each.token != token
            if token in self.tokens:
                self.tokens.remove(token)

    def resolved_by(self, run: Run, token: str) -> None:
        """The outcome of the interrupted call of this run is known. Its slot can be used again, since the server has
        taken its sequence number in either case."""
        self.resolved(token)
        if token == run.unknown and run.lost is not None:
            with self._lock:
                self._spent = deque(each for each in self._spent if each[0] != token)
            if run.lost.session is run.slot.session:
                run.slot.session.give(run.slot)
                run.slot = run.lost
                run.slot.last += 1
            run.unknown, run.lost = "", None
