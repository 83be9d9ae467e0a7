"""Runs the peers in turn, round by round, so that whatever the machine does meets all of them alike."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

from bench import envs
from bench.adapters import PARTS, PEERS
from bench.server import Server

#: The cores of server and client.
PLACES = {"one core": (0, 0), "two cores": (0, 1)}

One = TypeVar("One")
_START = time.monotonic()
#: A measurement that takes longer than so many seconds is given up: one peer must not hold up all.
PATIENCE = 90.0


@dataclass(frozen=True)
class Section:
    """Some peers, some kinds of work, some rounds."""

    title: str
    peers: tuple[str, ...]
    works: tuple[str, ...]
    rounds: int
    count: int
    place: str = "one core"
    size: int = 100
    warm: int = 300
    #: No further round is begun after so many seconds.
    seconds: float = 120.0


@dataclass
class Results:
    """Everything measured: one row for each peer, work and round."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    peers: dict[str, dict[str, Any]] = field(default_factory=dict)


class Child:
    """The process of one peer."""

    def __init__(self, peer: str, url: str) -> None:
        entry = PEERS.get(peer) or PARTS[peer]
        environment = {**os.environ, "PYTHONPATH": str(envs.ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
        self.process = subprocess.Popen(
            [str(envs.python(entry.environment)), "-m", "bench.child", entry.module, entry.cls, url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=None if os.environ.get("MQREDIS_BENCH_DEBUG") else subprocess.DEVNULL,
            cwd=envs.ROOT,
            env=environment,
            text=True,
        )
        self._hello: dict[str, Any] | None = None

    @property
    def hello(self) -> dict[str, Any]:
        """What the peer says of itself; the first look waits until it has started."""
        if self._hello is None:
            self._hello = self.answer()
        return self._hello

    def order(self, patience: float = PATIENCE, **order: Any) -> dict[str, Any]:
        """Have one thing measured."""
        self.begin(**order)
        return self.answer(patience)

    def begin(self, **order: Any) -> None:
        """Order something without waiting for its end."""
        assert self.hello
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):  # the answer will say that it has ended
            self.process.stdin.write(json.dumps(order) + "\n")
            self.process.stdin.flush()

    def answer(self, seconds: float = PATIENCE) -> dict[str, Any]:
        """The next answer; a process that gives none for too long is ended."""
        assert self.process.stdout is not None
        patience = threading.Timer(seconds, self.process.kill)
        patience.start()
        try:
            line = self.process.stdout.readline()
        finally:
            patience.cancel()
        answer: dict[str, Any] = json.loads(line) if line else {"error": "the process has ended"}
        return answer

    def close(self) -> None:
        """End it."""
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):
            self.process.stdin.close()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


@contextmanager
def children(peers: Iterable[str], url: str) -> Iterator[dict[str, Child]]:
    """Fresh processes, one for each peer."""
    running: dict[str, Child] = {}
    try:
        for peer in peers:
            running[peer] = Child(peer, url)
        yield running
    finally:
        for child in running.values():
            child.close()


def room(passed: float, done: int, seconds: float) -> bool:
    """Is there time for another round like those that are done? For the first there is."""
    return not done or passed / done * (done + 1) <= seconds


def turned(some: Sequence[One], number: int) -> tuple[One, ...]:
    """The same, begun with another one in each round."""
    place = number % len(some)
    return (*some[place:], *some[:place])


def run(server: Server, section: Section, results: Results) -> None:
    """Measure a section."""
    start = time.monotonic()
    for number in range(section.rounds):
        if not room(time.monotonic() - start, number, section.seconds):
            tell(f"{section.title}: stops after {number} rounds")
            break
        tell(f"{section.title}: round {number + 1} of {section.rounds}")
        _round(server, section, number, results)


def tell(what: str) -> None:
    """Show progress."""
    print(f"[{time.monotonic() - _START:4.0f} s] {what}", file=sys.stderr, flush=True)


def _round(server: Server, section: Section, number: int, results: Results) -> None:
    order = turned(section.peers, number * max(1, len(section.peers) // max(1, section.rounds)))
    cores = os.cpu_count() or 1
    for_server, for_client = (core % cores for core in PLACES[section.place])
    server.pin({for_server})
    with children(order, server.url) as running:
        for peer, child in running.items():
            results.peers.setdefault(peer, child.hello)
        for peer, child in running.items():
            if "error" in child.hello:
                tell(f"{peer} does not start: {child.hello['error']}")
                row = {"section": section.title, "place": section.place, "round": number, "work": "start"}
                results.rows.append({**row, "peer": peer, "error": child.hello["error"]})
        for work in section.works:
            for peer in order:
                if work not in (*running[peer].hello.get("works", ()), "memory"):
                    continue
                answer = running[peer].order(
                    work=work,
                    count=int(section.count * PEERS[peer].share),
                    warm=section.warm if PEERS[peer].share == 1 else section.warm // 4,
                    size=section.size,
                    cores=[for_client],
                )
                row = {"section": section.title, "place": section.place, "round": number, "work": work}
                results.rows.append({**row, "peer": peer, **answer})
                if "error" in answer:
                    print(f"       {peer}, {work}: {answer['error']}", file=sys.stderr)
