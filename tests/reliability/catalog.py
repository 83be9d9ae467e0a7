"""The bars, in the order in which they run."""

from __future__ import annotations

import shutil
import sys
from importlib import import_module
from importlib.util import find_spec

from tests.support.preload import lacking

MODULES = (
    "schedules_bar",
    "kills_bar",
    "everysec_bar",
    "power_bar",
    "clock_bar",
    "promotion_bar",
    "sentinel_bar",
    "resharding_bar",
    "cuts_bar",
    "waits_bar",
    "wakeups_bar",
    "server_bar",
    "soak_bar",
    "replies_bar",
    "doctor_bar",
    "mutation_bar",
)

#: Those that need a preloaded library, with the names of their checks.
PRELOADED = {"power_bar": "power cut", "clock_bar": "clock"}
#: Bars that cannot run here, and why.
ABSENT: dict[str, str] = {}


def load(spark: bool = False) -> None:
    """Register every bar; ``spark``: also those that start Spark, if it is there. They take minutes at any size."""
    if reason := lacking():
        ABSENT.update(dict.fromkeys(PRELOADED.values(), reason))
        print(reason, file=sys.stderr)
    for name in MODULES:
        if name in PRELOADED and ABSENT:
            continue
        import_module(f"tests.reliability.{name}")
    if spark and find_spec("pyspark") and shutil.which("java"):
        import_module("tests.reliability.spark_bar")
    elif spark:
        print("No Java or no PySpark here: the bars of Spark do not run.", file=sys.stderr)
