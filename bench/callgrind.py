"""A process under callgrind, which counts instructions only while counting is switched on, without system calls.

``instructions`` counts those of a server with it.
"""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

_TOTAL = re.compile(r"^(?:summary|totals): (\d+)", re.MULTILINE)


class Counted:
    """The process. ``poke`` makes it run for a moment: callgrind acts only then."""

    def __init__(self, command: list[str], folder: Path) -> None:
        self.folder = folder
        callgrind = ["valgrind", "--tool=callgrind", "--instr-atstart=no"]
        self.process = subprocess.Popen(
            [*callgrind, f"--callgrind-out-file={self.folder}/out", *command],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def until(self, condition: Callable[[], object]) -> None:
        """Wait for a condition, a minute at most."""
        end = time.monotonic() + 60
        while not condition():
            if time.monotonic() > end:
                raise TimeoutError("callgrind does not answer")
            time.sleep(0.05)

    def _control(self, *args: str) -> None:
        subprocess.run(
            ["callgrind_control", *args, str(self.process.pid)],
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def instructions(self, work: Callable[[], object], poke: Callable[[], object]) -> int:
        """The instructions of the process while ``work`` runs."""
        self._control("-i", "on")
        self._control("-z")
        work()
        seen = set(self.folder.glob("out*"))
        self._control("--dump")
        self._control("-i", "off")

        def total() -> int:
            poke()
            for path in set(self.folder.glob("out*")) - seen:
                if found := _TOTAL.search(path.read_text()):
                    return int(found[1])
            return 0

        self.until(total)
        return total()
