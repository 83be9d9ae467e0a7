"""From rows to ratios: every figure is divided by the raw list's of the same round; then the median."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from statistics import median, quantiles
from typing import Any

from bench.adapters import UNIT

Row = dict[str, Any]
Figures = dict[str, list[float]]

TITLES = {
    "send": "Send, one at a time",
    "receive": "Receive and acknowledge, one at a time",
    "send_batch": "Send, 100 in a call",
    "receive_batch": "Receive and acknowledge, 100 in a call",
    "transact": "Receive, send on and acknowledge as one unit of work, one at a time",
    "transact_batch": "Receive, send on and acknowledge as one unit of work, 100 in a call",
    "drain": "Workers draining tasks that do nothing, one process",
}


def rate(row: Row) -> float:
    """Messages a second."""
    return float(row["count"] / row["seconds"])


def server_cost(row: Row) -> float:
    """Seconds of the server's processor for one message."""
    return float(row["server_cpu"] / row["count"])


def client_cost(row: Row) -> float:
    """Seconds of the client's processor for one message."""
    return float(row["client_cpu"] / row["count"])


def ratios(rows: Iterable[Row], figure: Callable[[Row], float]) -> Figures:
    """For each peer its figure over the raw list's of the same round, one for each round."""
    rounds: dict[int, dict[str, float]] = defaultdict(dict)
    for row in rows:
        if "error" not in row:
            rounds[row["round"]][row["peer"]] = figure(row)
    found: Figures = defaultdict(list)
    for figures in rounds.values():
        unit = figures.get(UNIT)
        if unit:
            for peer, value in figures.items():
                found[peer].append(value / unit)
    return dict(found)


def spread(values: list[float]) -> str:
    """Median (minimum-maximum)."""
    middle = median(values)
    digits = 3 if middle < 0.1 else 2 if middle < 1000 else 0
    return f"{middle:,.{digits}f} ({min(values):,.{digits}f}-{max(values):,.{digits}f})"


def percentile(values: list[float], part: int) -> float:
    """The value below which ``part`` of 100 lie."""
    return quantiles(values, n=100)[part - 1]


def table(head: list[str], rows: list[list[str]]) -> str:
    """A markdown table, its columns lined up for the terminal."""
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    lines = [head, ["-" * width for width in widths], *rows]
    return "\n".join(
        "| " + " | ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)) + " |" for line in lines
    )


def rates(rows: list[Row], work: str) -> str:
    """One kind of work: rates, processor time, round trips, commands and bytes of each peer."""
    rows = [row for row in rows if row["work"] == work]
    by_rate, by_server = ratios(rows, rate), ratios(rows, server_cost)
    by_client = ratios(rows, client_cost)
    last = {row["peer"]: row for row in rows if "error" not in row}
    lines = []
    for peer in sorted(by_rate, key=lambda name: -median(by_rate[name])):
        row = last[peer]
        lines.append(
            [
                peer,
                spread(by_rate[peer]),
                spread(by_server[peer]),
                spread(by_client[peer]),
                f"{row['reads']:.2f}",
                f"{row['commands']:.1f}",
                f"{row['bytes_in']:.0f}",
                f"{row['bytes_out']:.0f}",
            ]
        )
    head = ["peer", "rate x", "server CPU x", "client CPU x", "round trips", "commands", "B in", "B out"]
    return table(head, lines)


def whole(rows: Iterable[Row], works: tuple[str, ...], figure: Callable[[Row], float]) -> Figures:
    """Ratios of a figure summed over several works, for those peers that did all of them."""
    sums: dict[tuple[int, str], list[float]] = defaultdict(list)
    for row in rows:
        if row["work"] in works and "error" not in row:
            sums[row["round"], row["peer"]].append(figure(row))
    complete = [
        {"round": number, "peer": peer, "sum": sum(values)}
        for (number, peer), values in sums.items()
        if len(values) == len(works)
    ]
    return ratios(complete, lambda row: float(row["sum"]))


