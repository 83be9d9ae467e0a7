"""Write the blocking interface (``mqredis/client``) from the asyncio interface (``mqredis/asyncio``), and the blocking
modules of the drivers from those whose names end with ``_aio`` (DRIVERS).

``python -m tools.generate_blocking`` writes the files; with ``--check`` it writes nothing and names the files that
differ from what it would write. Each file is translated line by line: the rules below are applied in order, then ruff
sorts the imports, removes those that are no longer used, and formats the result.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tools.written_files import ROOT, write

SOURCE = ROOT / "mqredis" / "asyncio"
TARGET = ROOT / "mqredis" / "client"
# ``pending`` lets an open be awaited or entered, which a blocking call does not need.
ASYNCIO_ONLY = {"pending.py"}

# Modules of mqredis/drivers, without the ending ``_aio``.
DRIVERS = ("calls", "durable_calls", "net/owner", "waiting/waits")

DROPPED_LINES = re.compile(r" *@opening|from mqredis\.asyncio\.pending import opening")
RULES = [
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"\basync (def|with|for)\b", r"\1"),
        (r"\bawait ", ""),
        (r"\b__a(enter|exit|iter|next)__\b", r"__\1__"),
        (r"\bStopAsyncIteration\b", "StopIteration"),
        (r"\bAsyncIterator\b", "Iterator"),
        (r"\bCoroutine\[Any, Any, (\w+)\]", r"\1"),
        (r"\bAwaitable\[(\w+)\]", r"\1"),
        (r"\bmqredis\.asyncio\.connect\b", "mqredis.connect"),
        (r"\bmqredis\.asyncio\b", "mqredis.client"),
        (r"\bmqredis\.drivers\.aio\b", "mqredis.drivers.sync"),
        (r"\bAsync(Driver|Calls|Backend|Connection|Owner|WaiterRegistry|Waits)\b", r"\1"),
        (r"\b(calls|durable_calls|owner|pool|registry|waits)_aio\b", r"\1"),
        (r"\basyncio\.sleep\b", "time.sleep"),
        (r"\bin asyncio\b", "in threads"),
        (r"\brun_alone\b", "run"),
        (r"\bopen_async_backend\b", "open_backend"),
        (r"\bThe asyncio interface\b", "The blocking interface"),
        (r" for one event loop\b", "; thread-safe"),
    )
]
# The first line of each source.
NOTE = "# mqredis/{target} is generated from this file: run `make format` after a change.\n"
HEADER = "# Generated from mqredis/{source} by tools/generate_blocking.py. Do not edit: run `make format`.\n"


def translate(source: str, target: str, text: str) -> str:
    """The blocking form of the text of ``source``, not yet formatted. Both are files below mqredis.

    Raises ValueError if the text does not begin with the note that tells of its blocking form.
    """
    note = NOTE.format(target=target)
    if not text.startswith(note):
        raise ValueError(f"mqredis/{source} does not begin with the line {note!r}")
    lines = []
    for line in text.removeprefix(note).splitlines():
        if DROPPED_LINES.fullmatch(line):
            continue
        for pattern, replacement in RULES:
            line = pattern.sub(replacement, line)
        lines.append(line)
    return HEADER.format(source=source) + "\n".join(lines) + "\n"


def formatted(path: Path, text: str) -> str:
    """The text as ``make format`` leaves it at this path."""
    for command in (["check", "--select", "I,F401", "--fix", "--quiet"], ["format", "--quiet"]):
        ruff = [sys.executable, "-m", "ruff", *command, "--stdin-filename", str(path), "-"]
        text = subprocess.run(ruff, input=text, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return text


def generate() -> dict[Path, str]:
    """Every file that is generated, and its text."""
    pairs = {TARGET / path.name: path for path in SOURCE.glob("*.py") if path.name not in ASYNCIO_ONLY}
    drivers = ROOT / "mqredis" / "drivers"
    pairs |= {drivers / f"{name}.py": drivers / f"{name}_aio.py" for name in DRIVERS}
    package = ROOT / "mqredis"
    return {
        target: formatted(
            target,
            translate(str(source.relative_to(package)), str(target.relative_to(package)), source.read_text()),
        )
        for target, source in sorted(pairs.items())
    }


def main(arguments: list[str]) -> int:
    """Write the files. ``--check``: return 1 if any file differs, and name it."""
    files = generate()
    return write(files, arguments, superfluous=sorted(set(TARGET.glob("*.py")) - set(files)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
