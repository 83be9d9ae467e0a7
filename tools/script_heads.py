"""Read the heads of the entry scripts in ``lua/``.

``script_docs`` prints them, and tests compare them with the calls (``tests/contract/test_headers.py``,
``test_arguments.py``).
"""

from __future__ import annotations

import re
from typing import NamedTuple

from mqredis import scripts

_ROW = re.compile(r"^-- (CALLERS|KEYS|QUEUE\[\d+\+?\]|ARGV\[\d+[+?]?\]|RETURNS|FLAGS)\s*(.*)$")


class Head(NamedTuple):
    """What the first comment of an entry script declares."""

    about: list[str]
    """The lines that say what it does."""
    rows: list[tuple[str, str]]
    """The rows behind them, each with its kind, such as ``ARGV[3]``."""

    def _of(self, kind: str) -> list[tuple[str, str]]:
        return [(name, text) for name, text in self.rows if name.startswith(kind)]

    @property
    def keys(self) -> str:
        """ "message" or "admin": which of the manager's keys come first."""
        return self._of("KEYS")[0][1].split()[0]

    @property
    def queues(self) -> list[str]:
        """The kinds of its queues: ``QUEUE[2+]`` stands for any number."""
        return [name for name, _ in self._of("QUEUE")]

    @property
    def argv(self) -> list[tuple[str, str]]:
        """Name and description of the arguments from ARGV[3] on. "+" behind a name: any number, "?": a call may end
        before it."""
        found = []
        for kind, text in self._of("ARGV"):
            name, _, rest = text.partition(" ")
            found.append((name + kind[-2] if kind[-2] in "+?" else name, rest.strip()))
        return found

    @property
    def returns(self) -> list[str]:
        """Names of the statuses that it returns."""
        return [text.split()[0] for _, text in self._of("RETURNS")]


def head(name: str) -> Head:
    """The head of a script."""
    found = Head([], [])
    about, rows = found
    for line in (scripts.root() / f"{name}.lua").read_text().splitlines():
        if not line.startswith("--") or line.startswith("---"):
            break
        match, text = _ROW.match(line), line[2:].strip()
        if match:
            rows.append((match[1], match[2]))
        elif rows and text:
            rows[-1] = (rows[-1][0], f"{rows[-1][1]} {text}")
        elif text:
            about.append(text)
    return found