def life(rows: list[Row], works: tuple[str, str]) -> str:
    """Send, receive and acknowledge together: time and processor time of a message's whole life."""
    times = whole(rows, works, lambda row: 1 / rate(row))
    server = whole(rows, works, server_cost)
    both = whole(rows, works, lambda row: server_cost(row) + client_cost(row))
    lines = [
        [peer, spread(times[peer]), spread(server[peer]), spread(both[peer])]
        for peer in sorted(times, key=lambda name: median(times[name]))
    ]
    return table(["peer", "time x", "server CPU x", "CPU of both x"], lines)


def memory(rows: list[Row]) -> str:
    """Bytes of the server's memory for each queued message."""
    rows = [row for row in rows if row["work"] == "memory"]
    found = ratios(rows, lambda row: float(row["bytes"]))
    last = {row["peer"]: row["bytes"] for row in rows if "error" not in row}
    lines = [
        [p, f"{last[p]:.0f}", spread(found[p])] for p in sorted(found, key=lambda name: median(found[name]))
    ]
    return table(["peer", "bytes", "x"], lines)


def grown(rows: list[Row], axis: str) -> dict[str, dict[int, list[float]]]:
    """Time of each operation at each size over that at the smallest of the same round, one figure for each round."""
    times: dict[tuple[str, int], dict[int, float]] = defaultdict(dict)
    for row in rows:
        if row["axis"] == axis and "error" not in row and row["work"] != "settle":
            times[row["work"], row["round"]][row["size"]] = row["seconds"]
    found: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for (work, _), by_size in times.items():
        least = by_size.get(min(by_size))
        for size, seconds in by_size.items():
            found[work][size].append(seconds / least if least else 0.0)
    return {work: dict(by_size) for work, by_size in found.items()}


def growth(rows: list[Row]) -> str:
    """One table for each thing that grows."""
    tables = []
    for axis in dict.fromkeys(row["axis"] for row in rows):
        errors = {row["error"] for row in rows if row["axis"] == axis and "error" in row}
        ratios_of = grown(rows, axis)
        if not ratios_of:
            tables.append(f"{AXES[axis]}: {'; '.join(errors)}")
            continue
        sizes = sorted({size for by_size in ratios_of.values() for size in by_size})
        least: dict[str, list[float]] = defaultdict(list)
        for row in rows:
            if row.get("axis") == axis and row.get("size") == sizes[0]:
                least[row["work"]].append(row["seconds"] * 1e6)
        lines = [
            [work, f"{median(least[work]):.0f}", *(spread(by_size[size]) for size in sizes[1:])]
            for work, by_size in ratios_of.items()
        ]
        tables.append(table([AXES[axis], f"us at {sizes[0]:,}", *(f"{size:,}" for size in sizes[1:])], lines))
    return "\n\n".join(tables)


AXES = {
    "backlog": "backlog",
    "queues": "queues",
    "transactions": "open transactions",
    "bytes": "bytes of body",
}


def wakes(rows: list[Row]) -> str:
    """From a send to the arrival at a waiting reader, all rounds together."""
    lines = []
    for peer, waiters in dict.fromkeys((row["peer"], row["waiters"]) for row in rows):
        mine = [row for row in rows if (row["peer"], row["waiters"]) == (peer, waiters)]
        good = [row for row in mine if "waits" in row]
        if not good:
            lines.append([peer, str(waiters), mine[0]["error"], "", "", "", "", ""])
            continue
        waits = [wait for row in good for wait in row["waits"]]
        each = [percentile(row["waits"], 50) for row in good]
        lines.append(
            [
                peer,
                str(waiters),
                f"{percentile(waits, 50):.2f} ({min(each):.2f}-{max(each):.2f})",
                f"{percentile(waits, 99):.2f}",
                f"{max(waits):.2f}",
                *(f"{median(row[name] for row in good):.{n}f}" for name, n in _WAKES),
            ]
        )
    head = ["peer", "waiting", "p50 ms", "p99 ms", "max ms", "scripts", "commands", "server us"]
    return table(head, lines)


