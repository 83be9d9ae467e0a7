"""The page of the documentation, written from the figures of a run::

python -m bench.page build/bench/full.json docs/bench.md
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from bench import envs, goals, ladder, report

HEAD = """\
<!-- Written by `python -m bench.page` from the figures of `make bench`; do not edit. -->

# Benchmark

mqredis beside its peers, by `make bench` ([how](performance.md#how-it-is-measured)). {about}

Made {made} on {cores} cores, {system}, load average before it {load}, other work during it
{others}; Redis {redis}, settings {settings}; {seconds:.0f} seconds.
{later}{quick}
"""

BUSY = """
**The machine was busy with other work during this run: its times mean little. Counts (round trips, commands, bytes,
script calls, memory) do not depend on that.**
"""

#: What others may use of a processor in a run whose times count: a system has always something to do.
QUIET = 0.1

LOSE = """\
## Where we lose

{lost}

What the limits are, and what was done about each, stands in [performance](performance.md#where-we-lose-and-why).
"""


def page(document: dict[str, Any], pictures: list[str], folder: str) -> str:
    """The text: goals first, then where we lose, pictures, tables."""
    settings = ", ".join(
        f"{name} {value!r}" for name, value in document["server"].items() if name != "version"
    )
    quick = "A quick run: few rounds, few peers, small sizes.\n" if document["quick"] else ""
    machine = document["machine"]
    others = machine.get("others")  # older figures do not tell
    later = document.get("later", [])
    every = (machine, *(one["machine"] for one in later))
    busy = BUSY if any((one.get("others") or 0.0) > QUIET for one in every) else ""
    head = HEAD.format(
        about=document["about"],
        made=document["made"],
        cores=machine["cores"],
        system=machine["system"],
        load=", ".join(f"{load:.2f}" for load in machine["load"]),
        others="not measured" if others is None else f"{others:.2f} of a processor",
        redis=document["server"]["version"],
        settings=settings,
        seconds=document["seconds"],
        later="".join(map(_later, later)),
        quick=quick + busy,
    )
    lost = "\n".join(goals.lost(document)) or "Every goal that was measured was met."
    parts = [head, "## Goals\n", goals.table(document), ""]
    parts.append(LOSE.format(lost=lost))
    if steps := ladder.table(document):
        parts += ["## From the floor to mqredis\n", steps, ""]
    if document["failed"]:
        parts += ["## Not measured\n", *(f"- {what}: {why}" for what, why in document["failed"].items()), ""]
    if pictures:
        parts.append("## Pictures\n")
        parts += [f"![{name.removesuffix('.svg')}]({folder}/{name})\n" for name in pictures]
    return "\n".join(parts) + "\n" + report.report(document)


def _later(one: dict[str, Any]) -> str:
    """A line about parts that were measured anew."""
    parts, others = ", ".join(f'"{part}"' for part in one["parts"]), one["machine"]["others"]
    return f"Measured again, {one['made']}: {parts}; other work during it {others:.2f} of a processor.\n"


def draw(results: Path, folder: Path) -> list[str]:
    """Draw the pictures; without matplotlib there are none."""
    try:
        envs.ensure(["plots"])
        command = [str(envs.python("plots")), "-m", "bench.plots", str(results), str(folder)]
        done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=envs.ROOT)
        names: list[str] = json.loads(done.stdout)
    except (subprocess.CalledProcessError, OSError, ValueError) as error:
        print(f"no pictures: {getattr(error, 'stderr', None) or error}", file=sys.stderr)
        return []
    return names


def write(results: Path, target: Path) -> None:
    """Write page and pictures."""
    document = json.loads(results.read_text())
    pictures = target.parent / target.stem
    names = draw(results, pictures)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(page(document, names, target.stem))


if __name__ == "__main__":
    write(Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve())
