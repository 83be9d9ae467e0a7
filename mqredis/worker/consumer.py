"""What a worker knows about one of its handlers."""

from __future__ import annotations

import inspect
import random
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from mqredis.errors import InvalidArgument
from mqredis.worker.payload import Payload, payload_of

Handler = Callable[..., Any]

_RATE = re.compile(r"(\d+(?:\.\d+)?)\s*/\s*([smh])")
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}


@dataclass(frozen=True, slots=True)
class Retry:
    """When a message is tried again after its handler failed. Times are seconds."""

    #: How often a message is handed out in all before it is rejected; 0: no limit. A message that kills its
    #: process counts too.
    deliveries: int = 5
    #: Pause before the second try, growing by ``factor`` up to ``max_delay``.
    delay: float = 1.0
    factor: float = 2.0
    max_delay: float = 300.0
    #: Each pause is made longer by up to this part of it, so that failures do not come back all at once.
    jitter: float = 0.1

    def __post_init__(self) -> None:
        if self.deliveries < 0 or self.delay < 0 or self.factor < 1 or not 0 <= self.max_delay <= 86_400:
            raise InvalidArgument(
                "Retry: deliveries and delay from 0, factor from 1, max_delay up to 86400 s"
            )

    def over(self, deliveries: int) -> bool:
        """Was a message delivered so often that it is not tried again?"""
        return 0 < self.deliveries <= deliveries

    def pause(self, deliveries: int) -> float:
        """Seconds until the next try of a message that was delivered so often."""
        exponent = min(max(deliveries - 1, 0), 64)
        pause = min(self.delay * self.factor**exponent, self.max_delay)
        return pause * (1 + self.jitter * random.random())  # noqa: S311 - a spread, not a secret


@dataclass(slots=True, eq=False)
class Consumer:
    """A handler and how its messages are read."""

    handler: Handler
    queues: tuple[str, ...]
    concurrency: int
    lease: float | None
    retry: Retry
    batch: int
    time_limit: float | None
    max_hold: float
    rate: float | None
    dead_letter: str | None
    create: Mapping[str, Any] | None
    takes_tx: bool
    is_async: bool
    payload: Payload
    prefetch: int = 1
    name: str = ""
    handled: int = 0
    failed: int = 0
    rejected: int = 0
    #: time.monotonic() of the last look at the queues that worked; 0.0: none yet.
    looked: float = 0.0
    extra: dict[str, Any] = field(default_factory=dict)


def consumer_of(
    handler: Handler,
    queues: tuple[str, ...],
    *,
    concurrency: int = 1,
    lease: float | None = None,
    retry: Retry | None = None,
    batch: int = 0,
    prefetch: int = 1,
    time_limit: float | None = None,
    max_hold: float = 3600.0,
    rate: str | None = None,
    dead_letter: str | None = None,
    create: Mapping[str, Any] | None = None,
    name: str | None = None,
) -> Consumer:
    """Check what was given to a decorator, and read the handler's signature."""
    if not queues:
        raise InvalidArgument("a consumer needs at least one queue")
    if concurrency < 1 or not 0 <= batch <= 256:
        raise InvalidArgument("concurrency must be from 1, batch from 1 to 256")
    if not 1 <= prefetch <= 256:
        raise InvalidArgument(f"prefetch must be from 1 to 256, not {prefetch}")
    for what, value in (("lease", lease), ("time_limit", time_limit), ("max_hold", max_hold)):
        if value is not None and value <= 0:
            raise InvalidArgument(f"{what} must be more than 0 seconds")
    positional = [
        parameter
        for parameter in inspect.signature(handler).parameters.values()
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    ]
    required = [parameter for parameter in positional[2:] if parameter.default is parameter.empty]
    if not positional or required:
        raise InvalidArgument(f"{handler!r} must take (message) or (message, tx)")
    payload = payload_of(handler, positional[0].name)
    if batch > 1 and not payload.many:
        raise InvalidArgument("a batch handler takes a list: annotate its first argument as list[...]")
    return Consumer(
        handler=handler,
        queues=queues,
        concurrency=concurrency,
        lease=lease,
        retry=retry or Retry(),
        batch=batch or (64 if payload.many else 1),
        time_limit=time_limit,
        max_hold=max_hold,
        rate=rate_of(rate) if rate else None,
        dead_letter=dead_letter,
        create=create,
        prefetch=prefetch,
        takes_tx=len(positional) > 1,
        is_async=inspect.iscoroutinefunction(handler),
        payload=payload,
        name=name or f"{handler.__module__}.{handler.__qualname__}",
    )


def rate_of(text: str) -> float:
    """Messages per second, from "10/s", "100/m" or "1000/h"."""
    match = _RATE.fullmatch(text)
    if match is None or float(match[1]) <= 0:
        raise InvalidArgument(f"rate must look like 10/s, 100/m or 1000/h, not {text!r}")
    return float(match[1]) / _UNITS[match[2]]
