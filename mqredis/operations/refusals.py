"""Texts of errors of calls on a queue: which queue has refused the call, and what to do.

``queue_call``, ``handle``, ``send`` and ``pipelines`` raise errors with them. Other errors have the docstring of their
class (``mqredis.errors``), or the text that their command gives to ``check``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from mqredis.commands import transactions
from mqredis.commands.address import Address
from mqredis.commands.arguments import transaction_of
from mqredis.errors import (
    DuplicateMessage,
    GetInhibited,
    ManagerQuotaExceeded,
    MessageLocked,
    MessageNotFound,
    MessageTooLarge,
    MqError,
    PutInhibited,
    QueueNotAvailable,
    QueueQuotaExceeded,
    TransactionSequence,
    TransactionTooLarge,
    TransactionUsage,
)
from mqredis.steps import Call

# What to do about a message that is too large.
LARGER = "raise max_message_bytes of the queue and of the settings, or send it in segments (send_group)"
# The text of each error.
TEXTS: dict[type[MqError], str] = {
    QueueQuotaExceeded: "the message would exceed the quota of {queue}: receive or purge messages, or raise "
    "quota_messages or quota_bytes with update_queue (mqredis queue set)",
    ManagerQuotaExceeded: "queue manager {manager!r} takes no message for {queue}: if info() shows that it is "
    "throttled, run mqredis throttle off, or call throttle(False); otherwise its quota is used up: receive or purge "
    "messages, or raise it with set_quota (mqredis quota)",
    PutInhibited: "sending to {queue} is switched off: update_queue(name, put_inhibited=False) "
    "(mqredis queue set --no-put-inhibited) switches it on",
    GetInhibited: "reading from {queue} is switched off: update_queue(name, get_inhibited=False) "
    "(mqredis queue set --no-get-inhibited) switches it on",
    DuplicateMessage: "a message with {key} was accepted by {queue} within the window: count this one as sent, or give "
    "it another dedup_key",
    MessageTooLarge: "the message is larger than {queue} takes: " + LARGER,
    TransactionTooLarge: "transaction {transaction!r} holds as many operations as a transaction may have, so the "
    "call on {queue} did nothing: commit it, and go on in the next one",
    MessageNotFound: "no such message is available in {queue}: it was received or moved, has expired, or is locked or "
    "delayed",
    MessageLocked: "a reader or a transaction has locked the message of {queue}, or it is delayed: try again when it "
    "is available (mqredis show locks names the holder of a lock)",
    QueueNotAvailable: "{queue} of queue manager {manager!r} was deleted after this handle was opened: open it again "
    "if it was created anew",
}
# The errors that :func:`explained` replaces by ones with a better text.
EXPLAINED: tuple[type[MqError], ...] = (*TEXTS, TransactionUsage, TransactionSequence)
# The errors that :func:`of_batch` replaces.
OF_BATCHES = (QueueQuotaExceeded, ManagerQuotaExceeded, PutInhibited, DuplicateMessage)
_DUPLICATE_OF_BATCH = (
    "a message of it has a dedup_key that {queue} has accepted within the window, or that another message of it has: "
    "leave out such messages, or give them another dedup_key"
)


def text(kind: type[MqError], address: Address, call: Call[Any] | None = None, key: str | None = None) -> str:
    """The text of an error of this class about a call on a queue; ``key``: dedup key of the message that is sent."""
    queue = f"queue {address.path!r}"
    if call is not None and call.script == "publish":
        queue = f"topic {address.path!r} or a queue that subscribed to it"
    if call is not None and call.script == "bulk":
        queue = f"the target of an action on {queue}"
    return TEXTS[kind].format(
        queue=queue,
        manager=address.manager.manager,
        key="the same dedup key" if key is None else f"the dedup key {key!r:.60}",
        transaction="" if call is None else transaction_of(call),
    )


def explained(error: MqError, call: Call[Any], address: Address, key: str | None = None) -> MqError:
    """The error to raise in place of ``error`` (one of :data:`EXPLAINED`), with which a call on a queue was refused."""
    if isinstance(error, TransactionUsage):
        return transactions.usage(call, address.path)
    if isinstance(error, TransactionSequence):
        transaction = transaction_of(call)
        return transactions.not_open(transaction) if transaction else error
    return type(error)(text(type(error), address, call, key))


def of_batch(error: MqError, manager: str, paths: Iterable[str]) -> MqError:
    """The error to raise in place of ``error`` (one of :data:`OF_BATCHES`), with which a publication of a data pipeline
    was refused; ``paths``: of its queues. A publication is refused as a whole."""
    queue = " or ".join(f"queue {path!r}" for path in dict.fromkeys(paths))
    reason = _DUPLICATE_OF_BATCH if isinstance(error, DuplicateMessage) else TEXTS[type(error)]
    reason = reason.format(queue=queue, manager=manager)
    return type(error)(f"nothing of the batch was written. {reason[0].upper()}{reason[1:]}")
