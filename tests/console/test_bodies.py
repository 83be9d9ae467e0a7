"""How pages show message bodies."""

from __future__ import annotations

import json

import pytest

from mqredis.asyncio import QueueManager
from mqredis.console import bodies
from mqredis.models.lookup_ids import hex_id
from tests.console.browser import Browser


@pytest.mark.parametrize("body", [b'["\\ud800"]', b'{"\\udc00\\ud800": 1}', b'["\\ud83d\\ude00"]'])
async def test_body_with_a_lone_surrogate_is_shown(
    browser: Browser, manager: QueueManager, body: bytes
) -> None:
    async with await manager.open("orders") as queue:
        sent = await queue.send(body)
    for view in ("", "json", "text", "hex"):
        await browser.get("/m/main/message", queue="orders", id=hex_id(sent.lookup_id), view=view)
    await browser.get("/m/main/messages", queue="orders")


def test_indented_json_is_bounded() -> None:
    deep = b"[" * 400 + b"1," * 20_000 + b"1" + b"]" * 400
    assert bodies.view(deep).kinds == ("text", "hex")
    wide = json.dumps(list(range(10_000))).encode()
    shown = bodies.view(wide)
    assert shown.kinds == ("json", "text", "hex")
    assert len(wide) < len(shown.text) < bodies.JSON_CHARACTERS


def test_too_deeply_nested_json_is_shown_as_text() -> None:
    assert bodies.view(b"[" * 30_000).kind == "text"


@pytest.mark.parametrize("character", ["ä", "€", "😀"])
@pytest.mark.parametrize("offset", range(4))
def test_truncation_keeps_whole_characters(character: str, offset: int) -> None:
    text = "x" * offset + character * bodies.PAGE_BYTES
    shown, row = bodies.view(text.encode()), bodies.preview(text.encode())
    assert (shown.kind, shown.truncated) == ("text", True)
    assert text.startswith(shown.text)
    assert len(shown.text.encode()) > bodies.PAGE_BYTES - 4
    assert row[-1] == "…"
    assert text.startswith(row[:-1])
    assert len(row.encode()) > bodies.ROW_BYTES - 4


def test_invalid_utf8_is_shown_as_hex() -> None:
    assert bodies.view("ä".encode()[:1]).kinds == ("hex",)
    assert bodies.view(b"\xff" * 200).text.startswith("00000000  ff ff")
    assert bodies.preview(b"\xff" * 2) == "\ufffd\ufffd"


def test_empty_body_is_shown_as_empty_text() -> None:
    assert bodies.view(b"") == bodies.BodyView("text", "", ("text", "hex"), truncated=False)
    assert bodies.preview(b"") == ""
