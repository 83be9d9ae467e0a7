"""Spans and metrics in memory, for both stores."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import mqredis
from mqredis import otel
from tests.support.backend import Backend

SETTINGS = mqredis.Settings(allow_volatile=True, test_clock=True, recheck_seconds=0.5)


@pytest.fixture
def qm(backend: Backend) -> Iterator[mqredis.QueueManager]:
    with mqredis.connect(backend.client(), manager="o", settings=SETTINGS) as manager:
        yield manager


class Recorded:
    """Recorded spans and metrics."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.tracers = TracerProvider()
        self.tracers.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.reader = InMemoryMetricReader()
        self.meters = MeterProvider([self.reader])

    def spans(self, name: str | None = None) -> list[Any]:
        return [s for s in self.exporter.get_finished_spans() if name is None or s.name == name]

    def span(self, name: str) -> Any:
        (found,) = self.spans(name)
        return found

    def metric(self, name: str) -> dict[tuple[str, ...], Any]:
        """Data points by operation and queue, each "" where the metric has none."""
        data = self.reader.get_metrics_data()
        assert data is not None
        return {
            (
                str((point.attributes or {}).get("messaging.operation.name", "")),
                str((point.attributes or {}).get("messaging.destination.name", "")),
            ): point
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if metric.name == name
            for point in metric.data.data_points
        }


@pytest.fixture
def recorded() -> Iterator[Recorded]:
    found = Recorded()
    otel.instrument(tracer_provider=found.tracers, meter_provider=found.meters)
    yield found
    otel.uninstrument()
    found.tracers.shutdown()
    found.meters.shutdown()


@pytest.fixture
def worker_of(qm: mqredis.QueueManager) -> Callable[..., int]:
    def run(worker: Any) -> int:
        return worker.run(burst=True, manager=qm, signals=False)

    return run
