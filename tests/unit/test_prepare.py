"""A send whose fields are checked while they are encoded is what the long way makes of them, or refused as there."""

from __future__ import annotations

import enum
from types import SimpleNamespace
from typing import Any

import pytest

from mqredis import codec
from mqredis.commands.common import Address
from mqredis.errors import InvalidArgument, MessageTooLarge, MqError
from mqredis.keys import ManagerKeys
from mqredis.models import Access, Share
from mqredis.operations import send
from mqredis.operations.context import Context, Handle, UnitOfWork
from mqredis.settings import Settings
from mqredis.status import Status

CONTEXT = Context(ManagerKeys("prepared"), Settings())
LIMIT = 10_000


class Text(str):
    """Of another type than most."""

    __slots__ = ()


class Colour(enum.StrEnum):
    RED = "red"


FIELDS: list[dict[Any, Any]] = [
    {},
    {"correlation_id": "c-1"},
    {"correlation_id": ""},
    {"correlation_id": None},
    {"correlation_id": b"\x01\x02"},
    {"correlation_id": "x" * 255},
    {"correlation_id": "x" * 256},
    {"correlation_id": "é" * 128},
    {"correlation_id": "a\x02b"},
    {"correlation_id": "\ud800"},
    {"correlation_id": Text("c")},
    {"correlation_id": 7},
    {"properties": {}},
    {"properties": None},
    {"properties": []},
    {"properties": [("a", 1)]},
    {"properties": {"a": "b", "n": 1, "f": 1.5, "t": True, "u": False, "x": None, "b": b"\xff"}},
    {"properties": {"a\x01": "b\x03\x04"}},
    {"properties": {"": 1}},
    {"properties": {"n" * 256: 1}},
    {"properties": {7: 1}},
    {"properties": {Text("a"): 1}},
    {"properties": {"a": Text("b")}},
    {"properties": {"a": Colour.RED}},
    {"properties": {"a": float("inf")}},
    {"properties": {"a": float("nan")}},
    {"properties": {"a": 1 << 63}},
    {"properties": {"a": -(1 << 63)}},
    {"properties": {"a": bytearray(b"b")}},
    {"properties": {"a": object()}},
    {"properties": {"a": "\ud800"}},
    {"properties": {str(n): n for n in range(128)}},
    {"properties": {str(n): n for n in range(129)}},
    {"priority": 5, "correlation_id": "c"},
    {"correlation_id": bytes(24)},
    {"correlation_id": "", "properties": {"a": 1}},
    {"message_id": bytes(24), "group_id": ""},
    {"recoverable": False},
    {"nothing": 1},
]


def handle(limit: int = LIMIT) -> Handle:
    return Handle(CONTEXT, Address(CONTEXT.keys, "q", "1"), "1", Access.ALL, Share.DENY_NONE, "", limit)


def long_way(body: bytes, fields: dict[Any, Any], transaction: str) -> Any:
    return codec.encode_fields(send.given(body, fields), transaction)


def outcome(what: Any, *args: Any) -> Any:
    try:
        return what(*args)
    except MqError as error:
        return type(error)


@pytest.mark.parametrize("fields", FIELDS, ids=lambda fields: f"{fields!r:.40}")
@pytest.mark.parametrize("transaction", ["", "t1.1"])
@pytest.mark.parametrize("body", [b"", b"body", b"b" * 5000])
def test_both_ways_agree(body: bytes, transaction: str, fields: dict[Any, Any]) -> None:
    unit = UnitOfWork(CONTEXT, transaction, 1000) if transaction else None
    short = outcome(lambda: send.prepare(handle(), body, fields, unit)[1])
    assert short == outcome(long_way, body, fields, transaction)


def test_what_a_caller_gave_is_not_changed() -> None:
    fields = {"properties": {"a": 1}, "correlation_id": "c"}
    assert send.Send(handle(), b"body", fields).shareable
    assert fields == {"properties": {"a": 1}, "correlation_id": "c"}


def test_too_large_by_either_way() -> None:
    for fields in ({}, {"priority": 4}):
        for body in (b"b" * 100, b"b" * 5000):
            taken = send.prepare(handle(), body, fields)[1]
            size = len(taken[0]) + len(taken[1] or b"") + 12
            assert send.prepare(handle(size), body, fields)[1] == taken
            with pytest.raises(MessageTooLarge, match=f"takes {size} bytes"):
                send.prepare(handle(size - 1), body, fields)


def test_who_has_a_message_that_is_too_large_asks_once() -> None:
    """And nobody else; not even they, where the settings allow no more."""
    operation = iter(send.Send(handle(100), b"b" * 500, {}))
    asked: Any = operation.send(None)
    assert (asked.script, asked.changes) == ("queue_info", False)
    with pytest.raises(MessageTooLarge, match="allows 100"):
        operation.send((int(Status.OK), [b""]))
    told: Any = iter(send.Send(handle(100), b"b", {})).send(None)
    assert told.script == "send"
    known = handle(CONTEXT.settings.max_message_bytes)
    with pytest.raises(MessageTooLarge):
        iter(send.Send(known, bytes(known.max_message_bytes), {})).send(None)


def test_a_sealed_or_volatile_one_goes_the_long_way(monkeypatch: pytest.MonkeyPatch) -> None:
    sealer = SimpleNamespace(seal=lambda body, _: b"sealed " + body)
    monkeypatch.setattr(CONTEXT, "sealer", sealer)
    assert b"sealed body" in send.prepare(handle(), b"body", {})[1][0]
    monkeypatch.setattr(CONTEXT.standing, "volatile", True)
    with pytest.raises(MqError):
        send.prepare(handle(), b"body", {})


def test_a_dropped_transaction_is_kept_only_if_it_has_begun_and_not_ended() -> None:
    context = Context(ManagerKeys("held"), Settings())
    kept = context.unit(UnitOfWork(context, "t1", 1000, "5"))
    context.unit(UnitOfWork(context, "t2", 1000, "6"))
    ended = context.unit(UnitOfWork(context, "t3", 1000, "7", finished="committed"))
    fresh = context.unit(UnitOfWork(context, "t4", 1000))
    assert sorted(unit.id for unit in context.begun()) == ["t1", "t2"]
    del kept, ended, fresh
    assert len(context.units) == 2
    assert sorted(unit.id for unit in context.begun()) == ["t1", "t2"]


def test_an_empty_property_name_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="non-empty"):
        send.prepare(handle(), b"", {"properties": {"": 1}})
