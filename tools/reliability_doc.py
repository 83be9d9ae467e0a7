"""Write docs/reliability.md from the output of the checks: ``python -m tools.reliability_doc [FILE ...]``.

``make reliability`` and ``make reliability-full`` call it. FILE: lines of JSON (tests/reliability/check.py),
build/reliability.jsonl if none is named. The last line of each check counts; a check of which they
have none keeps the row that the page has.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.reliability import catalog
from tests.reliability.check import CHECKS, OUTPUT, merged

TARGET = Path("docs/reliability.md")

HEAD = """# Reliability: the last runs

<!-- Written by `python -m tools.reliability_doc` from the last line of each check. Do not edit. -->

`make reliability` runs every check at a tenth of its size, `make reliability-full` at full size. Each check has a seed
that decides all its random choices: `python -m tests.reliability --seed SEED --scale SCALE --only CHECK` repeats it.
The column "commit" says what ran, with a + if files differed from it. What is promised, and what is not, stands in
[guarantees](guarantees.md).

| check | what must hold | counts | commit | seed | scale | seconds | verdict |
|---|---|---|---|---|---|---|---|
"""


def row(line: dict[str, Any]) -> str:
    """One check as a row of the table."""
    counts = ", ".join(
        f"{name}: {value}" if isinstance(value, str) else f"{value:,} {name}"
        for name, value in line["counts"].items()
    )
    cells = (
        line["check"],
        line.get("promise") or CHECKS[line["check"]].promise,
        counts,
        line.get("commit", "unknown"),
        line["seed"],
        line["scale"],
        line["seconds"],
    )
    return "| " + " | ".join(map(str, cells)) + f" | {line['verdict']} |\n"


def rows(text: str) -> dict[str, str]:
    """The rows of the checks on a page."""
    _, _, table = text.partition("|---|---|---|---|---|---|---|---|\n")
    return {line.split(" | ")[0].removeprefix("| "): line + "\n" for line in table.splitlines()}


def page(paths: Iterable[Path], before: str = "") -> str:
    """The text of the page with new rows, and with the rows of ``page`` for checks that were not run."""
    lines = merged(text for path in paths for text in path.read_text().splitlines())
    told = rows(before) | {name: row(line) for name, line in lines.items()}
    order = [*CHECKS, *told]  # those of Spark are unknown where there is no Java
    return HEAD + "".join(told[name] for name in dict.fromkeys(order) if name in told)


def main() -> int:
    catalog.load(spark=True)
    paths = [Path(name) for name in sys.argv[1:]] or [OUTPUT]
    TARGET.write_text(page(paths, TARGET.read_text() if TARGET.exists() else ""))
    print(f"{TARGET} is written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
