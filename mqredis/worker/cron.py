"""Times of a schedule: cron expressions of five fields in UTC, or a number of seconds."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from mqredis.errors import InvalidArgument

_FIELDS = (
    ("minute", 0, 59, ()),
    ("hour", 0, 23, ()),
    ("day", 1, 31, ()),
    ("month", 1, 12, ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")),
    ("weekday", 0, 7, ("sun", "mon", "tue", "wed", "thu", "fri", "sat")),
)
#: A time that is not found within so many days does not exist (30 February); 29 February is found.
_DAYS = 366 * 9


class Cron:
    """``minute hour day month weekday``, each ``*``, ``7``, ``1-5``, ``*/10``, ``1-9/2`` or a list of these.

    As in cron, a time fits if the day or the weekday fits where both are restricted. Raises InvalidArgument.
    """

    def __init__(self, text: str) -> None:
        parts = text.lower().split()
        if len(parts) != len(_FIELDS):
            raise InvalidArgument(
                f"a cron expression has five fields: minute hour day month weekday, not {text!r}"
            )
        self._sets = [_parse(part, *field) for part, field in zip(parts, _FIELDS, strict=True)]
        weekdays = self._sets[4]
        if 7 in weekdays:
            weekdays.add(0)
        self._any_day, self._any_weekday = parts[2].startswith("*"), parts[4].startswith("*")

    def after(self, when: float) -> float:
        """The first time after ``when``; both are seconds since 1970. Raises InvalidArgument if there is none."""
        moment = datetime.fromtimestamp(when, UTC).replace(second=0, microsecond=0) + timedelta(minutes=1)
        minutes, hours, _, months, _ = self._sets
        end = moment + timedelta(days=_DAYS)
        while moment < end:
            if moment.month not in months or not self._day(moment):
                moment = moment.replace(hour=0, minute=0) + timedelta(days=1)
            elif moment.hour not in hours:
                moment = moment.replace(minute=0) + timedelta(hours=1)
            elif moment.minute not in minutes:
                moment += timedelta(minutes=1)
            else:
                return moment.timestamp()
        raise InvalidArgument("no time fits this cron expression")

    def _day(self, moment: datetime) -> bool:
        day = moment.day in self._sets[2]
        weekday = moment.isoweekday() % 7 in self._sets[4]
        if self._any_day or self._any_weekday:
            return day and weekday
        return day or weekday


class Every:
    """Each so many seconds, counted from 1970, so that all processes agree."""

    def __init__(self, seconds: float) -> None:
        if not 1 <= seconds <= 86_400 * 366:
            raise InvalidArgument("a schedule repeats after 1 second at least, and a year at most")
        self._seconds = seconds

    def after(self, when: float) -> float:
        """The first time after ``when``."""
        return (when // self._seconds + 1) * self._seconds


def _parse(text: str, name: str, low: int, high: int, names: tuple[str, ...]) -> set[int]:
    found: set[int] = set()
    for part in text.split(","):
        span, slash, step = part.partition("/")
        first, dash, last = span.partition("-")
        every = _number(step, name, 1, high, ()) if slash else 1
        if span == "*":
            start, stop = low, high
        else:
            start = _number(first, name, low, high, names)
            stop = _number(last, name, low, high, names) if dash else (high if slash else start)
        if start > stop:
            raise InvalidArgument(f"{name} {part!r} of a cron expression runs backwards")
        found.update(range(start, stop + 1, every))
    return found


def _number(text: str, name: str, low: int, high: int, names: tuple[str, ...]) -> int:
    if text in names:
        return names.index(text) + (1 if low == 1 else 0)
    if not text.isascii() or not text.isdigit() or not low <= int(text) <= high:
        raise InvalidArgument(f"{name} {text!r} of a cron expression is not from {low} to {high}")
    return int(text)
