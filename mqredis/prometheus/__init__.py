"""Figures for Prometheus: of the broker, and of clients that are watched. Needs nothing to be installed."""

from __future__ import annotations

from mqredis.prometheus.exporter import Exporter
from mqredis.prometheus.meter import Meter
from mqredis.prometheus.queue_metrics import render
from mqredis.prometheus.text import CONTENT_TYPE

__all__ = ["CONTENT_TYPE", "Exporter", "Meter", "render"]
