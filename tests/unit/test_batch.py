"""Messages sent in a batch are encoded and refused exactly as in single sends."""

from __future__ import annotations

import random
import sys
from typing import Any

import pytest

from mqredis import Outgoing, codec
from mqredis.codec import INLINE_BODY_BYTES
from mqredis.commands import send as commands
from mqredis.commands.address import Address
from mqredis.errors import InvalidArgument, MessageTooLarge, MqError
from mqredis.keys import ManagerKeys
from mqredis.models import Access, Sent, Share
from mqredis.operations import send
from mqredis.operations.context import Context
from mqredis.operations.open_queue import Handle
from mqredis.operations.unit_of_work import UnitOfWork
from mqredis.settings import Settings
from mqredis.status import Status
from mqredis.steps import Call
from tests.support.counts import messages_of

CONTEXT = Context(ManagerKeys("together"), Settings())
CONTEXT.incarnation = "life"
LIMIT = 100_000
# Values of each type and its limits, with characters that are escaped or not ASCII.
VALUES: list[Any] = [
    "", "plain", "a\0b\x04", "é\u2028", "\U0001f600", "\x7f", 0, -1, 7, (1 << 63) - 1, -(1 << 63), 0.0, -0.0, 129.95,
    1e300, 5e-324, True, False, None, b"", b"\xff\0",
]  # fmt: skip
NAMES = ["a", "region", "é", "with\x01end", "n" * 255]
IDENTIFIERS: list[Any] = ["c-1", "", "x" * 63, "x" * 64, "é" * 64, "a\x02b", "\u00ad", b"\x01", None]
OTHERS: list[dict[str, Any]] = [
    {"message_id": "m"}, {"group_id": b"g", "sequence": 3}, {"content_type": "text/plain"}, {"priority": 0},
    {"priority": 7, "label": "l"}, {"dedup_key": "k"}, {"delay": 1.5}, {"properties": {}},
]  # fmt: skip
SIZES = [0, 0, 1, 200, INLINE_BODY_BYTES, INLINE_BODY_BYTES + 1]


def handle(limit: int = LIMIT) -> Handle:
    return Handle(CONTEXT, Address(CONTEXT.keys, "q", "1"), "1", Access.ALL, Share.DENY_NONE, "", limit)


def fields_by(rng: random.Random) -> dict[str, Any]:
    """Return random fields of a message, most of them common ones."""
    fields: dict[str, Any] = {"body": rng.randbytes(rng.choice(SIZES)), "correlation_id": "c-1"}
    if rng.random() < 0.4:
        fields["correlation_id"] = rng.choice(IDENTIFIERS)
    if rng.random() < 0.7:
        fields["properties"] = {
            name: rng.choice(VALUES) for name in rng.sample(NAMES, rng.randint(0, len(NAMES)))
        }
    if rng.random() < 0.3:
        fields |= rng.choice(OTHERS)
    for name in ("body", "correlation_id"):
        if rng.random() < 0.1:
            del fields[name]
    return fields


def sent(
    messages: list[Any], unit: UnitOfWork | None = None, limit: int = LIMIT
) -> tuple[list[Any], list[Sent]]:
    """Return the calls of a batch send and its result."""
    operation = iter(send.send_many(handle(limit), messages, unit))
    calls: list[Any] = []
    count, answer = 0, None
    try:
        while True:
            call: Any = operation.send(answer)
            assert type(call) is Call
            calls.append(call)
            # A message exceeds the known limit: answer that the queue is gone.
            if call.script == "queue_info":
                answer = int(Status.OK), [b""]
                continue
            some = messages_of(calls[-1])
            answer = int(Status.OK), ["".join(f"{n:016x}" for n in range(count, count + some)).encode(), b"9"]
            count += some
    except StopIteration as stop:
        return calls, stop.value


