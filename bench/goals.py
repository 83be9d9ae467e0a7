"""What was aimed at, what the best of the others does, what was measured, and what the limit allows in the same run:
one row for each goal. The floors are those of bench/floor.py and bench/kept.py."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from bench import report
from bench.adapters import BARE, FLOOR, HANDLE, PREFETCH, PROMISES, SCRIPTS, UNIT, WAKED

Row = dict[str, Any]
Document = dict[str, Any]
ONE, TWO = "one core", "two cores"
LEGEND = """\
A floor is what the limit allows, measured in the same run; none is a product. "limit" stands where a floor misses the
goal, too; "no" where all would reach it, or none has been measured:"""


@dataclass
class Measured:
    """The figures of the rounds; what decides is their median, unless ``decides`` is given."""

    values: list[float]
    decides: float | None = None
    #: What a reader must know beside the figure.
    note: str = ""

    @property
    def figure(self) -> float:
        """What is compared with the goal."""
        return median(self.values) if self.decides is None else self.decides


Measure = Callable[[Document], Measured | None]


@dataclass(frozen=True)
class Goal:
    """One row."""

    work: str
    bound: float
    least: bool  # at least, or at most
    best_peer: str
    measure: Measure
    #: What the limit allows, measured in the same run: by the name of each of :data:`FLOORS` that binds here.
    floors: Mapping[str, Measure] = field(default_factory=dict)
    #: Why there is none.
    boundless: str = ""

    @property
    def text(self) -> str:
        """What was aimed at."""
        return f"{'>=' if self.least else '<='} {self.bound:,g}"

    def met(self, measured: Measured) -> bool:
        """Was it reached?"""
        return measured.figure >= self.bound if self.least else measured.figure <= self.bound

    def verdict(self, document: Document, measured: Measured) -> str:
        """Was it reached? "limit" only where what the limit allows would not reach it either."""
        if self.met(measured):
            return "yes"
        return "**no**" if all(map(self.met, self.allowed(document).values())) else "limit"

    def allowed(self, document: Document) -> dict[str, Measured]:
        """What each of its floors has reached, of those that were measured."""
        found = {name: measure(document) for name, measure in self.floors.items()}
        return {name: measured for name, measured in found.items() if measured is not None}


def _rows(document: Document, work: str, place: str = ONE) -> list[Row]:
    return [row for row in document["rows"] if row["work"] == work and row["place"] == place]


def _rate(work: str, peer: str, place: str = ONE) -> Callable[[Document], Measured | None]:
    """A rate over the raw list's, of each round."""

    def measure(document: Document) -> Measured | None:
        found = report.ratios(_rows(document, work, place), report.rate).get(peer)
        return Measured(found) if found else None

    return measure


def _receive(document: Document) -> Measured | None:
    """Ours one at a time; what a prefetch makes of it is only told."""
    found, several = (_rate("receive", peer)(document) for peer in ("mqredis", PREFETCH))
    if found and several:
        found.note = f"{PREFETCH}: {several.figure:.2f}"
    return found


def _life(peer: str) -> Callable[[Document], Measured | None]:
    """Sends and receives a second, each message's whole life taken together."""

    def measure(document: Document) -> Measured | None:
        rows = [row for row in document["rows"] if row["place"] == ONE]
        found = report.whole(rows, ("send", "receive"), lambda row: 1 / report.rate(row)).get(peer)
        return Measured([1 / value for value in found]) if found else None

    return measure


def _server(peer: str, *works: str) -> Callable[[Document], Measured | None]:
    def measure(document: Document) -> Measured | None:
        rows = [row for row in document["rows"] if row["place"] == ONE]
        found = report.whole(rows, works, report.server_cost).get(peer)
        return Measured(found) if found else None

    return measure


def _drain(place: str) -> Callable[[Document], Measured | None]:
    """The best of our ways to run a handler; the others are named."""

    def measure(document: Document) -> Measured | None:
        ratios = report.ratios(_rows(document, "drain", place), report.rate)
        ours = {peer: median(values) for peer, values in ratios.items() if peer.startswith("mqredis worker")}
        if not ours:
            return None
        best = max(ours, key=lambda peer: ours[peer])
        return Measured(ratios[best], note="; ".join(f"{peer}: {value:.2f}" for peer, value in ours.items()))

    return measure


def _transact(document: Document) -> Measured | None:
    rows = _rows(document, "transact")
    found = _rate("transact", "mqredis, transactions")(document)
    reads = [row["reads"] for row in rows if row["peer"] == "mqredis, transactions" and "error" not in row]
    if found:
        found.note = f"{median(reads):.2f} round trips for the three steps"
    return found


