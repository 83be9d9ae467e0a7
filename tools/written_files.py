"""Writes files that a program generates, or checks that they are up to date.

``script_docs``, ``settings_docs``, ``generate_blocking`` and ``lua_callers`` end with it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def write(files: Mapping[Path, str], arguments: Sequence[str], superfluous: Iterable[Path] = ()) -> int:
    """Write these texts into their files, and remove superfluous ones. Returns the exit code.

    With ``--check`` write nothing, and name the files that are not up to date: 1 if there are any.
    """
    stale = [
        path for path, text in files.items() if not path.exists() or path.read_text(encoding="utf-8") != text
    ]
    removed = list(superfluous)
    if "--check" in arguments:
        for path in [*stale, *removed]:
            print(f"{path.relative_to(ROOT)} is not up to date: run `make format`", file=sys.stderr)
        return 1 if stale or removed else 0
    for path in stale:
        path.write_text(files[path], encoding="utf-8")
    for path in removed:
        path.unlink()
    return 0
