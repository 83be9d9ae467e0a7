"""Settings of small sessions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

R = TypeVar("R")

#: What makes a small session start fast: one JIT, one collector, no UI, few shuffle partitions.
CONFIG = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto",
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.log.level": "ERROR",
}

#: For rows that are few: compiling a plan costs more than running it.
SMALL = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.driver.memory": "1g",
}


def patiently(work: Callable[[], R]) -> R:
    """Do it again where Spark gave up on a Python process of its own that did not start within ten seconds, as happens
    on a machine that is busy with other things. Nothing of ours has run then; a query goes on from its checkpoint."""
    for _ in range(5):
        try:
            return work()
        except Exception as error:
            if "failed to connect back" not in str(error):
                raise
    return work()
