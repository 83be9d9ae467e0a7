"""A fault: what a check of the doctor yields. And how faults name messages and elements.

The checks make them; ``doctor.run`` mends and reports them, and the reliability tests fail with them.
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
    """As ``Finding.code`` (``mqredis.reports``)."""
    where: str
    """The place: a fault with the same code and place after its edits is not repaired."""
    text: str
    edits: tuple[Edit, ...] = ()
    """Empty: only an operator can repair it."""
    severity: Severity = "error"


Faults = Iterator[Fault]


def shown(member: bytes) -> str:
    """An element of a list as text."""
    return member.decode("utf-8", "backslashreplace").replace("\0", " ")


def at(view: QueueView, lid: str) -> str:
    """The name of a message in a report."""
    return f"{view.path}: {lid}"
