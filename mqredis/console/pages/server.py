"""What the doctor finds, and the server behind the queue manager.

``console.pages`` has the routes; it refuses ``doctor`` in a console that only reads, because the doctor writes.

``operations.server_facts`` reads INFO and CONFIG GET; without the right it has none, and server.html says so by the
missing tables "Memory" and "Settings": keep these titles. A field of INFO that a server does not know is left out.
"""

from __future__ import annotations

from time import perf_counter

from starlette.responses import Response

from mqredis.console import formats
from mqredis.console.visit import Visit
from mqredis.operations.server_facts import read_facts
from mqredis.steps import Command, Steps, procedure

# Findings on one page.
FINDINGS = 200

# The fields of INFO on the page, by the title of their table: the name of the field, and the words for it.
SHOWN: dict[str, dict[str, str]] = {
    "Server": {
        "redis_version": "Version (Redis)",
        "valkey_version": "Version (Valkey)",
        "redis_mode": "Mode",
        "role": "Role",
        "connected_slaves": "Replicas",
        "uptime_in_seconds": "Runs for",
        "connected_clients": "Connected clients",
        "instantaneous_ops_per_sec": "Commands a second",
    },
    "Memory": {
        "used_memory_human": "Used",
        "used_memory_peak_human": "Highest use",
        "maxmemory_human": "Limit",
        "maxmemory_policy": "At the limit (maxmemory-policy)",
        "mem_fragmentation_ratio": "Fragmentation",
        "evicted_keys": "Evicted keys",
    },
    "Persistence": {
        "aof_enabled": "Append-only file",
        "aof_last_write_status": "Last write of the append-only file",
        "rdb_last_bgsave_status": "Last snapshot",
        "rdb_changes_since_last_save": "Changes since the last snapshot",
        "loading": "Loading its data",
    },
}

# Those that are 0 or 1.
_SWITCHES = frozenset(("aof_enabled", "loading"))


async def doctor(visit: Visit) -> Response:
    """The doctor's report.

    It looks at every message, so it runs when the form of the page asks for it, for one visitor at a time. An address
    would let pages of other sites ask.
    """
    report = None
    if visit.request.method == "POST":
        async with visit.console.examining:
            report = await (await visit.manager()).doctor()
    return visit.page("doctor.html", report=report, most=FINDINGS)


async def server(visit: Visit) -> Response:
    """The queue manager, its quota, and what its server says about itself as far as the user may ask."""
    manager = await visit.manager()
    info = await manager.info()
    begun = perf_counter()
    await manager.run(_ping())
    answered = perf_counter() - begun
    facts = await manager.run(read_facts())
    sections = {
        title: {words: _value(name, facts.info[name]) for name, words in fields.items() if name in facts.info}
        for title, fields in SHOWN.items()
    }
    sections["Settings"] = {name: value or "none" for name, value in sorted(facts.config.items())}
    return visit.page(
        "server.html",
        info=info,
        answered=answered,
        sections={name: rows for name, rows in sections.items() if rows},
    )


@procedure
def _ping() -> Steps[None]:
    yield Command(("PING",))


def _value(name: str, value: str) -> str:
    """A field of INFO as a person reads it."""
    if name == "uptime_in_seconds" and value.isdigit():
        return formats.exact(int(value))
    if name == "maxmemory_human" and value == "0B":
        return "no limit"
    if name in _SWITCHES:
        return {"0": "no", "1": "yes"}.get(value, value)
    return f"{int(value):,}" if value.isdigit() else value
