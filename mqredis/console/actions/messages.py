"""Actions on messages that wait: delete, restore, move, put back, reschedule.

``console.actions`` lists them; ``pages.action`` runs them.

They run in parts of about a second: an ``Unfinished`` makes progress.html, whose form console.js sends again by itself
with the cursor, and with the token of the first form. Each calls a method of ``Operator``, so the log has the names of
those: a purge is "delete" or "trash" there. The count of the form chooses messages as the action does (``Choose``).
``purge`` takes only available messages, unlike ``mqredis queue purge``. ``delete`` is a right of its own, so its form
always names one message (``_one``). Tests set ``ACTING`` and ``STEPS``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from time import monotonic
from typing import Any

from mqredis.asyncio import QueueManager
from mqredis.asyncio.operator import Operator
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
from mqredis.keys import has_trash
from mqredis.models.lookup_ids import hex_id
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


# Which messages a form is about.
Choose = Callable[[Values], Choice]


def _one(values: Values) -> Choice:
    """The one message that the form is about. Raises InvalidArgument if it names none."""
    return {"lookup_ids": [lookup_id(values)]}


def _chosen(values: Values, scheduled: bool | None) -> Choice:
    """One message, or all that the selector chooses."""
    if values.get("id"):
        return {**_one(values), "scheduled": scheduled}
    return {"selector": values.get("selector") or None, "scheduled": scheduled}


_available = partial(_chosen, scheduled=False)
_delayed = partial(_chosen, scheduled=True)
_in_trash = partial(_chosen, scheduled=None)


def _check_one(values: Values, result: BulkResult) -> None:
    """Raises InvalidArgument if the form names one message, and it is not there or locked."""
    if values.get("id") and not result.changed:
        raise InvalidArgument("the message is locked, or it is not in the queue any more")


async def _counted(manager: QueueManager, values: Values, choose: Choose) -> Preview:
    name = needed(values, "queue")
    choice: Choice = {**choose(values), "steps": COUNTING}
    found = await manager.operator("console", source="console").count(name, **choice)
    _check_one(values, found)
    count = formats.plural(found.changed, "message")
    if values.get("id"):
        count = f"the message {hex_id(lookup_id(values))}"
    text = f"This affects {'' if found.finished else 'at least '}{count} of {name}."
    return Preview(
        text, {"trash": "on" if has_trash(name) else ""}, found.changed if found.finished else None
    )


_preview_available = partial(_counted, choose=_available)
_preview_delayed = partial(_counted, choose=_delayed)


async def _preview_trash(manager: QueueManager, values: Values) -> Preview:
    name = f"{needed(values, 'queue').partition(';')[0]};trash"
    return await _counted(manager, {**values, "queue": name}, _in_trash)


async def _act(
    manager: QueueManager,
    values: Values,
    *arguments: Any,
    act: Callable[..., Awaitable[BulkResult]],
    choose: Choose,
    done: str,
    **options: Any,
) -> str | Unfinished:
    """Carry out an action of :class:`Operator` on the chosen messages for about a second. ``done`` says so.

    The fields ``cursor`` and ``token`` continue an action where it ended.
    """
    operator, name = operator_of(manager, values), needed(values, "queue")
    until = monotonic() + ACTING
    options |= {**choose(values), "token": values.get("token"), "steps": STEPS}
    result = await act(operator, name, *arguments, **options, cursor=values.get("cursor"))
    while not result.finished and monotonic() < until:
        result = await act(operator, name, *arguments, **options, cursor=result.cursor)
    _check_one(values, result)
    text = f"{formats.plural(result.changed, 'message')} of {name} {done}"
    if result.cursor is None:
        return f"{text}."
    return Unfinished(f"{text} so far.", result.changed, result.cursor)


async def _remove(manager: QueueManager, values: Values, choose: Choose, done: str) -> str | Unfinished:
    trash = TRASH if values.get("trash") == "on" else None
    done = "moved to the trash" if trash else done
    return await _act(manager, values, act=Operator.delete, choose=choose, done=done, trash=trash)


async def _restore(manager: QueueManager, values: Values) -> str | Unfinished:
    values = {**values, "queue": needed(values, "queue").partition(";")[0]}
    return await _act(manager, values, act=Operator.restore, choose=_in_trash, done="restored")


async def _move(manager: QueueManager, values: Values) -> str | Unfinished:
    target = needed(values, "target")
    done = f"moved to {target}"
    return await _act(manager, values, target, act=Operator.move, choose=_available, done=done)


async def _redrive(manager: QueueManager, values: Values) -> str | Unfinished:
    options = {"to": values.get("to") or None, "limit": whole(values, "limit")}
    return await _act(manager, values, act=Operator.redrive, choose=_available, done="put back", **options)


async def _reschedule(manager: QueueManager, values: Values) -> str | Unfinished:
    delay = seconds(values, "delay")
    if delay is None:
        raise InvalidArgument("delay is missing")
    done = f"rescheduled to {formats.duration(delay)} from now"
    return await _act(manager, values, act=Operator.reschedule, choose=_delayed, done=done, delay=delay)


ACTIONS = (
    Action(
        "delete",
        "Delete the message",
        (_QUEUE, _ID, _TRASH),
        partial(_counted, choose=_one),
        partial(_remove, choose=_one, done="deleted"),
        to_queue,
        by_operator=True,
        destroys=True,
    ),
    Action(
        "purge",
        "Purge",
        (_QUEUE, _SELECTOR, _TRASH),
        _preview_available,
        partial(_remove, choose=_available, done="removed"),
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
        partial(_act, act=Operator.cancel, choose=_delayed, done="cancelled"),
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
        partial(_act, act=Operator.run_now, choose=_delayed, done="made available"),
        to_queue,
        by_operator=True,
    ),
)
