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

from mqredis.commands import read
from mqredis.errors import InvalidArgument
from mqredis.models import Message, RetryPolicy
from mqredis.operations import checks
from mqredis.settings import LONGEST_LEASE
from mqredis.worker.payload import Payload, payload_of
from mqredis.worker.retry import Retry

Handler = Callable[..., Any]

_MOST_CONCURRENCY = 10_000


class ConsumerOptions(TypedDict, total=False):
    """Keyword arguments of ``Worker.consumer`` but for its name, which ``Worker.cron`` takes, too. A test in
    tests/worker/test_register.py compares both."""

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
    """A handler and how its messages are read: the options of ``Worker.consumer``, which describes them.

    While a worker runs, the threads of its loops and that of the renewer change the attributes from ``handled`` on.
    Raises InvalidArgument.
    """

    handler: Handler
    queues: tuple[str, ...]
    concurrency: int
    lease: float | None
    chosen_retry: Retry | None
    """The queue's policy counts if None."""
    batch: int
    prefetch: int
    time_limit: float | None
    max_hold: float
    rate: float | None
    """Messages per second."""
    dead_letter: str | None
    create: Mapping[str, Any] | None
    name: str
    # What the signature of the handler tells.
    takes_tx: bool = field(init=False)
    is_async: bool = field(init=False)
    payload: Payload = field(init=False)
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

    def __post_init__(self) -> None:
        checks.count(self.concurrency, "concurrency", _MOST_CONCURRENCY)
        if self.batch != 0:
            checks.count(self.batch, "batch", read.BATCH)
        checks.count(self.prefetch, "prefetch", read.BATCH)
        if not isinstance(self.chosen_retry, Retry | None):
            raise InvalidArgument(
                f"retry must be a Retry, such as Retry(attempts=3), not {self.chosen_retry!r:.40}"
            )
        if not isinstance(self.create, Mapping | None):
            raise InvalidArgument(
                "create must be a dict of the properties of new queues ({} for the defaults), "
                f"not {self.create!r:.40}"
            )
        for what, text in (("dead_letter", self.dead_letter), ("name", self.name)):
            if not isinstance(text, str | None):
                raise InvalidArgument(f"{what} must be a str, not {text!r:.40}")
        if self.dead_letter in self.queues:
            raise InvalidArgument(
                f"dead_letter {self.dead_letter!r} is a queue of this consumer, which would try its messages again "
                "without end: name another queue, or give retry=Retry(attempts=None)"
            )
        checks.seconds(self.max_hold, "max_hold", positive=True)
        if self.lease is not None:
            checks.seconds(self.lease, "lease", positive=True, most=LONGEST_LEASE)
        if self.time_limit is not None:
            checks.seconds(self.time_limit, "time_limit", positive=True)
        self._read_signature()

    def _read_signature(self) -> None:
        """Set what the signature of the handler tells. Raises InvalidArgument."""
        handler = self.handler
        # What a decorator has made of a function has its name and its annotations.
        if not hasattr(handler, "__qualname__") or not callable(handler):
            raise InvalidArgument(f"a handler must be a function or a method, not {handler!r:.40}")
        name = f"{handler.__module__}.{handler.__qualname__}"
        parameters = inspect.signature(handler).parameters.values()
        positional = [
            parameter
            for parameter in parameters
            if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
        ]
        more = [*positional[2:], *(each for each in parameters if each.kind is each.KEYWORD_ONLY)]
        required = [parameter for parameter in more if parameter.default is parameter.empty]
        if not positional or required:
            raise InvalidArgument(f"the handler {name} must take (message) or (message, tx)")
        if inspect.isgeneratorfunction(handler) or inspect.isasyncgenfunction(handler):
            raise InvalidArgument(
                f"the handler {name} has a `yield`, so a call of it would run nothing: write it without one"
            )
        self.takes_tx = len(positional) > 1
        self.is_async = inspect.iscoroutinefunction(handler)
        try:
            self.payload = payload_of(handler, positional[0].name)
        except Exception as error:  # an annotation may be anything
            reason, _, _ = str(error).partition("\n")
            raise InvalidArgument(
                f"the annotation of the first argument of the handler {name} cannot be used; it may be "
                "mqredis.Message, str, bytes, or what pydantic validates, such as a BaseModel or a dataclass: "
                f"{reason}"
            ) from error
        if self.batch > 1 and not self.payload.many:
            raise InvalidArgument("a batch handler takes a list: annotate its first argument as list[...]")
        self.batch = self.batch or (64 if self.payload.many else 1)
        self.name = self.name or name

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
        if len(messages) < 2:
            return False
        policy = self.policy_of(messages[0].queue)
        return policy is not None and policy.isolate

    def policy_of(self, queue: str) -> RetryPolicy | None:
        """The retry policy for messages of this queue or subqueue; None if it has none."""
        return self.policies.get(queue.removesuffix(";lapsed"))

    def policy(self, present: RetryPolicy | None, group_exclusive: bool = False) -> RetryPolicy:
        """The retry policy that this consumer wants for one of its queues, which has the policy ``present`` now."""
        if self.chosen_retry is not None or present is None:
            return self.retry.policy(self.dead_letter)
        changes: dict[str, Any] = {}
        if self.dead_letter is not None:
            changes |= {"final": "dead_letter", "dead_letter_queue": self.dead_letter}
        keeps_order = group_exclusive and present.cycles == 0  # of each group, which isolation would change
        if not keeps_order:
            changes["isolate"] = True
        return present.model_copy(update=changes)


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
