"""Actions on the whole queue manager: flow control, quota, repair.

``console.actions`` lists them; ``pages.action`` runs them.

``throttle`` and ``quota`` write all their fields: an empty field, or a box that is not checked, ends what it names, so
the form shows the present values. Buttons are in server.html and doctor.html; ``repair`` looks at every message, in one
request, and its form at none: another site can make a browser open an address.
"""

from __future__ import annotations

from mqredis.asyncio import QueueManager
from mqredis.console import formats
from mqredis.console.actions.base import Action, Field, Preview, Values, to, whole


async def _preview(manager: QueueManager, values: Values) -> Preview:  # noqa: ARG001
    info = await manager.info()
    text = f"{info.name} holds {formats.plural(info.messages, 'message')} in {formats.plural(info.queues, 'queue')}."
    now = {
        "throttled": "on" if info.throttled else "",
        "messages": "" if info.quota_messages is None else str(info.quota_messages),
        "bytes": "" if info.quota_bytes is None else str(info.quota_bytes),
    }
    return Preview(text, now)


async def _throttle(manager: QueueManager, values: Values) -> str:
    on = values.get("throttled") == "on"
    await manager.throttle(on)
    return f"Sends to all queues are {'refused' if on else 'accepted'}."


async def _quota(manager: QueueManager, values: Values) -> str:
    await manager.set_quota(whole(values, "messages"), whole(values, "bytes"))
    return "The quota over all queues was changed."


async def _preview_repair(manager: QueueManager, values: Values) -> Preview:  # noqa: ARG001 - all are asked in one way
    return Preview(
        "The doctor looks at every message, and repairs what the page Doctor shows as repairable. A repair loses no "
        "message."
    )


async def _repair(manager: QueueManager, values: Values) -> str:  # noqa: ARG001
    report = await manager.doctor(repair=True)
    done = sum(finding.repaired for finding in report.everything)
    return f"{formats.plural(done, 'finding')} repaired."


ACTIONS = (
    Action(
        "throttle",
        "Flow control",
        (Field("throttled", "Refuse every send to this queue manager (ManagerQuotaExceeded)", "check"),),
        _preview,
        _throttle,
        to("/server"),
    ),
    Action(
        "quota",
        "Quota of the queue manager",
        (
            Field("messages", "Messages in all queues", "number", "Empty: no limit."),
            Field("bytes", "Bytes in all queues", "number", "Empty: no limit."),
        ),
        _preview,
        _quota,
        to("/server"),
    ),
    Action("repair", "Repair", (), _preview_repair, _repair, to("/doctor")),
)
