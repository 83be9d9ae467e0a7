"""Outgoing, Message and Sent: fields, equality, pickling, copying, immutability and validation."""

from __future__ import annotations

import copy
import pickle
import random
import sys
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

import pytest

import mqredis
from mqredis import InvalidArgument, InvariantBroken, Message, MessageClass, Outgoing, Sent, codec
from mqredis.models import Acknowledge, Journal
from mqredis.models.fields import FIELDS
from mqredis.models.header import DEFAULT_CONTENT_TYPE
from tests.support.backend import Backend

PLAIN = b"1763676000000" + b"0" + b"\0hello"
# Every kind of field, properties between them, escapes, and what only copies have.
FULL = (
    b"17636760000001\x01a\x02si\x04Ai\x01n\x02n\x01t\x02t\x01f\x02f\x01i\x02i-12\x01d\x02d1e-05\x01x\x02xff00"
    b"\x03n3\x03o7\x03z5\x03p6\x01late\x02i1\x03llabel\x03ytext/plain\x03kkey\x03K10\x03e5000\x03S1000\x03a14"
    b"\x03Aadm\x03rback\x03Qdead\x03j3\x03t5\x03b6\x03Xab\x03d0\x03Ttx\x03Oorders\x03Rwhy\x03I00ff"
    b"\x03B1763676000001\x03C32768\x03gxff\x03msmine\x03cs\x04Bname\0\0body\0"
)
COPY = b"17636760000000\x03~e5000\x03~a5\x03~Aadm\x03~j2\x03~Qdead\x03~kkey\x03ssomething new\0"
STATE = b"4 1 3 1763676000002 2"


def made(record: bytes = FULL, state: bytes = STATE) -> Message:
    return codec.decode("q", "life", b"04000000000000a0", state, record)


def pickled(value: Any) -> Any:
    """Pickle and unpickle a value."""
    return pickle.loads(pickle.dumps(value))  # noqa: S301 - our own


# ---- Message ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("record", [PLAIN, FULL, COPY], ids=["plain", "full", "copy"])
@pytest.mark.parametrize("state", [b"", STATE], ids=["fresh", "delivered"])
def test_decoded_message_equals_a_constructed_one(record: bytes, state: bytes) -> None:
    whole = Message(**made(record, state).to_dict())
    assert made(record, state) == whole
    assert whole == made(record, state)
    assert repr(made(record, state)) == repr(whole)
    assert pickled(made(record, state)) == whole
    assert copy.copy(made(record, state)) == copy.deepcopy(made(record, state)) == whole
    assert made(record, state).replace(body=b"other") == whole.replace(body=b"other")
    assert made(record, state) != whole.replace(label="another")
    assert made(record, state) != made(record, state).to_dict()


def test_single_fields_equal_those_of_to_dict() -> None:
    seed = random.randrange(sys.maxsize)
    print("seed", seed)
    shuffle = random.Random(seed).shuffle
    for record in (PLAIN, FULL, COPY):
        for state in (b"", STATE):
            whole = made(record, state).to_dict()
            names = list(whole)
            for _ in range(20):
                shuffle(names)
                message = made(record, state)
                assert {name: getattr(message, name) for name in names} == whole


def test_fields_have_the_stored_values() -> None:
    message = made()
    assert message.properties == {
        "a": "i\x01i", "n": None, "t": True, "f": False, "i": -12, "d": 1e-05, "x": b"\xff\0", "late": 1,
    }  # fmt: skip
    assert (message.message_id, message.correlation_id, message.group_id) == ("mine", "\x02name", b"\xff")
    assert message.body == b"\0body\0"
    assert (message.delivery_count, message.attempts, message.abort_count, message.move_count) == (4, 2, 1, 3)
    assert (message.acknowledge, message.journal) == (Acknowledge(14), Journal(3))
    assert type(message.acknowledge) is Acknowledge
    assert (message.last_in_group, message.segment, message.last_segment) == (True, True, True)
    assert message.last_moved_at == datetime.fromtimestamp(1763676000.002, UTC)
    assert message.sent_at.timestamp() == 1763675999.0
    assert message.expires_at == datetime.fromtimestamp(1763676004, UTC)
    assert (message.original_lookup_id, message.message_class, message.recoverable) == (255, 32768, False)
    assert type(message.message_class) is MessageClass
    assert made(FULL.replace(b"C32768", b"C32766")).message_class == 32766
    assert (made(PLAIN).message_id, made(PLAIN).token) == ("mq-04000000000000a0", "life-04000000000000a0")
    assert (made(COPY).acknowledge, made(COPY).expires_at, made(COPY).dedup_key) == (5, None, "key")


