"""What the doctor finds, and the server behind the queue manager."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from mqredis.console.visit import Visit
from mqredis.steps import Command, Refused, Steps, procedure

#: Findings on one page.
FINDINGS = 200

#: The fields of INFO on the page, by the title of their table: the name of the field, and the words for it.
SHOWN: dict[str, dict[str, str]] = {
    "Server": {
        "redis_version": "Version (Redis)",
        "valkey_version": "Version (Valkey)",
        "redis_mode": "Mode",
        "role": "Role",
        "connected_slaves": "Replicas",
        "uptime_in_seconds": "Seconds since its start",
        "connected_clients": "Connected clients",
        "instantaneous_ops_per_sec": "Commands a second",
    },
    "Memory": {
        "used_memory_human": "Used",
        "used_memory_peak_human": "Highest use",
        "maxmemory_human": "Limit (0: none)",
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


async def doctor(visit: Visit) -> Response:
    """The doctor's report. It looks at every message, so it runs when it is asked for."""
    report = await (await visit.manager()).doctor() if visit.query.get("run") else None
    return visit.page("doctor.html", report=report, most=FINDINGS)


async def server(visit: Visit) -> Response:
    """The queue manager, its quota, and what INFO says about its server as far as the user may ask."""
    manager = await visit.manager()
    info = await manager.info()
    reply = await manager.run(_info())
    found = dict(line.partition(":")[::2] for line in reply.splitlines() if ":" in line)
    sections = {
        title: {words: found[name] for name, words in fields.items() if name in found}
        for title, fields in SHOWN.items()
    }
    return visit.page(
        "server.html", info=info, sections={name: rows for name, rows in sections.items() if rows}
    )


@procedure
def _info() -> Steps[str]:
    """The text of INFO; nothing where the user may not ask, or the server is a fake without it."""
    reply: Any = yield Command(("INFO",))
    if isinstance(reply, Refused):
        return ""
    return reply.decode("utf-8", "replace") if isinstance(reply, bytes) else str(reply)
