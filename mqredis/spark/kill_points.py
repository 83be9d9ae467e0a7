"""Named places where the kill tests end the driver. Without ``MQREDIS_TEST_CRASH`` they do nothing.

The readers, the sink and the staging call it. The tests know the places by the lists in tests/spark/kills.py, and
docs/spark.md tells how many there are: tests/spark/test_documentation.py compares both.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

VARIABLE = "MQREDIS_TEST_CRASH"


def kill_point(name: str) -> None:
    """End the driver with ``kill -9`` at this place, once for each marker file.

    ``MQREDIS_TEST_CRASH=folder``: ``folder/next`` names the place, ``folder/pids`` the processes of the
    driver.
    """
    folder = os.environ.get(VARIABLE)
    if not folder:
        return
    plan = Path(folder) / "next"
    try:
        if plan.read_text().strip() != name:
            return
        plan.rename(Path(folder) / f"hit-{name}")  # only one of several workers gets through
    except FileNotFoundError:
        return
    for each in (Path(folder) / "pids").read_text().split():
        os.kill(int(each), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)
