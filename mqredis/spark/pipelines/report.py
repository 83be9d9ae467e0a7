"""The report of ``analyse``: one HTML page without scripts, readable on a phone, in light and dark.

``analyse`` writes it, and docs/pipelines.md says what it shows. Names of queues and reasons come from users, so each
text is escaped. A column whose name ends with ``_seconds`` is shown as a span of time; ``table`` needs the column
``messages`` in each table to count what is left out.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

# Rows of one of the tables of analyse.py (_QUERIES, and "depth"). Their columns are those of its query.
Table = Sequence[Mapping[str, Any]]

# The colours of the lines of a chart, in light and dark; the last is that of all queues without a line of their own.
_COLOURS = (("#1f6feb", "#6cb6ff"), ("#b35900", "#f0a35e"), ("#1a7f37", "#57ab5a"), ("#8250df", "#b083f0"),
            ("#cf222e", "#f47067"), ("#57606a", "#909dab"))  # fmt: skip
# Rows of a table that are shown, and lines of a chart. What is left out is said.
ROWS, LINES = 20, len(_COLOURS) - 1
_NUMBER_CLASS = ' class="number"'


def write_page(out: Path, manager: str, tables: Mapping[str, Table], width: int) -> None:
    """Write ``index.html``. ``width``: seconds of a step of the time axes."""
    out.mkdir(parents=True, exist_ok=True)
    (out / "index.html").write_text(page(manager, tables, width, datetime.now(UTC)), encoding="utf-8")


def page(manager: str, tables: Mapping[str, Table], width: int, now: datetime) -> str:
    """The whole page."""
    name, moment = html.escape(manager), now.strftime("%Y-%m-%d %H:%M UTC")
    step, axis = duration(width), Axis.of(tables, width)
    parts = [
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Queues of {name}</title>',
        '<meta name="viewport" content="width=device-width, initial-scale=1"><style>',
        _STYLE,
        f"</style></head><body><header><h1>Queues of {name}</h1><p>{moment}. Nothing was taken from a queue.</p>",
        "</header>",
        _tiles(tables),
        _section(
            "Depth over time",
            f"Messages in each queue, at the end of each {step} (UTC). The past is known of queues with a journal.",
            chart(tables["depth"], axis, level=True),
        ),
        _section(
            "Arrivals",
            f"Messages that came to each queue, in each {step} (UTC).",
            chart(tables["arrivals"], axis),
        ),
        _section(
            "Departures",
            f"Messages that left each queue into a journal or a dead-letter queue, in each {step} (UTC).",
            chart(tables["departures"], axis),
        ),
        _section(
            "Time in queue",
            "From sending to leaving, of messages of which a copy was kept. The slowest queues first.",
            table(tables["latency"], bar="p99_seconds"),
        ),
        _section("Queues by size", "The largest first.", table(tables["queues"], bar="messages")),
        _section("Dead letters by reason", "", table(tables["dead letters"], bar="messages")),
        _section(
            "Redeliveries",
            "Messages that were delivered before and came back, by number of deliveries.",
            table(tables["redeliveries"], bar="messages"),
        ),
        "</body></html>",
    ]
    return "\n".join(parts)


def _tiles(tables: Mapping[str, Table]) -> str:
    queues = tables["queues"]
    figures = [
        ("messages", number(sum(row["messages"] for row in queues))),
        ("queues with messages", number(len(queues))),
        ("oldest message", duration(max((row["oldest_seconds"] for row in queues), default=0))),
        ("dead letters", number(sum(row["messages"] for row in tables["dead letters"]))),
    ]
    return (
        '<ul class="tiles">' + "".join(f"<li><b>{value}</b>{name}</li>" for name, value in figures) + "</ul>"
    )


def _section(title: str, about: str, content: str) -> str:
    return f"<section><h2>{title}</h2>{f'<p>{about}</p>' if about else ''}{content}</section>"


def table(rows: Table, bar: str) -> str:
    """The first rows as a table; numbers are right-aligned, and a bar shows the column ``bar``."""
    if not rows:
        return '<p class="none">None.</p>'
    numeric = {name for name, value in rows[0].items() if isinstance(value, int | float)}
    head = "".join(f"<th{_NUMBER_CLASS if name in numeric else ''}>{_title(name)}</th>" for name in rows[0])
    top = max(row[bar] for row in rows) or 1
    lines = []
    for row in rows[:ROWS]:
        cells = []
        for name, value in row.items():
            share = f' style="--share:{100 * value / top:.1f}%"' if name == bar else ""
            kind = "number bar" if name == bar else "number" if name in numeric else ""
            cells.append(f'<td class="{kind}"{share}>{_cell(name, value)}</td>')
        lines.append(f"<tr>{''.join(cells)}</tr>")
    rest = _left_out(len(rows) - ROWS, sum(row["messages"] for row in rows[ROWS:]))
    body = f"<thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody>"
    return f'<div class="scroll"><table>{body}</table></div>{rest}'


def _title(name: str) -> str:
    return html.escape(name.removesuffix("_seconds").replace("_", " "))


def _cell(name: str, value: Any) -> str:
    if name.endswith("_seconds"):
        return duration(value)
    return number(value) if isinstance(value, int) else html.escape("" if value is None else str(value))


def _left_out(count: int, messages: int) -> str:
    if count <= 0:
        return ""
    plural = "s" if count > 1 else ""
    return f'<p class="rest">{count} more row{plural} with {number(messages)} messages not shown.</p>'


@dataclass(frozen=True)
class Axis:
    """What the charts share: steps of time, and the queues that have a line of their own."""

    begin: int  # seconds since 1970
    steps: int
    width: int  # seconds of a step
    lines: tuple[str, ...]

    @classmethod
    def of(cls, tables: Mapping[str, Table], width: int) -> Axis:
        """The time of all arrivals and departures; the queues to which most messages came."""
        rows = [*tables["arrivals"], *tables["departures"]]
        begin, end = (
            min((row["time"] for row in rows), default=0),
            max((row["time"] for row in rows), default=0),
        )
        came: dict[str, int] = {}
        for row in tables["arrivals"]:
            came[row["queue"]] = came.get(row["queue"], 0) + row["messages"]
        largest = sorted(came, key=lambda queue: (-came[queue], queue))
        return cls(begin, (end - begin) // width + 1, width, tuple(largest[:LINES]))


def chart(rows: Table, axis: Axis, level: bool = False) -> str:
    """A line for each of the largest queues over time, and one for all others. ``level``: a step without a row has the
    value of the step before, else 0."""
    if not rows:
        return '<p class="none">None.</p>'
    queues = sorted({row["queue"] for row in rows})
    series = {queue: _values([row for row in rows if row["queue"] == queue], axis, level) for queue in queues}
    shown = {queue: series[queue] for queue in axis.lines if queue in series}
    others = [series[queue] for queue in queues if queue not in shown]
    if others:
        name = f"{len(others)} other queue{'s' if len(others) > 1 else ''}"
        shown[name] = [sum(each) for each in zip(*others, strict=True)]
    top = max(2, *(max(values) for values in shown.values()))
    top += top % 2  # its half is a label
    kinds = {queue: f"line{axis.lines.index(queue) if queue in axis.lines else LINES}" for queue in shown}
    lines = "".join(
        f'<path class="{kinds[queue]}" d="{_path(values, top)}"><title>{html.escape(queue)}</title></path>'
        for queue, values in shown.items()
    )
    keys = "".join(
        f'<li class="{kinds[queue]}"><i></i>{html.escape(queue)} <span>at most {number(max(values))}</span></li>'
        for queue, values in shown.items()
    )
    span = axis.width * axis.steps  # the last step ends at the right edge
    ticks = "".join(f"<span>{_moment(axis.begin + span * n // 3, span)}</span>" for n in range(4))
    return (
        f'<figure><div class="plot"><div class="y"><span>{number(top)}</span><span>{number(top // 2)}</span>'
        f'<span>0</span></div><svg viewBox="0 0 1000 100" preserveAspectRatio="none" role="img"><path class="grid" '
        f'd="M0 0H1000M0 50H1000M0 100H1000"/>{lines}</svg></div><div class="x">{ticks}</div>'
        f'<figcaption><ul class="keys">{keys}</ul></figcaption></figure>'
    )


def _values(rows: Table, axis: Axis, level: bool) -> list[int]:
    known = {(row["time"] - axis.begin) // axis.width: row["messages"] for row in rows}
    values, last = [], 0
    for at in range(axis.steps):
        last = known.get(at, last if level else 0)
        values.append(last)
    return values


def _path(values: Sequence[int], top: int) -> str:
    step = 1000 / max(1, len(values))
    points = ((f"{n * step:.1f}", f"{100 - 100 * value / top:.1f}") for n, value in enumerate(values))
    return "M0 100" + "".join(f"H{x}V{y}" for x, y in points) + "H1000"


def _moment(seconds: int, span: int) -> str:
    instant = datetime.fromtimestamp(seconds, UTC)
    if span < 300:
        return instant.strftime("%H:%M:%S")
    return instant.strftime("%H:%M" if span < 86_400 else "%d %b %H:%M" if span < 604_800 else "%Y-%m-%d")


def number(value: float) -> str:
    """A number with spaces between thousands."""
    return f"{value:,}".replace(",", "\N{NARROW NO-BREAK SPACE}")


def duration(seconds: float | None) -> str:
    """A span of time with its unit."""
    if seconds is None:
        return ""
    units: Iterable[tuple[float, str]] = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))
    for size, unit in units:
        if seconds >= size:
            value = seconds / size
            return f"{value:.0f} {unit}" if value >= 10 or value == int(value) else f"{value:.1f} {unit}"
    return f"{seconds * 1000:.0f} ms"


def _rules(dark: int) -> str:
    """The colours of lines, in light (0) or dark (1)."""
    return "".join(f"--c{n}:{pair[dark]};" for n, pair in enumerate(_COLOURS))


_LINES = "".join(f".line{n}{{--c:var(--c{n})}}" for n in range(len(_COLOURS)))
_STYLE = f"""
:root{{color-scheme:light dark;--ink:#1f2328;--soft:#57606a;--paper:#fff;--card:#f6f8fa;--edge:#d0d7de;
--fill:#dbe9fb;{_rules(0)}}}
@media(prefers-color-scheme:dark){{:root{{--ink:#e6edf3;--soft:#9da7b3;--paper:#0d1117;--card:#161b22;--edge:#30363d;
--fill:#1c3557;{_rules(1)}}}}}
{_LINES}
*{{box-sizing:border-box}}
body{{margin:0 auto;padding:1.5rem 1rem 3rem;max-width:68rem;background:var(--paper);color:var(--ink);
font:16px/1.5 system-ui,sans-serif}}
h1{{margin:0;font-size:1.6rem;overflow-wrap:anywhere}}h2{{margin:0 0 .25rem;font-size:1.15rem}}
p{{margin:.2rem 0 .8rem;color:var(--soft)}}.rest,.none{{margin:.5rem 0 0}}
section{{margin-top:1rem;padding:1rem;border:1px solid var(--edge);border-radius:.5rem}}
ul{{margin:0;padding:0;list-style:none}}
.tiles{{display:grid;grid-template-columns:repeat(auto-fit,minmax(9rem,1fr));gap:.75rem;margin-top:1rem}}
.tiles li{{padding:.75rem 1rem;border-radius:.5rem;background:var(--card);color:var(--soft)}}
.tiles b{{display:block;color:var(--ink);font-size:1.5rem}}
figure{{margin:0}}.plot{{display:flex;height:11rem;gap:.5rem}}
svg{{flex:1;min-width:0;height:100%;overflow:visible}}
path{{fill:none;vector-effect:non-scaling-stroke}}path.grid{{stroke:var(--edge);stroke-width:1}}
path[class^=line]{{stroke:var(--c);stroke-width:2}}
.y{{display:flex;flex-direction:column;justify-content:space-between;width:4rem;margin:-.6rem 0;text-align:right}}
.x{{display:flex;justify-content:space-between;margin:.6rem 0 .4rem 4.5rem}}
.x,.y,.keys span{{color:var(--soft);font-size:.8rem;font-variant-numeric:tabular-nums}}
.keys{{display:flex;flex-wrap:wrap;gap:.1rem 1.25rem}}.keys li{{overflow-wrap:anywhere}}
.keys i{{display:inline-block;width:1rem;height:.25rem;margin:0 .4rem .2rem 0;background:var(--c)}}
.scroll{{overflow-x:auto}}table{{width:100%;border-collapse:collapse}}
th,td{{padding:.3rem .6rem;border-bottom:1px solid var(--edge);text-align:left;vertical-align:top}}
td:not(.number){{min-width:10rem;overflow-wrap:anywhere}}.number{{white-space:nowrap}}
th{{color:var(--soft);font-weight:600}}
.number{{text-align:right;font-variant-numeric:tabular-nums}}
.bar{{background:linear-gradient(var(--fill),var(--fill)) left .3rem/var(--share) 1.5rem no-repeat}}
"""
