"""Figures for people: numbers with separators, durations with their unit, several values in a row.

``admin``, ``queues``, ``show`` and ``watch`` print tables with it; JSON lines have the values as they are. The unit
follows from the field's name ("..._seconds", "rate_..."), so a field of a model or a column gets its unit by its name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mqredis.cli.output import shown


def figure(name: str, value: Any) -> str:
    """A field of a manager or a queue as tables show it. A mapping has one value for each priority."""
    if isinstance(value, Mapping):
        return ", ".join(f"{figure(name, each)} (priority {key})" for key, each in value.items()) or "-"
    if isinstance(value, list | tuple):
        return ", ".join(figure(name, each) for each in value) or "-"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return shown(value)
    number = f"{value:,}" if isinstance(value, int) else f"{value:,.2f}".rstrip("0").rstrip(".")
    if name.endswith("seconds"):
        return f"{number} s"
    return f"{number}/s" if name.startswith("rate_") else number
