"""What the doctor reports: findings with a code, a severity, a place and what was done about them.

The doctor (``operations.doctor``) makes these reports, with parts of ``operations.durability.levels`` and
``operations.libraries``. ``QueueManager.doctor`` of both interfaces returns them, and ``mqredis doctor``
(``cli.admin``) and the console show them. Programs compare ``Finding.code``: a code keeps its meaning.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from mqredis.models.queue import Model

Severity = Literal["error", "warning", "notice"]


class Finding(Model):
    """One thing the doctor found."""

    code: str
    """Short and stable, for machines: ``position.lost``, ``counter.queue``, ``server.eviction``..."""
    severity: Severity
    """error: an invariant of the store is broken. warning: the server may lose or delay messages. notice: something
    that ended clients have left behind, which does no harm."""
    where: str
    """The queue, key, transaction, session or setting."""
    text: str
    """What is wrong, and what to do."""
    repaired: bool = False
    """The doctor has repaired it (``repair=True``)."""
    repairable: bool = False
    """``repair=True`` would repair it without loss."""


class Level(Model):
    """A level of ``durability=``, and whether this server gives it now."""

    name: str
    """memory, fsync, replica or replica-fsync."""
    reachable: bool
    """Does the server offer the level now?"""
    text: str
    """By which means, or why not."""


class Report(Model):
    """What the doctor found."""

    manager: str
    """Name of the queue manager."""
    findings: tuple[Finding, ...] = ()
    """Broken invariants of the store, repaired ones included."""
    advice: tuple[Finding, ...] = ()
    """Warnings and notices about the server and the store."""
    queues: int = 0
    """Number of queues that were examined."""
    messages: int = 0
    """Number of messages that were examined."""
    transactions: int = 0
    """Number of transactions that were examined."""
    sessions: int = 0
    """Number of sessions that were examined."""
    consistent: bool = True
    """False: the manager was too busy for one consistent picture, so sums and cross references were not compared."""
    levels: tuple[Level, ...] = ()
    """What ``durability=`` can ask of this server (docs/guarantees.md)."""
    server: dict[str, str] = Field(default_factory=dict)
    """Settings of the server as far as they could be read: version, persistence, eviction, notifications..."""

    @property
    def healthy(self) -> bool:
        """No broken invariant, or all of them repaired."""
        return all(finding.repaired for finding in self.findings)

    @property
    def everything(self) -> tuple[Finding, ...]:
        """Findings, repaired ones first, then advice."""
        return self.findings + self.advice
