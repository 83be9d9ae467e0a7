"""How long ``import mqredis`` takes, as a multiple of ``import redis``: ``python -m bench.startup [--rounds N]``.

Each import runs in a new process, which measures its own CPU time. The two take turns, and the least time of each
counts. The ratio depends on what else is installed, since redis imports optional packages: measure it in an
environment that has mqredis and nothing else. The goal is 1.8; redis and pydantic together take 1.4.
"""

from __future__ import annotations

import argparse
import compileall
import os
import subprocess
import sys
from pathlib import Path

GOAL = 1.8
IMPORTS = ("redis", "redis, pydantic.main", "mqredis", "mqredis.asyncio")


def cpu_seconds(modules: str) -> float:
    """The CPU time that a new process needs to import these modules."""
    code = f"import time\nbegan = time.process_time()\nimport {modules}\nprint(time.process_time() - began)"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, "-c", code]
    return float(subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout)


def main() -> None:
    """Measure, and print a line for each import."""
    parser = argparse.ArgumentParser(prog="python -m bench.startup")
    parser.add_argument("--rounds", type=int, default=15)
    rounds: int = parser.parse_args().rounds
    compileall.compile_dir(Path(__file__).parents[1] / "mqredis", quiet=1)
    times = {modules: float("inf") for modules in IMPORTS}
    for _ in range(rounds):
        for modules in IMPORTS:
            times[modules] = min(times[modules], cpu_seconds(modules))
    for modules, seconds in times.items():
        print(
            f"import {modules:22} {seconds * 1000:6.0f} ms {seconds / times['redis']:5.2f} times import redis"
        )
    ratio = times["mqredis"] / times["redis"]
    print(f"goal {GOAL}: {'met' if ratio <= GOAL else 'missed'}")


if __name__ == "__main__":
    main()