def _waits(document: Document, peer: str, waiters: int) -> dict[int, list[float]]:
    rows = document["company"].get("wakes", [])
    return {
        row["round"]: row["waits"]
        for row in rows
        if row["peer"] == peer and row["waiters"] == waiters and "waits" in row
    }


def _wake(part: int, ours: tuple[str, int], unit: tuple[str, int]) -> Callable[[Document], Measured | None]:
    """A percentile of the time to wake, over that of the unit: each round's, and that of all rounds together."""

    def measure(document: Document) -> Measured | None:
        mine, other = _waits(document, *ours), _waits(document, *unit)
        rounds = sorted(mine.keys() & other.keys())
        if not rounds:
            return None
        values = [report.percentile(mine[n], part) / report.percentile(other[n], part) for n in rounds]
        every = [[wait for n in rounds for wait in waits[n]] for waits in (mine, other)]
        figures = [report.percentile(waits, part) for waits in every]
        note = f"{figures[0]:.2f} ms against {figures[1]:.2f} ms, all rounds together"
        return Measured(values, figures[0] / figures[1], note)

    return measure


def _scripts(document: Document) -> Measured | None:
    rows = document["company"].get("wakes", [])
    found = [row["scripts"] for row in rows if row["waiters"] == 500 and "scripts" in row]
    note = "besides the send: one takes it, one settles it and waits again"
    return Measured([calls - 1 for calls in found], note=note) if found else None


def _idle(document: Document) -> Measured | None:
    rows = [row for row in document["company"].get("idle", []) if row["waiters"] == 100]
    note = (
        "; ".join(f"{row['peer']}: {row['commands']:.2f}" for row in rows) + "; those inside scripts included"
    )
    found = [row["commands"] for row in rows if "commands" in row]
    return Measured(found, max(found), note) if found else None


#: How much longer an operation may take with the longest backlog than with the shortest.
_GROWS = 1.15


def _longest(document: Document) -> tuple[int, dict[str, list[float]]]:
    """The longest backlog, and how much longer each operation of ours takes there, in each round."""
    grown = report.grown(document["company"].get("growth", []), "backlog")
    size = max((size for by_size in grown.values() for size in by_size), default=0)
    ours = {work: by_size for work, by_size in grown.items() if not work.startswith(BARE)}
    return size, {work: by_size[size] for work, by_size in ours.items() if size in by_size}


def _growth(document: Document) -> Measured | None:
    """The operation that suffers most from the longest backlog."""
    size, last = _longest(document)
    if not last:
        return None
    falling = sorted(last, key=lambda work: -median(last[work]))
    names = [f"{work} {report.spread(last[work])}" for work in falling if median(last[work]) > _GROWS]
    note = (
        f"{falling[0]}, the worst of {len(last)}, to {size:,}; above {_GROWS}: {', '.join(names) or 'none'}"
    )
    return Measured(last[falling[0]], note=note)


def _bare_growth(document: Document) -> Measured | None:
    """What our time would grow by if it grew as the floor's does, by as many microseconds: of the operations that miss
    the goal the one whose floor grows least. Nothing if one of them has no floor."""
    _, last = _longest(document)
    floors = {work: _bare_rounds(document, work) for work in last}
    missed = [work for work, values in last.items() if median(values) > _GROWS] or [
        work for work in last if floors[work]
    ]
    if not missed or not all(floors[work] for work in missed):
        return None
    least = min(missed, key=lambda work: median(floors[work]))
    return Measured(floors[least], note=least)


def _bare_rounds(document: Document, work: str) -> list[float]:
    """Of each round: our time with the shortest backlog and what the floor takes longer with the longest, over ours."""
    rows = [
        row
        for row in document["company"].get("growth", [])
        if row["axis"] == "backlog" and "error" not in row
    ]
    times = {(row["work"], row["round"], row["size"]): row["seconds"] for row in rows}
    sizes = sorted({row["size"] for row in rows})
    found = []
    for number in sorted({row["round"] for row in rows}):
        ours, short, long = (
            times.get(key)
            for key in (
                (work, number, sizes[0]),
                (BARE + work, number, sizes[0]),
                (BARE + work, number, sizes[-1]),
            )
        )
        if ours and short and long:
            found.append((ours + long - short) / ours)
    return found


def _memory(peer: str) -> Callable[[Document], Measured | None]:
    def measure(document: Document) -> Measured | None:
        found = report.ratios(_rows(document, "memory"), lambda row: float(row["bytes"])).get(peer)
        return Measured(found) if found else None

    return measure