def test_message_is_immutable_and_refuses_unknown_fields() -> None:
    message = made()
    for name in ("body", "label", "properties", "nothing"):
        with pytest.raises(AttributeError):
            setattr(message, name, b"other")
    with pytest.raises(AttributeError):
        del message.label
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = getattr(message, "nothing")  # noqa: B009 - mypy knows it
    assert message == made()
    with pytest.raises(InvalidArgument, match="Message has no field 'nothing'"):
        message.replace(nothing=1)
    with pytest.raises(InvalidArgument, match="Message needs lookup_id, queue, message_id, token, sent_at"):
        Message(body=b"x")  # type: ignore[call-arg]


def test_repr_omits_defaults() -> None:
    assert repr(Outgoing(b"x", label="l", priority=3)) == "Outgoing(body=b'x', label='l')"
    text = repr(made(PLAIN, b""))
    assert text.startswith("Message(lookup_id=0x04000000000000a0, queue='q', body=b'hello', message_id=")
    assert "label" not in text


def read_concurrently(read: Callable[[], Any]) -> list[Any]:
    """Return the results of four threads that call ``read`` at the same moment."""
    found: list[Any] = []
    barrier = threading.Barrier(4)

    def run() -> None:
        barrier.wait()
        found.append(read())

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    return found


def test_concurrent_threads_get_the_same_properties_dict() -> None:
    for message in [made() for _ in range(50)]:
        found = read_concurrently(lambda message=message: message.properties)  # type: ignore[misc]
        assert all(each is message.properties for each in found)
    for bare in (True, False):
        for outgoing in [Outgoing() if bare else Outgoing(properties={"a": 1}) for _ in range(50)]:
            found = read_concurrently(lambda outgoing=outgoing: outgoing.properties)  # type: ignore[misc]
            assert all(each is outgoing.properties for each in found)


# Record heads with fields that are malformed or misplaced.
BROKEN = (
    b"loose", b"\x01name", b"\x01name\x02", b"\x01name\x02q1", b"\x01i\x02i1x", b"\x01i\x02i", b"\x01d\x02dnan",
    b"\x01x\x02xabc", b"\x01t\x02tt", b"\x01a\xff\x02s", b"\x01a\x02s\xff", b"\x01i\x02i" + b"1" * 21, b"\x03",
    b"\x03pX", b"\x03a16", b"\x03j4", b"\x03z8", b"\x03Xa", b"\x03mno kind", b"\x03cx1", b"\x03I", b"\x03e1.5",
)  # fmt: skip
SHORT = (b"", b"1763676000000", b"17636760000000no end", b"176367600000x0\0", b"1763676000000w\0")


@pytest.mark.parametrize("record", [*SHORT, *(b"17636760000001" + head + b"\0body" for head in BROKEN)])
def test_damaged_record_raises_on_decoding(record: bytes) -> None:
    with pytest.raises(InvariantBroken, match=r"message 04000000000000a0 of queue 'q' is damaged: "):
        made(record)


@pytest.mark.parametrize("state", [b"1", b"1 2 3", b"x 0 0 0", b"-1 0 0 0", b"0 0 0 1.5", b"0 0 0 0 0 0"])
def test_damaged_state_raises_on_decoding(state: bytes) -> None:
    with pytest.raises(InvariantBroken, match="damaged: its state"):
        made(state=state)


def test_times_out_of_range_are_clamped() -> None:
    assert made(b"17636760000001\x03e" + b"9" * 300 + b"\0").expires_at == datetime(
        9999, 12, 31, 23, 59, 59, 999000, UTC
    )
    assert made(b"17636760000001\x03S" + b"9" * 300 + b"\0").sent_at == datetime(1, 1, 1, tzinfo=UTC)


# ---- Outgoing ---------------------------------------------------------------------------------------------

