"""docs/reliability.md out of build/reliability.jsonl: ``python -m tools.reliability_doc``; no figure by hand."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tests.reliability import catalog
from tests.reliability.bar import BARS, OUTPUT

TARGET = Path("docs/reliability.md")

HEAD = """# Reliability: the last run

<!-- Written by `python -m tools.reliability_doc` from the lines of the last run. Do not edit. -->

`make reliability` runs every bar at a tenth of its size, `make reliability-full` at full size. Each bar has a seed that
decides all its random choices: `python -m tests.reliability --seed SEED --scale SCALE --only BAR` repeats it. What is
promised, and what is not, stands in [guarantees](guarantees.md).

| bar | what must hold | counts | seed | scale | seconds | verdict |
|---|---|---|---|---|---|---|
"""


def row(line: dict[str, Any]) -> str:
    """One bar as a row of the table."""
    known = BARS.get(line["bar"])
    counts = ", ".join(
        f"{name}: {value}" if isinstance(value, str) else f"{value:,} {name}"
        for name, value in line["counts"].items()
    )
    cells = (
        line["bar"],
        known.promise if known else "",
        counts,
        line["seed"],
        line["scale"],
        line["seconds"],
    )
    return "| " + " | ".join(map(str, cells)) + f" | {line['verdict']} |\n"


def main() -> int:
    catalog.load(spark=True)
    lines = {line["bar"]: line for line in map(json.loads, OUTPUT.read_text().splitlines())}
    order = [name for name in BARS if name in lines]
    TARGET.write_text(HEAD + "".join(row(lines[name]) for name in order))
    print(f"{TARGET}: {len(order)} bars")
    return 0


if __name__ == "__main__":
    sys.exit(main())
