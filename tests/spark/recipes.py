"""The recipes of docs/spark.md, taken from the page: functions for ``foreachBatch`` that go by the column batch_id."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

import mqredis

PAGE = Path(__file__).resolve().parents[2] / "docs" / "spark.md"
NAMES = ("write_parquet", "write_delta", "write_database", "write_queue")
# The queue that write_queue writes to.
OUTPUT = "out"


def recipe(name: str, place: Path, options: dict[str, str]) -> Callable[[Any, int], None]:
    """The function of this name from the Python blocks of the page. ``options``: those of a writer to a queue."""
    (block,) = [
        text for text in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S) if f"def {name}(" in text
    ]
    names: dict[str, Any] = {"table": str(place), "database": str(place), "options": options}
    exec(block, names)  # noqa: S102 - the page is ours
    found: Callable[[Any, int], None] = names[name]
    return found


def written(name: str, place: Path, qm: mqredis.QueueManager) -> list[int]:
    """The bodies that a recipe has written, as numbers, in order."""
    if name == "write_queue":
        with qm.open(OUTPUT) as queue:
            bodies: list[Any] = [message.body for message in queue.browse()]
    elif not place.exists():
        bodies = []
    elif name == "write_delta":
        from deltalake import DeltaTable

        bodies = DeltaTable(place).to_pyarrow_table()["body"].to_pylist()
    elif name == "write_database":
        with closing(sqlite3.connect(place)) as connection:
            bodies = [body for (body,) in connection.execute("SELECT body FROM orders")]
    else:
        # Files whose names begin with a dot or an underscore belong to jobs that were not finished.
        bodies = pq.read_table(place)["body"].to_pylist()
    return sorted(int(bytes(body)) for body in bodies)