# For each field a value that is not its default, and an equal value of another accepted type.
VALUES: dict[str, tuple[Any, Any]] = {
    "content_type": ("text/plain", "text/plain"),
    "label": ("l\x02", "l\x02"),
    "priority": (6, 6),
    "message_id": ("m", "m"),
    "correlation_id": (b"\xff", bytearray(b"\xff")),
    "group_id": ("g", "g"),
    "sequence": (2, 2),
    "offset": (7, 7),
    "last_in_group": (True, True),
    "segment": (True, True),
    "last_segment": (True, True),
    "properties": ({"a": 1}, {"a": 1}),
    "time_to_be_received": (5.0, 5),
    "time_to_reach_queue": (6.5, 6.5),
    "sent_seconds_ago": (0.07, 0.07),
    "delay": (1.0, 1),
    "dedup_key": ("k", "k"),
    "dedup_window": (2.0, 2),
    "recoverable": (False, False),
    "acknowledge": (Acknowledge.FULL_RECEIVE, 14),
    "administration_queue": ("adm", "adm"),
    "response_queue": ("back", "back"),
    "dead_letter_queue": ("dead", "dead"),
    "journal": (Journal.JOURNAL, 2),
    "app_tag": (0xFFFFFFFF, 0xFFFFFFFF),
    "body_type": (1, 1),
    "extension": (b"\0\xff", memoryview(b"\0\xff")),
}
# Fields that no attribute of Message has unchanged.
_NOT_IN_MESSAGE = {
    "time_to_be_received", "time_to_reach_queue", "sent_seconds_ago", "delay", "dedup_window",
    "administration_queue",
}  # fmt: skip


def test_every_settable_field_is_tested() -> None:
    assert VALUES.keys() == FIELDS.keys() == Outgoing.FIELDS.keys() - {"body"}


@pytest.mark.parametrize("name", VALUES)
def test_field_survives_encoding_and_pickling(name: str) -> None:
    value, given = VALUES[name]
    message = Outgoing(b"body", **{name: given})
    assert getattr(message, name) == value
    assert type(getattr(message, name)) is type(value)
    assert message.to_dict() == {**Outgoing(b"body").to_dict(), name: value}
    assert message == pickled(message) == copy.deepcopy(message) == Outgoing(b"body", **{name: value})
    assert message != Outgoing(b"body")
    assert message.replace(body=b"x").replace(body=b"body") == message
    if name not in _NOT_IN_MESSAGE:
        line, _ = codec.encode(message)
        read = codec.decode("q", "life", b"04000000000000a0", b"", b"1763676000000" + line[1:])
        if name == "segment":
            assert read.segment
        else:
            assert getattr(read, name) == value


def test_default_values_are_not_encoded() -> None:
    defaults = {name: value for name, value in Outgoing.FIELDS.items() if name != "body"}
    assert codec.encode(Outgoing(b"x", **defaults)) == codec.encode(Outgoing(b"x"))
    assert Outgoing(b"x", **defaults) == Outgoing(b"x")


def test_text_body_is_encoded_as_utf_8() -> None:
    assert Outgoing("ä").body == "ä".encode()
    assert Outgoing("ä").content_type == "text/plain; charset=utf-8"
    assert Outgoing("ä", content_type="text/csv").content_type == "text/csv"
    assert Outgoing(b"x").content_type == Outgoing(bytearray(b"x")).content_type == DEFAULT_CONTENT_TYPE  # type: ignore[arg-type]


def test_message_in_a_transaction_is_recoverable() -> None:
    message = Outgoing(b"x", recoverable=False, label="l")
    assert codec.encode(message) == (b"30\x03d0\x03ll\0x", None)
    assert codec.encode(message, "t1") == (b"30\x03ll\x03Tt1\0x", None)


def test_group_flags_are_encoded_as_one_number() -> None:
    assert codec.encode(Outgoing(segment=True, last_segment=True))[0] == b"30\x03z6\0"
    assert codec.encode(Outgoing(last_in_group=True))[0] == b"30\x03z1\0"


def test_dedup_window_is_encoded_only_with_a_dedup_key() -> None:
    assert codec.encode(Outgoing(dedup_window=1.0, label="l"))[0] == b"30\x03ll\0"
    assert codec.encode(Outgoing(dedup_window=1.0, dedup_key="k"))[0] == b"31\x03K1000\x03kk\0"
    assert Outgoing(dedup_window=1.0).dedup_window == 1.0


def test_outgoing_copies_its_properties() -> None:
    properties: dict[str, Any] = {"a": 1}
    message = Outgoing(properties=properties)
    properties["a"] = 2
    assert message.properties == {"a": 1}
    bare = Outgoing()
    assert bare.properties is bare.properties
    assert Outgoing().properties == {}


