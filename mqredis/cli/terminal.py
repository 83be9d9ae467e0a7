"""Text from messages, made safe for a terminal.

``cli.output``, ``cli.app`` and ``cli.work`` (``Formatter``) use it. The console has a set of its own for pages
(``console.formats.visible``).

A body, label, name or error text may hold escape sequences, which a terminal would obey: they can clear the screen,
rewrite earlier lines, set the clipboard or answer a prompt. Everything that the command line prints, except the bytes
of ``--raw``, passes through this module.
"""

from __future__ import annotations

import logging
import re
from datetime import UTC, datetime

# Control characters of both sets (ESC is in C0, the one-byte CSI in C1), and what turns the direction of text around.
_UNSAFE = "\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff"
_IN_A_CELL = re.compile(f"[{_UNSAFE}\u2028\u2029]")
_IN_LINES = re.compile(f"(?!\n|\t|\r\n)[{_UNSAFE}]")
# JSON escapes the first 32 characters itself.
_IN_JSON = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def cell(text: str) -> str:
    """Text for one cell or line: every control character, line breaks included, is shown as ``\\x1b``."""
    return _IN_A_CELL.sub(_escaped, text)


def lines(text: str) -> str:
    """Text that may have several lines: as :func:`cell`, but line ends and tabs stay."""
    return _IN_LINES.sub(_escaped, text)


def json_line(text: str) -> str:
    """A line of JSON with the control characters escaped that JSON allows in strings. Its value stays the same."""
    return _IN_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _escaped(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


class Formatter(logging.Formatter):
    """Formats log records, whose texts may come from messages, for a terminal. Times are in UTC, as in tables."""

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: N802, ARG002 - logging's
        """The time of the record in UTC, with milliseconds."""
        text = datetime.fromtimestamp(record.created, UTC).isoformat(sep=" ", timespec="milliseconds")
        return text.removesuffix("+00:00") + "Z"

    def format(self, record: logging.LogRecord) -> str:
        """The formatted record, with tracebacks on lines of their own."""
        return lines(super().format(record))
