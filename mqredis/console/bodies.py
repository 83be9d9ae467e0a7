"""The body of a message as a page shows it.

``pages.messages`` uses it for the page of a message, and templates/messages.html calls ``preview`` for rows.
message.html has the words for ``kinds``, which are the argument ``view`` of addresses, and says "64 KiB", as
docs/console.md does. A ``kind`` that a body does not have is ignored. No view is HTML (docs/console.md).
"""

from __future__ import annotations

import codecs
import json
from typing import NamedTuple

# Bytes of a body on a page, and in a row of a table. The whole body can be downloaded.
PAGE_BYTES, ROW_BYTES = 65_536, 120
# Characters of a body that is shown as indented JSON. Where deep nesting takes more, the body has no such view.
JSON_CHARACTERS = 4 * PAGE_BYTES


class BodyView(NamedTuple):
    """A body as text."""

    # text, json or hex
    kind: str
    text: str
    # The views that this body has.
    kinds: tuple[str, ...]
    # Only the first PAGE_BYTES bytes are in ``text``.
    truncated: bool


def view(body: bytes, kind: str = "") -> BodyView:
    """A body in the view that was asked for, or in the one that suits it best."""
    truncated = len(body) > PAGE_BYTES
    part = body[:PAGE_BYTES]
    views = {
        "json": None if truncated else _json(body),
        "text": _text(part, truncated),
        "hex": _hex_dump(part),
    }
    shown = {name: text for name, text in views.items() if text is not None}
    kind = kind if kind in shown else next(iter(shown))
    return BodyView(kind, shown[kind], tuple(shown), truncated)


def preview(body: bytes) -> str:
    """The beginning of a body, for a row of a table."""
    truncated = len(body) > ROW_BYTES
    text = codecs.getincrementaldecoder("utf-8")("replace").decode(body[:ROW_BYTES], final=not truncated)
    return text + "…" if truncated else text


def _hex_dump(data: bytes) -> str:
    """Lines with offset, 16 bytes in hex, and the same bytes as ASCII."""
    lines = []
    for at in range(0, len(data), 16):
        row = data[at : at + 16]
        digits = " ".join(f"{byte:02x}" for byte in row)
        text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        lines.append(f"{at:08x}  {digits:<47}  {text}")
    return "\n".join(lines)


def _json(body: bytes) -> str | None:
    """The body as indented JSON; None if it is something else, or takes more than JSON_CHARACTERS."""
    if body.strip()[:1] not in (b"{", b"["):
        return None
    parts: list[str] = []
    size = 0
    try:
        for part in json.JSONEncoder(indent=2, ensure_ascii=False).iterencode(json.loads(body)):
            parts.append(part)
            size += len(part)
            if size > JSON_CHARACTERS:
                return None
    except (ValueError, RecursionError):
        return None
    return "".join(parts)


def _text(part: bytes, truncated: bool) -> str | None:
    """The bytes as UTF-8, without the incomplete character at the end of a truncated body; None for other bytes."""
    try:
        return codecs.getincrementaldecoder("utf-8")().decode(part, final=not truncated)
    except UnicodeDecodeError:
        return None
