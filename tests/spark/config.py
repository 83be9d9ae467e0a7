"""Settings of small sessions."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TypeVar

R = TypeVar("R")

# What makes a small session start fast: one JIT, one collector, classes taken as they are, no UI, few shuffle
# partitions.
CONFIG = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto "
    "-XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote",
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.log.level": "ERROR",
}

# For rows that are few: compiling a plan costs more than running it.
SMALL = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.driver.memory": "1g",
}


# For the little JVM that finds out how to start the real one.
LAUNCHER = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto"

_folders: list[tempfile.TemporaryDirectory[str]] = []  # removed when this process ends


@cache
def spark_home() -> str:
    """PySpark's own folder without the zip of its sources, for SPARK_HOME. Spark puts that zip first on the path of its
    Python processes, and each of them would compile all that it imports; so they find what is installed."""
    package = find_spec("pyspark")
    assert package is not None
    assert package.origin is not None
    _folders.append(tempfile.TemporaryDirectory(prefix="spark-home-"))
    folder = Path(_folders[-1].name)
    for each in Path(package.origin).parent.iterdir():
        if each.name != "python":
            (folder / each.name).symlink_to(each)
    return str(folder)


def patiently(work: Callable[[], R]) -> R:
    """Repeat the work if Spark gave up on a Python process that did not start within ten seconds, as happens
    on a machine that is busy with other things. Nothing of ours has run then; a query goes on from its checkpoint."""
    for _ in range(5):
        try:
            return work()
        except Exception as error:
            if "failed to connect back" not in str(error):
                raise
    return work()
