"""Checks of arguments of callers before anything is sent. Each raises InvalidArgument unless it says otherwise.

Operations use it, the methods of both interfaces that make them, and workers (``worker.app``, ``worker.consumer``,
``worker.outcomes``, ``worker.retry``) for what an application gives them. ``otel.patches`` checks lists before it
changes their messages. ``console.managers``, ``prometheus.queue_metrics`` and ``testing.helpers`` name the type of a
wrong value. ``tests/bad_input`` gives wrong values to each argument.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterable, Sequence
from functools import wraps
from inspect import Parameter, signature
from typing import Any, ParamSpec, TypeVar

from mqredis.errors import InvalidArgument, did_you_mean
from mqredis.models import Message
from mqredis.models.lookup_ids import format_id
from mqredis.models.text import escape

# Longest time a caller may name, in seconds (about 31 years): far inside the exact range of a double in ms.
LONGEST = 1e9
# Parameters that callers give by name.
_NAMED = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)

P = ParamSpec("P")
T = TypeVar("T")


def type_name(value: object) -> str:
    """The module and the name of the type of a wrong value, for errors."""
    return f"{type(value).__module__}.{type(value).__qualname__}"


def seconds(
    value: object, what: str, *, positive: bool = False, negative: bool = True, most: float = LONGEST
) -> float:
    """A finite number of seconds, at most ``most``. ``positive``: above 0; not ``negative``: 0 or more."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidArgument(f"{what} must be a number of seconds, not {value!r:.40}")
    try:
        result = float(value)
    except OverflowError:
        raise InvalidArgument(f"{what} is too large") from None
    if not math.isfinite(result) or result > most:
        raise InvalidArgument(f"{what} must be finite and at most {most:.0f} seconds, not {value!r:.40}")
    if positive and result <= 0:
        raise InvalidArgument(f"{what} must be greater than 0, not {value!r:.40}")
    if not negative and result < 0:
        raise InvalidArgument(f"{what} must not be negative, not {value!r:.40}")
    return result


def timeout(value: object) -> float | None:
    """A timeout: None waits for ever, zero or less never waits."""
    return value if value is None or (type(value) is int and value == 0) else seconds(value, "timeout")


def count(value: object, what: str, most: int, least: int = 1) -> int:
    """A whole number from ``least`` to ``most``."""
    if type(value) is not int and (isinstance(value, bool) or not isinstance(value, int)):
        raise InvalidArgument(f"{what} must be an int, not {value!r:.40}")
    if not least <= value <= most:
        raise InvalidArgument(f"{what} must be from {least} to {most}, not {value}")
    return value


def name(value: object, what: str) -> str:
    """A short text, such as the tag of a waiting reader or the token of an action."""
    if not isinstance(value, str) or not value or len(value) > 255 or has_surrogate(value):
        raise InvalidArgument(f"{what} must be a str of 1 to 255 characters, not {value!r:.40}")
    return value


def has_surrogate(text: str) -> bool:
    """Does the text contain a lone surrogate, which cannot be encoded as UTF-8?"""
    return any("\ud800" <= letter <= "\udfff" for letter in text)


def lookup_id(value: object) -> str:
    """A lookup id. Returns it in 16 hex digits, as it is stored."""
    if isinstance(value, bool) or not isinstance(value, int):
        kind = type(value).__name__
        raise InvalidArgument(f"lookup_id must be an int, such as the lookup_id of a message, not {kind}")
    if not 0 <= value < 1 << 64:
        raise InvalidArgument(f"lookup_id {value} is outside 0..2^64-1")
    return format_id(value)


def flag(value: object, what: str) -> bool:
    """Exactly True or False, not another value that Python takes for one."""
    if not isinstance(value, bool):
        raise InvalidArgument(f"{what} must be True or False, not {value!r:.40}")
    return value


def message(value: object) -> Message:
    """A message that was read."""
    if not isinstance(value, Message):
        raise InvalidArgument(f"a mqredis Message is needed, not {type(value).__name__}")
    return value


def several(items: object, what: str) -> Iterable[Any]:
    """An iterable that is neither str nor bytes."""
    if type(items) is not list and (isinstance(items, str | bytes) or not isinstance(items, Iterable)):
        raise InvalidArgument(f"{what} must be a list or the like, not {type(items).__name__}")
    found: Iterable[Any] = items
    return found


def sequence(items: object, what: str) -> Sequence[Any]:
    """A sequence that can be read more than once, so no generator and no set."""
    if type(items) is not list and (isinstance(items, str | bytes) or not isinstance(items, Sequence)):
        raise InvalidArgument(f"{what} must be a list or tuple, not {type(items).__name__}")
    found: Sequence[Any] = items
    return found


def reason(value: object) -> str:
    """The reason of a rejection as it is stored: one line of at most 1000 characters."""
    if not isinstance(value, str):
        raise InvalidArgument(f"reason must be a str, not {value!r:.40}")
    text = " ".join(value.split())[:1000]
    return escape(text.encode("utf-8", "replace").decode())


def options(title: str, settings: Container[str] = ()) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Decorates a function whose users may misspell keyword arguments: InvalidArgument names the nearest one.

    ``settings``: the names for which it says instead that they belong into ``settings=Settings(...)``.
    """

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        parameters = signature(function).parameters
        known = [
            name for name, parameter in parameters.items() if name != "self" and parameter.kind in _NAMED
        ]

        @wraps(function)
        def checked(*args: P.args, **kwargs: P.kwargs) -> T:
            for name in kwargs:
                if name not in known:
                    hint = did_you_mean(name, known)
                    if name in settings:
                        hint = f": it is a setting, so give settings=Settings({name}=...)"
                    raise InvalidArgument(f"{title} has no option {name!r:.40}{hint}")
            return function(*args, **kwargs)

        return checked

    return decorate
