"""Actions on queues and topics: create, limit, stop, delete, subscribe.

``console.actions`` lists them; ``pages.action`` runs them.

These are calls of ``QueueManager`` and not of ``Operator``, so ``pages.action`` logs their beginning and their end, by
the name of the action. ``_LIMITS`` are names of ``models.QueueProperties`` and of fields of the form. An empty field
means no limit (None), but ``max_message_bytes`` and ``trail`` cannot be None and stay as they are. ``limits`` and
``inhibit`` write all their fields, so they undo what somebody else has changed since the form was opened.
``delete-queue`` counts what is lost as ``cli.queues`` does (``counted_once``).
"""

from __future__ import annotations

from typing import Any

from mqredis.asyncio import QueueManager
from mqredis.console import formats
from mqredis.console.actions.base import Action, Field, Preview, Values, needed, share, to, to_queue, whole
from mqredis.models import QueueInfo
from mqredis.models.queue import counted_once

_QUEUE = Field("queue", "Queue", "hidden")
_TRAIL = Field(
    "trail",
    "Share of messages with a trail",
    "number",
    "Of which the broker keeps what happens to them, for the pages of messages. 0: none; 1: all.",
)
_LIMITS = (
    "quota_messages",
    "quota_bytes",
    "max_message_bytes",
    "poison_quota_messages",
    "journal_quota_messages",
    "failed_time_to_live",
)


def _contents(info: QueueInfo) -> str:
    return f"{info.name} holds {formats.plural(info.messages, 'message')} ({formats.size(info.bytes)})"


# ---- create and delete ---------------------------------------------------------------------------


async def _preview_create(manager: QueueManager, values: Values) -> Preview:  # noqa: ARG001 - nothing is there yet
    return Preview(f"A queue is added to {manager.name}.")


async def _create(manager: QueueManager, values: Values) -> str:
    properties: dict[str, Any] = {
        name: values.get(name) == "on" for name in ("transactional", "topic", "journaling")
    }
    properties |= {"label": values.get("label", ""), "trail": share(values, "trail") or 0.0}
    info = await manager.create_queue(needed(values, "queue"), **properties)
    return f"The {'topic' if info.topic else 'queue'} {info.name} was created."


async def _preview_delete(manager: QueueManager, values: Values) -> Preview:
    info = await manager.queue_info(needed(values, "queue"))
    own, *below = counted_once(info, await manager.queues(f"{info.name};*"))
    held = "; ".join(_contents(queue) for queue in (own, *below) if queue is own or queue.messages)
    return Preview(f"The queue goes with all its messages: {held}.")


async def _delete(manager: QueueManager, values: Values) -> str:
    removed = await manager.delete_queue(needed(values, "queue"))
    return f"The queue {values['queue']} was deleted with {formats.plural(removed, 'message')}."


# ---- stop and limit ------------------------------------------------------------------------------


async def _preview_inhibit(manager: QueueManager, values: Values) -> Preview:
    info = await manager.queue_info(needed(values, "queue"))
    now = {name: "on" if getattr(info, name) else "" for name in ("put_inhibited", "get_inhibited")}
    return Preview(f"{_contents(info)}; {formats.plural(info.waiters, 'reader')} wait.", now)


async def _inhibit(manager: QueueManager, values: Values) -> str:
    put, get = (values.get(name) == "on" for name in ("put_inhibited", "get_inhibited"))
    await manager.update_queue(needed(values, "queue"), put_inhibited=put, get_inhibited=get)
    sends, reads = ("refused" if off else "accepted" for off in (put, get))
    return f"{values['queue']}: sends are {sends}, reads are {reads}."


async def _preview_limits(manager: QueueManager, values: Values) -> Preview:
    info = await manager.queue_info(needed(values, "queue"))
    now = {name: "" if getattr(info, name) is None else str(getattr(info, name)) for name in _LIMITS}
    return Preview(f"{_contents(info)}.", {**now, "trail": f"{info.trail:g}"})


