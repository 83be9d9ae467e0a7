"""``python -m tests.reliability``: run the checks, one line of JSON each, added to build/reliability.jsonl.

--scale 0.1        share of the full size
--seed 7           what decides every random choice; printed with each check
--only NAME ...    these checks alone
--schedule S LINE  run one line of the schedules check again, on scenario S
"""

from __future__ import annotations

import argparse
import secrets
import sys

from tests.reliability import catalog
from tests.reliability.check import CHECKS, play
from tests.reliability.engine import Engine
from tests.reliability.scenarios import SCENARIOS
from tests.reliability.schedule import parse
from tests.reliability.wire import Wire
from tests.support.server import RedisServer


def again(name: str, line: str) -> int:
    """Run one schedule."""
    scenario = next(scenario for scenario in SCENARIOS if scenario.name == name)
    with RedisServer() as server:
        Engine(Wire(server)).run(scenario, [parse(line)])
    print("nothing was broken")
    return 0


def main() -> int:
    catalog.load(spark=True)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--scale", type=float, default=0.1)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--only", nargs="*", choices=sorted(CHECKS), default=None)
    parser.add_argument("--schedule", nargs=2)
    options = parser.parse_args()
    if options.schedule:
        return again(*options.schedule)
    seed = secrets.randbelow(1 << 31) if options.seed is None else options.seed
    lines = [play(CHECKS[name], seed, options.scale) for name in options.only or CHECKS]
    failed = [str(line["check"]) for line in lines if line["verdict"] != "pass"]
    if failed:
        names = " ".join(failed)
        print(
            f"FAILED: {names}; again: --seed {seed} --scale {options.scale} --only {names}", file=sys.stderr
        )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
