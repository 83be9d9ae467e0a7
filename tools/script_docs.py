"""Write docs/scripts.md from the headers of the Lua scripts: ``python -m tools.script_docs [--check]``.

``make format`` calls it. ``mqredis/scripts.py`` reads the same headers for the client; a new word in them has to be
known there, too (``_HEADER``).
"""

from __future__ import annotations

import sys

from mqredis import scripts
from tools.script_heads import head
from tools.written_files import ROOT, write

TARGET = ROOT / "docs" / "scripts.md"
HEAD = """# Scripts

Each script handles one event in one atomic step. This page is generated from the headers in `lua/`
(`python -m tools.script_docs`). Tests compare the headers with the commands that call the scripts, the statuses that
they return and the keys that they touch.

- `CALLERS` are the functions of mqredis that call the script.
- `KEYS` is `message` (`meta txs`, then eight keys for each queue) or `admin` (`meta txs queues handles idle`, then
  eight keys for each queue). [Keys](key-layout.md) describes the keys. `QUEUE[n]` are the queues.
- `ARGV[1]` and `ARGV[2]` are the operation token: slot and sequence. The sequence is empty if the call changes nothing.
  Arguments from one with `?` on may be missing.
- `RETURNS`: each reply begins with status, incarnation and history number, which the rows do not repeat. Each script
  may also return SESSION_EXPIRED, TOKEN_REUSED, MANAGER_NOT_FOUND and SCHEMA_TOO_NEW.
- `FLAGS`: `allow-oom` scripts run on a server that is at its memory limit. `no-writes` scripts do, too, and write
  nothing, so that a read-only client may run them.
"""


def render() -> str:
    """The whole page."""
    parts = [HEAD]
    for name in scripts.names():
        about, rows = head(name)
        parts.append(f"## {name}\n\n" + "\n".join(map(_escape, about)) + "\n\n| | |\n|---|---|\n")
        parts[-1] += "".join(f"| `{kind}` | {_cell(kind, text)} |\n" for kind, text in rows)
    return "\n".join(parts)


def _escape(text: str) -> str:
    return text.replace("<", "&lt;").replace("*", r"\*")


def _cell(kind: str, text: str) -> str:
    if kind == "CALLERS" or kind.startswith("QUEUE"):
        return _escape(text).replace("|", r"\|")
    word, space, rest = text.partition(" ")
    if kind == "KEYS" and rest:  # keys besides those of the first row, in words
        return _escape(text).replace("|", r"\|")
    return f"`{word}`{space}{_escape(rest)}".replace("|", r"\|") if word else ""


if __name__ == "__main__":
    sys.exit(write({TARGET: render()}, sys.argv[1:]))
