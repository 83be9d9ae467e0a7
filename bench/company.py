"""What one loop in one process does not show: waiting readers, idle readers, many processes, things that grow.

Each function returns rows for the report; :mod:`bench.runner` has the loops of one process.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from statistics import fmean, median
from typing import Any

from bench.runner import Child, room, tell, turned
from bench.server import Server
from mqredis.keys import QUEUE_PARTS, ManagerKeys

Row = dict[str, Any]
#: A peer and how many of its readers wait.
Reader = tuple[str, int]
#: Where our waiting readers are registered.
_WAITERS = ManagerKeys("default").queue("bench")[QUEUE_PARTS.index("w")]
#: Messages before those that count: sends before lives; those of each turn of waiting readers, since the machine's
#: caches hold what the turn before was about.
WARM = 10
#: Messages that count in a turn of readers of one kind.
TURN = 40
#: How long before they begin the processes of a crowd are told to, in seconds: all have read it then.
AHEAD = 0.2
#: Messages that a process of a crowd sends before it receives as many, for each size of a batch. Each portion ends with
#: a settlement of its own, which should weigh little, and the last one goes on when the turn is over.
PORTIONS = {1: 100, 100: 2_000}
#: Seconds, at most, after which our idle readers look all together, and the commands that takes at least.
GLANCE, BURST = 6.0, 4


def _everywhere(server: Server) -> None:
    server.pin(set(range(os.cpu_count() or 1)))


def wakes(readers: Sequence[Reader], rounds: int, turns: int, seconds: float) -> list[Row]:
    """Milliseconds from a send to its arrival at one of so many waiting readers (peer, number) in another process;
    10 to 30 ms lie between two sends. With it what the server did for each message.

    All wait from the beginning of a round to its end, each kind at a server of its own, and get their messages in short
    turns of a second, one kind after the other: how fast the machine is at the moment meets all alike."""
    start, rows = time.monotonic(), []
    for number in range(rounds):
        if not room(time.monotonic() - start, number, seconds):
            break
        tell(f"waiting readers: round {number + 1} of {rounds}")
        with ExitStack() as stack:
            waiting = [_Waiting(stack, *reader, turns) for reader in readers]
            for one in waiting:
                one.settled()
            for turn in range(turns):
                for one in turned(waiting, number + turn):
                    one.turn()
            rows += [{"round": number, **one.row()} for one in waiting]
    return rows


class _Waiting:
    """Readers of one kind that wait in a process, and who sends to them, the peer's own sender, in another."""

    def __init__(self, stack: ExitStack, peer: str, waiters: int, turns: int) -> None:
        self._server = stack.enter_context(Server())
        self._peer, self._waiters = peer, waiters
        _everywhere(self._server)
        self._reader, self._writer = (
            stack.enter_context(closing(Child(peer, self._server.url))) for _ in range(2)
        )
        self._sent: list[Row] = []
        # One more than is counted: what the readers do at their end must not count.
        self._reader.begin(work="arrivals", count=turns * (WARM + TURN) + 1, waiters=waiters, cores=[])

    def settled(self) -> None:
        """All wait."""
        _settled(self._server, self._peer, self._waiters)

    def turn(self) -> None:
        """Send so many, one after the other."""
        self._sent.append(self._writer.order(work="spaced", count=WARM + TURN, cores=[]))

    def row(self) -> Row:
        """What all turns have shown."""
        row: Row = {"peer": self._peer, "waiters": self._waiters}
        last = self._writer.order(work="spaced", count=1, cores=[])
        came = self._reader.answer()
        failed = [answer["error"] for answer in (*self._sent, last, came) if "error" in answer]
        if failed:
            return {**row, "error": failed[0]}
        sent = [time for turn in self._sent for time in turn["times"]]
        waits = [(b - a) * 1e3 for a, b in zip(sent, sorted(came["times"])[:-1], strict=True)]
        return {
            **row,
            "waits": [round(w, 4) for n, w in enumerate(waits) if n % (WARM + TURN) >= WARM],
            **{n: fmean(turn[n] for turn in self._sent) for n in ("scripts", "commands", "server_us")},
        }


def idle(server: Server, peer: str, waiters: int, seconds: float) -> Row:
    """Commands a second, and the share of a processor, that so many readers cost who wait in vain."""
    _everywhere(server)
    server.wire.flush()
    with closing(Child(peer, server.url)) as reader, closing(Child(peer, server.url)) as writer:
        reader.begin(work="arrivals", count=1, waiters=waiters, cores=[])
        _settled(server, peer, waiters)
        look, looks, whole = server.wire.own_cost(), 1, seconds > 2 * GLANCE
        if whole:  # the first of them loads its script, too
            _glance(server, look.commands)
        before, start = server.wire.counters(), time.monotonic()
        time.sleep(seconds)
        if whole:
            looks += _glance(server, look.commands)
        used, passed = server.wire.counters() - before, time.monotonic() - start
        writer.order(work="spaced", count=1, cores=[])
        reader.answer()
    commands, cpu = used.commands - looks * look.commands, used.cpu - looks * look.cpu
    return {"peer": peer, "waiters": waiters, "commands": commands / passed, "server": cpu / passed}


