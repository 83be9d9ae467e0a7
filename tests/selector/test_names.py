"""Header fields are read under every name from records of the codec; unsupported names are refused."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import redis

from mqredis import codec
from mqredis.errors import SelectorSyntaxError
from mqredis.models import Acknowledge, Journal, Message, Outgoing
from mqredis.selector import header_of, parse
from mqredis.selector.names import FIELDS
from tests.selector.kit import ARRIVED, LOOKUP_ID, TRAP, bundle
from tests.support.backend import Backend

_LID = f"{LOOKUP_ID:016x}"
_BARE = Outgoing(body=TRAP)
_TEXT = Outgoing(
    body=TRAP,
    label="car\1",
    content_type="text/plain",
    priority=7,
    message_id="ID:abc",
    correlation_id="c\x04'1",
    group_id="g",
    sequence=3,
    offset=10,
    last_in_group=True,
    last_segment=True,
    recoverable=False,
    sent_seconds_ago=1.5,
    dedup_key="once",
    acknowledge=Acknowledge.FULL_RECEIVE,
    administration_queue="admin",
    response_queue="replies",
    dead_letter_queue="dead",
    journal=Journal.JOURNAL,
    app_tag=4_000_000_000,
    body_type=8,
    properties={"label": "not the label", "JMSXFoo": 1, "JMS_Vendor": 2, "$mine": 3},
)
_BYTES = Outgoing(message_id=b"\x01\xab", correlation_id=b"\x02", group_id=b"\x03", segment=True)


def _record(outgoing: Outgoing, more: bytes = b"") -> bytes:
    data, _ = codec.encode(outgoing)
    return b"%d" % ARRIVED + data[1:2] + more + data[2:]


_JOURNALED = _record(_BARE, b"\x03Tt-1\x03C32768\x03Oorders\x03I03000000000000ff\x03Rexpired")

_TABLE: list[tuple[bytes, str]] = [
    *(
        (_record(_BARE), text)
        for text in (
            f"JMSMessageID = 'mq-{_LID}' AND $message_id = 'mq-{_LID}' AND JMSMessageID LIKE 'mq-%11'",
            "JMSCorrelationID IS NULL AND JMSXGroupID IS NULL AND JMSXGroupSeq IS NULL AND JMSType IS NULL",
            f"JMSTimestamp = {ARRIVED} AND $arrived_at = $sent_at AND JMSPriority = 3",
            "JMSDeliveryMode = 'PERSISTENT' AND $recoverable AND Root.MQMD.Persistence = 1",
            f"$lookup_id = {LOOKUP_ID} AND $lookup_id > 288230376151711744",
            "$sequence = 1 AND $offset = 0 AND NOT $last_in_group AND NOT $segment AND NOT $last_segment",
            "JMS_IBM_Last_Msg_In_Group = FALSE",
            "$content_type = 'application/octet-stream' AND $label IS NULL AND $reason IS NULL",
            "Root.MQMD.MsgType = 8 AND Root.MQMD.Feedback = 0 AND $class = 0 AND Root.MQMD.ReplyToQ IS NULL",
            "$app_tag = 0 AND $body_type = 0 AND $acknowledge = 0 AND $journal = 0 AND $dedup_key IS NULL",
            "$transaction_id IS NULL AND $original_queue IS NULL AND $original_lookup_id IS NULL",
            "$administration_queue IS NULL AND $response_queue IS NULL AND $dead_letter_queue IS NULL",
        )
    ),
    *(
        (_record(_TEXT), text)
        for text in (
            "JMSMessageID = 'ID:abc' AND Root.MQMD.MsgId = 'ID:abc' AND $message_id IN ('ID:abc')",
            "JMSCorrelationID = 'c\x04''1' AND Root.MQMD.CorrelId LIKE 'c_''1' AND $correlation_id <> 'c'",
            "JMSXGroupID = 'g' AND Root.MQMD.GroupId = 'g' AND $group_id = 'g' AND JMSXGroupSeq = 3",
            f"JMSTimestamp = {ARRIVED - 1500} AND $sent_at + 1500 = $arrived_at",
            "JMSPriority = 7 AND $priority > 6 AND Root.MQMD.Priority BETWEEN 7 AND 9",
            "JMSType = 'car\1' AND $label LIKE 'car_' AND label = 'not the label'",
            "JMSDeliveryMode = 'NON_PERSISTENT' AND NOT $recoverable AND Root.MQMD.Persistence = 0",
            "$sequence = 3 AND Root.MQMD.MsgSeqNumber = 3 AND $offset = 10 AND Root.MQMD.Offset = 10",
            "$last_in_group AND $segment AND $last_segment = TRUE AND JMS_IBM_Last_Msg_In_Group",
            "$content_type = 'text/plain' AND Root.MQMD.Format = 'text/plain'",
            "Root.MQMD.MsgType = 1 AND Root.MQMD.ReplyToQ = 'replies' AND $response_queue = 'replies'",
            "$administration_queue = 'admin' AND $dead_letter_queue = 'dead' AND $dedup_key = 'once'",
            "$acknowledge = 14 AND $journal = 2 AND $app_tag = 4000000000 AND $body_type = 8",
            "JMSXFoo = 1 AND JMS_Vendor = 2 AND $mine = 3",
        )
    ),
    *(
        (_record(_BYTES), text)
        for text in (
            'JMSMessageID = \'ID:01ab\' AND Root.MQMD.MsgId = "0x01AB" AND $message_id <> "0x01"',
            "JMSCorrelationID LIKE 'ID:%2' AND $correlation_id = \"0x02\" AND NOT $correlation_id = 'ID:02'",
            'JMSXGroupID = \'ID:03\' AND Root.MQMD.GroupId = "0x03" AND $group_id = "0x03"',
            "JMSXGroupSeq = 1 AND $segment AND NOT $last_segment AND NOT $last_in_group",
        )
    ),
    (_JOURNALED, "$transaction_id = 't-1' AND $class = 32768 AND Root.MQMD.Feedback = 32768"),
    (_JOURNALED, "$original_queue = 'orders' AND $reason = 'expired' AND Root.MQMD.MsgType = 4"),
    (_record(_BARE, b"\x03l\x03Rexpired"), "$label IS NULL AND $reason = 'expired'"),
    (_JOURNALED, f"$original_lookup_id = {0x03000000000000FF}"),
]
_ENTRY = "return selector.test(selector.compile(ARGV[1]), ARGV[2], ARGV[3]) and 1 or 0"


def _message(record: bytes) -> Message:
    return codec.decode("q", "i", _LID.encode(), b"", record)


@pytest.mark.parametrize("record,text", _TABLE, ids=[text[:40] for _, text in _TABLE])
def test_header_field_is_read_under_each_name(backend: Backend, record: bytes, text: str):
    selector = parse(text)
    message = _message(record)
    assert selector.matches(message.properties, header_of(message))
    client: redis.Redis = backend.client()
    assert client.eval(bundle("selector/selector") + _ENTRY, 0, selector.program, record, _LID) == 1


def test_table_of_this_file_uses_every_field_name():
    assert set(FIELDS) <= {word for _, text in _TABLE for word in re.findall(r"[\w$.]+", text)}


def test_documentation_lists_every_field_name():
    page = (Path(__file__).resolve().parents[2] / "docs" / "selectors.md").read_text()
    assert set(FIELDS) <= set(re.findall(r"`([\w$.]+)`", page))


@pytest.mark.parametrize(
    "name",
    ["JMSDestination", "JMSRedelivered", "JMSXDeliveryCount", "JMSpriority", "Root.MQMD.BackoutCount"],
)
def test_unsupported_field_name_is_refused(name: str):
    with pytest.raises(SelectorSyntaxError, match=name) as refused:
        parse(f"a = 1 AND {name} = 1")
    assert refused.value.position == 10


_HINTS: list[tuple[str, Any]] = [
    ("JMSCorrelationID = 'x'", ("correlation_id", "x")),
    ("'x' = JMSCorrelationID AND a = 1", ("correlation_id", "x")),
    ("a = 1 AND (b = 2 AND JMSXGroupID = 'g')", ("group_id", "g")),
    ("JMSXGroupID = 'g' AND JMSMessageID = 'm'", ("message_id", "m")),
    ("$correlation_id IN ('x')", ("correlation_id", "x")),
    ('Root.MQMD.CorrelId = "0x0A"', ("correlation_id", b"\n")),
    ("$message_id = 'ID:0a'", ("message_id", "ID:0a")),
    ("JMSMessageID = 'ID:0A'", ("message_id", "ID:0A")),
    ("JMSMessageID IN ('a', 'b') AND JMSXGroupID = 'g'", ("group_id", "g")),
    ("JMSMessageID = 'ID:0a'", None),
    ("JMSCorrelationID = 'x' OR a = 1", None),
    ("NOT JMSCorrelationID = 'x'", None),
    ("JMSCorrelationID <> 'x'", None),
    ("JMSCorrelationID = 5", None),
    ("JMSCorrelationID = a", None),
    ("JMSPriority = 5", None),
    ("(JMSCorrelationID = 'x') = TRUE", None),
    ('JMSCorrelationID = "0x0A"', None),
    ("a = 1", None),
    ("", None),
]


@pytest.mark.parametrize("text,hint", _HINTS, ids=[text for text, _ in _HINTS])
def test_index_hint_is_the_required_identifier(text: str, hint: tuple[str, str | bytes] | None):
    hints = parse(text).index_hints
    assert (hints[0] if len(hints) == 1 else None) == hint


def test_index_hints_list_all_alternative_identifiers():
    """JMS shows bytes as text, so one text may stand for two identifiers."""
    assert parse("JMSMessageID = 'ID:0a'").index_hints == (("message_id", b"\n"), ("message_id", "ID:0a"))
    assert parse("$group_id IN ('a', 'b')").index_hints == (("group_id", "a"), ("group_id", "b"))
