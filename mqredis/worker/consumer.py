"""What a worker knows about one of its handlers.

``Worker`` makes one for each handler; the loops, logs and metrics use it.
"""

from __future__ import annotations

import inspect
import re
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from typing import Any, TypedDict

from mqredis.errors import InvalidArgument
from mqredis.models import Message, RetryPolicy
from mqredis.operations import checks
from mqredis.settings import LONGEST_LEASE
from mqredis.worker.payload import Payload, payload_of

Handler = Callable[..., Any]

_RATE = re.compile(r"(\d+(?:\.\d+)?)\s*/\s*([smh])")
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}


# More attempts than a message can have: the policy never ends.
UNLIMITED = 1_000_000_000
_MOST_CONCURRENCY = 10_000


@dataclass(frozen=True, slots=True)
class Retry:
    """The retry policy that a consumer gives its queues when the worker starts. Times are seconds.

    Raises InvalidArgument for a value that is out of range or of another type. ``deliveries`` is the former name of
    ``attempts``.
    """

    attempts: int | None = 5
    """How often a message is tried in all: 1 is once, None is without a limit. An attempt that killed its process
    counts, too; one that ended because the worker shut down does not."""
    delay: float = 1.0
    """Pause before the second attempt, growing by ``factor`` up to ``max_delay``."""
    factor: float = 2.0
    """Each pause is so many times as long as the one before it."""
    max_delay: float = 300.0
    """Longest pause."""
    jitter: float = 0.1
    """Each pause is longer by up to this part of it, so that messages that fail together do not come back together."""
    final: str = "poison"
    """What becomes of a message after its last attempt, as in :class:`mqredis.RetryPolicy`: "poison", "dead_letter",
    "reject" or "drop", which deletes it."""
    deliveries: InitVar[int | None] = None
    """Former name of ``attempts``."""

    def __post_init__(self, deliveries: int | None) -> None:
        if deliveries is not None:
            warnings.warn("Retry(deliveries=) is now Retry(attempts=)", DeprecationWarning, stacklevel=3)
            object.__setattr__(self, "attempts", deliveries or None)
        if self.attempts is not None and (type(self.attempts) is not int or self.attempts < 1):
            raise InvalidArgument(
                "Retry: attempts must be an int: 1 to try once, more to try again, or None to try without a limit; "
                f"not {self.attempts!r:.40}"
            )
        for what in ("delay", "factor", "max_delay", "jitter"):
            value = getattr(self, what)
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise InvalidArgument(f"Retry: {what} must be a number, not {value!r:.40}")
        self.policy()

    def policy(self, dead_letter: str | None = None) -> RetryPolicy:
        """The policy of a queue. ``dead_letter``: the queue for messages that failed, instead of ``final``."""
        return RetryPolicy(
            immediate=0,
            cycles=UNLIMITED if self.attempts is None else self.attempts - 1,
            delay=self.delay,
            factor=self.factor,
            max_delay=self.max_delay,
            jitter=self.jitter,
            isolate=True,
            final=self.final if dead_letter is None else "dead_letter",  # type: ignore[arg-type]
            dead_letter_queue=dead_letter,
        )


class ConsumerOptions(TypedDict, total=False):
    """Keyword arguments of ``Worker.consumer`` but for its name, which ``Worker.cron`` takes, too.

    Change together with: ``Worker.consumer``, which documents them, and ``consumer_of``, which checks them; a test in
    tests/worker/test_register.py compares the three.
    """

    concurrency: int
    lease: float | None
    retry: Retry | None
    batch: int
    prefetch: int
    time_limit: float | None
    max_hold: float
    rate: str | None
    dead_letter: str | None
    create: Mapping[str, Any] | None