def test_changed_properties_are_encoded() -> None:
    message = Outgoing(body=b"x", correlation_id="c", properties={"a": 1})
    message.properties["b"] = "late"
    assert message.properties == {"a": 1, "b": "late"}
    for each in (message, message.replace(label="l")):
        assert b"\x01a\x02i1\x01b\x02slate" in codec.encode(each)[0]
    bare = Outgoing(body=b"x")
    bare.properties["b"] = "late"
    assert b"\x01b\x02slate" in codec.encode(bare)[0]


@pytest.mark.parametrize(
    "fields, error",
    [
        ({"properties": {"a": float("nan")}}, "property 'a' is nan"),
        ({"properties": {"a": float("inf")}}, "property 'a' is inf"),
        ({"properties": {1: 1}}, "a property name must be a non-empty str, not 1"),
        ({"properties": {"a": object()}}, "property 'a' is a object"),
        ({"properties": {"a": 1 << 63}}, "outside the range of a 64-bit integer"),
        ({"properties": [("a", 1)]}, "properties: must be a mapping, not list"),
        ({"properties": {f"{n}": n for n in range(129)}}, "129 properties; at most 128"),
        ({"correlation_id": 1}, "correlation_id: must be bytes or str, not int"),
        ({"content_type": "x" * 256}, "content_type: at most 255 characters are allowed, not 256"),
        ({"label": 5}, "label: must be a str, not int"),
        ({"priority": 8}, "priority: must be from 0 to 7"),
        ({"priority": True}, "priority: must be an int, not bool"),
        ({"priority": "3"}, "priority: must be an int, not str"),
        ({"delay": -1}, "delay: must be a finite number of seconds"),
        ({"delay": float("nan")}, "delay: must be a finite number of seconds"),
        ({"delay": "5"}, "delay: must be a number of seconds, not str"),
        ({"delay": 10**400}, "delay: int too large"),
        ({"recoverable": 1}, "recoverable: must be a bool, not int"),
        ({"acknowledge": 1000}, "acknowledge: "),
        ({"administration_queue": "a{b"}, "administration queue"),
        ({"body": 1}, "body must be bytes or str, not int"),
        ({"body": "\ud800"}, "body holds a lone surrogate"),
        ({"nothing": 1}, "a message has no field 'nothing'"),
    ],
    ids=lambda value: f"{value!r:.40}".encode("ascii", "backslashreplace").decode(),
)
def test_invalid_field_is_refused(fields: dict[str, Any], error: str) -> None:
    with pytest.raises(InvalidArgument, match=error):
        Outgoing(**fields)
    with pytest.raises(InvalidArgument, match=error):
        Outgoing().replace(**fields)


def test_values_of_subclasses_are_encoded_as_their_base_type() -> None:
    class Colour(StrEnum):
        RED = "red"

    message = Outgoing(label=Colour.RED, properties={"a": Colour.RED, "b": bytearray(b"x")})  # type: ignore[dict-item]
    assert type(message.label) is str
    assert codec.encode(message)[0] == b"30\x01a\x02sred\x01b\x02x78\x03lred\0"


def test_outgoing_is_immutable_and_unhashable() -> None:
    message = Outgoing(b"x")
    for name in ("body", "label", "properties", "nothing"):
        with pytest.raises(AttributeError):
            setattr(message, name, b"other")
    with pytest.raises(TypeError, match="unhashable"):
        hash(message)


# ---- Sent -------------------------------------------------------------------------------------------------


def test_send_returns_the_ids_of_the_message(backend: Backend) -> None:
    with mqredis.connect(backend.client(), settings=mqredis.Settings(allow_volatile=True)) as qm:
        qm.create_queue("q")
        with qm.open("q") as queue:
            sent = queue.send(b"x", message_id="mine")
            taken = queue.receive(0)
    assert (sent.lookup_id, sent.message_id, sent.token) == (taken.lookup_id, "mine", taken.token)
    made = Sent(lookup_id=taken.lookup_id, message_id="mine", token=taken.token)
    assert sent == made == pickled(sent) == copy.copy(sent)
    assert hash(sent) == hash(made)
    assert (sent.copies, sent.group_id) == ((), None)
    assert sent.replace(group_id="g").group_id == "g"
    with pytest.raises(AttributeError):
        sent.group_id = "g"  # type: ignore[misc]
