"""The entries of the log of actions as sentences: who did what, to how many messages, where.

``pages.log`` calls ``sentence`` for each entry that the page of the log shows, or ``of_other_calls`` if
``Operator.begin`` and ``end`` have written it, whose callers choose names and details.

Change together with: ``operations.bulk``, ``force``, ``workers`` and ``schedules``, which give each action its name and
its details (``operations.actions.entry``); ``tests/contract/test_arguments.py`` compares the names, and
``tests/console/test_log.py`` has the sentences. The log keeps entries for 30 days, so entries of earlier releases are
read, too. lua/admin/operator.lua adds how many messages were changed, and whether the action has finished.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mqredis import keys
from mqredis.console import formats
from mqredis.models.lookup_ids import LOOKUP_ID, hex_id
from mqredis.models.text import time_at

# The details of an entry: the JSON of its body. Those that are not there are None, empty or the default.
Details = Mapping[str, Any]

# Actions on messages, by the names that mqredis/operations (bulk, redrive, workers, schedules and others) writes into
# the log; ``_words`` has the words in braces. An action without a pattern gets a general sentence.
_ON_MESSAGES = {
    "delete": "deleted {messages} of {queue}",
    "trash": "moved {messages} of {queue} to the trash{kept}",
    "cancel": "cancelled {messages} of {queue}{kept}",
    "restore": "restored {messages} from {queue}",
    "move": "moved {messages} of {queue} to {target}",
    "redrive": "put back {messages} of {queue}{into}",
    "reschedule": "rescheduled {messages} of {queue} to {due}",
    "run_now": "made {messages} of {queue} available at once",
    "priority": "gave {messages} of {queue} the priority {value}",
    "release": "ended the lock of {messages} of {queue}{rejected}",
}
# Actions on anything else.
_OTHERS = {
    "abort": "aborted the transaction {transaction}",
    "pause": "paused {readers}{reason}",
    "resume": "resumed {readers}",
    "stop_worker": "asked the worker {worker} to stop",
    "cancel_handler": "asked the worker {worker} to cancel the handler of {messages}",
    "create_schedule": "created the schedule {schedule}, which sends to {queue} {times}",
    "pause_schedule": "paused the schedule {schedule}",
    "resume_schedule": "resumed the schedule {schedule}",
    "trigger_schedule": "had the schedule {schedule} send its message",
    "remove_schedule": "removed the schedule {schedule}",
}


def sentence(operator: str, action: str, queue: str, changed: int, finished: bool, details: Details) -> str:
    """An entry as a sentence. ``changed``: messages that the action has changed so far; of an action on anything else
    not 0 if it has changed something."""
    pattern = _ON_MESSAGES.get(action) or _OTHERS.get(action)
    if pattern is None or "cut" in details:
        return of_other_calls(operator, action, queue, details)
    text = f"{operator} {pattern.format_map(_words(queue, changed, details))}"
    if action in _OTHERS:
        return text + ("." if changed else ", which changed nothing.")
    return f"{text}{_choice(details)}{'' if finished else ', and has not finished'}."


def messages_of(details: Details) -> list[int]:
    """Lookup ids of the messages that an entry names. Callers of ``Operator.begin`` give any details."""
    ids = details.get("lookup_ids") or [details.get("lookup_id")]
    known = (each for each in ids if isinstance(each, str)) if isinstance(ids, list) else ()
    return [int(each, 16) for each in known if LOOKUP_ID.fullmatch(each)]


def of_other_calls(operator: str, action: str, queue: str, details: Details) -> str:
    """The sentence for an action that other calls carry out, as its caller told it."""
    what = action.replace("_", " ")
    if "result" in details:
        return f"{operator}, {what}: {details['result']}"
    where = f"{what} on {queue}" if queue else what
    if "error" in details:
        return f"{operator}, {where}, failed: {details['error']}"
    values = [f"{name.replace('_', ' ')} {_value(value)}" for name, value in details.items() if name != "cut"]
    return f"{operator} began {where}" + (f" ({', '.join(values)})" if values else "") + "."


def _words(queue: str, changed: int, details: Details) -> dict[str, str]:
    """The words that sentences are made of. "value" is that of ``commands.bulk.Action``: a name, a time or a digit."""
    value = str(details.get("value") or "")
    target = keys.decode(value)
    return {
        "queue": queue,
        "messages": _messages(changed, details),
        "value": value,
        "target": target,
        "into": f" into {target}" if target else "",
        "kept": f", to be kept there for {formats.exact(int(value) / 1000)}" if value.isdigit() else "",
        "due": _due(value),
        "rejected": _behind("reject", details),
        "reason": _behind("reason", details),
        "readers": f"the consumer {details['consumer']}"
        if details.get("consumer")
        else f"{queue} for workers",
        "times": _times(details),
        **{name: str(details.get(name, "")) for name in ("transaction", "worker", "schedule")},
    }


def _messages(changed: int, details: Details) -> str:
    """The messages that an action has changed, by the id of the only one, or by their number."""
    ids = messages_of(details)
    if len(ids) == 1:
        return f"the message {hex_id(ids[0])}"
    delayed = details.get("scheduled")
    return formats.plural(
        changed, "message" if delayed is None else "delayed message" if delayed else "available message"
    )


def _choice(details: Details) -> str:
    """Which messages were chosen, and how many at most."""
    terms = [str(details["selector"])] if details.get("selector") else []
    match = details.get("match")
    if isinstance(match, Mapping):
        terms += [f"{name.replace('_', ' ')} = {value}" for name, value in match.items()]
    most = f", at most {details['limit']:,}" if isinstance(details.get("limit"), int) else ""
    return (f": those with {' and '.join(terms)}" if terms else "") + most


def _due(value: str) -> str:
    """The time to which messages were rescheduled: a number of ms, behind "+" counted from then."""
    if value.startswith("+") and value[1:].isdigit():
        return f"{formats.exact(int(value) / 1000)} later"
    # The value of another action may be the name of a queue of any number of digits, too.
    return f"{time_at(int(value)):%Y-%m-%d %H:%M:%S} UTC" if value.isdigit() else value


def _behind(name: str, details: Details) -> str:
    """A detail in parentheses, as the end of a sentence; "" without it."""
    return f" ({details[name]})" if details.get(name) else ""


def _times(details: Details) -> str:
    when = details.get("when")
    times = f"at {when} {details.get('timezone', '')}".rstrip()
    if isinstance(when, int | float):
        times = f"every {formats.exact(float(when))}"
    return times + (", and is paused" if details.get("paused") is True else "")


def _value(value: object) -> str:
    return ("on" if value else "off") if isinstance(value, bool) else str(value)
