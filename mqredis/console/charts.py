"""Charts of statistics over time: the numbers as points of an SVG, and the labels of the axes.

``pages.overview`` uses it for the overview and the page of a queue, and ``shared`` for the span of the overview's
charts.

The macro ``drawing`` (templates/macros.html) repeats ``WIDTH`` and ``HEIGHT``. Names of ``SPANS`` are the argument
``span`` of addresses. A value of None, such as the age in a period without messages, interrupts a line.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import groupby

from mqredis.console.formats import UNITS, duration, number
from mqredis.models import HistoryPeriod, QueueHistory
from mqredis.operations.history import BUCKET_SECONDS

# The size of a chart in units of its SVG, which is stretched to the width of the page.
WIDTH, HEIGHT = 1000, 100


@dataclass(frozen=True)
class Span:
    """How far back charts go, and how long their periods are."""

    title: str
    since: timedelta
    step: int

    @property
    def slots(self) -> int:
        """Periods that a chart has room for: those of the span, and the one that is not over yet."""
        return int(self.since.total_seconds()) // self.step + 1


# The spans by the name that the address of a page gives them.
SPANS = {
    "hour": Span("Last hour", timedelta(hours=1), BUCKET_SECONDS),
    "day": Span("Last day", timedelta(days=1), 6 * BUCKET_SECONDS),
}

# Field of a period, and how the chart calls it. static/console.css may have a style for it as a class, which the first
# line of a chart has not. templates/charts.html has a column for it in the table.
COUNTS = (("messages_in", "In"), ("messages_out", "Out"), ("failed", "Failed"), ("retried", "Retried"))


@dataclass(frozen=True)
class Line:
    """One line of a chart: its class in static/console.css, its name, and the points of each piece of it."""

    style: str
    title: str
    pieces: tuple[str, ...]


@dataclass(frozen=True)
class Chart:
    """Lines with the label of the highest value on the axis, and those of the times."""

    title: str
    # What the chart shows, for those who do not see it.
    description: str
    top: str
    times: tuple[str, ...]
    lines: tuple[Line, ...]


def charts_of(history: QueueHistory, span: Span) -> tuple[Chart, ...]:
    """The charts of messages and of the age of the oldest one; none if nothing is known yet."""
    if not history.periods:
        return ()
    times = _times(history.periods[-1].start, span)
    counted = {field: _values(history.periods, field) for field, _ in COUNTS}
    top = _top_of_counts(max(value or 0 for values in counted.values() for value in values))
    totals = ", ".join(
        f"{number(sum(getattr(p, field) for p in history))} {name.lower()}" for field, name in COUNTS
    )
    lines = tuple(Line(field, name, _pieces(counted[field], span.slots, top)) for field, name in COUNTS)
    each = duration(span.step)
    ages = _values(history.periods, "oldest_seconds")
    oldest = max((age for age in ages if age is not None), default=None)
    top_age = _top_of_ages(oldest or 0)
    title = f"Messages in each {each}"
    age_line = Line("oldest_seconds", "Oldest message", _pieces(ages, span.slots, top_age))
    return (
        Chart(title, f"{title}, {span.title.lower()}: {totals}", number(top), times, lines),
        Chart(
            "Age of the oldest message",
            f"Age of the oldest message, {span.title.lower()}: {duration(oldest)} at most",
            duration(top_age),
            times,
            (age_line,),
        ),
    )


def sparkline(history: QueueHistory) -> Chart | None:
    """The messages that came in the last hour; None if nothing is known yet."""
    if not history.periods:
        return None
    span = SPANS["hour"]
    times = _times(history.periods[-1].start, span)
    came = _values(history.periods, "messages_in")
    top = max(1, *(value or 0 for value in came))
    title = f"{number(sum(period.messages_in for period in history))} in since {times[0]} UTC"
    return Chart(
        title, title, number(top), times, (Line("messages_in", "In", _pieces(came, span.slots, top)),)
    )


def _values(periods: Sequence[HistoryPeriod], field: str) -> list[int | None]:
    """One figure of each period. Fewer than 0, which aborted transactions leave, are drawn as 0."""
    found = (getattr(period, field) for period in periods)
    return [None if value is None else max(0, value) for value in found]


def _pieces(values: Sequence[int | None], slots: int, top: int) -> tuple[str, ...]:
    """The points of a line that has one step for each value. The last value is at the right edge; a value that is None
    interrupts the line."""
    width = WIDTH / slots
    placed = enumerate(values[-slots:], slots - min(slots, len(values)))
    pieces = []
    for missing, part in groupby(placed, key=lambda pair: pair[1] is None):
        if not missing:
            pieces.append(
                " ".join(point for at, value in part for point in _step(at * width, width, value or 0, top))
            )
    return tuple(pieces)


def _step(left: float, width: float, value: int, top: int) -> Iterator[str]:
    height = HEIGHT - value * HEIGHT / top
    yield f"{left:.1f},{height:.1f}"
    yield f"{left + width:.1f},{height:.1f}"


def _top_of_counts(highest: int) -> int:
    """The lowest of 1, 2, 5, 10, 20, 50, ... that is not below the highest value."""
    power = 1
    while True:
        for digit in (1, 2, 5):
            if digit * power >= highest:
                return digit * power
        power *= 10


def _top_of_ages(highest: int) -> int:
    """The age that is not below the highest one, as whole days, hours, minutes or seconds."""
    unit = next((length for length, _ in UNITS if highest >= length), 1)
    return max(1, -(-highest // unit)) * unit


def _times(last: datetime, span: Span) -> tuple[str, ...]:
    """The times at the left edge, in the middle and at the right edge of a chart whose last period began then."""
    form = "%H:%M" if span.since < timedelta(days=1) else "%m-%d %H:%M"
    end, width = last + timedelta(seconds=span.step), timedelta(seconds=span.step * span.slots)
    return tuple(moment.astimezone(UTC).strftime(form) for moment in (end - width, end - width / 2, end))
