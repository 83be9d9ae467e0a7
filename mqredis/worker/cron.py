"""Times of a schedule: cron expressions in a time zone, or a number of seconds.

The package ``cronsim`` reads the expressions: it follows Debian's cron, also where clocks are set forward or back, and
needs no other package. Healthchecks maintains it for its own service.
"""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo
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
                # Inside an hour that occurs twice the first times that are found may be over.
                if (found := time.timestamp()) > when:
                    return found
        except CronSimError as error:
            raise InvalidArgument(f"the cron expression {self._text!r:.80} is wrong: {error}") from None
        raise InvalidArgument(f"no time fits the cron expression {self._text!r:.80}")


def zone_of(zone: str | tzinfo) -> tzinfo:
    """A time zone, or the one of this name. Raises InvalidArgument."""
    if isinstance(zone, tzinfo):
        return zone
    if zone == "UTC":
        return UTC  # also where the machine has no time zones
    try:
        return ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, TypeError, OSError):
        raise InvalidArgument(
            f"there is no time zone {zone!r:.40}; on a machine without time zones, pip install tzdata"
        ) from None


class Every:
    """Each so many seconds, counted from 1970, so that all processes agree."""

    def __init__(self, seconds: float) -> None:
        if not 1 <= seconds <= 86_400 * 366:
            raise InvalidArgument("a schedule repeats after 1 second at least, and a year at most")
        self._seconds = seconds

    def after(self, when: float) -> float:
        """The first time after ``when``."""
        return (when // self._seconds + 1) * self._seconds
