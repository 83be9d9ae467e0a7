"""What is in the queues: tables, plots and one HTML page. Takes nothing."""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

#: Columns that the analysis reads: no bodies.
COLUMNS = (
    "queue STRING, state STRING, priority INT, arrived TIMESTAMP, sent TIMESTAMP, delivery_count INT, "
    "abort_count INT, `class` INT, reason STRING, original_queue STRING"
)
_QUERIES = {
    "depth": "SELECT queue, state, count(*) AS messages FROM m GROUP BY 1, 2 ORDER BY 1, 2",
    "age": """SELECT queue, count(*) AS messages, {age} FROM (SELECT queue,
        unix_micros(current_timestamp()) / 1e6 - unix_micros(arrived) / 1e6 AS s FROM m) GROUP BY 1 ORDER BY 1""",
    "throughput": """SELECT queue, date_trunc('minute', arrived) AS minute, count(*) AS arrivals FROM m
        GROUP BY 1, 2 ORDER BY 1, 2""",
    # A copy in a journal was delivered once at least: that is why it is there.
    "redeliveries": """SELECT queue, delivery_count, count(*) AS messages FROM m
        WHERE delivery_count > CASE WHEN queue LIKE '%;journal' THEN 1 ELSE 0 END GROUP BY 1, 2 ORDER BY 1, 2""",
    "time in queue": """SELECT queue, count(*) AS messages, {age} FROM (SELECT queue,
        (unix_micros(arrived) - unix_micros(sent)) / 1e6 AS s FROM m WHERE original_queue IS NOT NULL)
        GROUP BY 1 ORDER BY 1""",
    "poison": """SELECT original_queue, queue, coalesce(reason, '') AS reason, hex(class) AS class,
        count(*) AS messages, max(delivery_count) AS most_deliveries FROM m
        WHERE class <> 0 OR queue LIKE '%;poison' OR queue LIKE '%;dead%' GROUP BY 1, 2, 3, 4 ORDER BY messages DESC""",
}
_AGE = ", ".join(
    f"round(percentile_approx(s, {p}), 3) AS p{name}_seconds"
    for p, name in ((0.5, "50"), (0.9, "90"), (0.99, "99"), (1.0, "100"))
)


def analyse(
    spark: Any,
    out: str | Path | None = None,
    *,
    url: str,
    manager: str = "default",
    queues: Sequence[str] = (),
) -> dict[str, list[dict[str, Any]]]:
    """Depth, age, throughput, redeliveries, time in queue and poison messages, as tables of rows.

    :param out: a folder for ``<table>.png`` (with matplotlib) and ``index.html``; None: only the tables.
    :param queues: default: all queues and subqueues.
    """
    from mqredis.spark.connection import manager_of

    wanted = list(queues) or [info.name for info in manager_of(url, manager).queues()]
    if not wanted:
        return {name: [] for name in _QUERIES}
    options = {"url": url, "queueManager": manager, "queues": ",".join(wanted)}
    frame = spark.read.format("mqredis").schema(COLUMNS).options(**options).load().persist()
    try:
        tables = {}
        frame.createOrReplaceTempView("mqredis_analysed")
        for name, query in _QUERIES.items():
            text = query.format(age=_AGE).replace("FROM m", "FROM mqredis_analysed")
            tables[name] = [row.asDict() for row in spark.sql(text).collect()]
        spark.catalog.dropTempView("mqredis_analysed")
    finally:
        frame.unpersist()
    if out is not None:
        write_page(Path(out), manager, tables)
    return tables


def write_page(out: Path, manager: str, tables: dict[str, list[dict[str, Any]]]) -> None:
    """One HTML page with everything in it, and the plots as files beside it."""
    out.mkdir(parents=True, exist_ok=True)
    parts = [
        "<!doctype html><meta charset=utf-8>",
        f"<title>mqredis {html.escape(manager)}</title>",
        _STYLE,
        f"<h1>Queue manager {html.escape(manager)}</h1>",
    ]
    for name, rows in tables.items():
        parts.append(f"<h2>{name.capitalize()}</h2>")
        image = plot(name, rows)
        if image:
            (out / f"{name.replace(' ', '-')}.png").write_bytes(image)
            parts.append(f'<img alt="{name}" src="data:image/png;base64,{base64.b64encode(image).decode()}">')
        parts.append(_table(rows))
    (out / "index.html").write_text("\n".join(parts), encoding="utf-8")


def _table(rows: list[dict[str, Any]]) -> str:
    if not rows:
        return "<p>Nothing.</p>"
    head = "".join(f"<th>{html.escape(name)}</th>" for name in rows[0])
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(str(value))}</td>" for value in row.values()) + "</tr>"
        for row in rows[:200]
    )
    return f"<table><tr>{head}</tr>{body}</table>"


_STYLE = (
    "<style>body{font:15px sans-serif;margin:2em}td,th{padding:.2em .8em;text-align:left}"
    "table{border-collapse:collapse}tr:nth-child(even){background:#f2f2f2}</style>"
)
#: What is drawn: the label, and the number of each bar.
_PLOTS = {
    "depth": (("queue", "state"), "messages"),
    "age": (("queue",), "p90_seconds"),
    "throughput": (("queue", "minute"), "arrivals"),
    "redeliveries": (("queue", "delivery_count"), "messages"),
    "time in queue": (("queue",), "p90_seconds"),
    "poison": (("original_queue", "reason"), "messages"),
}


def plot(name: str, rows: list[dict[str, Any]]) -> bytes:
    """A bar for each of the first 40 rows, as PNG; empty without rows or matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return b""
    if not rows:
        return b""
    labels, value = _PLOTS[name]
    shown = rows[:40]
    figure = Figure(figsize=(9, 0.35 * len(shown) + 1.2), layout="constrained")
    axes = figure.subplots()
    axes.barh(
        [" ".join(str(row[label]) for label in labels) for row in shown], [float(row[value]) for row in shown]
    )
    axes.invert_yaxis()
    axes.set_xlabel(value.replace("_", " "))
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=90)
    return buffer.getvalue()
