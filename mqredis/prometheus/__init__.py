"""Metrics for Prometheus: of the broker, and of watched clients. Only ``Collector`` needs a package.

Applications make an ``Exporter`` or a ``Collector`` (docs/metrics.md). ``mqredis exporter`` (``cli.work``) and
``worker.metrics`` make an ``Exporter``.
"""

from __future__ import annotations

from mqredis.prometheus.collector import Collector
from mqredis.prometheus.exporter import Exporter
from mqredis.prometheus.meter import Meter
from mqredis.prometheus.queue_metrics import render
from mqredis.prometheus.text import CONTENT_TYPE

__all__ = ["CONTENT_TYPE", "Collector", "Exporter", "Meter", "render"]
