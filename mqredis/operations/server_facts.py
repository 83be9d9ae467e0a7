"""Facts about a server from INFO, ROLE and CONFIG GET. Facts that the user may not read are unknown, not errors.

The doctor (``doctor.run``, ``doctor.advice``), ``server_checks``, ``durability.levels`` and the console's page Server
read them, and so do the log of a worker and the metrics of a server (``section``); ``drivers.waiting.mode`` asks what
``announces_wakes``. A setting in ``SETTINGS`` is shown in each report of
the doctor; docs/production.md recommends values.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from mqredis.steps import Command, Refused, Steps, procedure

# Settings that are read one by one: older servers answer only one name at a time.
SETTINGS = (
    "maxmemory-policy", "maxmemory", "appendonly", "appendfsync", "no-appendfsync-on-rewrite", "save",
    "notify-keyspace-events", "min-replicas-to-write", "client-output-buffer-limit",
)  # fmt: skip

Version = tuple[int, ...]


class Advisory(NamedTuple):
    """A fault of a server that the doctor tells of, since it touches scripts, waits or permissions."""

    name: str
    text: str
    since: Version
    """The first release with the fault."""
    fixed: dict[tuple[int, int], int]
    """The first repaired release of each line. A newer line was repaired before its first release; an older one never
    was. Empty: no release is repaired."""

    def touches(self, version: Version) -> bool:
        """Does this release have the fault?"""
        if version < self.since:
            return False
        major, minor, patch = (*version, 0, 0, 0)[:3]
        fixed = self.fixed.get((major, minor))
        return patch < fixed if fixed is not None else not self.fixed or (major, minor) < max(self.fixed)


# Name of the advisory about WAITAOF, an issue of Redis that Valkey inherited.
LATE = "redis#13793"
_LATE = "WAITAOF answers before the log is on the disk, unless appendfsync is always"
# Of Redis. ``tests/doctor/test_advice.py`` lists the advisories of several releases.
ADVISORIES = (
    Advisory(
        "CVE-2025-49844",
        "a script may run code on the server (also CVE-2025-46817, -46818, -46819)",
        (0,),
        {(6, 2): 20, (7, 2): 11, (7, 4): 6, (8, 0): 4, (8, 2): 2},
    ),
    Advisory(
        "CVE-2026-23479",
        "a blocked client that is evicted is used after it was freed",
        (7, 2),
        {(7, 4): 9, (8, 2): 6, (8, 4): 3, (8, 6): 3},
    ),
    Advisory(
        "CVE-2025-67733", "line breaks in an error reply can forge replies", (0,), {(7, 4): 8, (8, 6): 1}
    ),
    Advisory(
        "CVE-2025-21605",
        "clients that did not log in can fill the output buffers",
        (0,),
        {(6, 2): 18, (7, 2): 8, (7, 4): 3},
    ),
    Advisory(
        "CVE-2024-46981", "a script may run code on the server", (0,), {(6, 2): 17, (7, 2): 7, (7, 4): 2}
    ),
    Advisory(LATE, _LATE, (7, 4), {(7, 4): 3}),
)
# Of Valkey, which has its own release numbers.
VALKEY_ADVISORIES = (
    Advisory(
        "GHSA-fq2f-crmw-q97r",
        "the Lua interpreter is used after it was freed, by clients that did not log in",
        (9, 1),
        {(9, 1): 2},
    ),
    Advisory(
        "CVE-2026-23479",
        "a blocked client that is evicted is used after it was freed (also CVE-2026-23631, a slow script on a replica)",
        (0,),
        {(7, 2): 13, (8, 0): 8, (8, 1): 7, (9, 0): 4},
    ),
    Advisory(
        "CVE-2025-67733",
        "line breaks in an error reply can forge replies",
        (0,),
        {(7, 2): 12, (8, 0): 7, (8, 1): 6, (9, 0): 3},
    ),
    Advisory(
        "CVE-2025-49844",
        "a script may run code on the server (also CVE-2025-46817, -46818, -46819)",
        (0,),
        {(7, 2): 11, (8, 0): 6, (8, 1): 4},
    ),
    Advisory(
        "CVE-2025-21605",
        "clients that did not log in can fill the output buffers",
        (0,),
        {(7, 2): 9, (8, 0): 3, (8, 1): 1},
    ),
    Advisory("CVE-2024-46981", "a script may run code on the server", (0,), {(7, 2): 8, (8, 0): 2}),
    Advisory(LATE, _LATE, (8, 0), {}),  # 9.1.2 is the newest that was tried
)


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """The facts about a server. Facts that the user may not read are missing."""

    info: Mapping[str, str] = field(default_factory=dict)
    config: Mapping[str, str] = field(default_factory=dict)

    @property
    def version(self) -> Version:
        """Release of this Redis or this Valkey; () if unknown."""
        name = "valkey_version" if self.valkey else "redis_version"
        return tuple(int(part) for part in re.findall(r"\d+", self.info.get(name, ""))[:3])

    @property
    def valkey(self) -> bool:
        """Is it a Valkey?"""
        return "valkey_version" in self.info or self.info.get("server_name") == "valkey"

    @property
    def release(self) -> str:
        """Product and release, for people."""
        return f"{'Valkey' if self.valkey else 'Redis'} {'.'.join(map(str, self.version))}"

    @property
    def advisories(self) -> list[Advisory]:
        """The advisories whose faults this release has."""
        known = VALKEY_ADVISORIES if self.valkey else ADVISORIES
        return [advisory for advisory in known if advisory.touches(self.version)]

    @property
    def syncs_late(self) -> bool:
        """Does WAITAOF reply before the change is on disk, unless each write is synced anyway?"""
        return any(advisory.name == LATE for advisory in self.advisories)

    @property
    def policy(self) -> str:
        """The eviction policy; "" if unknown."""
        return self.config.get("maxmemory-policy") or self.info.get("maxmemory_policy", "")

    @property
    def evicts(self) -> bool:
        """May this server delete messages when memory is short? Keys of queues never expire, so volatile-* cannot."""
        return self.policy.startswith("allkeys")

    @property
    def evicts_expiring(self) -> bool:
        """May it delete keys that expire: stages of Spark's writes, and kept replies to operators with a token?"""
        return self.policy.startswith("volatile")

    @property
    def append_only(self) -> str:
        """yes, no or "" if unknown."""
        said = self.info.get("aof_enabled")
        return self.config.get("appendonly") or ("" if said is None else "yes" if said == "1" else "no")

    @property
    def ack_level(self) -> str:
        """What an acknowledged change has survived when the call returns (docs/guarantees.md)."""
        if not self.append_only or (self.append_only == "yes" and "appendfsync" not in self.config):
            return "unknown"
        if self.append_only == "yes" and self.config.get("appendfsync") == "always":
            return "fsync"
        return "memory"

    @property
    def replicas(self) -> int | None:
        """How many replicas follow the server, without those that are still loading; None if unknown."""
        if "connected_slaves" not in self.info:
            return None
        return sum(
            bool(re.fullmatch(r"slave\d+", name)) and "state=online" in text
            for name, text in self.info.items()
        )

    def number(self, name: str) -> int:
        """A number of INFO or CONFIG; 0 if unknown."""
        text = self.info.get(name, self.config.get(name, ""))
        return int(text) if re.fullmatch(r"\d+", text) else 0

    def summary(self) -> dict[str, str]:
        """The facts a report shows."""
        config = {name: self.config.get(name, "unknown") for name in SETTINGS}
        config["maxmemory-policy"] = self.policy or "unknown"
        config["appendonly"] = self.append_only or "unknown"
        return {
            "version": self.info.get("valkey_version") or self.info.get("redis_version") or "unknown",
            "product": "valkey" if self.valkey else "redis",
            "role": self.info.get("role", "unknown"),
            "connected_replicas": self.info.get("connected_slaves", "unknown"),
            "ack_level": self.ack_level,
            **config,
        }


