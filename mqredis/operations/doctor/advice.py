"""What the doctor advises: about the server's settings and clock, and about queues with many failed messages.

``doctor.run`` calls it. Change together with: ``docs/production.md``, which recommends the settings, and
``tests/doctor/test_advice.py``. A setting that is looked at here must be read, too (``server_facts.SETTINGS``). The
codes are public: programs compare them (``mqredis.reports``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

from mqredis.commands import queues
from mqredis.models import RetryPolicy
from mqredis.operations import failed
from mqredis.operations.doctor.snapshot import Store
from mqredis.operations.server_facts import LATE, SETTINGS, ServerFacts, announces_wakes
from mqredis.reports import Finding, Severity

# Code, place, text and severity of a finding.
Advice = tuple[str, str, str, Severity]
# A server's clock that differs by more than so many seconds from ours is reported.
CLOCK_SECONDS = 5


def about_server(facts: ServerFacts) -> list[Finding]:
    """What should be different about the settings of this server."""
    checks: tuple[Callable[[ServerFacts], Iterator[Advice]], ...] = (
        _memory,
        _disk,
        _replicas,
        _wakeups,
        _release,
        _unchecked,
    )
    return [
        Finding(code=f"server.{code}", severity=severity, where=where, text=text)
        for check in checks
        for code, where, text, severity in check(facts)
    ]


def about_store(store: Store, failed_messages: int) -> list[Finding]:
    """What a snapshot shows beside broken invariants: the server's clock, and the queues with more failed messages than
    this."""
    return [*_clock(store), *_failed(store, failed_messages)]


def _memory(facts: ServerFacts) -> Iterator[Advice]:
    if facts.evicts:
        text = (
            f"{facts.policy} deletes any keys when memory is short, with queues and messages: set noeviction"
        )
        yield "eviction", "maxmemory-policy", text, "warning"
    elif facts.evicts_expiring:
        text = (
            f"{facts.policy} deletes keys that expire when memory is short: what a partly published Spark write has "
            "left is lost and counts as written, an unpublished one has to be run again, and an operator's action that "
            "is repeated with its token is carried out twice. Set noeviction"
        )
        yield "eviction", "maxmemory-policy", text, "warning"
    limit, used = facts.number("maxmemory"), facts.number("used_memory")
    if limit and used > limit * 0.9:
        sends = "sends are refused" if used >= limit else "sends will be refused soon"
        yield "full", "maxmemory", f"{used * 100 // limit} % used: {sends}", "warning"
    if facts.config.get("maxmemory") == "0":
        text = "no limit: a full machine kills the server instead of refusing sends"
        yield "unlimited", "maxmemory", text, "notice"


def _disk(facts: ServerFacts) -> Iterator[Advice]:
    if facts.append_only == "no":
        snapshots = facts.config.get("save", "unknown")
        text = "what was sent since the last snapshot is lost" if snapshots else "everything is lost"
        yield "volatile", "appendonly", f"when the server dies, {text}: set appendonly yes", "warning"
    elif facts.append_only == "yes":
        if facts.config.get("appendfsync") == "no":
            text = "the operating system decides when to write: use everysec or always"
            yield "fsync", "appendfsync", text, "warning"
        if facts.config.get("no-appendfsync-on-rewrite") == "yes":
            text = "nothing is synced while the log is rewritten: set no"
            yield "fsync", "no-appendfsync-on-rewrite", text, "warning"
    for name in ("aof_last_write_status", "aof_last_bgrewrite_status", "rdb_last_bgsave_status"):
        if facts.info.get(name, "ok") != "ok":
            yield "disk", name, f"is {facts.info[name]}: look into the server's log", "warning"


def _replicas(facts: ServerFacts) -> Iterator[Advice]:
    if facts.info.get("role", "master") not in ("master", "primary"):
        yield "role", "role", f"this is a {facts.info['role']}: connect to the primary", "warning"
    if facts.number("connected_slaves") and facts.config.get("min-replicas-to-write") == "0":
        text = "a primary that was cut off goes on accepting what will be lost: set 1 or more"
        yield "split", "min-replicas-to-write", text, "notice"


def _wakeups(facts: ServerFacts) -> Iterator[Advice]:
    flags = facts.config.get("notify-keyspace-events")
    if flags is not None and not announces_wakes(flags):
        text = f"is {flags!r}: waiting readers are woken by PUBLISH instead; set Ks to save that"
        yield "notify", "notify-keyspace-events", text, "notice"
    limits = re.search(r"pubsub (\d+) (\d+) (\d+)", facts.config.get("client-output-buffer-limit", ""))
    if limits and any(0 < int(limits[n]) < 1_048_576 for n in (1, 2)):
        text = "the limit for pubsub is below 1 MiB: busy consumers will be disconnected"
        yield "pubsub", "client-output-buffer-limit", text, "warning"


def _release(facts: ServerFacts) -> Iterator[Advice]:
    version = facts.version
    if not version:
        return
    if version < (6, 2):
        text = f"{'.'.join(map(str, version))} is older than 6.2, the oldest that mqredis supports"
        yield "version", "redis_version", text, "warning"
        return
    backports = "; a distribution may have repaired it without a new number"
    for advisory in facts.advisories:
        if advisory.name != LATE or facts.config.get("appendfsync") != "always":
            yield "advisory", advisory.name, f"{facts.release}: {advisory.text}{backports}", "notice"


def _unchecked(facts: ServerFacts) -> Iterator[Advice]:
    hidden = [name for name, value in facts.summary().items() if name in SETTINGS and value == "unknown"]
    if not facts.version:
        hidden.append("INFO")
    if hidden:
        text = (
            f"this user may not read {', '.join(hidden)}: what depends on them was not checked. Compare the server "
            "with the checklist for production; no role may run CONFIG GET, which shows passwords, too"
        )
        yield "unchecked", "settings", text, "notice"


def _clock(store: Store) -> list[Finding]:
    """Findings about the server's clock, and about broker time, which makes up for its steps back."""
    fields, found = store.hashes.get("meta", {}), []
    texts = (fields.get(name, "") for name in ("lead", "clock"))
    lead, moved = (int(text) if re.fullmatch(r"-?\d+", text) else 0 for text in texts)
    ahead = (store.now_ms - lead - moved) / 1000 - datetime.now(UTC).timestamp()
    if abs(ahead) > CLOCK_SECONDS:
        text = (
            f"differs by {ahead:+.0f} s from the clock of this machine; after a step forward, leases end and delayed "
            "messages arrive too early"
        )
        found.append(Finding(code="server.clock", severity="warning", where="TIME", text=text))
    if lead:
        text = f"was set back, {lead / 1000:.0f} s in all; deadlines are not affected, nothing has to be done"
        found.append(Finding(code="manager.clock", severity="notice", where="the server's clock", text=text))
    return found


def _policy(text: str) -> RetryPolicy | None:
    """The retry policy that this text describes; none if it is damaged, which is a finding of its own."""
    try:
        return queues.parse_policy(text)
    except ValueError:
        return None


def _failed(store: Store, bound: int) -> list[Finding]:
    """Queues with more failed messages than ``bound``."""
    dead_letters = failed.dead_letter_queues(
        _policy(view.fields.get("retry", "")) for view in store.queues.values()
    )
    return [
        Finding(
            code="queue.failed",
            severity="warning",
            where=path,
            text=failed.warning(path, len(view.records), bound),
        )
        for path, view in store.queues.items()
        if len(view.records) > bound and failed.holds_failed(path, dead_letters)
    ]
