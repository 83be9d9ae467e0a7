"""The delay from a send to a waiting reader in another process, beside a reader that waits in BLMOVE.

``bench.__main__`` calls ``delays``, and ``report.delays`` reads its rows.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from bench.runner import Candidate, Process, tell
from bench.server import Server

Row = dict[str, Any]
# Messages of one turn, and of those the first ones, which do not count.
TURN, WARM = 50, 10
READY_SECONDS = 1.0


class _Reader:
    """A server with a reader that waits and a sender, each in a process of its own."""

    def __init__(self, stack: ExitStack, candidate: Candidate, turns: int) -> None:
        self.candidate = candidate
        server = stack.enter_context(Server())
        server.pin(set(range(os.cpu_count() or 1)))
        self.reader, self.sender = (Process(candidate, server.url, core) for core in (1, 0))
        for process in (self.reader, self.sender):
            stack.callback(process.close)
        for process in (self.sender, self.reader):
            if error := process.order("open").get("error"):
                raise RuntimeError(f"{candidate.name} cannot be opened: {error}")
        self.total = turns * TURN + 1
        self.sent: list[float] = []
        self.answer: Row = {}
        self.thread = threading.Thread(target=self._receive)
        self.thread.start()

    def _receive(self) -> None:
        self.answer = self.reader.order("drain", count=self.total)

    def turn(self, count: int, pauses: random.Random) -> None:
        """Send messages one by one, with pauses of 10 to 30 ms."""
        for _ in range(count):
            time.sleep(pauses.uniform(0.01, 0.03))
            # The sender's own time: it collects garbage before it sends.
            self.sent.append(self.sender.order("send", first=len(self.sent), count=1)["begun"])


def delays(candidates: Sequence[Candidate], rounds: int, turns: int) -> list[Row]:
    """Milliseconds from a send to the end of the receive, one row for each message.

    All readers wait during a whole round, each at a server of its own, and get their messages in short turns one after
    the other. Clocks are comparable, since all processes are on one machine.
    """
    rows: list[Row] = []
    for number in range(rounds):
        tell(f"waiting readers: round {number + 1} of {rounds}")
        pauses = random.Random(number)
        with ExitStack() as stack:
            readers = [_Reader(stack, candidate, turns) for candidate in candidates]
            time.sleep(READY_SECONDS)
            for turn in range(turns):
                shift = (number + turn) % len(readers)
                for reader in readers[shift:] + readers[:shift]:
                    reader.turn(TURN, pauses)
            for reader in readers:
                reader.turn(1, pauses)  # what a reader does at its end does not count
                reader.thread.join()
                if "error" in reader.answer:
                    rows.append({"peer": reader.candidate.name, "error": reader.answer["error"]})
                    continue
                pairs = zip(reader.sent[:-1], reader.answer["times"], strict=False)
                rows += [
                    {"peer": reader.candidate.name, "round": number, "ms": (came - sent) * 1e3}
                    for place, (sent, came) in enumerate(pairs)
                    if place % TURN >= WARM
                ]
    return rows
