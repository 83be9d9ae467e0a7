"""A fault: what a check of the doctor yields. And how faults name messages and elements.

The checks make them; ``run`` mends and reports them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from mqredis.commands.doctor import Edit
from mqredis.operations.doctor.snapshot import QueueView
from mqredis.reports import Severity


@dataclass(frozen=True, slots=True)
class Fault:
    """A violated invariant, with the edits that repair it."""

    code: str
    where: str
    text: str
    edits: tuple[Edit, ...] = ()
    severity: Severity = "error"


Faults = Iterator[Fault]


def shown(member: bytes) -> str:
    """An element of a list as text."""
    return member.decode("utf-8", "backslashreplace").replace("\0", " ")


def at(view: QueueView, lid: str) -> str:
    """The name of a message in a report."""
    return f"{view.path}: {lid}"