def _crowd(size: int, peer: str = "mqredis") -> Callable[[Document], Measured | None]:
    """Lives a second of the processes of a peer, and what server and processes took for them."""

    def measure(document: Document) -> Measured | None:
        rows = [
            row
            for row in document["company"].get("crowd", [])
            if row["peer"] == peer and row["size"] == size and "lives" in row
        ]
        if not rows:
            return None
        share = median(row["server"] for row in rows)
        most = median(1e6 / row["server_us"] for row in rows)
        clients = median(row["lives"] * row["client_us"] / 1e6 for row in rows)
        note = f"Redis took {share:.0%} of a core, the processes {clients:.0%}; "
        note += f"with a whole one Redis would do {most:,.0f}"
        bare = _crowd(size, SCRIPTS)(document) if peer == "mqredis" else None
        if bare:
            note += f"; our scripts with bare clients: {bare.figure:,.0f}"
        return Measured([row["lives"] for row in rows], note=note)

    return measure


def _shots(size: int) -> Callable[[Document], Measured | None]:
    """What the server does for the floor's commands, each fired when the last is answered, and in pipelines."""

    def measure(document: Document) -> Measured | None:
        rows = [row for row in document["company"].get("shots", []) if row["size"] == size]
        by: dict[int, list[float]] = {}
        for row in sorted(rows, key=lambda row: int(row["pipeline"])):
            by.setdefault(row["pipeline"], []).append(row["lives"])
        note = "; ".join(f"pipelines of {many}: {median(lives):,.0f}" for many, lives in by.items())
        return Measured(by[1], note=note) if 1 in by else None

    return measure


UNIT_OF_ALL = "a handler is called for each task, whoever brings it; what is sent for it is ours to choose"
CALL, KEPT, HANDLED, LOOP, LEAST, TWICE = "call", "promises", "handle", "loop", "records", "waked twice"
LOOKUPS, SHOTS, PROCESSES = "look-ups", "shots", "processes"
FLOORS = {
    CALL: "one call of a function that makes the reads and writes of ours on the same keys, with constants, and "
          "decides nothing; its client is a socket and hiredis.",
    KEPT: "one call of a function that keeps every promise of the plainest messages, written flat for them alone, and "
          "knows no other case; the same client.",
    HANDLED: "the functions of 'promises'; their client does what any client of ours must: threads share it, "
             "calls have a time limit, refusals are raised, a message is an object with id, deliveries and settlement.",
    LOOP: "one call as those of 'call' from an event loop, by a protocol that writes and hands out replies.",
    LEAST: "a sorted set of lookup ids of eight bytes and a hash of the records: no index, no counters.",
    TWICE: "a reader whom a keyspace notification wakes and who then makes one such call: two wake-ups.",
    LOOKUPS: "the reads and writes of the operation on the same keys by a function that decides nothing, its client a "
             "socket: how many microseconds they take longer at 1,000,000, on top of our time at 1,000, over that.",
    SHOTS: "redis-benchmark, 16 clients, fires the same function calls: what this server does for them here.",
    PROCESSES: "16 processes with the bare client of 'call' make the same function calls: what such processes get from "
               "this server, whose cores they share.",
}  # fmt: skip

