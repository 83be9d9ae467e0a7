"""Gauges of a queue manager for OpenTelemetry.

Applications register them by ``mqredis.otel.observe``. Dashboards of users hold the names, which docs/metrics.md lists;
the same figures for Prometheus are in ``prometheus.queue_metrics``.
"""

from __future__ import annotations

from collections.abc import Iterator

from opentelemetry import metrics
from opentelemetry.metrics import CallbackOptions, MeterProvider, Observation

from mqredis import __version__
from mqredis.client import QueueManager


def observe(manager: QueueManager, meters: MeterProvider | None = None) -> None:
    """Let a meter provider (None: the global one) read how many failed messages this manager holds.

    Call it in one process for each manager, since the numbers are those of the broker. Each collection of metrics
    asks the broker once. An MqError is left to the provider, which logs it and goes on.
    """
    meter = metrics.get_meter("mqredis", __version__, meters)

    def failed(_: CallbackOptions) -> Iterator[Observation]:
        for each in manager.failed_messages():
            yield Observation(
                each.messages,
                {"messaging.mqredis.manager": manager.name, "messaging.destination.name": each.queue},
            )

    def bound(_: CallbackOptions) -> Iterator[Observation]:
        yield Observation(
            manager.context.settings.failed_messages_warning, {"messaging.mqredis.manager": manager.name}
        )

    text = "Messages in a ;poison, or in a queue of dead letters."
    meter.create_observable_gauge("mqredis.failed_messages", [failed], "{message}", text)
    text = "The setting failed_messages_warning of this process."
    meter.create_observable_gauge("mqredis.failed_messages.warning", [bound], "{message}", text)
