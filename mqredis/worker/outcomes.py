"""How a handler can end besides returning, and which errors of the broker are not its fault.

Handlers raise some of them (``mqredis.worker`` exports these; docs/worker.md); ``failed_attempts`` says how
their messages are settled, and the loops do it. A new error of mqredis/errors.py that says that the broker can do
nothing at the moment belongs in BROKER_ERRORS: any other counts as a failed attempt.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

from mqredis.errors import (
    BrokerFull,
    BrokerRefused,
    BrokerUnavailable,
    DurabilityNotReached,
    HistoryRolledBack,
    ManagerNotFound,
    OutcomeUnknown,
    SessionExpired,
    UnsafeServer,
)
from mqredis.operations import checks

R = TypeVar("R")
log = logging.getLogger("mqredis.worker")

# Errors of a commit, or of a send of a unit, that are not the handler's: the broker cannot do anything at the moment.
# The message goes back as no attempt, and ``threads`` pauses the loop; ManagerNotFound ends the worker.
BROKER_ERRORS = (
    BrokerFull,
    BrokerRefused,
    BrokerUnavailable,
    HistoryRolledBack,
    ManagerNotFound,
    OutcomeUnknown,
    SessionExpired,
    UnsafeServer,
)


def accept_lower_durability(work: Callable[[], R]) -> R:
    """Run a call. A change that was made with less durability than the settings ask counts as made, since handling the
    message again would be worse."""
    try:
        return work()
    except DurabilityNotReached as short:
        log.warning("%s", short)
        if short.__cause__ is not None:
            raise short.__cause__ from None
        result: R = short.result
        return result


class Reject(Exception):
    """Raised by a handler: this message can never be handled, so its retry policy ends at once, with this reason."""


class NotValid(Reject):
    """The body is not what the handler's annotation demands. ``kind``: of what kind the fault is, where the text must
    not be stored since it may quote the body."""

    def __init__(self, text: str, kind: str) -> None:
        super().__init__(f"not valid: {text}")
        self.kind = f"not valid: {kind}"


class RetryLater(Exception):
    """Raised by a handler: try this message again after ``seconds`` (None: the delay of its consumer's Retry).

    That is not a failure, and does not count as an attempt. Raises InvalidArgument for a number that is negative.
    """

    def __init__(self, seconds: float | None = None) -> None:
        if seconds is not None:
            checks.seconds(seconds, "seconds of RetryLater", negative=False)
        super().__init__("try again" if seconds is None else f"try again in {seconds} s")
        self.seconds = seconds


class Cancelled(BaseException):
    """Raised inside a handler if its message is lost, its time is over, or its worker is told to end.

    Not an ``Exception``, so that a handler's ``except Exception`` does not swallow it. In a coroutine it is
    ``asyncio.CancelledError`` instead.
    """


class GivenUp(Cancelled):
    """The handler did not end when it was cancelled, and its messages were given back before it has ended."""


class HandlerCancelled(Exception):
    """An operator has cancelled the handler. That is a failed attempt."""


class TimeLimitExceeded(Exception):
    """The handler took longer than its consumer's ``time_limit``, or held its message for ``max_hold``."""
