"""The body of a message as a page shows it."""

from __future__ import annotations

import json
from typing import NamedTuple

#: Bytes of a body on a page, and in a row of a table. The whole body can be downloaded.
SHOWN, IN_ROW = 65_536, 120


class BodyView(NamedTuple):
    """A body as text."""

    #: text, json or hex
    kind: str
    text: str
    #: The views that this body has.
    kinds: tuple[str, ...]
    #: Only the first SHOWN bytes are in ``text``.
    cut: bool


def view(body: bytes, kind: str = "") -> BodyView:
    """A body in the view that was asked for, or in the one that suits it best."""
    cut = len(body) > SHOWN
    kinds = []
    formatted = None if cut else _json(body)
    if formatted is not None:
        kinds.append("json")
    text = _text(body[:SHOWN], cut)
    if text is not None:
        kinds.append("text")
    kinds.append("hex")
    kind = kind if kind in kinds else kinds[0]
    shown = {"json": formatted, "text": text}.get(kind) or (hex_dump(body[:SHOWN]) if kind == "hex" else "")
    return BodyView(kind, shown, tuple(kinds), cut)


def in_row(body: bytes) -> str:
    """The beginning of a body, for a row of a table."""
    text = body[:IN_ROW].decode("utf-8", "replace")
    return text + "…" if len(body) > IN_ROW else text


def hex_dump(data: bytes) -> str:
    """Lines with offset, 16 bytes in hex, and the same bytes as ASCII."""
    lines = []
    for at in range(0, len(data), 16):
        row = data[at : at + 16]
        digits = " ".join(f"{byte:02x}" for byte in row)
        text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        lines.append(f"{at:08x}  {digits:<47}  {text}")
    return "\n".join(lines)


def _json(body: bytes) -> str | None:
    if body[:1] not in (b"{", b"[") and body.strip()[:1] not in (b"{", b"["):
        return None
    try:
        return json.dumps(json.loads(body), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return None


def _text(part: bytes, cut: bool) -> str | None:
    """The bytes as UTF-8; None for other bytes. ``cut``: the last character may be incomplete and is left out."""
    for end in range(4 if cut else 1):
        try:
            return part[: len(part) - end].decode("utf-8")
        except UnicodeDecodeError:
            continue
    return None
