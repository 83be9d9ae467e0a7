"""Spans and metrics of one call or one handler, by the semantic conventions for messaging.

``patches`` has the calls of clients and the handlers of workers recorded; ``process`` and ``context_of`` are for
readers of their own. Dashboards of users hold the names of spans, attributes and metrics: those of the conventions, and
those that begin with ``messaging.mqredis.``. docs/metrics.md lists them. The conventions are not stable yet: a name of
theirs that has changed is changed here with an entry in CHANGELOG.md.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Self

from opentelemetry import metrics, propagate, trace
from opentelemetry.context import Context, attach, detach
from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import Link, Span, SpanKind, StatusCode, TracerProvider

from mqredis import __version__
from mqredis.errors import InvalidArgument
from mqredis.keys import REPLIES, is_reply_queue
from mqredis.models import Message, Sent
from mqredis.models.text import typed

SYSTEM = "mqredis"
Attributes = dict[str, str | int]
# Stands for the names of reply queues, of which each client has others.
REPLY_QUEUE = f"{REPLIES}*"
# Kind of a span by the type of its operation; a process span alone is a consumer's.
KINDS = {
    "send": SpanKind.PRODUCER,
    "receive": SpanKind.CLIENT,
    "settle": SpanKind.CLIENT,
    "process": SpanKind.CONSUMER,
}


class Recorder:
    """Makes spans and metrics with one pair of providers."""

    def __init__(self, tracers: TracerProvider | None = None, meters: MeterProvider | None = None) -> None:
        self.tracer = trace.get_tracer("mqredis", __version__, tracers)
        meter = metrics.get_meter("mqredis", __version__, meters)
        self.duration = meter.create_histogram(
            "messaging.client.operation.duration",
            "s",
            "How long a call to the broker took, waiting included.",
        )
        self.sent = meter.create_counter("messaging.client.sent.messages", "{message}", "Messages sent.")
        self.consumed = meter.create_counter(
            "messaging.client.consumed.messages", "{message}", "Messages read from queues."
        )
        self.processing = meter.create_histogram(
            "messaging.process.duration", "s", "How long a handler ran, its commit included."
        )

    def attributes(self, operation: str, kind: str, queue: str) -> Attributes:
        """The attributes that spans and metrics of an operation share.

        The name of a reply queue is an attribute of spans alone (``destination``): metrics would get a series for each.
        """
        found: Attributes = {
            "messaging.system": SYSTEM,
            "messaging.operation.name": operation,
            "messaging.operation.type": kind,
        }
        if is_reply_queue(queue):
            return found | {"messaging.destination.template": REPLY_QUEUE}
        return found | {"messaging.destination.name": queue}

    def start(
        self,
        common: Attributes,
        extra: Mapping[str, str | int],
        *,
        context: Context | None = None,
        links: Sequence[Link] = (),
        started_ns: int | None = None,
    ) -> Span:
        """Begin the span of an operation."""
        where = common.get("messaging.destination.template") or common["messaging.destination.name"]
        return self.tracer.start_span(
            f"{common['messaging.operation.name']} {where}",
            context,
            KINDS[str(common["messaging.operation.type"])],
            {**common, **extra},
            links,
            started_ns,
        )

    def end(self, span: Span, common: Attributes, began: float, error: BaseException | None) -> Attributes:
        """End the span, and record its duration. Returns the attributes of metrics."""
        labels = dict(common)
        if error is not None:
            labels["error.type"] = type(error).__qualname__
            span.set_attribute("error.type", labels["error.type"])
            if isinstance(error, Exception):
                span.record_exception(error)
            span.set_status(StatusCode.ERROR, str(error))
        span.end()
        histogram = self.processing if common["messaging.operation.type"] == "process" else self.duration
        histogram.record(time.monotonic() - began, labels)
        return labels


# The recorder that `instrument` made; None: nothing is recorded.
_current: list[Recorder] = []


def activate(recorder: Recorder | None) -> None:
    """Set the recorder of this process."""
    _current[:] = [recorder] if recorder is not None else []


def current() -> Recorder | None:
    """The recorder of this process; None before ``instrument``."""
    return _current[0] if _current else None


def carrier() -> dict[str, str]:
    """The context of the present trace as properties of a message; empty if there is none."""
    found: dict[str, str] = {}
    propagate.inject(found)
    return found


def context_of(message: Message) -> Context:
    """The trace context that a message carries, for a span of your own; an empty one if it carries none."""
    texts = {name: value for name, value in message.properties.items() if isinstance(value, str)}
    return propagate.extract(texts, Context())


def links_of(messages: Sequence[Message]) -> list[Link]:
    """Links to the spans that sent messages, as far as these say so."""
    spans = [trace.get_current_span(context_of(message)).get_span_context() for message in messages]
    return [Link(span) for span in spans if span.is_valid]


def destination(queue: str) -> Attributes:
    """Attributes of spans for a queue whose name metrics leave out."""
    if not is_reply_queue(queue):
        return {}
    return {"messaging.destination.name": queue, "messaging.destination.temporary": True}


def described(items: Sequence[Message | Sent], batch: bool) -> Attributes:
    """Attributes of messages that were sent or read: the id of one message, the number of a batch."""
    if batch:
        return {"messaging.batch.message_count": len(items)}
    found: Attributes = {}
    for item in items[:1]:
        found["messaging.message.id"] = typed(item.message_id)
        if isinstance(item, Message):
            found["messaging.message.body.size"] = len(item.body)
            if item.correlation_id is not None:
                found["messaging.message.conversation_id"] = typed(item.correlation_id)
    return found


class Processing:
    """The span of a handler: a child of the span that sent its one message, or linked to those of a batch."""

    def __init__(self, recorder: Recorder, messages: Sequence[Message], batch: bool) -> None:
        self._recorder = recorder
        self._common = recorder.attributes("process", "process", messages[0].queue)
        self._began = time.monotonic()
        extra = described(messages, batch) | destination(messages[0].queue)
        if not batch:
            extra["messaging.mqredis.delivery_count"] = messages[0].delivery_count
        links = links_of(messages)
        parent = context_of(messages[0]) if links and not batch else None
        self._context = parent or Context()
        self.span = recorder.start(self._common, extra, context=parent, links=links if batch else ())
        # The error of the handler.
        self.error: BaseException | None = None

    def __enter__(self) -> Self:
        self._token = attach(trace.set_span_in_context(self.span, self._context))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        detach(self._token)
        self._recorder.end(self.span, self._common, self._began, error or self.error)


@contextmanager
def process(*messages: Message) -> Iterator[Span]:
    """A process span for a reader of your own: ``with queue.lock() as lock, process(lock.message): ...``.

    With one message it is a child of the span that sent it, with more it is linked to each. Does nothing before
    ``instrument``. Raises InvalidArgument without a message.
    """
    if not messages:
        raise InvalidArgument("process takes at least one message")
    recorder = current()
    if recorder is None:
        yield trace.INVALID_SPAN
        return
    with Processing(recorder, messages, len(messages) > 1) as processing:
        yield processing.span
