"""Tables of what is in the queues and has passed through them, and a report as one HTML page. Removes nothing.

``mqredis pipeline analyse`` and ``mqredis.spark.pipelines`` call it. The names of the tables are returned to users
(docs/pipelines.md). One persisted read serves all queries, so the tables agree with each other.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mqredis import keys

# Columns that the analysis reads: no bodies.
COLUMNS = (
    "queue STRING, state STRING, arrived TIMESTAMP, sent TIMESTAMP, delivery_count INT, `class` INT, reason STRING, "
    "original_queue STRING"
)
# Widths of a step of the time axis in seconds. The first one is taken of which so many steps cover the time.
STEPS = (1, 5, 15, 60, 300, 900, 3_600, 21_600, 86_400, 604_800, 2_592_000, 31_536_000)
MOST_STEPS = 96

_PERCENTILES = ", ".join(
    f"round(percentile_approx(s, {p}), 3) AS {name}_seconds"
    for p, name in ((0.5, "p50"), (0.9, "p90"), (0.99, "p99"), (1.0, "max"))
)
# Seconds between the first and the last time of the messages.
_SPAN = "SELECT unix_seconds(max(arrived)) - unix_seconds(min(least(arrived, sent))) AS seconds FROM {m}"
# report.page shows each table by its name and the names of its columns, so a new one needs a section there.
# m: the messages. A copy in a journal or a dead-letter queue tells when its message came (sent) and left (arrived).
_QUERIES = {
    "queues": """SELECT queue, count(*) AS messages, count_if(state = 'available') AS available,
        count_if(state = 'locked') AS locked, count_if(state = 'delayed') AS delayed,
        round({now} - min(unix_micros(arrived)) / 1e6, 3) AS oldest_seconds
        FROM {m} GROUP BY queue ORDER BY messages DESC, queue""",
    "arrivals": """SELECT coalesce(original_queue, queue) AS queue, {step} AS time, count(*) AS messages
        FROM (SELECT *, if(original_queue IS NULL, arrived, sent) AS at FROM {m}) GROUP BY 1, 2 ORDER BY 2, 1""",
    "departures": """SELECT original_queue AS queue, {step} AS time, count(*) AS messages
        FROM (SELECT *, arrived AS at FROM {m} WHERE original_queue IS NOT NULL) GROUP BY 1, 2 ORDER BY 2, 1""",
    "latency": """SELECT original_queue AS queue, count(*) AS messages, {percentiles}
        FROM (SELECT original_queue, (unix_micros(arrived) - unix_micros(sent)) / 1e6 AS s FROM {m}
        WHERE original_queue IS NOT NULL) GROUP BY 1 ORDER BY p99_seconds DESC, 1""",
    # A copy in a journal was delivered once at least: that is why it is there.
    "redeliveries": """SELECT queue, delivery_count AS deliveries, count(*) AS messages FROM {m}
        WHERE delivery_count > if(queue LIKE '%;journal', 1, 0) GROUP BY 1, 2 ORDER BY messages DESC, 1, 2""",
    "dead letters": """SELECT coalesce(nullif(reason, ''), 'class ' || hex(class)) AS reason,
        coalesce(original_queue, queue) AS queue, queue AS found_in, count(*) AS messages,
        max(delivery_count) AS most_deliveries FROM {m}
        WHERE class <> 0 OR queue LIKE '%;poison' OR queue LIKE '%;dead%'
        GROUP BY 1, 2, 3 ORDER BY messages DESC, 1, 2""",
}


def analyse(
    spark: Any,
    out: str | Path | None = None,
    *,
    url: str,
    manager: str = "default",
    queues: Sequence[str] = (),
) -> dict[str, list[dict[str, Any]]]:
    """Queues by size, arrivals, departures and depth over time, latency, redeliveries and dead letters.

    Departures, latency and the depth of the past are those of messages of which a copy was kept: in a journal or a
    dead-letter queue.

    :param out: a folder for the report, ``index.html``; None: only the tables.
    :param queues: default: all queues and subqueues, but for the broker's log of actions.
    :return: tables by name; times of a table are in seconds since 1970, and spans of time in seconds.
    """
    from mqredis.spark.connection import backlog, manager_of
    from mqredis.spark.pipelines.report import write_page

    client = manager_of(url, manager)
    wanted = list(queues) or [info.name for info in client.queues() if info.name != keys.ACTIONS]
    tables: dict[str, list[dict[str, Any]]] = {name: [] for name in (*_QUERIES, "depth")}
    width = STEPS[0]
    if wanted:
        options = {"url": url, "queueManager": manager, "queues": ",".join(wanted)}
        view = f"mqredis_{uuid.uuid4().hex}"  # several analyses may run in one session
        frame = spark.read.format("mqredis").schema(COLUMNS).options(**options).load().persist()
        try:
            frame.createOrReplaceTempView(view)
            (span,) = spark.sql(_SPAN.format(m=view)).collect()
            width = step_width(span.seconds or 0)
            now = backlog(client, wanted[0]).now_ms / 1000  # by the clock that set the times of arrival
            step = f"floor(unix_micros(at) / 1e6 / {width}) * {width}"
            for name, query in _QUERIES.items():
                text = query.format(m=view, now=now, step=step, percentiles=_PERCENTILES)
                tables[name] = [row.asDict() for row in spark.sql(text).collect()]
        finally:
            spark.catalog.dropTempView(view)
            frame.unpersist()
    tables["depth"] = depth(tables["arrivals"], tables["departures"])
    if out is not None:
        write_page(Path(out), manager, tables, width)
    return tables


def step_width(seconds: int) -> int:
    """The width of a step of the time axis that covers so many seconds."""
    return next((width for width in STEPS if seconds < width * MOST_STEPS), STEPS[-1])


def depth(arrivals: Sequence[dict[str, Any]], departures: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Messages in each queue at the end of each step in which one came or left."""
    changes: dict[tuple[str, int], int] = {}
    for sign, rows in ((1, arrivals), (-1, departures)):
        for row in rows:
            place = (row["queue"], row["time"])
            changes[place] = changes.get(place, 0) + sign * row["messages"]
    found, level = [], dict.fromkeys((queue for queue, _ in changes), 0)
    for queue, time in sorted(changes, key=lambda place: (place[1], place[0])):
        level[queue] += changes[queue, time]
        found.append({"queue": queue, "time": time, "messages": level[queue]})
    return found
