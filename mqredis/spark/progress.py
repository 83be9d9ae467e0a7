"""What a streaming query reports of its queues in its progress.

The streaming readers write it, and ``metrics`` reads it, which users call as ``mqredis.spark.metrics``. Spark shows the
value to listeners and logs of users as well, so its keys stay.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def report(available: Mapping[str, int], oldest_age_ms: int) -> dict[str, Any]:
    """The value that Spark shows as ``latestOffset`` of a source: messages by queue, and the age of the oldest one."""
    return {"backlog": sum(available.values()), "oldestAgeMs": oldest_age_ms, "queues": dict(available)}


def behind(before: Mapping[str, Any], taken: Mapping[str, int]) -> dict[str, Any]:
    """The report after a micro-batch has claimed these messages."""
    left = {key: max(0, count - taken.get(key, 0)) for key, count in before["queues"].items()}
    return report(left, before["oldestAgeMs"] if any(left.values()) else 0)


def metrics(query: Any) -> dict[str, Any]:
    """How far a streaming query is behind, from its last progress.

    ``lag``: messages that no micro-batch has taken yet; ``oldest_age_seconds``: age of the oldest message when the
    last micro-batch was planned, 0 if none is left; ``queues``: the lag by ``<manager>/<queue>``. All over all sources
    of mqredis. Spark shows no metrics of a source that is written in Python, so the figures are in ``latestOffset``,
    from which this function reads them.

    :param query: a ``StreamingQuery``, or the progress that a listener is given (``event.progress``).
    """
    progress = getattr(query, "lastProgress", query) or {"sources": []}
    sources = progress["sources"] if isinstance(progress, Mapping) else progress.sources
    found: dict[str, Any] = {"lag": 0, "oldest_age_seconds": 0.0, "queues": {}}
    for source in sources:
        text = source["latestOffset"] if isinstance(source, Mapping) else source.latestOffset
        try:
            latest = json.loads(text) if isinstance(text, str) else text
        except ValueError:
            continue
        if isinstance(latest, Mapping) and {"backlog", "oldestAgeMs", "queues"} <= set(latest):
            found["lag"] += latest["backlog"]
            found["oldest_age_seconds"] = max(found["oldest_age_seconds"], latest["oldestAgeMs"] / 1000)
            found["queues"].update(latest["queues"])
    return found
