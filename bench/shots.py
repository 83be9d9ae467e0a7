"""What this server does for the same commands when nothing stands in their way: redis-benchmark fires the floor's."""

from __future__ import annotations

import itertools
import re
import shutil
import subprocess
import time
from typing import Any

from bench.adapters import floor as adapter
from bench.runner import room, tell, turned
from bench.server import Server

Row = dict[str, Any]
CLIENTS = 16
#: Requests in one write of a client.
PIPELINES = (1, 16)
_RATE = re.compile(r"([\d.]+) requests per second")


def shots(server: Server, sizes: dict[int, int], rounds: int, seconds: float) -> list[Row]:
    """Whole lives a second, for each size of a batch with so many calls of each kind, plain and pipelined; in each
    round all of them."""
    binary = shutil.which("redis-benchmark") or shutil.which("valkey-benchmark")
    if binary is None:
        return []
    rows: list[Row] = []
    kinds, start = list(itertools.product(sizes.items(), PIPELINES)), time.monotonic()
    for number in range(rounds):
        if not room(time.monotonic() - start, number, seconds):
            break
        tell(f"redis-benchmark: round {number + 1} of {rounds}")
        for (size, calls), pipeline in turned(kinds, number):
            server.wire.flush()
            adapter.prepare(server.url)
            each = [
                _rate([binary, "-p", str(server.port), "-P", str(pipeline), "-n", str(calls)], words) * size
                for words in (adapter.sending(0, size), adapter.receiving(size))
            ]
            row = {"round": number, "peer": "redis-benchmark", "size": size, "pipeline": pipeline}
            rows.append({**row, "lives": 1 / sum(1 / rate for rate in each)})
    return rows


def _rate(options: list[str], words: list[str | bytes]) -> float:
    """Requests a second."""
    # A command line holds no zero.
    texts = (word if isinstance(word, str) else word.replace(b"\0", b"\n").decode() for word in words)
    command = [*options, "-c", str(CLIENTS), "-q", *texts]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return float(_RATE.findall(done.stdout)[-1])
