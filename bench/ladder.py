"""From the floor to mqredis, step by step, in the same run: what the scripts' decisions cost, and what the client.

The steps are those of bench/adapters/ladder.py.
"""

from __future__ import annotations

from statistics import median
from typing import Any

from bench import goals, report
from bench.adapters import CLIENT, FLOOR, HANDLE, PROMISES, SCRIPTS

TEXT = """\
Rates, as ratios to the raw list of the same round (median). From the left: the floor (a bare client, a function that
makes the reads and writes and decides nothing); such a client calling flat functions that keep the promises of the
plainest messages and know nothing else; the same called by a client that does what ours must at least (threads may
share it, calls have a time limit, refusals are raised, a message is an object); our scripts, called by the bare
client with a new token each time; our whole client, calling functions that decide nothing and answer as our scripts
do; mqredis. The last two columns are shares of the processor time, of client and server, that a message takes beyond
the floor: with our scripts in place of its functions, and with our client in place of the bare one. They are measured
apart and need not make 100 %. Where the floor is below a goal, these reads and writes cannot reach it; where our
scripts are, no client of theirs can."""

TRANSACTIONS = ", transactions"
_LIFE = ("send", "receive")
#: Kinds of work, with what follows the names of the steps there, and the name of ours.
_KINDS = (
    ("send, one at a time", ("send",), "", "mqredis"),
    ("receive and acknowledge, one at a time", ("receive",), "", "mqredis"),
    ("send, batches of 100", ("send_batch",), "", "mqredis"),
    ("receive and acknowledge, batches of 100", ("receive_batch",), "", "mqredis"),
    ("receive, send and commit in a transaction", ("transact",), TRANSACTIONS, f"mqredis{TRANSACTIONS}"),
    ("asyncio, one task", _LIFE, ", asyncio", "mqredis asyncio"),
    ("asyncio, 20 tasks", _LIFE, ", asyncio, 20 tasks", "mqredis asyncio, 20 tasks"),
)


def share(floor: float, step: float, ours: float) -> float | None:
    """Which part of what ours costs beyond the floor a step costs; None where that is nothing."""
    return (step - floor) / (ours - floor) if ours > floor else None


def _cost(row: dict[str, Any]) -> float:
    return report.server_cost(row) + report.client_cost(row)


def table(document: dict[str, Any]) -> str:
    """A row for each kind of work whose two ends were measured; "" without any."""
    aims = {goal.work: goal.text for goal in goals.GOALS}
    rows = [row for row in document["rows"] if row["place"] == goals.ONE]
    lines = []
    for title, works, more, ours in _KINDS:
        first = FLOOR + more.removeprefix(TRANSACTIONS)
        peers = (first, PROMISES + more, HANDLE + more, SCRIPTS + more, CLIENT + more, ours)
        times = report.whole(rows, works, lambda row: 1 / report.rate(row))
        costs = report.whole(rows, works, _cost)
        if peers[0] not in times or ours not in times:
            continue
        rates = [f"{1 / median(times[peer]):.2f}" if peer in times else "" for peer in peers]
        floor, _, _, *steps, whole = [median(costs[peer]) if peer in costs else None for peer in peers]
        assert floor is not None
        assert whole is not None
        shares = [None if step is None else share(floor, step, whole) for step in steps]
        lines.append(
            [title, aims[title], *rates, *("" if part is None else f"{part:.0%}" for part in shares)]
        )
    if not lines:
        return ""
    head = [
        "work",
        "goal",
        "floor",
        "promises",
        "with a handle",
        "our scripts",
        "our client",
        "mqredis",
        "the scripts",
        "the client",
    ]
    return f"{report.table(head, lines)}\n\n{TEXT}"