_WAKES = (("scripts", 2), ("commands", 1), ("server_us", 0))


def idle(rows: list[Row]) -> str:
    """What readers cost who wait in vain."""
    lines = [[r["peer"], str(r["waiters"]), f"{r['commands']:.1f}", f"{r['server']:.2%}"] for r in rows]
    return table(["peer", "waiting", "commands/s", "server CPU"], lines)


def crowd(rows: list[Row]) -> str:
    """Many processes on one server, or on several."""
    lines = []
    kinds = dict.fromkeys((r["peer"], r["processes"], r["servers"], r["size"]) for r in rows)
    for kind in kinds:
        mine = [r for r in rows if (r["peer"], r["processes"], r["servers"], r["size"]) == kind]
        good = [row for row in mine if "lives" in row]
        peer, processes, servers, size = kind
        cells = [mine[0].get("error", ""), *[""] * (2 + len(_CROWD))]
        if good:
            shares = map(median, zip(*(row["shares"] for row in good), strict=True))
            cells = [
                spread([row["lives"] for row in good]),
                " ".join(f"{share:.0%}" for share in shares),
                *(f"{median(row[name] for row in good):.0f}" for name in _CROWD),
                f"{good[0]['first_ms']:.0f}",
            ]
        lines.append([peer, str(processes), str(servers), str(size), *cells])
    head = ["peer", "processes", "servers", "batch", "lives/s", "server CPU", *_CROWD.values()]
    # What a process does once it does in its first turn.
    head.append("first calls, client ms")
    return table(head, lines)


#: CPU of a life. The first calls of a process are not counted with it.
_CROWD = {
    "server_us": "server us a life",
    "client_us": "client us a life",
}


COMPANY = (
    ("wakes", "From a send to a waiting reader, in another process", wakes),
    ("idle", "Readers that wait in vain", idle),
    (
        "crowd",
        "Whole lives a second, many processes on one server, while all are at work (absolute; cores not pinned)",
        crowd,
    ),
    ("shards", "Queue managers as shards: one node and three nodes of a cluster on this machine", crowd),
    (
        "growth",
        "Growth: time of an operation over its time at the smallest size, median (min-max) of the rounds",
        growth,
    ),
)


def report(document: dict[str, Any]) -> str:
    """All tables but that of the goals, in markdown."""
    rows: list[Row] = document["rows"]
    lines: list[str] = []
    for place in dict.fromkeys(row["place"] for row in rows if row["work"] in TITLES):
        here = [row for row in rows if row["place"] == place and row["work"] != "memory"]
        for work, title in TITLES.items():
            if any(row["work"] == work and "error" not in row for row in here):
                lines += [f"## {title} ({place})", "", rates(here, work), ""]
        for works, title in (
            (("send", "receive"), "singly"),
            (("send_batch", "receive_batch"), "in batches"),
        ):
            if all(any(row["work"] == work for row in here) for work in works):
                lines += [f"## Whole life of a message, {title} ({place})", "", life(here, works), ""]
    if any(row["work"] == "memory" for row in rows):
        lines += ["## Memory of a queued message", "", memory(rows), ""]
    for key, title, tabulate in COMPANY:
        if document["company"].get(key):
            lines += [f"## {title}", "", tabulate(document["company"][key]), ""]
    lines += ["## Settings", ""]
    for peer, facts in document["peers"].items():
        durable = "" if facts.get("acknowledges", True) else "; no acknowledgement"
        lines.append(f"- {peer}: {facts.get('settings') or 'as it comes'}{durable}")
    lines += ["", "## Versions", ""]
    for environment, found in document["versions"].items():
        lines.append(f"- {environment}: " + ", ".join(f"{name} {version}" for name, version in found.items()))
    return "\n".join(lines) + "\n"
