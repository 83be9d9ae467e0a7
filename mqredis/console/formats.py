"""How values look on a page: numbers, sizes, times, and text from outside.

The pages, the actions, the charts, the sentences of the log, ``failure`` and the templates use it: ``rendering`` gives
them ``FILTERS``, and ``visible`` for every value. ``cli.terminal`` does the same for terminals, with a set of its own.
``models.lookup_ids.hex_id`` has to print what ``pages.find`` and ``actions.base.lookup_id`` read.
tests/console/test_wording.py has the words of times.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from markupsafe import Markup

from mqredis.models.lookup_ids import hex_id
from mqredis.models.text import Identifier, typed

# Control characters, and the characters that change the direction of the text around them.
_INVISIBLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
)

# Shown for a missing value.
DASH = "\u2013"

# Units of durations, in seconds, the largest first. The axes of charts end at whole units (``charts``).
UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


def visible(value: Any) -> Any:
    """Text with its invisible characters written as escapes; everything else as it is. Applied to every value."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return _INVISIBLE.sub(lambda found: f"\\u{ord(found[0]):04x}", value)
    return value


def number(value: int | float | None) -> str:
    """A number with separators between thousands; a dash for None."""
    if value is None:
        return DASH
    return f"{value:,}" if isinstance(value, int) else f"{value:,.1f}"


def size(value: int | None) -> str:
    """Bytes in a unit that leaves few digits."""
    if value is None:
        return DASH
    amount, unit = float(value), "B"
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if amount < (1000 if unit == "B" else 999.95) or unit == "TB":  # 999.95 would be shown as 1,000.0
            break
        amount /= 1000
    return f"{value:,} B" if unit == "B" else f"{amount:,.1f} {unit}"


def duration(seconds: float | None) -> str:
    """Seconds as the largest fitting unit; less than ten of it are followed by the next smaller unit: "1 h 23 min"."""
    if seconds is None:
        return DASH
    if seconds < 1:
        return "0 s" if seconds < 0.001 else f"{min(seconds * 1000, 999):.0f} ms"
    rest = round(seconds)
    if rest >= 600:
        rest = round(rest / 60) * 60  # 59 min 40 s are an hour
    at = next(at for at, (length, _) in enumerate(UNITS) if rest >= length)
    length, unit = UNITS[at]
    if rest >= 10 * length or at == len(UNITS) - 1:
        return f"{rest / length:.0f} {unit}"
    count, rest = divmod(rest, length)
    smaller, small_unit = UNITS[at + 1]
    return f"{count} {unit} {rest // smaller} {small_unit}" if rest >= smaller else f"{count} {unit}"


def exact(seconds: float) -> str:
    """Seconds in all units that they need: "1 h 23 min 20 s"."""
    parts = []
    for length, unit in UNITS:
        count, seconds = (seconds, 0.0) if length == 1 else divmod(seconds, length)
        if count:
            parts.append(f"{count:.3f}".rstrip("0").rstrip(".") + f" {unit}")
    return " ".join(parts) or "0 s"


def when(moment: datetime | None, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> Markup:
    """A time as its distance from now; the exact time is in the title."""
    if moment is None:
        return Markup("{}").format(DASH)
    seconds = (now() - moment).total_seconds()
    text = f"{duration(seconds)} ago" if seconds >= 0 else f"in {duration(-seconds)}"
    title = moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3] + " UTC"
    return Markup('<time datetime="{}" title="{}">{}</time>').format(moment.isoformat(), title, text)


def identifier(value: Identifier | None) -> str:
    """An identifier of a message, as fields of forms take it; "" for None."""
    return "" if value is None else typed(value)


def plural(count: int, thing: str) -> str:
    """So many of a thing: "1 message", "2,000 messages"."""
    return f"{count:,} {thing}" if count == 1 else f"{count:,} {thing}s"


def without(reason: str, error: object) -> str:
    """The reason of a failure without the error behind it, which the page shows by itself."""
    return reason.removesuffix(f": {error}") if error else reason


# What errors say to a programmer, and the words for a person in front of a browser. A test in
# tests/console/test_wording.py looks for the texts in the package.
_WORDS = (
    ("schedules() lists them", "the page Schedules lists those that there are"),
    ("workers() lists them", "the page Workers lists those that run"),
    ("this client is read-only (Settings.read_only)", "this console only reads"),
)


def in_words(error: object) -> str:
    """The text of an error with pages of the console in place of calls and settings."""
    text = str(error)
    for call, words in _WORDS:
        text = text.replace(call, words)
    return text


FILTERS: dict[str, Callable[..., Any]] = {
    "number": number,
    "size": size,
    "duration": duration,
    "exact": exact,
    "in_words": in_words,
    "when": when,
    "hex_id": hex_id,
    "identifier": identifier,
    "plural": plural,
    "without": without,
}
