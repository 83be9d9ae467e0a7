"""Encoding of a message to send, and refusals before the call."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from mqredis.codec import INLINE_BODY_BYTES
from mqredis.commands.address import Address
from mqredis.errors import InvalidArgument, MessageTooLarge, MqError
from mqredis.keys import ManagerKeys
from mqredis.models import Access, Share
from mqredis.operations import send
from mqredis.operations.context import Context
from mqredis.operations.open_queue import Handle
from mqredis.operations.unit_of_work import UnitOfWork
from mqredis.settings import Settings
from mqredis.status import Status

CONTEXT = Context(ManagerKeys("prepared"), Settings())
LIMIT = 10_000


# Fields, and what stands between flag and body of the record that is sent: outside a transaction and within "t1.1".
RECORDS: list[tuple[dict[str, Any], str, str]] = [
    ({}, "0", "0\x03Tt1.1"),
    ({"correlation_id": "c-1"}, "h\x03csc-1", "h\x03Tt1.1\x03csc-1"),
    ({"correlation_id": ""}, "0", "0\x03Tt1.1"),
    ({"correlation_id": None}, "0", "0\x03Tt1.1"),
    ({"correlation_id": b"\x01\x02"}, "1\x03cx0102", "1\x03Tt1.1\x03cx0102"),
    ({"correlation_id": bytes(24)}, "0", "0\x03Tt1.1"),
    ({"correlation_id": "x" * 255}, "h\x03cs" + "x" * 255, "h\x03Tt1.1\x03cs" + "x" * 255),
    ({"correlation_id": "a\x02b"}, "h\x03csa\x04Bb", "h\x03Tt1.1\x03csa\x04Bb"),
    (
        {"properties": {"a": "b", "n": 1, "f": 1.5, "t": True, "u": False, "x": None, "b": b"\xff"}},
        "0\x01a\x02sb\x01n\x02i1\x01f\x02d1.5\x01t\x02t\x01u\x02f\x01x\x02n\x01b\x02xff",
        "0\x01a\x02sb\x01n\x02i1\x01f\x02d1.5\x01t\x02t\x01u\x02f\x01x\x02n\x01b\x02xff\x03Tt1.1",
    ),
    (
        {"correlation_id": "c", "label": "l", "properties": {"a\x01": "b\x03\x04"}},
        "h\x01a\x04A\x02sb\x04C\x04D\x03ll\x03csc",
        "h\x01a\x04A\x02sb\x04C\x04D\x03ll\x03Tt1.1\x03csc",
    ),
    ({"properties": {"a": -(1 << 63)}}, f"0\x01a\x02i{-(1 << 63)}", f"0\x01a\x02i{-(1 << 63)}\x03Tt1.1"),
    ({"message_id": bytes(24), "group_id": ""}, "0", "0\x03Tt1.1"),
    ({"message_id": "m", "correlation_id": "c"}, "1\x03msm\x03csc", "1\x03msm\x03Tt1.1\x03csc"),
    ({"recoverable": False}, "0\x03d0", "0\x03Tt1.1"),
    ({"delay": 0.0001}, "1\x03D1", "1\x03D1\x03Tt1.1"),
]
REFUSED: list[dict[Any, Any]] = [
    {"correlation_id": "x" * 256},
    {"correlation_id": "é" * 128},
    {"correlation_id": "\ud800"},
    {"correlation_id": 7},
    {"properties": 5},
    {"properties": []},
    {"properties": {"": 1}},
    {"properties": {"n" * 256: 1}},
    {"properties": {7: 1}},
    {"properties": {"a": 1 << 63}},
    {"properties": {"a": "\ud800"}},
    {"properties": {str(n): n for n in range(129)}},
    {"nothing": 1},
]


def handle(limit: int = LIMIT) -> Handle:
    return Handle(CONTEXT, Address(CONTEXT.keys, "q", "1"), "1", Access.ALL, Share.DENY_NONE, "", limit)


@pytest.mark.parametrize("fields, outside, within", RECORDS, ids=lambda value: f"{value!r:.40}")
@pytest.mark.parametrize("body", [b"", b"body", b"b" * 5000])
def test_prepare_encodes_the_record(body: bytes, fields: dict[str, Any], outside: str, within: str) -> None:
    unit = UnitOfWork(CONTEXT, "t1.1", 1000)
    for text, sent in (
        (outside, send.prepare(handle(), body, fields)[1]),
        (within, send.prepare(handle(), body, fields, unit)[1]),
    ):
        if len(body) > INLINE_BODY_BYTES:  # flag bit 8, and the body apart
            large = {"0": "8", "1": "9", "h": "p"}[text[0]] + text[1:]
            assert sent == (f"3{large}\0".encode(), body)
        else:
            assert sent == (f"3{text}\0".encode() + body, None)


@pytest.mark.parametrize("fields", REFUSED, ids=lambda fields: ascii(fields)[:40])
def test_invalid_fields_are_refused(fields: dict[Any, Any]) -> None:
    with pytest.raises(InvalidArgument):
        send.prepare(handle(), b"body", fields)


def test_fields_of_the_caller_are_not_modified() -> None:
    fields = {"properties": {"a": 1}, "correlation_id": "c"}
    assert send.Send(handle(), b"body", fields).shareable
    assert fields == {"properties": {"a": 1}, "correlation_id": "c"}


@pytest.mark.parametrize(
    "fields, alone",
    [
        ({"acknowledge": 5}, True),
        ({"journal": 2}, True),
        ({"dead_letter_queue": "d"}, True),
        ({"delay": 1}, False),
    ],
)
def test_message_with_reports_or_journal_is_not_coalesced(fields: dict[str, Any], alone: bool) -> None:
    assert (send.Send(handle(), b"body", fields).shareable is None) is alone


def test_message_above_the_size_limit_is_refused() -> None:
    for fields in ({}, {"priority": 4}):
        for body in (b"b" * 100, b"b" * 5000):
            taken = send.prepare(handle(), body, fields)[1]
            size = len(taken[0]) + len(taken[1] or b"") + 12
            assert send.prepare(handle(size), body, fields)[1] == taken
            with pytest.raises(MessageTooLarge, match=f"takes {size} bytes"):
                send.prepare(handle(size - 1), body, fields)


def test_oversized_message_reads_the_limit_of_the_queue_once() -> None:
    """The limit may have been raised, so it is read unless the settings allow no more."""
    operation = iter(send.Send(handle(100), b"b" * 500, {}))
    first_call: Any = operation.send(None)
    assert (first_call.script, first_call.changes) == ("queue_info", False)
    with pytest.raises(MessageTooLarge, match="allows 100"):
        operation.send((int(Status.OK), [b""]))
    send_call: Any = iter(send.Send(handle(100), b"b", {})).send(None)
    assert send_call.script == "send"
    known = handle(CONTEXT.settings.max_message_bytes)
    with pytest.raises(MessageTooLarge):
        iter(send.Send(known, bytes(known.max_message_bytes), {})).send(None)


def test_body_is_sealed_and_volatile_server_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    sealer = SimpleNamespace(seal=lambda body, _: b"sealed " + body)
    monkeypatch.setattr(CONTEXT, "sealer", sealer)
    assert b"sealed body" in send.prepare(handle(), b"body", {})[1][0]
    monkeypatch.setattr(CONTEXT.server_state, "volatile", True)
    with pytest.raises(MqError):
        send.prepare(handle(), b"body", {})


def test_dropped_transaction_is_kept_only_while_it_is_open() -> None:
    context = Context(ManagerKeys("held"), Settings())
    kept = context.unit(UnitOfWork(context, "t1", 1000, "5"))
    context.unit(UnitOfWork(context, "t2", 1000, "6"))
    ended = context.unit(UnitOfWork(context, "t3", 1000, "7", finished="committed"))
    fresh = context.unit(UnitOfWork(context, "t4", 1000))
    assert sorted(unit.id for unit in context.begun()) == ["t1", "t2"]
    del kept, ended, fresh
    assert len(context.units) == 2
    assert sorted(unit.id for unit in context.begun()) == ["t1", "t2"]


def test_empty_property_name_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="non-empty"):
        send.prepare(handle(), b"", {"properties": {"": 1}})
