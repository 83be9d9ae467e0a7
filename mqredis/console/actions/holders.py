"""Actions on those who hold messages: end a lock, reject a message, abort a transaction.

``console.actions`` lists them; ``pages.action`` runs them.

``pages.messages`` uses ``lock_of``, too. None of it does not mean that the message is free: the broker decides again
when the action runs. Locks of a transaction and claims of pipelines cannot be released alone; message.html and
in_flight.html show other buttons for them.
"""

from __future__ import annotations

from mqredis.asyncio import QueueManager
from mqredis.console import formats
from mqredis.console.actions.base import Action, Field, Preview, Values, lookup_id, needed, operator_of, to
from mqredis.errors import InvalidArgument, TransactionSequence
from mqredis.models import LockInfo, Match, Message, TransactionInfo
from mqredis.models.lookup_ids import hex_id

# Pages of open transactions, or of locks, among which one is looked for.
_PAGES = 50


async def lock_of(manager: QueueManager, message: Message) -> LockInfo | None:
    """The lock of a message; None: it has ended meanwhile, or so many others are there that it was not found."""
    place = None
    for _ in range(_PAGES):
        page = await manager.locks(message.queue, match=Match(token=message.token), after=place, limit=1)
        if page.items:
            return page.items[0]
        place = page.next
        if place is None:
            break
    return None


async def _held_by_reader(manager: QueueManager, values: Values) -> str:
    """The message that a form is about, in words. Raises InvalidArgument if no reader has locked it, and says who
    holds it."""
    name, number = needed(values, "queue"), lookup_id(values)
    found = await manager.message(name, number)
    if found.state == "claimed":
        raise InvalidArgument(
            "a data pipeline has claimed the message with others: mqredis.spark.release gives all of them back"
        )
    if found.state != "locked":
        raise InvalidArgument("the message is not locked any more")
    lock = await lock_of(manager, found.message)
    if lock and lock.transaction:
        raise InvalidArgument(
            f"transaction {lock.transaction} holds the message: abort the transaction, which undoes all that it has "
            "done"
        )
    return f"1 message of {name}, {hex_id(number)}"


async def _preview_release(manager: QueueManager, values: Values) -> Preview:
    message = await _held_by_reader(manager, values)
    return Preview(
        f"This ends the lock of {message}. It is given back as after a failed attempt. Its reader is refused when it "
        "settles the message; a worker cancels the handler."
    )


async def _preview_reject(manager: QueueManager, values: Values) -> Preview:
    message = await _held_by_reader(manager, values)
    return Preview(
        f"This rejects {message}. It becomes a dead letter if its sender asked for one, and is deleted if not. Its "
        "reader is refused when it settles the message."
    )


async def _release(manager: QueueManager, values: Values) -> str:
    await _end(manager, values, None)
    return f"The lock of message {hex_id(lookup_id(values))} of {values['queue']} was ended."


async def _reject(manager: QueueManager, values: Values) -> str:
    await _end(manager, values, needed(values, "reason"))
    return f"Message {hex_id(lookup_id(values))} of {values['queue']} was rejected."


async def _end(manager: QueueManager, values: Values, reject: str | None) -> None:
    name, number = needed(values, "queue"), lookup_id(values)
    operator = operator_of(manager, values)
    result = await operator.release(name, [number], reject=reject, token=values.get("token"))
    if not result.changed:
        held = "a transaction or a pipeline holds it" if result.locked else "no reader holds it any more"
        raise InvalidArgument(f"message {hex_id(number)} stays as it is: {held}")


async def _transaction(manager: QueueManager, values: Values) -> TransactionInfo:
    wanted, after = needed(values, "transaction"), None
    for _ in range(_PAGES):
        page = await manager.transactions(after=after)
        for each in page:
            if each.id == wanted:
                return each
        after = page.next
        if after is None:
            break
    raise TransactionSequence(f"transaction {wanted!r:.60} is not open any more")


async def _preview_abort(manager: QueueManager, values: Values) -> Preview:
    found = await _transaction(manager, values)
    client = f" of {found.client.name} on {found.client.host}" if found.client.name else ""
    operations = formats.plural(found.operations, "operation")
    return Preview(
        f"This aborts transaction {found.id}{client} with {operations}: what it sent is gone, and what it received is "
        "back in its queue. Its client is refused from then on."
    )


async def _abort(manager: QueueManager, values: Values) -> str:
    wanted = needed(values, "transaction")
    await operator_of(manager, values).abort(wanted, token=values.get("token"))
    return f"Transaction {wanted} was aborted."


ACTIONS = (
    Action(
        "release",
        "End the lock",
        (Field("queue", "Queue", "hidden"), Field("id", "Message", "hidden")),
        _preview_release,
        _release,
        to("/in-flight"),
        by_operator=True,
    ),
    Action(
        "reject",
        "Reject the message",
        (Field("queue", "Queue", "hidden"), Field("id", "Message", "hidden"), Field("reason", "Reason")),
        _preview_reject,
        _reject,
        to("/in-flight"),
        by_operator=True,
        destroys=True,
    ),
    Action(
        "abort",
        "Abort the transaction",
        (Field("transaction", "Transaction", "hidden"),),
        _preview_abort,
        _abort,
        to("/in-flight"),
        by_operator=True,
    ),
)
