"""All reliability checks, in the order in which they run."""

from __future__ import annotations

import shutil
import sys
from importlib import import_module
from importlib.util import find_spec

from tests.support.preload import lacking

MODULES = (
    "schedules_check",
    "kills_check",
    "everysec_check",
    "power_check",
    "clock_check",
    "promotion_check",
    "sentinel_check",
    "resharding_check",
    "cuts_check",
    "waits_check",
    "wakeups_check",
    "server_check",
    "soak_check",
    "replies_check",
    "doctor_check",
    "mutation_check",
)

# Those that need a preloaded library, with the names of their checks.
PRELOADED = {"power_check": "power cut", "clock_check": "clock"}
# Checks that cannot run here, and why.
ABSENT: dict[str, str] = {}


def load(spark: bool = False) -> None:
    """Register every check; ``spark``: also those that start Spark, if it is there. They take minutes at any size."""
    if reason := lacking():
        ABSENT.update(dict.fromkeys(PRELOADED.values(), reason))
        print(reason, file=sys.stderr)
    for name in MODULES:
        if name in PRELOADED and ABSENT:
            continue
        import_module(f"tests.reliability.{name}")
    if spark and find_spec("pyspark") and shutil.which("java"):
        import_module("tests.reliability.spark_check")
    elif spark:
        print("No Java or no PySpark here: the checks of Spark do not run.", file=sys.stderr)
