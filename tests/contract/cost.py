"""Round trips and commands of calls, as the statistics of the server count them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mqredis
import mqredis.asyncio
from tests.support.server import RedisServer

# Commands that a client sends once, or that measure. A reader subscribes once to the wake channel of each of its slots;
# whether it needs one slot or two depends on which ends first: this call, or the sender that uses the other slot.
_NOT_COUNTED = {
    "subscribe",
    "info",
    "config|resetstat",
    "config",
    "hello",
    "client",
    "client|setinfo",
    "script|load",
    "function|load",
    "ping",
}


def cost(redis_server: RedisServer, work: Callable[[], object], times: int = 10) -> tuple[float, float]:
    """Return round trips and commands inside scripts, per run of ``work``."""
    work()
    with redis_server.client() as client:
        client.config_resetstat()
        for _ in range(times):
            work()
        scripts, inside = counted(client)
    return scripts / times, inside / times


def counted(client: Any, without: str = "") -> tuple[int, int]:
    """Script calls, and commands inside them, since the statistics were reset. ``without``: a command of the test."""
    stats = client.info("commandstats")
    calls = {name.removeprefix("cmdstat_"): row["calls"] for name, row in stats.items()}
    scripts = calls.pop("evalsha", 0) + calls.pop("fcall", 0)
    inside = sum(count for name, count in calls.items() if name not in _NOT_COUNTED and name != without)
    return scripts, inside


def build_indexes(*queues: mqredis.Queue) -> None:
    """Search in the queues, so that their indexes have the identifiers of all messages."""
    for queue in queues:
        assert not list(queue.browse(match=mqredis.Match(correlation_id="nobody")))
