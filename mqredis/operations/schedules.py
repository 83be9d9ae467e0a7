"""Schedules: messages at certain times, stored in the broker, once each, however many workers run.

``QueueManager.schedules`` and ``Operator`` make them, and workers (``worker.schedule``), which declare those of their
code and ``fire`` what is ``due``.

A schedule is a text in the broker, which begins with its next time, and a message. When the time has come a worker
sends the message and writes the time after with one call. The broker refuses the call unless the text is still the one
that the worker has read. So each time fires once, whichever worker dies when. Operators change schedules the same way.

Change together with: ``codec.schedules``, which has the text; ``console/sentences.py``, which reads the details of the
actions; ``cli/schedules.py`` and ``console/actions/schedules.py`` for another argument.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import tzinfo
from typing import Any

from mqredis import codec, keys
from mqredis.codec import INLINE_BODY_BYTES
from mqredis.codec.schedules import MESSAGE, Definition
from mqredis.commands import queues
from mqredis.commands import schedules as commands
from mqredis.commands import workers as worker_commands
from mqredis.commands.address import Address
from mqredis.commands.schedules import Change, Listed, Written
from mqredis.errors import (
    InvalidArgument,
    InvariantBroken,
    NotSupported,
    QueueNotFound,
    ScheduleDeclared,
    ScheduleExists,
    ScheduleNotFound,
    SealBroken,
)
from mqredis.models import Message, Outgoing
from mqredis.models.record_parts import FLAG_AT
from mqredis.models.schedule import ScheduleInfo
from mqredis.models.text import time_at
from mqredis.operations import actions, checks
from mqredis.operations.context import Context
from mqredis.operations.cron import next_time, zone_name
from mqredis.operations.queue_call import QueueCall
from mqredis.operations.send import outgoing
from mqredis.operations.server_checks import refuse_volatile
from mqredis.steps import Steps, perform, procedure

# Bytes that a stored message takes without its body.
_HEAD = 12_288
# A text that no schedule has, so that the broker refuses the change and returns the stored text.
_UNREAD = "-"
# The lookup id of a message that is not in a queue.
_NO_ID = b"0" * 16
# The arrival of such a message, as in its record.
_NO_TIME = b"0" * FLAG_AT
# A message without fields and with an empty body, as a schedule keeps it.
_EMPTY = b"30\0"

# Decides from the stored schedule (None: there is none), its message and the time in seconds on a change; None: none.
Decide = Callable[[Definition | None, bytes, float], Change | None]


@dataclass(frozen=True, slots=True)
class Wanted:
    """A schedule as an operator or the code of a worker has given it, before it is stored."""

    name: str
    when: str | float
    timezone: str
    queue: str
    body: bytes | str | Outgoing
    fields: Mapping[str, Any]

    @classmethod
    def of(
        cls,
        name: object,
        when: object,
        queue: object,
        body: Any,
        fields: Mapping[str, Any],
        zone: str | tzinfo,
    ) -> Wanted:
        """Raises InvalidArgument, InvalidName; MissingDependency for an expression without the extra "worker"."""
        next_time(when, zone, 0)  # raises if it has none
        target = keys.check_name(queue)
        if target == keys.SYSTEM:
            raise InvalidArgument("a schedule cannot send to a queue of the system")
        if "scheduled_for" in outgoing(body, fields).properties:
            raise InvalidArgument(
                'the property "scheduled_for" is set to the time for which a message is sent'
            )
        title = keys.check_name(name, "schedule")
        return cls(title, when, zone_name(zone), target, body, fields)  # type: ignore[arg-type]  # next_time checked it

    def definition(self, declared: bool) -> Definition:
        """The schedule as it is stored, paused: without a next time."""
        return Definition(0, self.queue, self.when, self.timezone, declared)

    def message(self, context: Context) -> bytes:
        """The message as it is stored. Raises InvalidArgument if it is too large, UnsafeServer if it may be lost."""
        message = outgoing(self.body, self.fields)
        if context.server_state.volatile and message.recoverable:
            raise refuse_volatile(f"the schedule {self.name!r} is not stored")
        text, large = codec.encode(context.sealed(message))
        if large is not None:
            raise InvalidArgument(
                f"the body of a scheduled message takes at most {INLINE_BODY_BYTES} bytes, not {len(large)}; "
                "send a reference to the data"
            )
        if len(text) > _HEAD + INLINE_BODY_BYTES:
            raise InvalidArgument(f"the fields of a scheduled message take at most {_HEAD} bytes")
        return text


def _next(definition: Definition, now: float) -> int:
    """The first time of a schedule after ``now``, in ms: a later ms than that of ``now``, which may be a time of it."""
    time = next_time(definition.when, definition.timezone, now)
    if math.ceil(time * 1000) <= round(now * 1000):
        time = next_time(definition.when, definition.timezone, time)
    return math.ceil(time * 1000)


# ---- reading -------------------------------------------------------------------------------------


@procedure
def schedules(context: Context) -> Steps[list[ScheduleInfo]]:
    """All schedules, by name."""
    found = yield from perform(commands.listing(context.keys, due=False))
    return [_shown(context, found.now_ms, *row) for row in sorted(found.rows)]


def _shown(context: Context, now_ms: int, name: str, text: str, message: bytes) -> ScheduleInfo:
    found = Definition.parse(text)
    stored = _message(context, found.queue, message)
    return ScheduleInfo(
        name=name,
        queue=found.queue,
        cron=found.when if isinstance(found.when, str) else None,
        interval=None if isinstance(found.when, str) else float(found.when),
        timezone=found.timezone,
        message=stored or _decoded(context, found.queue, _EMPTY),
        next_at=time_at(found.next_ms) if found.next_ms else None,
        last_at=time_at(found.last_ms) if found.last_ms else None,
        declared=found.declared,
        overdue=0 < found.next_ms <= now_ms,
        damaged=stored is None,
    )


def _message(context: Context, queue: str, stored: bytes) -> Message | None:
    """The message of a schedule; None if it is missing or damaged."""
    if not MESSAGE.fullmatch(stored):
        return None
    with suppress(InvariantBroken):
        return _decoded(context, queue, stored)
    return None


def _decoded(context: Context, queue: str, stored: bytes) -> Message:
    shown = codec.decode_each(queue, context.incarnation, [(_NO_ID, b"", _NO_TIME + stored[1:])])
    with suppress(SealBroken):  # a body that cannot be opened is shown as it is stored
        shown = context.unsealed(shown)
    return shown[0]


# ---- changing ------------------------------------------------------------------------------------


def _attempt(
    context: Context, token_key: tuple[str, ...], entry: bytes, name: str, expected: str, change: Change
) -> Steps[Written]:
    """Change a schedule if its text is ``expected``."""
    queues = Address(
        context.keys,
        change.queue,
        beside=(keys.ACTIONS,) if entry else (),
        extra=(*context.keys.schedules, *token_key),
    )
    call = commands.write(queues, bool(token_key), entry, name, expected, change)
    written = yield from QueueCall(queues, call)
    if written.full:
        raise InvalidArgument(f"a queue manager has at most {commands.MOST} schedules: remove one first")
    return written


def _change(
    context: Context, name: str, decide: Decide, token_key: tuple[str, ...] = (), entry: bytes = b""
) -> Steps[bool]:
    """Change a schedule as ``decide`` wants for the stored one. False if it wants no change."""
    expected, change = _UNREAD, Change()
    while True:
        written = yield from _attempt(context, token_key, entry, name, expected, change)
        if written.done:
            return True
        found = Definition.parse(written.text) if written.text else None
        decided = decide(found, written.message, written.now_ms / 1000)
        if decided is None:
            return False
        expected, change = written.text, decided


def _act(
    context: Context,
    operator: actions.Author,
    action: str,
    name: object,
    decide: Decide,
    token: str | None,
    details: Mapping[str, Any] | None = None,
    wanted: Wanted | None = None,
) -> Steps[bool]:
    """An action of an operator on a schedule; it is logged with ``details``.

    A token stands for the action with these arguments: an argument that is in neither ``details`` nor ``wanted`` would
    let a second, different call with the token change nothing.
    """
    title = keys.check_name(name, "schedule")
    queue = wanted.queue if wanted else ""
    entry = actions.entry(operator, action, queue, {"schedule": title, **(details or {})})
    token_key = actions.token_key(context.keys, token, action, title, details, wanted)
    return (yield from _change(context, title, decide, token_key, entry))


def _there(found: Definition | None, name: object) -> Definition:
    if found is None:
        raise ScheduleNotFound(f"there is no schedule {name!r:.80}; schedules() lists them")
    return found


@procedure
def create(
    context: Context, operator: actions.Author, wanted: Wanted, paused: object, token: str | None
) -> Steps[None]:
    """Create a schedule."""
    stays, message = checks.flag(paused, "paused"), wanted.message(context)
    ((info, _),) = yield from perform(queues.info(context.keys, (wanted.queue,)))
    if info is None:
        raise QueueNotFound(f"there is no queue {wanted.queue!r}: create it first")
    if info.topic:
        raise NotSupported(f"queue {wanted.queue!r} is a topic: a schedule sends to a queue")

    def decide(found: Definition | None, _: bytes, now: float) -> Change:
        if found is not None:
            raise ScheduleExists(
                f"there is a schedule {wanted.name!r} already: remove it first, or take another name"
            )
        made = wanted.definition(declared=False)
        return Change((made if stays else replace(made, next_ms=_next(made, now))).text, message)

    details = {"when": wanted.when, "timezone": wanted.timezone, "paused": stays}
    yield from _act(context, operator, "create_schedule", wanted.name, decide, token, details, wanted)


@procedure
def pause(context: Context, operator: actions.Author, name: object, token: str | None) -> Steps[bool]:
    """Pause a schedule. False if it was paused."""

    def decide(found: Definition | None, _: bytes, __: float) -> Change | None:
        present = _there(found, name)
        return Change(replace(present, next_ms=0).text) if present.next_ms else None

    return (yield from _act(context, operator, "pause_schedule", name, decide, token))


@procedure
def resume(context: Context, operator: actions.Author, name: object, token: str | None) -> Steps[bool]:
    """Resume a schedule at its next time. False if it was not paused."""

    def decide(found: Definition | None, _: bytes, now: float) -> Change | None:
        present = _there(found, name)
        return None if present.next_ms else Change(replace(present, next_ms=_next(present, now)).text)

    return (yield from _act(context, operator, "resume_schedule", name, decide, token))


@procedure
def trigger(context: Context, operator: actions.Author, name: object, token: str | None) -> Steps[None]:
    """Send the message of a schedule now."""

    def decide(found: Definition | None, _: bytes, now: float) -> Change:
        present, now_ms = _there(found, name), round(now * 1000)
        return _sending(present, now_ms, now_ms)

    yield from _act(context, operator, "trigger_schedule", name, decide, token)


@procedure
def remove(context: Context, operator: actions.Author, name: object, token: str | None) -> Steps[None]:
    """Remove a schedule, unless a live worker declares it."""
    title = keys.check_name(name, "schedule")
    alive = yield from perform(worker_commands.listing(context.keys))

    def decide(found: Definition | None, _: bytes, __: float) -> Change:
        if _there(found, name).declared:
            for worker in alive[0]:
                if title in worker.schedules:
                    raise ScheduleDeclared(
                        f"the code of worker {worker.name!r} declares schedule {title!r}: pause the schedule; or take "
                        "it out of the code, restart the worker, and remove it then"
                    )
        return Change()

    yield from _act(context, operator, "remove_schedule", name, decide, token)


# ---- workers -------------------------------------------------------------------------------------


@procedure
def declare(context: Context, wanted: Wanted) -> Steps[None]:
    """Store a schedule that the code of a worker declares. A stored schedule of this name is updated: it keeps its last
    time, its pause, and its next time if the expression or interval has not changed."""
    message = wanted.message(context)

    def decide(found: Definition | None, stored: bytes, now: float) -> Change | None:
        made = wanted.definition(declared=True)
        if found is None:
            return Change(replace(made, next_ms=_next(made, now)).text, message)
        if not found.declared:
            raise ScheduleExists(
                f"schedule {wanted.name!r} was created at run time: remove it, or declare this one under another name"
            )
        same = (found.when, found.timezone) == (wanted.when, wanted.timezone)
        next_ms = found.next_ms if same or not found.next_ms else _next(made, now)
        made = replace(made, next_ms=next_ms, last_ms=found.last_ms)
        return None if made == found and message == stored else Change(made.text, message)

    yield from _change(context, wanted.name, decide)


@procedure
def due(context: Context) -> Steps[Listed]:
    """The schedules that are due, with the text of each and the time, which ``fire`` takes."""
    return (yield from perform(commands.listing(context.keys, due=True)))


@procedure
def fire(context: Context, name: str, text: str, now_ms: int) -> Steps[bool]:
    """Send the message of a due schedule, and write its next time.

    ``text`` and ``now_ms``: from ``due``. This message makes up for all times that have passed meanwhile. False if the
    schedule has changed since it was read: another worker has served it.
    """
    present = Definition.parse(text)
    change = _sending(replace(present, next_ms=_next(present, now_ms / 1000)), present.next_ms, now_ms)
    written = yield from _attempt(context, (), b"", name, text, change)
    return written.done


def _sending(definition: Definition, slot_ms: int, now_ms: int) -> Change:
    """The change that sends the message now for the time ``slot_ms``, and stores ``definition``."""
    return Change(replace(definition, last_ms=now_ms).text, queue=definition.queue, slot_ms=slot_ms)
