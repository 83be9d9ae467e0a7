"""What the doctor reports: findings with a code, a severity, a place and what was done about them."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

Severity = Literal["error", "warning", "notice"]


class Finding(BaseModel):
    """One thing the doctor found."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    #: Short and stable, for machines: ``position.lost``, ``counter.queue``, ``server.eviction``...
    code: str
    #: error: an invariant of the store is broken. warning: the server may lose or delay messages. notice: remains
    #: of clients that went away without a word; they do no harm.
    severity: Severity
    #: The queue, key, transaction, session or setting.
    where: str
    text: str
    #: The doctor put it right (``repair=True``).
    repaired: bool = False
    #: ``repair=True`` would put it right without losing anything.
    repairable: bool = False


class Level(BaseModel):
    """A level of ``durability=``, and whether this server gives it now."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    #: memory, fsync, replica or replica-fsync.
    name: str
    reachable: bool
    #: By what, or why not.
    text: str


class Report(BaseModel):
    """What the doctor found. ``healthy`` if no invariant of the store is broken."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    manager: str
    #: Broken invariants of the store, those that were repaired included.
    findings: tuple[Finding, ...] = ()
    #: Warnings about the server, and notices.
    advice: tuple[Finding, ...] = ()
    #: What was looked at.
    queues: int = 0
    messages: int = 0
    transactions: int = 0
    sessions: int = 0
    #: False: the manager was too busy for one consistent picture, so sums and cross references were not compared.
    consistent: bool = True
    #: What ``durability=`` can ask of this server (docs/guarantees.md).
    levels: tuple[Level, ...] = ()
    #: Settings of the server as far as they could be read: version, persistence, eviction, notifications...
    server: dict[str, str] = {}

    @property
    def healthy(self) -> bool:
        """No broken invariant, or all of them repaired."""
        return all(finding.repaired for finding in self.findings)

    @property
    def everything(self) -> tuple[Finding, ...]:
        """Findings and advice, worst first."""
        return self.findings + self.advice