@dataclass(slots=True, eq=False)
class Consumer:
    """A handler and how its messages are read.

    While a worker runs, the threads of its loops and that of the keeper change the attributes from ``handled`` on.
    """

    handler: Handler
    queues: tuple[str, ...]
    concurrency: int
    lease: float | None
    chosen_retry: Retry | None
    """The queue's policy counts if None."""
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
    # Counters of messages since the consumer was registered. ``count`` changes them under a lock. Shown by
    # ``metrics.worker_metrics``, ``Worker.health`` and the heartbeat (``WorkerConsumer``); ``Running`` adds them up.
    handled: int = 0
    failed: int = 0
    rejected: int = 0
    isolated: int = 0
    """How many messages of failed batches are tried again alone."""
    last_error: str = ""
    """The text of the last failure, "" before the first one."""
    last_read: float = 0.0
    """time.monotonic() of the last successful read of the queues; 0.0 before the first one."""
    policies: dict[str, RetryPolicy | None] = field(default_factory=dict)
    """The retry policies of its queues, by name, as they were when the worker started or last saw a failure; None: it
    has been taken away since."""
    _counting: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False)

    def count(self, *, handled: int = 0, failed: int = 0, rejected: int = 0, isolated: int = 0) -> None:
        """Add to the counters. Several threads may do so at the same time."""
        with self._counting:
            self.handled += handled
            self.failed += failed
            self.rejected += rejected
            self.isolated += isolated

    @property
    def retry(self) -> Retry:
        """The policy that the consumer was given, or the default."""
        return self.chosen_retry or Retry()

    def isolates(self, messages: Sequence[Message]) -> bool:
        """Is each of these messages, which failed together, tried again alone?"""
        policy = self.policy_of(messages[0].queue)
        return len(messages) > 1 and policy is not None and policy.isolate

    def policy_of(self, queue: str) -> RetryPolicy | None:
        """The retry policy for messages of this queue or subqueue; None if it has none."""
        return self.policies.get(queue.removesuffix(";lapsed"))

    def policy(self, present: RetryPolicy | None, group_exclusive: bool = False) -> RetryPolicy:
        """The retry policy that this consumer wants for one of its queues, which has the policy ``present`` now."""
        if self.chosen_retry is not None or self.dead_letter is not None or present is None:
            return self.retry.policy(self.dead_letter)
        if group_exclusive and present.cycles == 0:
            return present  # it keeps the order of each group, which isolation would change
        return present.model_copy(update={"isolate": True})


Retry.__init__ = checks.options("Retry")(Retry.__init__)  # type: ignore[method-assign]  # a dataclass writes it


def queues_of(given: Sequence[object]) -> tuple[str, ...]:
    """The queues that ``Worker.consumer`` was given. Raises InvalidArgument."""
    if not given or callable(given[0]):
        raise InvalidArgument('a consumer needs the name of a queue: write @worker.consumer("queue")')
    names: list[str] = []
    for name in given:
        if not isinstance(name, str):
            raise InvalidArgument(f'write several queues as consumer("a", "b"), each a str, not {name!r:.40}')
        names.append(name)
    return tuple(names)


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
    """Check what was given to a decorator, and read the handler's signature. Raises InvalidArgument."""
    checks.count(concurrency, "concurrency", _MOST_CONCURRENCY)
    if batch != 0:
        checks.count(batch, "batch", 256)
    checks.count(prefetch, "prefetch", 256)
    if not isinstance(retry, Retry | None):
        raise InvalidArgument(f"retry must be a Retry, such as Retry(attempts=3), not {retry!r:.40}")
    if not isinstance(create, Mapping | None):
        raise InvalidArgument(
            f"create must be a dict of the properties of new queues ({{}} for the defaults), not {create!r:.40}"
        )
    for what, text in (("rate", rate), ("dead_letter", dead_letter), ("name", name)):
        if not isinstance(text, str | None):
            raise InvalidArgument(f"{what} must be a str, not {text!r:.40}")
    if not callable(handler):
        raise InvalidArgument(f"a handler must be a function, not {handler!r:.40}")
    for what, value, most in (
        ("lease", lease, LONGEST_LEASE),
        ("time_limit", time_limit, checks.LONGEST),
        ("max_hold", max_hold, checks.LONGEST),
    ):
        if value is not None:
            checks.seconds(value, what, positive=True, most=most)
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
        chosen_retry=retry,
        batch=batch or (64 if payload.many else 1),
        time_limit=time_limit,
        max_hold=max_hold,
        rate=None if rate is None else rate_of(rate),
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
