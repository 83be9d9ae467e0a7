"""OpenTelemetry: ``mqredis.otel.instrument()`` gives every send, read, settlement and handler a span.

The context of a trace travels in the properties ``traceparent`` and ``tracestate`` of a message (or whatever the
global propagator writes). Before ``instrument`` nothing of this is imported by the broker's client, and after
``uninstrument`` its methods are the original ones again. ``docs/metrics.md`` shows what is recorded.
"""

from __future__ import annotations

from mqredis.errors import MissingDependency

try:
    from mqredis.otel.gauges import observe
    from mqredis.otel.patches import instrument, uninstrument
    from mqredis.otel.recorder import context_of, process
except ImportError as error:
    raise MissingDependency.of("mqredis.otel", "otel", error) from None

__all__ = ["context_of", "instrument", "observe", "process", "uninstrument"]
