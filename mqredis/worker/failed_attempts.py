"""What follows an attempt that did not succeed: it is counted and logged, and its messages are given back.

``run`` makes one for each consumer. ``attempts`` counts with it, in the thread of a loop or of the renewer, and the
loops ask it how they give messages back, with the texts of :mod:`mqredis.operations.giveback`. What becomes of these is
decided by the retry policy of their queue. docs/worker.md has a table of all events.

``_ENDS`` has a text for each ``final`` of a policy (tests/worker/test_register.py compares). A new property of the
report needs its name in ``failure.names`` of lua/features/failure.lua, so that it is removed when the message is put
back (tests/contract/test_stored_texts.py compares).
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Sequence

from mqredis.models import Message
from mqredis.operations import giveback
from mqredis.worker.consumer import Consumer
from mqredis.worker.outcomes import Cancelled, GivenUp, NotValid, Reject, RetryLater
from mqredis.worker.retry import UNLIMITED
from mqredis.worker.shutdown import Shutdown

log = logging.getLogger("mqredis.worker")

# The longest end of a traceback, in characters.
MAX_TRACEBACK = 4000
_ENDS = {
    "poison": "it goes to ;poison",
    "dead_letter": "it becomes a dead letter",
    "reject": "it is rejected",
    "drop": "it is deleted",
}


class FailedAttempts:
    """The failed attempts of one consumer. The counters are those of ``Consumer``.

    ``worker``: its name in reports. ``refresh_policy`` reads the retry policy of a queue into the consumer again, and
    returns whether it could. ``sealed``: bodies are secret, so texts that may quote one are left out.
    ``raise_errors``: the run ends with the first failure.
    """

    def __init__(
        self,
        consumer: Consumer,
        worker: str,
        shutdown: Shutdown,
        refresh_policy: Callable[[Consumer, str], bool],
        *,
        sealed: bool,
        raise_errors: bool,
    ) -> None:
        self._consumer = consumer
        self._about = {"worker": worker, "handler": consumer.name}
        self._sealed = sealed
        self._shutdown = shutdown
        self._refresh_policy = refresh_policy
        self._raise_errors = raise_errors

    def count(self, error: BaseException, messages: Sequence[Message], *, lapsed: bool = False) -> None:
        """Count the messages that were rejected or that failed, and log them. ``lapsed``: after their lease."""
        consumer = self._consumer
        if isinstance(error, Reject) and not consumer.isolates(messages):
            for message in messages:
                consumer.count(rejected=1)
                log.warning(
                    "message %#018x of %s is rejected: %s",
                    message.lookup_id,
                    message.queue,
                    giveback.text_of(error),
                )
        elif not isinstance(error, Cancelled | RetryLater):
            self._failed(error, messages, lapsed)
            if consumer.isolates(messages):
                consumer.count(isolated=len(messages))
            else:
                consumer.count(failed=len(messages))

    def give_back(
        self,
        queue: str,
        error: BaseException,
        messages: Sequence[Message],
        give_back: Callable[[str], None],
    ) -> None:
        """Give the messages back after a failure, unless that was done, and wait if their queue has no policy."""
        if isinstance(error, GivenUp):
            return
        give_back(self.return_instruction(error, messages))
        self.pause_without_policy(queue, error)

    def return_instruction(self, error: BaseException, messages: Sequence[Message]) -> str:
        """How messages are given back after their handler has ended with this error. It was counted before: that has
        read the policy again, by which a batch is isolated."""
        if isinstance(error, Cancelled):
            return giveback.unattempted()
        if isinstance(error, RetryLater):
            return giveback.unattempted(
                self._consumer.retry.delay if error.seconds is None else error.seconds
            )
        if self._consumer.isolates(messages):
            return giveback.isolated()
        if isinstance(error, Reject):
            reason = error.kind if self._sealed and isinstance(error, NotValid) else giveback.text_of(error)
            return giveback.final_failure(reason, self._about)
        about = {**self._about, "error": self._text(error)}
        if not self._sealed:
            about["traceback"] = "".join(traceback.format_exception(error))[-MAX_TRACEBACK:]
        return giveback.failed(self._text(error), about)

    def pause_without_policy(self, queue: str, error: BaseException) -> None:
        """Wait if no retry policy delays the message that has failed: it is in a subqueue, or the policy was removed.
        One that is rejected leaves, except for ``;poison``.

        It was given back before, so its lease does not matter.
        """
        if isinstance(error, Cancelled | RetryLater) or self._consumer.policy_of(queue):
            return
        if not isinstance(error, Reject) or queue.endswith(";poison"):
            self._shutdown.stopping.wait(self._consumer.retry.delay)

    def _text(self, error: BaseException) -> str:
        return giveback.description(error, sealed=self._sealed)

    def _failed(self, error: BaseException, messages: Sequence[Message], lapsed: bool) -> None:
        consumer, queue = self._consumer, messages[0].queue
        consumer.last_error = self._text(error)
        if self._raise_errors and isinstance(error, Exception):
            self._shutdown.handler_failed(error)
            return
        known = self._refresh_policy(consumer, queue)
        if consumer.isolates(messages):
            found = ", ".join(f"{message.lookup_id:#018x}" for message in messages)
            said = f"a batch of {len(messages)} messages of {queue}, which are tried again alone: {found}"
        else:
            said = "; ".join(_failed_message(consumer, message, known, lapsed) for message in messages)
        log.error("%s failed with %s", consumer.name, said, exc_info=error)


def _failed_message(consumer: Consumer, message: Message, known: bool, lapsed: bool) -> str:
    """The text for the log: the message, which attempt has failed, and what follows. ``known``: its policy is."""
    if lapsed:
        outcome = f"attempt {message.attempts}, which had failed before, when the lease lapsed"
    elif not known:
        outcome = f"attempt {message.attempts}: its retry policy could not be read"
    else:
        outcome = attempt(consumer, message)
    return f"message {message.lookup_id:#018x} of {message.queue} in {outcome}"


def attempt(consumer: Consumer, message: Message) -> str:
    """The text for the log: which attempt has failed, and what follows by the retry policy of the queue.

    lua/features/retry_policy.lua decides what follows; tests/contract/test_stored_texts.py compares the two.
    """
    policy = consumer.policy_of(message.queue)
    number = f"attempt {message.attempts}"
    if policy is None and ";" in message.queue.removesuffix(";lapsed"):
        return f"{number}: the message stays there"
    if policy is None:
        return (
            f"{number}: the queue has no retry policy, so the message is available at once; "
            f"the consumer waits {consumer.retry.delay:g} s"
        )
    if policy.attempts < UNLIMITED:
        number += f" of {policy.attempts}"
    if message.attempts >= policy.attempts:
        return f"{number}: {_ENDS[policy.final]}"
    rounds, begun = divmod(message.attempts, 1 + policy.immediate)
    if begun:
        return f"{number}: the next try is at once"
    pause = min(policy.delay * policy.factor ** min(rounds - 1, 64), policy.max_delay)
    return f"{number}: the next try is in {pause:g} s"
