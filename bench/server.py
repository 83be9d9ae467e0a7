"""A Redis of the benchmark's own, and what it says about the work it did.

Each program of this folder runs on one, but ``spark``, ``instructions`` and ``startup``.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Set
from dataclasses import dataclass, fields
from pathlib import Path
from types import TracebackType

# For all peers the server writes nothing to disk while it runs: the table compares brokers, not disks. Without a
# save point mqredis would refuse recoverable messages.
OPTIONS = {
    "save": "86400 1",
    "appendonly": "no",
    "maxmemory-policy": "noeviction",
    "notify-keyspace-events": "Ks",
    "bind": "127.0.0.1",
}


def _free() -> int:
    """A free port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Server:
    """One redis-server on a port of 127.0.0.1; ``with`` starts and stops it."""

    def __init__(self, options: dict[str, str] | None = None) -> None:
        self.options = options or {}
        self.binary = shutil.which("redis-server") or shutil.which("valkey-server")
        if self.binary is None:
            raise SystemExit("no redis-server and no valkey-server on PATH")
        self.directory = tempfile.TemporaryDirectory(prefix="mqredis-bench-")
        self.port = _free()
        self.url = f"redis://127.0.0.1:{self.port}/0"

    def __enter__(self) -> Server:
        options = {**OPTIONS, **self.options, "port": str(self.port), "dir": self.directory.name}
        arguments = [part for name, value in options.items() for part in (f"--{name}", value)]
        self.process = subprocess.Popen([str(self.binary), *arguments], stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + 10
        while True:
            try:
                self.wire = Wire(self.port)
                return self
            except OSError:
                if time.monotonic() > deadline or self.process.poll() is not None:
                    raise
                time.sleep(0.01)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.wire.close()
        self.process.terminate()
        self.process.wait()
        self.directory.cleanup()

    def pin(self, cores: Set[int]) -> None:
        """Keep the server on these cores, where the system can."""
        pin(self.process.pid, cores)


def pin(process: int, cores: Set[int]) -> None:
    """Keep all threads of a process on these cores, where the system can."""
    if hasattr(os, "sched_setaffinity"):
        for thread in Path(f"/proc/{process}/task").iterdir():
            os.sched_setaffinity(int(thread.name), cores)


@dataclass(frozen=True)
class Counters:
    """Counters of INFO, or the difference of two readings."""

    cpu: float  # seconds, user and system
    memory: int  # bytes

    def __sub__(self, other: Counters) -> Counters:
        return Counters(*(getattr(self, f.name) - getattr(other, f.name) for f in fields(self)))


class Wire:
    """A connection with no client library, so that it runs beside every version of redis-py."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self.file = self.socket.makefile("rb")

    def close(self) -> None:
        """Close it."""
        self.file.close()
        self.socket.close()

    def ask(self, *words: str) -> str:
        """Send one command that is answered with a line or a text."""
        data = f"*{len(words)}\r\n" + "".join(f"${len(word)}\r\n{word}\r\n" for word in words)
        self.socket.sendall(data.encode("ascii"))
        line = self.file.readline()
        if line[:1] == b"-":
            raise RuntimeError(line.decode().strip())
        return self.file.read(int(line[1:]) + 2).decode() if line[:1] == b"$" else line.decode()[1:].strip()

    def flush(self) -> None:
        """Empty the server and its statistics."""
        self.ask("FLUSHALL", "SYNC")
        self.ask("CONFIG", "RESETSTAT")

    def info(self, section: str = "everything") -> dict[str, str]:
        """The fields of INFO."""
        rows = (line.partition(":") for line in self.ask("INFO", section).splitlines())
        return {name: value for name, colon, value in rows if colon}

    def counters(self) -> Counters:
        """The counters now."""
        info = self.info()
        cpu = float(info["used_cpu_user"]) + float(info["used_cpu_sys"])
        return Counters(cpu, int(info["used_memory"]))

    def script_calls(self) -> int:
        """Scripts run since the last reset."""
        stats = self.info("commandstats")
        rows = [stats[name] for name in ("cmdstat_evalsha", "cmdstat_eval", "cmdstat_fcall") if name in stats]
        return sum(int(dict(pair.split("=", 1) for pair in row.split(","))["calls"]) for row in rows)
