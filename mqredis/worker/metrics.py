"""Prometheus metrics of a worker: counters of its consumers, wake latencies, durations of calls.

``Worker.run`` serves them, and ``mqredis worker`` sets their address. A new metric needs a row in docs/metrics.md and a
panel in deploy/grafana.json (tests/prometheus/test_deploy.py checks both); a renamed one needs its pair in
``prometheus.text.RENAMED``.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from mqredis.client import QueueManager
from mqredis.drivers.net import urls
from mqredis.errors import InvalidArgument
from mqredis.prometheus import Exporter, Meter
from mqredis.prometheus.text import Metric, render_text
from mqredis.worker.consumer import Consumer

# An IPv6 address stands in brackets, as in URLs.
_ADDRESS = re.compile(r"(?:(?:\[([^\[\]]+)\]|([^:\[\]]*)):)?([0-9]+)")


def address(text: str) -> tuple[str, int]:
    """Host and port of "127.0.0.1:9465", "[::1]:9465" or "9465". Raises InvalidArgument."""
    found = _ADDRESS.fullmatch(str(text))
    if found is None or len(found[3]) > 5 or int(found[3]) > 65_535:
        raise InvalidArgument(f"metrics must be a port or host:port, not {text!r}")
    return found[1] or found[2] or "127.0.0.1", int(found[3])


def with_port_offset(text: str, offset: int) -> str:
    """The address of another process of the same worker, whose port is higher by ``offset``. Raises InvalidArgument.

    Port 0, any free one, stays 0.
    """
    host, port = address(text)
    if port == 0:
        return text
    moved = urls.address(host, port + offset)
    address(moved)
    return moved


def worker_metrics(consumers: Sequence[Consumer]) -> list[Metric]:
    """The counters since the consumers were registered, whose names differ in a worker (``Worker.consumer``)."""
    every = [({"consumer": consumer.name}, consumer) for consumer in consumers]
    handled = [(labels, c.handled) for labels, c in every]
    failed = [(labels, c.failed) for labels, c in every]
    rejected = [(labels, c.rejected) for labels, c in every]
    now = time.monotonic()
    since_read = [(labels, now - c.last_read) for labels, c in every if c.last_read]
    about = "Time since the queues were last read successfully."
    return [
        Metric("mqredis_worker_handled_total", "counter", "Messages that were handled.", handled),
        Metric("mqredis_worker_failed_total", "counter", "Messages whose handler failed.", failed),
        Metric("mqredis_worker_rejected_total", "counter", "Messages that were rejected.", rejected),
        Metric("mqredis_worker_seconds_since_read", "gauge", about, since_read),
    ]


@contextmanager
def served(where: str | None, manager: QueueManager, consumers: Sequence[Consumer]) -> Iterator[None]:
    """Serve the metrics at this address while the block lasts. None: serve nothing."""
    if where is None:
        yield
        return
    host, port = address(where)
    meter = Meter()
    meter.watch(manager)
    try:
        with Exporter(
            host=host, port=port, sources=[lambda: render_text(worker_metrics(consumers)), meter.render]
        ):
            yield
    finally:
        meter.unwatch(manager)
