"""Queues of failed messages, ``;poison`` and dead letters, and whether they hold more than an operator wants.

``QueueManager.failed_messages``, ``operations.statistics``, ``prometheus.queue_metrics`` and ``doctor.advice`` use it.
The console (``columns``, ``pages.failures``) takes names from here, and knows no dead letter queues of retry policies.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from mqredis import keys
from mqredis.models import FailedMessages, QueueInfo, RetryPolicy
from mqredis.operations import queue
from mqredis.operations.context import Context
from mqredis.steps import Steps, procedure

# The subqueue of messages that have failed for good.
POISON = ";poison"
SYSTEM_DEAD_LETTERS = (keys.DEAD_LETTER, keys.TRANSACTIONAL_DEAD_LETTER)


def dead_letter_queues(policies: Iterable[RetryPolicy | None]) -> set[str]:
    """The dead letter queues of the system, and those that these retry policies name."""
    named = {policy.dead_letter_queue for policy in policies if policy and policy.dead_letter_queue}
    return named.union(SYSTEM_DEAD_LETTERS)


def holds_failed(path: str, dead_letters: Collection[str]) -> bool:
    """Does this queue hold messages that failed?"""
    return path.endswith(POISON) or path in dead_letters


def warning(path: str, messages: int, bound: int) -> str:
    """The warning about a queue with more failed messages than ``bound``."""
    return (
        f"{messages} failed messages are in {path}, more than failed_messages_warning ({bound}): "
        f"look at them with mqredis browse '{path}', put them back with mqredis redrive, or purge them"
    )


def select(infos: Iterable[QueueInfo], bound: int) -> list[FailedMessages]:
    """The queues of failed messages among these, which must include those of the system, if they exist: they are part
    of the result in any case. A queue of dead letters that a policy names is found if the queue with the policy is
    among these, too."""
    rows = {row.name: row for row in infos}
    dead_letters = dead_letter_queues(row.retry for row in rows.values())
    found = dict.fromkeys(SYSTEM_DEAD_LETTERS, (0, 0))
    found |= {
        name: (row.messages, row.bytes) for name, row in rows.items() if holds_failed(name, dead_letters)
    }
    return [
        FailedMessages(
            queue=name,
            messages=messages,
            bytes=size,
            warning=warning(name, messages, bound) if messages > bound else None,
        )
        for name, (messages, size) in sorted(found.items())
    ]


@procedure
def failed_messages(context: Context) -> Steps[list[FailedMessages]]:
    """All queues of failed messages of the manager."""
    infos = yield from queue.listing(context, None)
    return select(infos, context.settings.failed_messages_warning)
