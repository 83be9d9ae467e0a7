"""A Redis of the benchmark's own, and what it says about the work it did.

Each program of this folder runs on one, but ``spark``, ``instructions`` and ``startup``. It writes nothing to disk
while it runs, unless its options say so: the table compares brokers, not disks.
"""

from __future__ import annotations

import os
from collections.abc import Set
from pathlib import Path
from typing import Any

from tests.support.server import RedisServer


class Server(RedisServer):
    """One server on a port of 127.0.0.1; ``with`` starts and stops it."""

    def __init__(self, options: dict[str, str] | None = None) -> None:
        super().__init__(tcp=True, options=options)
        self.raw = self.client(decode_responses=True)

    @property
    def url(self) -> str:
        """URL of database 0 over TCP."""
        return self.tcp_url

    def pin(self, cores: Set[int]) -> None:
        """Keep the server on these cores, where the system can."""
        pin(self.pid, cores)

    def flush(self) -> None:
        """Empty the server and its statistics."""
        self.raw.flushall()
        self.raw.config_resetstat()

    def cpu(self) -> float:
        """The processor time that it has used, user and system, in seconds."""
        used: dict[str, Any] = self.raw.info("cpu")
        return float(used["used_cpu_user"] + used["used_cpu_sys"])

    def memory(self) -> int:
        """The bytes of memory that it uses."""
        return int(self.raw.info("memory")["used_memory"])

    def script_calls(self) -> int:
        """Scripts run since the last reset."""
        stats: dict[str, Any] = self.raw.info("commandstats")
        names = ("cmdstat_evalsha", "cmdstat_eval", "cmdstat_fcall")
        return sum(int(stats[name]["calls"]) for name in names if name in stats)


def pin(process: int, cores: Set[int]) -> None:
    """Keep all threads of a process on these cores, where the system can."""
    if hasattr(os, "sched_setaffinity"):
        for thread in Path(f"/proc/{process}/task").iterdir():
            os.sched_setaffinity(int(thread.name), cores)
