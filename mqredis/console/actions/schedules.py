"""Actions on schedules: create, pause, resume, trigger, remove.

``console.actions`` lists them; ``pages.action`` runs them.

The fields of the message, and how they are read, are those of ``sending`` (``MESSAGE``, ``outgoing_of``). The actions
``pause`` and ``resume`` are those of workers. ``Operator`` writes the log with its own names ("pause_schedule"), which
``console.sentences`` knows.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from mqredis.asyncio import QueueManager
from mqredis.asyncio.operator import Operator
from mqredis.console.actions.base import Action, Field, Preview, Values, needed, operator_of, seconds, to
from mqredis.console.actions.sending import MESSAGE, outgoing_of
from mqredis.errors import InvalidArgument, ScheduleDamaged, ScheduleNotFound
from mqredis.models.schedule import ScheduleInfo

# ---- create --------------------------------------------------------------------------------------


async def _preview_create(manager: QueueManager, values: Values) -> Preview:  # noqa: ARG001 - every action is asked in one way
    return Preview(
        "A message is sent to the queue at each of these times, once, by any worker that runs. Times that pass while "
        "no worker runs are made up for by one message."
    )


async def _create(manager: QueueManager, values: Values) -> str:
    cron, every = values.get("cron", "").strip(), seconds(values, "every")
    if bool(cron) == (every is not None):
        raise InvalidArgument("give either a cron expression or a number of seconds")
    name = needed(values, "schedule").strip()
    await operator_of(manager, values).create_schedule(
        name,
        cron if every is None else every,
        needed(values, "queue").strip(),
        outgoing_of(values),
        timezone=values.get("timezone", "").strip() or "UTC",
        paused="paused" in values,
        token=values.get("token"),
    )
    return f"The schedule {name} was created."


# ---- one schedule --------------------------------------------------------------------------------


async def _schedule(manager: QueueManager, values: Values) -> ScheduleInfo:
    wanted = needed(values, "schedule")
    for schedule in await manager.schedules():
        if schedule.name == wanted:
            return schedule
    raise ScheduleNotFound(f"there is no schedule {wanted!r:.80}")


def _execute(
    act: Callable[..., Awaitable[object]], done: str
) -> Callable[[QueueManager, Values], Awaitable[str]]:
    """What carries out an action of :class:`Operator` on a schedule; ``done`` says so, with ``{}`` for its name."""

    async def execute(manager: QueueManager, values: Values) -> str:
        name = needed(values, "schedule")
        await act(operator_of(manager, values), name, token=values.get("token"))
        return done.format(name)

    return execute


def _next(schedule: ScheduleInfo) -> str:
    return "never" if schedule.next_at is None else f"at {schedule.next_at:%Y-%m-%d %H:%M:%S} UTC"


async def _preview_pause(manager: QueueManager, values: Values) -> Preview:
    schedule = await _schedule(manager, values)
    if schedule.paused:
        return Preview(
            f"The schedule {schedule.name} is paused already: it sends nothing until somebody resumes it."
        )
    return Preview(
        f"The schedule {schedule.name} would send its next message to {schedule.queue} {_next(schedule)}. It sends "
        "nothing until somebody resumes it, also after a restart of the workers."
    )


async def _preview_resume(manager: QueueManager, values: Values) -> Preview:
    schedule = await _schedule(manager, values)
    if not schedule.paused:
        return Preview(
            f"The schedule {schedule.name} is not paused: it sends its next message {_next(schedule)}."
        )
    return Preview(
        f"The schedule {schedule.name} sends messages to {schedule.queue} again from its next time on. Times that have "
        "passed meanwhile are not made up for."
    )


async def _preview_trigger(manager: QueueManager, values: Values) -> Preview:
    schedule = await _schedule(manager, values)
    if schedule.damaged:
        raise ScheduleDamaged
    then = (
        f"The schedule {schedule.name} stays paused: resume it if it is to send messages at its times again."
        if schedule.paused
        else f"The schedule {schedule.name} sends its next message {_next(schedule)}, as before."
    )
    return Preview(f"One message goes to the queue {schedule.queue} now. {then}")


async def _preview_remove(manager: QueueManager, values: Values) -> Preview:
    schedule = await _schedule(manager, values)
    declared = (
        " The code of a worker declares it: the worker creates it again when it starts."
        if schedule.declared
        else ""
    )
    state = (
        f"sends nothing to {schedule.queue} now, since it is paused"
        if schedule.paused
        else f"would send its next message to {schedule.queue} {_next(schedule)}"
    )
    return Preview(f"The schedule {schedule.name}, which {state}, is gone.{declared} What it has sent stays.")


_SCHEDULE = (Field("schedule", "Schedule", "hidden"),)

ACTIONS = (
    Action(
        "create-schedule",
        "Create a schedule",
        (
            Field("schedule", "Name"),
            Field("queue", "Queue", help="To which its message is sent. Not a topic."),
            Field(
                "cron", "Cron expression", help="Minute, hour, day, month, day of the week: 0 3 * * mon-fri"
            ),
            Field("timezone", "Time zone", help="Of the cron expression, such as Europe/Berlin. Empty: UTC."),
            Field("every", "Seconds between two times", "number", "Instead of a cron expression."),
            Field("paused", "Paused: it sends nothing until somebody resumes it", "check"),
            *MESSAGE,
        ),
        _preview_create,
        _create,
        to("/schedules"),
        by_operator=True,
    ),
    Action(
        "pause-schedule",
        "Pause the schedule",
        _SCHEDULE,
        _preview_pause,
        _execute(Operator.pause_schedule, "The schedule {} is paused."),
        to("/schedules"),
        by_operator=True,
    ),
    Action(
        "resume-schedule",
        "Resume the schedule",
        _SCHEDULE,
        _preview_resume,
        _execute(Operator.resume_schedule, "The schedule {} is resumed."),
        to("/schedules"),
        by_operator=True,
    ),
    Action(
        "trigger-schedule",
        "Send the message now",
        _SCHEDULE,
        _preview_trigger,
        _execute(Operator.trigger_schedule, "The message of the schedule {} was sent."),
        to("/schedules"),
        by_operator=True,
    ),
    Action(
        "remove-schedule",
        "Remove the schedule",
        _SCHEDULE,
        _preview_remove,
        _execute(Operator.remove_schedule, "The schedule {} was removed."),
        to("/schedules"),
        destroys=True,
        names="schedule",
        by_operator=True,
    ),
)
