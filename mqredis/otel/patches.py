"""Wraps the methods of both interfaces and the worker's handlers, so that they make spans, until ``uninstrument``.

Applications call ``instrument`` and ``uninstrument`` as functions of ``mqredis.otel`` (docs/metrics.md). The wrappers
rely on the names and order of arguments of the methods (``body``, ``items``, ``properties``, ``locks``, ``queue``,
``message``) and of ``Attempts.run``. The worker is imported by ``instrument`` alone.
"""

from __future__ import annotations

import inspect
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from types import TracebackType
from typing import Any, Self

from opentelemetry import trace

import mqredis.asyncio
import mqredis.client
from mqredis.asyncio.pending import opening
from mqredis.errors import IoTimeout
from mqredis.models import Message, Outgoing, Sent
from mqredis.models.properties import MAX_PROPERTIES
from mqredis.models.text import typed
from mqredis.operations import checks
from mqredis.operations.locked import Locked
from mqredis.operations.send import outgoing
from mqredis.otel.recorder import (
    Attributes,
    Processing,
    Recorder,
    activate,
    carrier,
    current,
    described,
    destination,
    links_of,
)

_originals: dict[tuple[type, str], Any] = {}
# Is a method under way that makes a span? One that it calls makes none, such as ``receive`` in ``lock(transaction=)``.
_under_way: ContextVar[bool] = ContextVar("mqredis.otel", default=False)


class _Span(ABC):
    """Records one call in a ``with`` block around the original method, which gets ``args`` and ``kwargs``."""

    kind = "send"

    def __init__(self, recorder: Recorder, name: str, owner: Any, args: tuple[Any, ...], kwargs: Any) -> None:
        self.recorder, self.owner, self.args, self.kwargs = recorder, owner, args, dict(kwargs)
        self.common = recorder.attributes(name, self.kind, self.queue())
        self.result: Any = None
        self.began, self.began_ns = time.monotonic(), time.time_ns()

    def argument(self, at: int, name: str) -> Any:
        """An argument by its position and name; None without it, which the method refuses."""
        return self.args[at] if len(self.args) > at else self.kwargs.get(name)

    def replace(self, at: int, name: str, value: Any) -> None:
        """Give the method another value for an argument."""
        if len(self.args) > at:
            self.args = (*self.args[:at], value, *self.args[at + 1 :])
        else:
            self.kwargs[name] = value

    def queue(self) -> str:
        """Name of the queue."""
        queue = getattr(self.owner, "queue", self.owner)
        return str(queue.name)

    def place(self) -> Attributes:
        """Attributes of the broker's address, of the manager, and of a temporary queue."""
        owner = getattr(self.owner, "queue", self.owner)
        manager = getattr(owner, "manager", owner)
        found = {"messaging.mqredis.manager": manager.name, **destination(self.queue())}
        if endpoint := manager.driver.endpoint:
            found["server.address"], found["server.port"] = endpoint
        return found

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.finish(error)

    @abstractmethod
    def finish(self, error: BaseException | None) -> None:
        """Record the end of the call."""

    def record(
        self, messages: Sequence[Message], about: Attributes, error: BaseException | None
    ) -> Attributes:
        """Make the span of a call that has ended, linked to the spans that sent the messages. ``about``: attributes of
        these. Returns the attributes of metrics."""
        extra = {**self.place(), **about}
        span = self.recorder.start(self.common, extra, links=links_of(messages), started_ns=self.began_ns)
        return self.recorder.end(span, self.common, self.began, error)


class _Send(_Span):
    """A send: each message without a trace context gets that of the span."""

    # The position of the body among the arguments.
    body_at = 0
    batch = False

    def __enter__(self) -> Self:
        self.extra = self.place()
        self.span = self.recorder.start(self.common, self.extra)
        # The context manager that makes the span the present one, until ``finish``.
        self.present = trace.use_span(self.span, record_exception=False, set_status_on_exception=False)
        self.present.__enter__()
        try:
            self.inject(carrier())
        except BaseException as error:
            self.finish(error)
            raise
        return self

    def inject(self, context: dict[str, str]) -> None:
        """Put the context into the message."""
        body = self.argument(self.body_at, "body")
        if isinstance(body, Outgoing):
            self.replace(self.body_at, "body", _carrying(body, context))
        else:
            properties = self.kwargs.get("properties")
            if properties is None:
                properties = {}
            if isinstance(properties, Mapping) and len(both := {**context, **properties}) <= MAX_PROPERTIES:
                self.kwargs["properties"] = both

    def sent(self) -> list[Sent]:
        """The result of the send."""
        return [self.result] if isinstance(self.result, Sent) else []

    def finish(self, error: BaseException | None) -> None:
        self.present.__exit__(None, None, None)
        if error is None:
            self.span.set_attributes(described(self.sent(), self.batch))
        labels = self.recorder.end(self.span, self.common, self.began, error)
        if error is None:
            self.recorder.sent.add(max(len(self.sent()), 1), labels)


class _SendMany(_Send):
    batch = True

    def inject(self, context: dict[str, str]) -> None:
        items = self.argument(0, "items")
        if items is not None:
            messages = [outgoing(item, {}) for item in checks.several(items, "items")]
            self.replace(0, "items", [_carrying(message, context) for message in messages])

    def sent(self) -> list[Sent]:
        return list(self.result)


class _Request(_Send):
    body_at = 1

    def queue(self) -> str:
        return str(getattr(self.argument(0, "queue"), "name", ""))


class _Reply(_Request):
    def queue(self) -> str:
        return str(getattr(self.argument(0, "message"), "response_queue", None) or "")


