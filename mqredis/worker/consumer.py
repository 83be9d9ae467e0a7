"""What a worker knows about one of its handlers.

``Worker`` makes one for each handler, which users see in ``Worker.consumers``; nearly all of the package uses it, and
``otel.patches`` reads ``payload.many``. docs/worker.md describes the options. The name of a consumer is the label of
its metrics, and operators pause it by that name (``commands.workers.pause_field``).
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypedDict

from mqredis.errors import InvalidArgument
from mqredis.models import Message, RetryPolicy
from mqredis.operations import checks
from mqredis.settings import LONGEST_LEASE
from mqredis.worker.payload import Payload, payload_of
from mqredis.worker.rate import rate_of
from mqredis.worker.retry import Retry

Handler = Callable[..., Any]

_MOST_CONCURRENCY = 10_000


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
    # ``metrics.worker_metrics``, ``Worker.health`` and the heartbeat (``WorkerConsumer``), but for ``isolated``;
    # ``Running`` adds them up: a burst ends when they stay the same.
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