BATCHES = ("send_batch", "receive_batch")
GOALS = (
    Goal("send, one at a time", 1.0, True, "Streams 0.95, dramatiq 0.47", _rate("send", "mqredis"),
         {CALL: _rate("send", FLOOR), KEPT: _rate("send", PROMISES), HANDLED: _rate("send", HANDLE)}),
    Goal("receive and acknowledge, one at a time", 1.6, True, "dramatiq with prefetch 1.14, Streams 0.88",
         _receive,
         {CALL: _rate("receive", FLOOR), KEPT: _rate("receive", PROMISES), HANDLED: _rate("receive", HANDLE)}),
    Goal("send, batches of 100", 0.6, True, "Streams 0.47, BullMQ 0.09", _rate("send_batch", "mqredis"),
         {CALL: _rate("send_batch", FLOOR), KEPT: _rate("send_batch", PROMISES)}),
    Goal("receive and acknowledge, batches of 100", 2.8, True, "Streams 2.4-2.7, dramatiq 0.25",
         _rate("receive_batch", "mqredis"),
         {CALL: _rate("receive_batch", FLOOR), KEPT: _rate("receive_batch", PROMISES)}),
    Goal("asyncio, one task", 0.7, True, "redis-py asyncio 0.52", _life("mqredis asyncio"),
         {LOOP: _life(f"{FLOOR}, asyncio")}),
    Goal("asyncio, 20 tasks", 1.0, True, "redis-py asyncio 0.52", _life("mqredis asyncio, 20 tasks"),
         {LOOP: _life(f"{FLOOR}, asyncio, 20 tasks")}),
    Goal("Redis CPU of a life, singly", 1.5, False, "dramatiq 1.6, BullMQ 3.3",
         _server("mqredis", "send", "receive"),
         {CALL: _server(FLOOR, "send", "receive"), KEPT: _server(PROMISES, "send", "receive")}),
    Goal("Redis CPU of a life, in batches", 1.2, False, "", _server("mqredis", *BATCHES),
         {CALL: _server(FLOOR, *BATCHES), KEPT: _server(PROMISES, *BATCHES)}),
    Goal("worker, one core", 1.2, True, "dramatiq, prefetch 500: 0.69", _drain(ONE),
         boundless=UNIT_OF_ALL),
    Goal("worker, two cores", 2.0, True, "dramatiq, prefetch 500: 1.72", _drain(TWO),
         boundless=UNIT_OF_ALL),
    Goal("receive, send and commit in a transaction", 0.5, True, "nobody offers it", _transact,
         {CALL: _rate("transact", FLOOR)}),
    Goal("idle worker, p50", 1.5, False, "Streams 0.9, taskiq 2.5, Celery 4-5.4",
         _wake(50, ("mqredis worker", 1), (UNIT, 1)), {TWICE: _wake(50, (WAKED, 1), (UNIT, 1))}),
    Goal("idle worker, p99", 1.5, False, "Streams 0.9, BullMQ 1,300, arq 1,100",
         _wake(99, ("mqredis worker", 1), (UNIT, 1)), {TWICE: _wake(99, (WAKED, 1), (UNIT, 1))}),
    Goal("500 waiters: script calls a message", 2.0, False, "broadcast: 501", _scripts,
         boundless="the goal is the least there is: one call takes, one settles and waits again"),
    Goal("500 waiters: p99 over that of one waiter", 2.0, False, "",
         _wake(99, ("mqredis asyncio", 500), ("mqredis asyncio", 1)),
         boundless="both sides are ours: whoever waits alone is the floor of him who waits among many"),
    Goal("100 idle consumers: commands a second", 1.0, False, "", _idle,
         boundless="nothing need be sent while nothing happens: how often to look is ours to choose"),
    Goal("backlog 1,000 to 1,000,000: time", _GROWS, False, "", _growth, {LOOKUPS: _bare_growth}),
    Goal("memory of a queued message", 1.4, False, "Streams 0.96, kombu 2.1, dramatiq 2.1", _memory("mqredis"),
         {LEAST: _memory(f"{FLOOR}, records")}),
    Goal("16 processes, whole lives a second, singly", 25_000, True, "", _crowd(1),
         {SHOTS: _shots(1), PROCESSES: _crowd(1, FLOOR)}),
    Goal("16 processes, whole lives a second, in batches", 120_000, True, "", _crowd(100),
         {SHOTS: _shots(100), PROCESSES: _crowd(100, FLOOR)}),
)  # fmt: skip


def _figures(measured: Measured) -> str:
    """What decides, and the range of the rounds."""
    if measured.decides is None:
        return report.spread(measured.values)
    digits = 3 if measured.decides < 0.1 else 2
    return f"{measured.decides:,.{digits}f} ({min(measured.values):,.2f}-{max(measured.values):,.2f})"


def lost(document: Document) -> list[str]:
    """A line for each goal that was missed, with what the limit allows."""
    lines = []
    for goal in GOALS:
        measured = goal.measure(document)
        if measured is None or goal.met(measured):
            continue
        line = f"- {goal.work}: {measured.figure:,.2f}, aimed at {goal.text}"
        for name, allowed in goal.allowed(document).items():
            line += f"; {name} {allowed.figure:,.2f}"
            line += f" ({allowed.note})" if name in (SHOTS, PROCESSES) else ""
        lines.append(line)
    return lines


def table(document: Document) -> str:
    """All rows, then what the floors are; goals that were not measured in this run say so."""
    lines = []
    for goal in GOALS:
        measured = goal.measure(document)
        floors = [f"{_figures(allowed)}: {name}" for name, allowed in goal.allowed(document).items()]
        floor = "; ".join(floors) or (f"none: {goal.boundless}" if goal.boundless else "")
        row = [goal.work, goal.text, goal.best_peer]
        if measured is None:
            lines.append([*row, "not measured", floor, "", ""])
        else:
            verdict = goal.verdict(document, measured)
            lines.append([*row, _figures(measured), floor, verdict, measured.note])
    head = ["work", "goal", "best peer", "mqredis (min-max)", "floor (min-max)", "met", ""]
    notes = "\n".join(f"- {name}: {what}" for name, what in FLOORS.items())
    return f"{report.table(head, lines)}\n\n{LEGEND}\n\n{notes}"