@pytest.mark.parametrize("transaction", ["", "t1.1", "odd\x02"])
def test_batch_encodes_each_message_as_a_single_send_does(transaction: str) -> None:
    seed = random.randrange(sys.maxsize)
    print("seed", seed)
    rng = random.Random(seed)
    for _ in range(60):
        field_sets = [fields_by(rng) for _ in range(rng.randint(0, 12))]
        messages = [Outgoing(**fields) for fields in field_sets]
        for message in messages:
            if rng.random() < 0.1:
                _ = message.properties  # reading the properties invalidates their cached text
        wanted = [codec.encode(Outgoing(**fields), transaction) for fields in field_sets]
        assert [codec.encode(message, transaction) for message in messages] == wanted
        batch = codec.encode_each(messages, transaction, LIMIT)
        assert [batch.size(at) for at in range(len(wanted))] == [len(a) + len(b or b"") for a, b in wanted]
        start, stop = sorted((rng.randint(0, len(wanted)), rng.randint(0, len(wanted))))
        unit = UnitOfWork(CONTEXT, transaction, 1000) if transaction else None
        for some, by_itself in ((messages, wanted), (messages[start:stop], wanted[start:stop])):
            calls, answers = sent(some, unit)
            assert len(calls) == (1 if some else 0)
            for call in calls:
                grant = call.args[1:3] if len(call.args) > 3 else ("", "")
                by_pairs = commands.send(handle().address, by_itself, *grant)
                assert call.args == by_pairs.args
                assert grant[0] == transaction
            names = [(fields.get("message_id"), fields.get("group_id")) for fields in field_sets]
            names = names if some is messages else names[start:stop]
            assert answers == [
                Sent(lookup_id=n, message_id=name or f"mq-{n:016x}", token=f"life-{n:016x}", group_id=group)
                for n, (name, group) in enumerate(names)
            ]


def test_large_bodies_follow_their_records_in_each_call() -> None:
    big = b"b" * 5000
    messages = [
        Outgoing(body=big + b"%d" % n if n % 3 == 0 else b"%d" % n, correlation_id="c") for n in range(600)
    ]
    calls, answers = sent(messages)
    assert [messages_of(call) for call in calls] == [256, 256, 88]
    assert [answer.lookup_id for answer in answers] == list(range(600))
    at = 0
    for call in calls:
        encoded = [codec.encode(message) for message in messages[at : at + messages_of(call)]]
        assert call.args == commands.send(handle().address, encoded).args
        at += len(encoded)


def test_calls_of_a_batch_are_limited_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(send, "CALL_BYTES", 12_000)
    messages = [Outgoing(body=b"b" * size) for size in (5000, 5000, 5000, 20_000, 1, 2)]
    assert [messages_of(call) for call in sent(messages)[0]] == [2, 1, 1, 2]


@pytest.mark.parametrize("fields", [{"correlation_id": "c"}, {"priority": 4}])
@pytest.mark.parametrize("body", [b"b" * 100, b"b" * 5000])
def test_first_invalid_message_of_a_batch_is_reported(fields: dict[str, Any], body: bytes) -> None:
    fits, small = Outgoing(body=body, **fields), Outgoing(body=b"")
    wrong = Outgoing(body=b"", properties={"a": "\ud800"})
    line, large = codec.encode(fits)
    size = len(line) + len(large or b"") + 12
    assert [messages_of(call) for call in sent([small, fits, small, fits], limit=size)[0]] == [4]
    for messages, error in (
        ([small, fits, wrong], MessageTooLarge),
        ([fits, small], MessageTooLarge),
        ([small, wrong, fits], InvalidArgument),
    ):
        with pytest.raises(MqError) as raised:
            sent(messages, limit=size - 1)
        assert type(raised.value) is error


def test_lone_surrogate_is_refused_in_single_and_batch_sends() -> None:
    for fields in (
        {"properties": {"a": "\ud800"}},
        {"properties": {"\ud800": 1}},
        {"correlation_id": "\ud800"},
    ):
        message = Outgoing(**{"body": b"", "correlation_id": "c", **fields})  # type: ignore[arg-type]
        with pytest.raises(InvalidArgument, match="lone surrogate"):
            codec.encode(message)
        with pytest.raises(InvalidArgument, match="lone surrogate"):
            sent([message])


def test_reply_with_too_few_ids_is_an_error() -> None:
    operation = iter(send.send_many(handle(), [b"a", b"b"], None))
    operation.send(None)
    with pytest.raises(MqError, match="send answered 1 ids for 2 messages"):
        operation.send((int(Status.OK), [b"0" * 16, b""]))