async def _limits(manager: QueueManager, values: Values) -> str:
    changes: dict[str, Any] = {name: whole(values, name) for name in _LIMITS}
    if changes["max_message_bytes"] is None:
        del changes["max_message_bytes"]
    trail = share(values, "trail")
    if trail is not None:
        changes["trail"] = trail
    await manager.update_queue(needed(values, "queue"), **changes)
    limits = [f"{name.replace('_', ' ')} {_limit(value)}" for name, value in changes.items()]
    return f"The limits of {values['queue']} are now: {', '.join(limits)}."


def _limit(value: float | None) -> str:
    return "no limit" if value is None else f"{value:,}"


# ---- topics --------------------------------------------------------------------------------------


async def _preview_topic(manager: QueueManager, values: Values) -> Preview:
    found = await manager.subscriptions(needed(values, "topic"))
    return Preview(f"The topic {values['topic']} has {formats.plural(len(found), 'subscription')}.")


async def _subscribe(manager: QueueManager, values: Values) -> str:
    found = await manager.subscribe(
        needed(values, "topic"), needed(values, "queue"), values.get("selector") or None
    )
    return f"{found.queue} receives what is sent to {found.topic}."


async def _unsubscribe(manager: QueueManager, values: Values) -> str:
    await manager.unsubscribe(needed(values, "topic"), needed(values, "queue"))
    return f"{values['queue']} receives nothing more from {values['topic']}; it keeps its messages."


_TOPIC = Field("topic", "Topic", "hidden")

ACTIONS = (
    Action(
        "create-queue",
        "Create a queue",
        (
            Field("queue", "Name"),
            Field("label", "Label"),
            Field(
                "transactional", "Transactional: only transactions send to it and receive from it", "check"
            ),
            Field("topic", "Topic: keeps no messages, passes them to subscribed queues", "check"),
            Field("journaling", "Journal: keeps a copy of every received message", "check"),
            _TRAIL,
        ),
        _preview_create,
        _create,
        to_queue,
    ),
    Action(
        "delete-queue",
        "Delete the queue",
        (_QUEUE,),
        _preview_delete,
        _delete,
        to("/"),
        destroys=True,
    ),
    Action(
        "inhibit",
        "Stop sends or reads",
        (
            _QUEUE,
            Field("put_inhibited", "Refuse sends (PutInhibited)", "check"),
            Field("get_inhibited", "Refuse reads (GetInhibited)", "check"),
        ),
        _preview_inhibit,
        _inhibit,
        to_queue,
    ),
    Action(
        "limits",
        "Change limits",
        (
            _QUEUE,
            Field(
                "quota_messages",
                "Quota in messages",
                "number",
                "Empty: no limit. What is there already stays.",
            ),
            Field("quota_bytes", "Quota in bytes", "number", "Empty: no limit."),
            Field("max_message_bytes", "Largest message in bytes", "number"),
            Field("poison_quota_messages", "Quota of ;poison in messages", "number", "Empty: no limit."),
            Field("journal_quota_messages", "Quota of ;journal in messages", "number", "Empty: no limit."),
            Field(
                "failed_time_to_live",
                "Seconds that failed messages are kept",
                "number",
                "In ;poison and among the dead letters. Empty: until they are removed.",
            ),
            _TRAIL,
        ),
        _preview_limits,
        _limits,
        to_queue,
    ),
    Action(
        "subscribe",
        "Subscribe a queue",
        (
            _TOPIC,
            Field("queue", "Queue"),
            Field("selector", "Only messages for which this is true", help="A selector. Empty: all."),
        ),
        _preview_topic,
        _subscribe,
        to("/topics"),
    ),
    Action(
        "unsubscribe",
        "End the subscription",
        (_TOPIC, _QUEUE),
        _preview_topic,
        _unsubscribe,
        to("/topics"),
        destroys=True,
    ),
)
