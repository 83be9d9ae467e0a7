"""Writes a page of the documentation that a program generates, or checks that it is up to date.

``script_docs`` and ``settings_docs`` call it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


def write(target: Path, text: str, arguments: Sequence[str]) -> int:
    """Write ``text`` into ``target``. With ``--check`` write nothing. Returns the exit code: 1 if the check fails."""
    if "--check" in arguments:
        return 0 if target.read_text() == text else 1
    target.write_text(text)
    return 0