def facts_of(info: Any) -> dict[str, str]:
    """The fields of INFO, from its text (or from the dict that a fake answers)."""
    if isinstance(info, Mapping):
        return {str(name): str(value) for name, value in info.items()}
    text = info.decode("utf-8", "replace") if isinstance(info, bytes) else str(info)
    return dict(line.split(":", 1) for line in text.splitlines() if ":" in line and not line.startswith("#"))


def announces_wakes(flags: str) -> bool:
    """Do these flags of notify-keyspace-events announce a SADD on a keyspace channel?"""
    return "K" in flags and ("s" in flags or "A" in flags)


def config_of(reply: Any) -> str | None:
    """The value in a reply to ``CONFIG GET`` of one name; None if there is none."""
    if isinstance(reply, Refused):
        return None
    row = (
        list(reply) if isinstance(reply, list | tuple) else [item for pair in reply.items() for item in pair]
    )
    if len(row) != 2:
        return None
    return row[1].decode("utf-8", "replace") if isinstance(row[1], bytes) else str(row[1])


@procedure
def section(name: str) -> Steps[dict[str, str]]:
    """The fields of a section of INFO; none if the user may not run it, or a fake does not know it."""
    reply = yield Command(("INFO", name))
    return {} if isinstance(reply, Refused) else facts_of(reply)


@procedure
def read_facts() -> Steps[ServerFacts]:
    """Read the facts from the server."""
    reply = yield Command(("INFO",))
    info = (yield from _role()) if isinstance(reply, Refused) else facts_of(reply)
    config: dict[str, str] = {}
    for name in SETTINGS:
        reply = yield Command(("CONFIG", "GET", name))
        if isinstance(reply, Refused):
            break
        value = config_of(reply)
        if value is not None:
            config[name] = value
    return ServerFacts(info, config)


def _role() -> Steps[dict[str, str]]:
    """The fields of INFO that ROLE tells, for a user that may not run INFO: the role and the replicas in sync."""
    reply = yield Command(("ROLE",))
    if isinstance(reply, Refused) or not reply:
        return {}
    role = reply[0].decode() if isinstance(reply[0], bytes) else str(reply[0])
    if role != "master":
        return {"role": role}
    replicas = {f"slave{n}": "state=online" for n in range(len(reply[2]))}
    return {"role": role, "connected_slaves": str(len(replicas)), **replicas}
