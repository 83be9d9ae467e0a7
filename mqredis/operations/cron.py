"""Times of a schedule: cron expressions in a time zone, or a number of seconds.

``operations.schedules`` uses it, and the doctor, which reports expressions without times.

The package ``cronsim`` reads the expressions: it follows Debian's cron, also where clocks are set forward or back, and
needs no other package. Healthchecks maintains it for its own service.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Protocol
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from mqredis.errors import InvalidArgument, MissingDependency


class Cron:
    """A cron expression of five fields: minute, hour, day of the month, month, day of the week.

    ``zone``: a time zone, or its name in the IANA database. A time that a change to summer time skips is served right
    after the change, and one that occurs twice the first time only; expressions whose minute or hour begins with ``*``
    follow the clock. Raises InvalidArgument, and MissingDependency without cronsim.
    """

    def __init__(self, text: str, zone: str | tzinfo = "UTC") -> None:
        self._text = text
        self._zone = zone_of(zone)
        if len(text.split()) != 5:
            raise InvalidArgument(
                f"a cron expression has five fields: minute hour day month weekday, not {text!r:.80}"
            )
        self.after(0)

    def after(self, when: float) -> float:
        """The first time after ``when``; both are seconds since 1970. Raises InvalidArgument if there is none."""
        try:
            from cronsim import CronSim, CronSimError
        except ImportError as error:
            raise MissingDependency.of("a cron expression", "worker", error) from None
        try:
            for time in CronSim(self._text, datetime.fromtimestamp(when, self._zone)):
                # In an hour that occurs twice the first times found may be over.
                if (found := time.timestamp()) > when:
                    return found
        except CronSimError as error:
            raise InvalidArgument(f"the cron expression {self._text!r:.80} is wrong: {error}") from None
        raise InvalidArgument(f"no time fits the cron expression {self._text!r:.80}")


# How Python names a time zone with a fixed offset from UTC.
_FIXED = re.compile(r"UTC([+-])(\d\d):(\d\d)")


def zone_of(zone: str | tzinfo) -> tzinfo:
    """A time zone, or the one of this name: of the IANA database, or such as "UTC+01:00". Raises InvalidArgument."""
    if isinstance(zone, tzinfo):
        return zone
    if zone == "UTC":
        return UTC  # also on machines without a time zone database
    if fixed := _FIXED.fullmatch(str(zone)):
        offset = timedelta(hours=int(fixed[2]), minutes=int(fixed[3]))
        if offset < timedelta(days=1):
            return timezone(-offset if fixed[1] == "-" else offset)
    try:
        return ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, TypeError, OSError):
        raise InvalidArgument(
            f"there is no time zone {zone!r:.40}; on a machine without time zones, pip install tzdata"
        ) from None


def zone_name(zone: str | tzinfo) -> str:
    """The name of a time zone, which ``zone_of`` accepts. Raises InvalidArgument."""
    name = zone if isinstance(zone, str) else str(zone)
    zone_of(name)
    return name


class Times(Protocol):
    """The times of a schedule."""

    def after(self, when: float) -> float:
        """The first time after ``when``; both are seconds since 1970."""


def times_of(when: object, zone: str | tzinfo) -> Times:
    """The times of a cron expression in a time zone, or every so many seconds. Raises as Cron and Every."""
    if isinstance(when, str):
        return Cron(when, zone)
    if isinstance(when, bool) or not isinstance(when, (int, float)):
        raise InvalidArgument(
            f"the times of a schedule are a cron expression or a number of seconds, not {when!r:.40}"
        )
    zone_of(zone)
    return Every(when)


class Every:
    """Every so many seconds, counted from 1970, so that all processes agree. Raises InvalidArgument."""

    def __init__(self, seconds: float) -> None:
        if not 1 <= seconds <= 86_400 * 366:
            raise InvalidArgument("a schedule repeats after 1 second at least, and a year at most")
        self._seconds = seconds

    def after(self, when: float) -> float:
        """The first time after ``when``."""
        return (when // self._seconds + 1) * self._seconds
