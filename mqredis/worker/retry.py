"""The retry policy that a consumer gives its queues.

Applications make a ``Retry`` for ``Worker.consumer``, and so does ``django.runner``; ``consumer`` turns it into the
policy of its queues, which is stored in the broker (``queues``). docs/worker.md describes the defaults.
"""

from __future__ import annotations

from dataclasses import dataclass

from mqredis.errors import InvalidArgument
from mqredis.models import RetryPolicy
from mqredis.operations import checks

# More attempts than a message can have: the policy never ends. It is the most that RetryPolicy.cycles may be
# (mqredis/models/queue.py). Queues store it, so it stays; ``failed_attempts`` does not show it.
UNLIMITED = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Retry:
    """The retry policy that a consumer gives its queues when the worker starts. Times are seconds.

    Raises InvalidArgument for a value that is out of range or of another type.
    """

    attempts: int | None = 5
    """How often a message is tried in all: 1 is once, None is without a limit. An attempt that killed its process
    counts, too; one that ended because the worker shut down does not."""
    delay: float = 1.0
    """Pause before the second attempt, growing by ``factor`` up to ``max_delay``. Also that of RetryLater without
    seconds, and of a consumer whose queue has no policy (``failed_attempts``)."""
    factor: float = 2.0
    """Each pause is so many times as long as the one before it."""
    max_delay: float = 300.0
    """Longest pause."""
    jitter: float = 0.1
    """Each pause is longer by up to this part of it, so that messages that fail together do not come back together."""
    final: str = "poison"
    """What becomes of a message after its last attempt, as in :class:`mqredis.RetryPolicy`: "poison", "dead_letter",
    "reject" or "drop", which deletes it."""

    def __post_init__(self) -> None:
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
        """The policy of a queue. ``dead_letter``: the queue for messages that failed, instead of ``final``.

        It isolates: a message that kills its process must not take others with it. ``Consumer.policy`` leaves that out
        where the queue keeps the order of groups.
        """
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


Retry.__init__ = checks.options("Retry")(Retry.__init__)  # type: ignore[method-assign]  # a dataclass writes it
