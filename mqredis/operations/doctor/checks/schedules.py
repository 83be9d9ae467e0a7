"""Doctor checks of schedules: their definitions, their messages and their queues.

``operations.doctor.checks`` lists it; ``run`` calls it. It reads texts with ``codec.schedules``, and times with
``operations.cron``, as workers do.
"""

from __future__ import annotations

from mqredis.codec.schedules import MESSAGE, Definition
from mqredis.commands.doctor import Edit
from mqredis.errors import InvalidArgument, InvariantBroken, MissingDependency
from mqredis.operations.cron import next_time
from mqredis.operations.doctor.fault import Fault, Faults, shown
from mqredis.operations.doctor.snapshot import Store


def schedules(store: Store) -> Faults:
    """Each schedule can be read, has times and a message, and sends to a queue that exists."""
    definitions, messages = store.manager.schedules
    for name, text in store.schedules.items():
        where = shown(name)
        try:
            found = Definition.parse(text.decode())
        except (InvariantBroken, UnicodeDecodeError):
            # Nothing can be done with it, and no call lists the others while it is there.
            edits = (Edit("hdel", definitions, name), Edit("hdel", messages, name))
            yield Fault("schedule.malformed", where, f"its text is {shown(text)!r:.200}", edits)
            continue
        try:
            next_time(found.when, found.timezone, 0)
        except InvalidArgument as error:
            yield Fault("schedule.times", where, f"has no times: {error}")
        except MissingDependency:
            pass  # nothing here reads cron expressions
        message = store.schedule_messages.get(name)
        if message is None or not MESSAGE.fullmatch(message):
            text_ = "has no message" if message is None else f"its message is {shown(message)!r:.80}"
            yield Fault("schedule.message", where, f"{text_}: remove the schedule, and create it again")
        if found.queue not in store.hashes.get("queues", {}):
            text_ = f"sends to queue {found.queue!r}, which does not exist: create it, or remove the schedule"
            yield Fault("schedule.queue", where, text_, severity="warning")
    for name in store.schedule_messages.keys() - store.schedules.keys():
        yield Fault(
            "schedule.orphan", shown(name), "is a message of no schedule", (Edit("hdel", messages, name),)
        )
