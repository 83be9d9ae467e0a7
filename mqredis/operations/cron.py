"""Times of a schedule: cron expressions in a time zone, or a number of seconds.

``operations.schedules`` uses it, and the doctor, which reports expressions without times.

The broker keeps what ``next_time`` accepts (``codec.schedules``), and workers of other releases read it: nothing may
be refused that was accepted before. docs/worker.md (Schedules) has the rules, and tests/worker/test_schedule.py tests
them.

The package ``cronsim`` reads the expressions: it follows Debian's cron, also where clocks are set forward or back, and
needs no other package. Healthchecks maintains it for its own service.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from mqredis.errors import InvalidArgument, MissingDependency


def next_time(when: object, zone: str | tzinfo, after: float) -> float:
    """The first time of a schedule after ``after``; both are seconds since 1970.

    ``when``: a cron expression (minute, hour, day of the month, month, day of the week) in the time zone, or a number
    of seconds, which are counted from 1970, so that all processes agree. A time that a change to summer time skips is
    served right after the change, and one that occurs twice the first time only; expressions whose minute or hour
    begins with ``*`` follow the clock. Raises InvalidArgument, and MissingDependency for an expression without cronsim.
    """
    place = zone_of(zone)
    if isinstance(when, str):
        return _next_of_cron(when, place, after)
    if isinstance(when, bool) or not isinstance(when, (int, float)):
        raise InvalidArgument(
            f"the times of a schedule are a cron expression or a number of seconds, not {when!r:.40}"
        )
    if not 1 <= when <= 86_400 * 366:
        raise InvalidArgument("a schedule repeats after 1 second at least, and a year at most")
    time = (after // when + 1) * when
    # The product of a fraction may be rounded down.
    return time if time > after else (after // when + 2) * when


def _next_of_cron(text: str, zone: tzinfo, after: float) -> float:
    if len(text.split()) != 5:
        raise InvalidArgument(
            f"a cron expression has five fields: minute hour day month weekday, not {text!r:.80}"
        )
    try:
        from cronsim import CronSim, CronSimError
    except ImportError as error:
        raise MissingDependency.of("a cron expression", "worker", error) from None
    try:
        for time in CronSim(text, datetime.fromtimestamp(after, zone)):
            # In an hour that occurs twice the first times found may be over.
            if (found := time.timestamp()) > after:
                return found
    except CronSimError as error:
        raise InvalidArgument(f"the cron expression {text!r:.80} is wrong: {error}") from None
    raise InvalidArgument(f"no time fits the cron expression {text!r:.80}")


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