def _glance(server: Server, own: int) -> int:
    """Wait until idle readers have just looked, so that it is whole intervals that are measured. How many looks of our
    own, of so many commands each, that took."""
    begun, looks, seen = time.monotonic(), 1, server.wire.counters().commands
    while time.monotonic() - begun < 2 * GLANCE:
        time.sleep(0.2)
        looks, last, seen = looks + 1, seen, server.wire.counters().commands
        if seen - last - own >= BURST:
            break
    return looks


def _settled(server: Server, peer: str, waiters: int) -> None:
    """Wait until the readers have connected and looked: until the server has nothing to do for a while."""
    seen, begun = -1, time.monotonic()
    since = begun
    while time.monotonic() - since < 0.7:
        commands = server.wire.counters().commands
        missing = peer.startswith("mqredis") and int(server.wire.ask("ZCARD", _WAITERS)) < waiters
        if commands - seen > 20 or (missing and time.monotonic() - begun < 30):
            since = time.monotonic()
        seen = commands
        time.sleep(0.1)


@dataclass(frozen=True)
class Crowd:
    """So many processes of a peer. With several servers each has a queue manager of its own and a part of them."""

    peer: str
    processes: int
    servers: Sequence[Server]


def crowds(some: Sequence[Crowd], turn: float, rounds: int, seconds: float) -> list[Row]:
    """Whole lives a second of each crowd, one after the other in each round, singly and in batches, and the share of a
    processor that the servers took.

    The processes start once. In its turn a crowd opens and makes its first calls on empty servers; then all begin at
    the same moment and are at work for so many seconds, and only what they do in these counts.
    """
    start, rows = time.monotonic(), []
    with ExitStack() as stack:
        children = {
            crowd: [
                stack.enter_context(closing(Child(crowd.peer, crowd.servers[n % len(crowd.servers)].address)))
                for n in range(crowd.processes)
            ]
            for crowd in some
        }
        for child in itertools.chain.from_iterable(children.values()):
            assert child.hello  # all have started
        seconds, start = seconds - (time.monotonic() - start), time.monotonic()
        for number in range(rounds):
            if not room(time.monotonic() - start, number, seconds):
                break
            for crowd in turned(some, number):
                tell(f"{crowd.processes} processes: {crowd.peer}, round {number + 1} of {rounds}")
                who = {"round": number, "peer": crowd.peer, "processes": crowd.processes}
                who |= {"servers": len(crowd.servers)}
                rows += [{**who, **_crowd(crowd.servers, children[crowd], size, turn)} for size in PORTIONS]
    return rows


def _crowd(servers: Sequence[Server], children: list[Child], size: int, turn: float) -> Row:
    for server in servers:
        _everywhere(server)
        server.wire.flush()
    firsts = _together(children, work="ready", count=WARM * size, size=size)
    before = [server.wire.counters() for server in servers]
    at = time.monotonic() + AHEAD
    answers = _together(children, work="lives", count=PORTIONS[size], size=size, at=at, until=at + turn)
    used = [server.wire.counters() - then for server, then in zip(servers, before, strict=True)]
    failed = [answer["error"] for answer in (*firsts, *answers) if "error" in answer]
    if failed:
        return {"size": size, "error": failed[0]}
    return {
        "size": size,
        "first_ms": median(first["client_cpu"] for first in firsts) * 1e3,
        **tally(answers, turn, [part.cpu for part in used]),
    }


def tally(answers: list[Row], turn: float, used: list[float]) -> Row:
    """Lives a second of a turn, and what they took of the processors: the servers have counted those, too, that were
    finished after it, so the shares are those of the lives within."""
    rate, every = sum(answer["lives"] for answer in answers) / turn, sum(answer["all"] for answer in answers)
    shares = [cpu / every * rate for cpu in used]
    return {
        "lives": rate,
        "server": sum(shares),
        "shares": shares,
        "server_us": sum(used) / every * 1e6,
        "client_us": sum(answer["client_cpu"] for answer in answers) / every * 1e6,
        "late_ms": max(answer["late"] for answer in answers) * 1e3,
    }


def _together(children: list[Child], **order: Any) -> list[Row]:
    """What each of them answers to the same order."""
    for child in children:
        child.begin(**order, cores=[])
    return [child.answer() for child in children]


def growth(server: Server, axis: str, sizes: list[int], rounds: int, seconds: float) -> list[Row]:
    """Every operation of mqredis at several sizes of something, on one core."""
    server.pin({0})
    with closing(Child("mqredis, growth", server.url)) as child:
        answer = child.order(
            patience=240,  # the longest backlog takes its time to fill
            work="grow",
            axis=axis,
            sizes=sizes,
            rounds=rounds,
            # Of a backlog one call takes 0.1 ms.
            count=400 if axis == "backlog" else 100,
            seconds=seconds,
            cores=[0],
        )
    if "error" in answer:
        return [{"axis": axis, "error": answer["error"]}]
    rows: list[Row] = answer["rows"]
    return rows
