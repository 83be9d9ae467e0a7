"""Metrics for ``prometheus_client``, beside those of an application.

Applications register it with ``prometheus_client`` (docs/metrics.md), which calls ``collect`` for each scrape. It must
give what ``text.render_text`` gives: tests/prometheus/test_collector.py compares.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from mqredis.client import QueueManager
from mqredis.errors import MissingDependency, MqError
from mqredis.prometheus.queue_metrics import blocking, manager_metrics
from mqredis.prometheus.text import Metric

log = logging.getLogger("mqredis")


class Collector:
    """A collector for a registry of ``prometheus_client``: ``REGISTRY.register(Collector(qm))``.

    ``manager``: the queue manager to report; None: none. ``pattern``: only queues that match this glob.
    ``sources``: more metrics, such as ``Meter().metrics``. Raises MissingDependency without ``prometheus_client``,
    InvalidArgument for a manager of asyncio.

    If the broker cannot be reached, its metrics are left out with a warning, and the others of the registry remain.
    """

    def __init__(
        self,
        manager: QueueManager | None = None,
        *,
        pattern: str | None = None,
        sources: Sequence[Callable[[], Iterable[Metric]]] = (),
    ) -> None:
        try:
            from prometheus_client.core import Metric as ClientMetric
        except ImportError as error:
            raise MissingDependency.of("mqredis.prometheus.Collector", "prometheus", error) from None
        self._metric: Any = ClientMetric
        self._manager = None if manager is None else blocking(manager)
        self._pattern, self._sources = pattern, sources

    def describe(self) -> list[Any]:
        """Return no metrics. Without this method ``register`` would read them from the broker."""
        return []

    def collect(self) -> Iterator[Any]:
        """The present metrics."""
        found: list[Metric] = []
        for source in (self._broker, *self._sources):
            try:
                found += source()
            except MqError as error:
                log.warning("the metrics cannot be read: %s", error)
        for metric in found:
            for name in metric.names:
                # prometheus_client adds _total to the names of counters when it writes the type.
                converted = self._metric(name.removesuffix("_total"), metric.about, metric.kind)
                for suffix, labels, value in metric.series:
                    converted.add_sample(name + suffix, labels, value)
                yield converted

    def _broker(self) -> list[Metric]:
        """The metrics of the queue manager."""
        return [] if self._manager is None else manager_metrics(self._manager, self._pattern)