class _Receive(_Span):
    """A read: its span begins when the call began, and is linked to the spans that sent the messages."""

    kind = "receive"

    def finish(self, error: BaseException | None) -> None:
        several = isinstance(self.result, list)
        items = self.result if several else [self.result] if self.result is not None else []
        messages: list[Message] = [getattr(item, "message", item) for item in items]
        nothing = isinstance(error, IoTimeout)  # a timeout without a message is not a failure
        labels = self.record(messages, described(messages, several or nothing), None if nothing else error)
        if messages:
            self.recorder.consumed.add(len(messages), labels)


class _Settle(_Span):
    kind = "settle"

    def finish(self, error: BaseException | None) -> None:
        message = self.owner.message
        self.record([message], {"messaging.message.id": typed(message.message_id)}, error)


class _SettleMany(_Span):
    kind = "settle"

    def finish(self, error: BaseException | None) -> None:
        locks = self.argument(0, "locks")
        if not isinstance(locks, Sequence):
            locks = ()
        messages = [lock.message for lock in locks if isinstance(lock, Locked)]
        self.record(messages, described(messages, True), error)


def _carrying(message: Outgoing, context: dict[str, str]) -> Outgoing:
    """The message with the context among its properties, unless they would be too many."""
    properties = {**context, **message.properties}
    if not context or len(properties) > MAX_PROPERTIES:
        return message
    return message.replace(properties=properties)


# Class, method, and kind of record, for both interfaces. A test in tests/otel/test_otel.py fails for a new method that
# sends or takes messages; what has spans is listed in docs/metrics.md.
_METHODS: tuple[tuple[str, str, type[_Span]], ...] = (
    ("Queue", "send", _Send),
    ("Queue", "send_many", _SendMany),
    ("Queue", "send_group", _SendMany),
    ("GroupWriter", "send", _Send),
    ("QueueManager", "request", _Request),
    ("QueueManager", "reply", _Reply),
    ("Queue", "receive", _Receive),
    ("Queue", "receive_many", _Receive),
    ("Queue", "receive_group", _Receive),
    ("Queue", "receive_by_lookup_id", _Receive),
    ("Queue", "lock", _Receive),
    ("Queue", "lock_many", _Receive),
    ("Queue", "lock_by_lookup_id", _Receive),
    ("Cursor", "receive", _Receive),
    ("Cursor", "lock", _Receive),
    ("Browser", "take", _Receive),
    ("Queue", "commit_many", _SettleMany),
    ("LockedMessage", "commit", _Settle),
    ("LockedMessage", "abort", _Settle),
    ("LockedMessage", "reject", _Settle),
)


@contextmanager
def _recording(span: _Span) -> Iterator[_Span]:
    """Record one call. The methods that it calls are not recorded."""
    token = _under_way.set(True)
    try:
        with span:
            yield span
    finally:
        _under_way.reset(token)


def _traced(original: Callable[..., Any], name: str, kind: type[_Span]) -> Callable[..., Any]:
    @wraps(original)
    def traced(owner: Any, *args: Any, **kwargs: Any) -> Any:
        recorder = current()
        if recorder is None or _under_way.get():  # None: a bound method that the caller kept
            return original(owner, *args, **kwargs)
        with _recording(kind(recorder, name, owner, args, kwargs)) as span:
            span.result = original(owner, *span.args, **span.kwargs)
        return span.result

    return traced


def _traced_async(original: Callable[..., Any], name: str, kind: type[_Span]) -> Callable[..., Any]:
    @wraps(original)
    async def traced(owner: Any, *args: Any, **kwargs: Any) -> Any:
        recorder = current()
        if recorder is None or _under_way.get():
            return await original(owner, *args, **kwargs)
        with _recording(kind(recorder, name, owner, args, kwargs)) as span:
            span.result = await original(owner, *span.args, **span.kwargs)
        return span.result

    return traced


def _handled(original: Callable[..., BaseException | None]) -> Callable[..., BaseException | None]:
    @wraps(original)
    def traced(attempts: Any, unit: Any, *args: Any) -> BaseException | None:
        recorder = current()
        if recorder is None:
            return original(attempts, unit, *args)
        with Processing(recorder, unit.messages, attempts.consumer.payload.many) as processing:
            processing.error = original(attempts, unit, *args)
        return processing.error

    return traced


def instrument(*, tracer_provider: Any = None, meter_provider: Any = None) -> None:
    """Record the calls of every client and worker of this process from now on. Default providers: the global ones.

    Called again: with other providers.
    """
    from mqredis.worker.attempts import Attempts

    activate(Recorder(tracer_provider, meter_provider))
    if _originals:
        return
    for interface in (mqredis.client, mqredis.asyncio):
        for cls_name, method, kind in _METHODS:
            cls = getattr(interface, cls_name)
            original = vars(cls)[method]
            inner = inspect.unwrap(original)
            if inspect.iscoroutinefunction(original):
                _put(cls, method, original, _traced_async(original, method, kind))
            elif inspect.iscoroutinefunction(inner):  # a result that may be awaited or entered
                _put(cls, method, original, opening(_traced_async(inner, method, kind)))
            else:
                _put(cls, method, original, _traced(original, method, kind))
    _put(Attempts, "run", vars(Attempts)["run"], _handled(vars(Attempts)["run"]))


def _put(cls: type, name: str, original: Any, wrapped: Any) -> None:
    _originals[cls, name] = original
    setattr(cls, name, wrapped)


def uninstrument() -> None:
    """Stop recording: every method is the original one again."""
    for (cls, name), original in _originals.items():
        setattr(cls, name, original)
    _originals.clear()
    activate(None)
