"""Metrics of a queue manager and of its server.

``Collector`` and the exporter ask it at each scrape. A new metric needs a row in docs/metrics.md and a panel in
deploy/grafana.json (tests/prometheus/test_deploy.py checks both); a renamed one needs its pair in ``text.RENAMED``.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable

from mqredis.client import QueueManager
from mqredis.errors import InvalidArgument, QueueNotFound
from mqredis.keys import is_reply_queue
from mqredis.models import QueueInfo, QueueStatistics
from mqredis.operations import failed, server_facts
from mqredis.operations.checks import type_name
from mqredis.prometheus.text import Labels, Metric, Sample, render_text

# Name, type, help, and the samples of one queue.
_QUEUE: tuple[tuple[str, str, str, Callable[[QueueStatistics], list[Sample]]], ...] = (
    (
        "mqredis_queue_messages",
        "gauge",
        "Messages by state.",
        lambda s: [
            ({"state": "ready"}, s.ready),
            ({"state": "delayed"}, s.delayed),
            ({"state": "locked"}, s.locked),
            ({"state": "retry"}, s.retry_messages),
            ({"state": "poison"}, s.poison_messages),
            ({"state": "journal"}, s.journal_messages),
        ],
    ),
    ("mqredis_queue_bytes", "gauge", "Size of the messages of the queue.", lambda s: [({}, s.bytes)]),
    ("mqredis_queue_waiters", "gauge", "Readers that wait for a message.", lambda s: [({}, s.waiters)]),
    (
        "mqredis_queue_oldest_ready_seconds",
        "gauge",
        "Age of the oldest message that a reader could take now; 0 if there is none.",
        lambda s: [({}, max(s.oldest_seconds.values(), default=0.0))],
    ),
    ("mqredis_queue_in_total", "counter", "Messages that came.", lambda s: [({}, s.total_in)]),
    ("mqredis_queue_out_total", "counter", "Messages that left.", lambda s: [({}, s.total_out)]),
    (
        "mqredis_queue_lost_total",
        "counter",
        "Messages that left without being received, by reason.",
        lambda s: [
            ({"reason": name}, getattr(s, name))
            for name in ("expired", "purged", "rejected", "poisoned", "dropped")
        ],
    ),
    (
        "mqredis_queue_dead_letters_total",
        "counter",
        "Dead letters made from messages of the queue.",
        lambda s: [({}, s.dead)],
    ),
)


def blocking(manager: object) -> QueueManager:
    """The queue manager. Raises InvalidArgument if it is one of asyncio, or none: a thread reads the metrics."""
    if not isinstance(manager, QueueManager):
        raise InvalidArgument(
            f"metrics need a queue manager of mqredis.connect, which is blocking, not {type_name(manager)}"
        )
    return manager


def render(manager: QueueManager, pattern: str | None = None) -> str:
    """All metrics as text; ``pattern``: only queues that match this glob. Raises BrokerUnavailable."""
    return render_text(manager_metrics(manager, pattern))


def manager_metrics(manager: QueueManager, pattern: str | None = None) -> list[Metric]:
    """The metrics of :func:`render`."""
    start = time.monotonic()
    info = manager.info()
    queues = manager.queues(pattern)
    statistics = list(_statistics(manager, queues))
    own = {"manager": manager.name}
    found = [
        Metric(
            name,
            kind,
            about,
            [
                ({**own, "queue": each.name, **labels}, value)
                for each in statistics
                for labels, value in samples(each)
            ],
        )
        for name, kind, about, samples in _QUEUE
    ]
    # Dead letters of the system count whatever the pattern is, as do those of queues that it leaves out.
    found += _failed(manager, [*queues, *(manager.queues("system$;dead*") if pattern else ())])
    took = time.monotonic() - start
    for name, about, figure in (
        ("mqredis_manager_messages", "Messages of all queues.", info.messages),
        ("mqredis_manager_bytes", "Size of the messages of all queues.", info.bytes),
        ("mqredis_manager_sessions", "Sessions of clients.", info.sessions),
        ("mqredis_manager_transactions", "Open transactions.", info.transactions),
        ("mqredis_manager_throttled", "1 while every send is refused.", int(info.throttled)),
        ("mqredis_scrape_seconds", "How long the broker took to tell all this.", took),
    ):
        found.append(Metric(name, "gauge", about, [(own, figure)]))
    changes = Metric("mqredis_manager_changes_total", "counter", "Changes ever made.", [(own, info.history)])
    return [*found, changes, *_server(manager)]


def _failed(manager: QueueManager, queues: Iterable[QueueInfo]) -> list[Metric]:
    """Failed messages, and the number from which on the broker's tools warn."""
    bound = manager.context.settings.failed_messages_warning
    own = {"manager": manager.name}
    found = [({**own, "queue": each.queue}, each.messages) for each in failed.select(queues, bound)]
    about = "Messages in a ;poison, or in a queue of dead letters."
    warning = "The setting failed_messages_warning of this exporter."
    return [
        Metric("mqredis_failed_messages", "gauge", about, found),
        Metric("mqredis_failed_messages_warning", "gauge", warning, [(own, bound)]),
    ]


def _statistics(manager: QueueManager, queues: Iterable[QueueInfo]) -> Iterable[QueueStatistics]:
    for queue in queues:
        # Subqueues are counted with their queue, and the series of reply queues would never end.
        if ";" in queue.name or is_reply_queue(queue.name):
            continue
        try:
            yield manager.statistics(queue.name)
        except QueueNotFound:
            continue  # deleted meanwhile


# Commands that run scripts, by the names under which the server counts them.
_SCRIPTS = re.compile(r"cmdstat_(fcall|evalsha|eval)$")
_LATENCY = re.compile(r"latency_percentiles_usec_(fcall|evalsha|eval)$")


def _server(manager: QueueManager) -> list[Metric]:
    """Durations of scripts on the server, for all managers together; nothing if the user may not read them."""
    calls: list[Sample] = []
    seconds: list[Sample] = []
    for command, fields in _info(manager, "commandstats", _SCRIPTS):
        calls.append(({"command": command}, float(fields["calls"])))
        seconds.append(({"command": command}, float(fields["usec"]) / 1e6))
    quantiles = [
        ({"command": command, "quantile": f"{float(name[1:]) / 100:g}"}, float(value) / 1e6)
        for command, fields in _info(manager, "latencystats", _LATENCY)
        for name, value in fields.items()
    ]
    latency, about = "mqredis_server_script_latency_seconds", "How long one ran, by quantile."
    return [
        Metric("mqredis_server_script_calls_total", "counter", "Scripts run by the server.", calls),
        Metric("mqredis_server_script_seconds_total", "counter", "How long they ran.", seconds),
        Metric(latency, "summary", about, quantiles),
    ]


def _info(manager: QueueManager, section: str, wanted: re.Pattern[str]) -> list[tuple[str, Labels]]:
    """Rows ``name:key=value,...`` of a section of INFO."""
    return [
        (match[1], dict(pair.partition("=")[::2] for pair in text.split(",")))
        for name, text in manager.run(server_facts.section(section)).items()
        if (match := wanted.match(name))
    ]
