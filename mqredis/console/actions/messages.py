"""Actions on messages that wait: delete, restore, move, put back, reschedule.

``console.actions`` lists them; ``pages.action`` runs them.

They run in parts of about a second: an ``Unfinished`` makes progress.html, whose form console.js sends again by itself
with the cursor, and with the token of the first form. Each calls a method of ``Operator``, so the log has the names of
those: a purge is "delete" or "trash" there. ``scheduled=`` of the count has to be that of the action. ``purge`` takes
only available messages, unlike ``mqredis queue purge``. Tests set ``ACTING`` and ``STEPS``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from time import monotonic
from typing import Any

from mqredis.asyncio import QueueManager
from mqredis.console import formats
from mqredis.console.actions.base import (
    Action,
    Field,
    Preview,
    Unfinished,
    Values,
    lookup_id,
    needed,
    operator_of,
    seconds,
    to_queue,
    whole,
)
from mqredis.errors import InvalidArgument
from mqredis.keys import is_journal_or_system
from mqredis.models.operator import BulkResult, Choice

# Calls of the broker for one count. Seconds after which an action on many messages shows how far it is, and the calls
# between two looks at the clock.
COUNTING, ACTING, STEPS = 100, 1.0, 10
# Seconds that deleted messages stay in ``;trash``, from where they can be restored: the day of ``_TRASH`` below and of
# docs/console.md.
TRASH = 86_400.0

_QUEUE = Field("queue", "Queue", "hidden")
_ID = Field("id", "Message", "hidden")
_SELECTOR = Field(
    "selector", "Only messages for which this is true", help="A selector, such as region = 'EU'. Empty: all."
)
_TRASH = Field("trash", "Keep in ;trash for a day, from where it can be restored", "check")


def _choice(values: Values, scheduled: bool | None = None) -> Choice:
    """One message, or all that the selector chooses."""
    chosen: Choice = {"scheduled": scheduled}
    if values.get("id"):
        chosen["lookup_ids"] = [lookup_id(values)]
    elif values.get("selector"):
        chosen["selector"] = values["selector"]
    return chosen


def _check_one(values: Values, result: BulkResult) -> None:
    """Raises InvalidArgument if the form names one message, and it is not there or locked."""
    if values.get("id") and not result.changed:
        raise InvalidArgument("the message is locked, or it is not in the queue any more")


async def _counted(manager: QueueManager, values: Values, scheduled: bool | None = None) -> Preview:
    name = needed(values, "queue")
    choice: Choice = {**_choice(values, scheduled), "steps": COUNTING}
    found = await manager.operator("console", source="console").count(name, **choice)
    _check_one(values, found)
    count = formats.plural(found.changed, "message")
    if values.get("id"):
        count = f"the message {formats.hex_id(lookup_id(values))}"
    trash = "" if is_journal_or_system(name) else "on"  # journals and queues of the system have no trash
    text = f"This affects {'' if found.finished else 'at least '}{count} of {name}."
    return Preview(text, {"trash": trash}, found.changed if found.finished else None)


async def _preview_waiting(manager: QueueManager, values: Values) -> Preview:
    return await _counted(manager, values)


async def _preview_available(manager: QueueManager, values: Values) -> Preview:
    return await _counted(manager, values, scheduled=False)


async def _preview_delayed(manager: QueueManager, values: Values) -> Preview:
    return await _counted(manager, values, scheduled=True)


async def _preview_trash(manager: QueueManager, values: Values) -> Preview:
    return await _counted(manager, {**values, "queue": f"{needed(values, 'queue').partition(';')[0]};trash"})


async def _all(
    action: Callable[..., Awaitable[BulkResult]], values: Values, what: str, *given: Any, **options: Any
) -> str | Unfinished:
    """Carry out an action on the chosen messages for about a second.

    The fields ``cursor`` and ``token`` continue an action where it ended.
    """
    until = monotonic() + ACTING
    options |= {"token": values.get("token"), "steps": STEPS}
    result = await action(*given, **options, cursor=values.get("cursor"))
    while not result.finished and monotonic() < until:
        result = await action(*given, **options, cursor=result.cursor)
    _check_one(values, result)
    done = f"{formats.plural(result.changed, 'message')} of {given[0]} {what}"
    if result.cursor is None:
        return f"{done}."
    return Unfinished(f"{done} so far.", result.changed, result.cursor)


async def _delete(manager: QueueManager, values: Values) -> str | Unfinished:
    trash = TRASH if values.get("trash") == "on" else None
    what = "moved to the trash" if trash else "deleted"
    return await _all(
        operator_of(manager, values).delete,
        values,
        what,
        needed(values, "queue"),
        trash=trash,
        **_choice(values),
    )


async def _purge(manager: QueueManager, values: Values) -> str | Unfinished:
    trash = TRASH if values.get("trash") == "on" else None
    what = "moved to the trash" if trash else "removed"
    choice = _choice(values, scheduled=False)
    return await _all(
        operator_of(manager, values).delete, values, what, needed(values, "queue"), trash=trash, **choice
    )


async def _restore(manager: QueueManager, values: Values) -> str | Unfinished:
    name = needed(values, "queue").partition(";")[0]
    return await _all(operator_of(manager, values).restore, values, "restored", name, **_choice(values))


async def _move(manager: QueueManager, values: Values) -> str | Unfinished:
    target = needed(values, "target")
    choice = _choice(values, scheduled=False)
    return await _all(
        operator_of(manager, values).move,
        values,
        f"moved to {target}",
        needed(values, "queue"),
        target,
        **choice,
    )


async def _redrive(manager: QueueManager, values: Values) -> str | Unfinished:
    choice = _choice(values, scheduled=False)
    options = {"to": values.get("to") or None, "limit": whole(values, "limit")}
    return await _all(
        operator_of(manager, values).redrive, values, "put back", needed(values, "queue"), **options, **choice
    )


async def _cancel(manager: QueueManager, values: Values) -> str | Unfinished:
    choice = _choice(values, scheduled=True)
    return await _all(
        operator_of(manager, values).cancel, values, "cancelled", needed(values, "queue"), **choice
    )


async def _reschedule(manager: QueueManager, values: Values) -> str | Unfinished:
    delay = seconds(values, "delay")
    if delay is None:
        raise InvalidArgument("delay is missing")
    choice, what = _choice(values, scheduled=True), f"rescheduled to {formats.duration(delay)} from now"
    return await _all(
        operator_of(manager, values).reschedule, values, what, needed(values, "queue"), delay=delay, **choice
    )


async def _run_now(manager: QueueManager, values: Values) -> str | Unfinished:
    choice = _choice(values, scheduled=True)
    return await _all(
        operator_of(manager, values).run_now, values, "made available", needed(values, "queue"), **choice
    )


ACTIONS = (
    Action(
        "delete",
        "Delete the message",
        (_QUEUE, _ID, _TRASH),
        _preview_waiting,
        _delete,
        to_queue,
        by_operator=True,
        destroys=True,
    ),
    Action(
        "purge",
        "Purge",
        (_QUEUE, _SELECTOR, _TRASH),
        _preview_available,
        _purge,
        to_queue,
        by_operator=True,
        destroys=True,
    ),
    Action(
        "restore",
        "Restore from the trash",
        (_QUEUE, _SELECTOR),
        _preview_trash,
        _restore,
        to_queue,
        by_operator=True,
    ),
    Action(
        "move",
        "Move messages",
        (
            _QUEUE,
            _ID,
            Field("target", "To", help="A subqueue of the same queue, or the queue itself."),
            _SELECTOR,
        ),
        _preview_available,
        _move,
        to_queue,
        by_operator=True,
    ),
    Action(
        "redrive",
        "Put messages back",
        (
            _QUEUE,
            _ID,
            _SELECTOR,
            Field("to", "Into this queue", help="Empty: the queue that each message came from."),
            Field("limit", "At most", "number", "Empty: all."),
        ),
        _preview_available,
        _redrive,
        to_queue,
        by_operator=True,
    ),
    Action(
        "cancel",
        "Cancel delayed messages",
        (_QUEUE, _ID, _SELECTOR),
        _preview_delayed,
        _cancel,
        to_queue,
        by_operator=True,
        destroys=True,
    ),
    Action(
        "reschedule",
        "Reschedule delayed messages",
        (_QUEUE, _ID, _SELECTOR, Field("delay", "Seconds from now", "number")),
        _preview_delayed,
        _reschedule,
        to_queue,
        by_operator=True,
    ),
    Action(
        "run-now",
        "Run delayed messages now",
        (_QUEUE, _ID, _SELECTOR),
        _preview_delayed,
        _run_now,
        to_queue,
        by_operator=True,
    ),
)
