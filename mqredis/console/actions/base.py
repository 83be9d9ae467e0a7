"""What an action of the console is.

The modules of actions make them, and ``pages.action`` runs them. ``pages.messages``, ``find`` and ``trails`` read
arguments of addresses with ``needed``, ``whole`` and ``lookup_id``. templates/action.html and progress.html show the
form.

``Action.name`` is a part of addresses, the right of ``Visitor.actions`` that applications grant, and a row of
docs/console.md, so it stays. The arguments of a form's address are values of its fields, too. A browser does not send a
box that is not checked: a form that is shown again has it as in ``Preview.values``, whose other values are used for
fields that were not sent.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from mqredis.asyncio import QueueManager
from mqredis.asyncio.operator import Operator
from mqredis.errors import InvalidArgument
from mqredis.keys import SYSTEM

# The fields of the form, by name. When an action is carried out they have the name of the visitor, too.
Values = Mapping[str, str]
OPERATOR = "operator"
# The fields that every form has (templates/action.html, progress.html) and ``pages.action`` reads or adds.
RESERVED = frozenset(("csrf", "token", "check", "confirm", "cursor", "total", OPERATOR))


def operator_of(manager: QueueManager, values: Values) -> Operator:
    """The visitor who carries out an action, for the log."""
    return manager.operator(values[OPERATOR], source="console")


@dataclass(frozen=True)
class Field:
    """A field of the form of an action. templates/action.html shows each kind; a "check" has the value "on" or none."""

    name: str
    label: str
    kind: Literal["text", "area", "number", "check", "hidden"] = "text"
    help: str = ""

    def __post_init__(self) -> None:
        if self.name in RESERVED:
            raise ValueError(f"{self.name} is a field of all forms")


@dataclass(frozen=True)
class Preview:
    """What an action would touch, as the broker counts it now."""

    text: str
    # Values of fields that were not given, such as the present limits of a queue.
    values: Values | None = None
    # How many messages the action would change, if it is one on many.
    total: int | None = None


class Unfinished(NamedTuple):
    """An action on many messages that has to go on: the same form with the cursor continues it."""

    # What was done so far, and to how many messages.
    text: str
    changed: int
    cursor: str


@dataclass(frozen=True)
class Action:
    """Something that a visitor can do to a queue or a queue manager.

    ``preview`` says what would be touched and raises an MqError for arguments with which the action cannot be carried
    out; ``run`` carries it out, for a second at most, and says what was done. Both get the fields of the form.
    """

    name: str
    title: str
    fields: tuple[Field, ...]
    preview: Callable[[QueueManager, Values], Awaitable[Preview]]
    run: Callable[[QueueManager, Values], Awaitable[str | Unfinished]]
    # Path of the page to go to afterwards, under the queue manager, and its arguments.
    then: Callable[[Values], tuple[str, dict[str, str]]]
    # Messages or settings are lost: the name of the queue has to be typed.
    destroys: bool = False
    # The field with the name that has to be typed.
    names: str = "queue"
    # ``run`` is an action of an Operator with the token of the form: the broker carries it out once, and logs it.
    by_operator: bool = False
    # The form shows the body of a message: where bodies are hidden, the visitor needs the right to see them.
    shows_body: bool = False


def to_queue(values: Values) -> tuple[str, dict[str, str]]:
    """After most actions: the page of the queue. A subqueue may be gone with its last message: that of its queue. The
    form that creates a queue has no name yet."""
    name = values.get("queue", "").partition(";")[0]
    if not name:
        return "/", {}
    return ("/failures", {}) if name == SYSTEM else ("/queue", {"name": name})


def to(path: str) -> Callable[[Values], tuple[str, dict[str, str]]]:
    """After an action whose result is on a page without arguments."""
    return lambda _: (path, {})


def needed(values: Values, name: str) -> str:
    """A field that may not be empty. Raises InvalidArgument."""
    if not values.get(name):
        raise InvalidArgument(f"{name.replace('_', ' ')} is missing")
    return values[name]


def whole(values: Values, name: str) -> int | None:
    """A whole number; None for an empty field. Raises InvalidArgument."""
    text = values.get(name, "").replace(",", "").strip()
    if not text:
        return None
    try:
        return int(text)
    except ValueError:
        raise InvalidArgument(f"{name.replace('_', ' ')}: {text!r:.40} is not a whole number") from None


def share(values: Values, name: str) -> float | None:
    """A share between 0 and 1; None for an empty field. Raises InvalidArgument."""
    return _number(values, name, "number from 0 to 1", lambda found: 0 <= found <= 1)


def seconds(values: Values, name: str) -> float | None:
    """A number of seconds; None for an empty field. Raises InvalidArgument."""
    return _number(values, name, "number of seconds", math.isfinite)


def _number(values: Values, name: str, what: str, fits: Callable[[float], bool]) -> float | None:
    """A number that ``fits``, which is false for nan; None for an empty field. ``what``: the number, for the error."""
    text = values.get(name, "").strip()
    if not text:
        return None
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if not fits(found):
        raise InvalidArgument(f"{name.replace('_', ' ')}: {text!r:.40} is not a {what}")
    return found


def lookup_id(values: Values) -> int:
    """The lookup id in the field ``id``, decimal or with 0x in front. Raises InvalidArgument."""
    text = needed(values, "id")
    try:
        return int(text, 0)
    except ValueError:
        raise InvalidArgument(f"{text!r:.40} is not a lookup id") from None
