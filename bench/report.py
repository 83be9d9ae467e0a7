"""From rows to ratios: every figure is divided by the raw list's of the same round; then the median."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from statistics import median
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
    digits = 3 if median(values) < 0.1 else 2
    return f"{median(values):.{digits}f} ({min(values):.{digits}f}-{max(values):.{digits}f})"


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


def life(rows: list[Row], works: tuple[str, str]) -> str:
    """Send, receive and acknowledge together: time and processor time of a message's whole life."""

    def whole(figure: Callable[[Row], float]) -> Figures:
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

    times, server = whole(lambda row: 1 / rate(row)), whole(server_cost)
    both = whole(lambda row: server_cost(row) + client_cost(row))
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


def growth(rows: list[Row]) -> str:
    """Time of each operation at several backlogs, over the same peer's at the smallest."""
    times: dict[tuple[str, str], dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        if "error" not in row:
            times[row["peer"], row["work"]][row["backlog"]].append(1 / rate(row))
    backlogs = sorted({row["backlog"] for row in rows})
    lines = []
    for (peer, work), by_backlog in times.items():
        least = median(by_backlog[backlogs[0]])
        cells = [f"{median(by_backlog[b]) / least:.2f}" if by_backlog[b] else "" for b in backlogs]
        lines.append([peer, work, *cells])
    return table(["peer", "work", *(f"{backlog:,}" for backlog in backlogs)], lines)


def wakes(rows: list[Row]) -> str:
    """From a send to the arrival at a waiting reader."""
    lines = [
        [row["peer"], str(row["waiters"]), row["error"], "", "", "", "", ""]
        if "error" in row
        else [
            row["peer"], str(row["waiters"]), f"{row['p50']:.2f}", f"{row['p99']:.2f}", f"{row['max']:.2f}",
            f"{row['scripts']:.2f}", f"{row['commands']:.1f}", f"{row['server_us']:.0f}",
        ]
        for row in rows
    ]  # fmt: skip
    head = ["peer", "waiting", "p50 ms", "p99 ms", "max ms", "scripts", "commands", "server us"]
    return table(head, lines)


def idle(rows: list[Row]) -> str:
    """What readers cost who wait in vain."""
    lines = [[r["peer"], str(r["waiters"]), f"{r['commands']:.1f}", f"{r['server']:.2%}"] for r in rows]
    return table(["peer", "waiting", "commands/s", "server CPU"], lines)


def crowd(rows: list[Row]) -> str:
    """Many processes on one server."""
    lines = [
        [row["peer"], str(row["processes"]), str(row["size"]), f"{row['lives']:,.0f}", f"{row['server']:.0%}"]
        for row in rows
        if "error" not in row
    ]
    return table(["peer", "processes", "batch", "lives/s", "server CPU"], lines)


COMPANY = (
    ("wakes", "From a send to a waiting reader, in another process", wakes),
    ("idle", "Readers that wait in vain", idle),
    ("crowd", "Whole lives a second, many processes on one server (absolute; cores not pinned)", crowd),
    ("growth", "Growth: time at a backlog over the time at the smallest", growth),
)


def report(document: dict[str, Any]) -> str:
    """The whole page, in markdown."""
    rows: list[Row] = document["rows"]
    lines = ["# mqredis beside its peers", "", document["about"], ""]
    for place in dict.fromkeys(row["place"] for row in rows if row["work"] in TITLES):
        here = [row for row in rows if row["place"] == place]
        for work, title in TITLES.items():
            if any(row["work"] == work and "error" not in row for row in here):
                lines += [f"## {title} ({place})", "", rates(here, work), ""]
        for works, title in (
            (("send", "receive"), "singly"),
            (("send_batch", "receive_batch"), "in batches"),
        ):
            if any(row["work"] == works[0] for row in here):
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
