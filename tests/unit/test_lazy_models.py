"""Messages that find their fields when asked, and what is sent without pydantic: nobody sees a difference."""

from __future__ import annotations

import copy
import inspect
import pickle
import random
import sys
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import BaseModel, TypeAdapter, ValidationError

import mqredis
from mqredis import InvariantBroken, Message, Outgoing, Sent, codec
from mqredis.models import Acknowledge, Journal
from tests.support.backend import Backend

PLAIN = b"1763676000000" + b"0" + b"\0hello"
#: Every kind of field, properties between them, escapes, and what only copies have.
FULL = (
    b"17636760000001\x01a\x02si\x04Ai\x01n\x02n\x01t\x02t\x01f\x02f\x01i\x02i-12\x01d\x02d1e-05\x01x\x02xff00"
    b"\x03n3\x03o7\x03z5\x03p6\x01late\x02i1\x03llabel\x03ytext/plain\x03kkey\x03K10\x03e5000\x03S1000\x03a14"
    b"\x03Aadm\x03rback\x03Qdead\x03j3\x03t5\x03b6\x03Xab\x03d0\x03Ttx\x03Oorders\x03Rwhy\x03I00ff"
    b"\x03B1763676000001\x03C32768\x03gxff\x03msmine\x03cs\x04Bname\0\0body\0"
)
COPY = b"17636760000000\x03~e5000\x03~a5\x03~Aadm\x03~j2\x03~Qdead\x03~kkey\x03ssomething new\0"


def made(record: bytes = FULL, state: bytes = b"2 1 3 1763676000002") -> Message:
    return codec.decode("q", "life", b"04000000000000a0", state, record)


def pickled(model: BaseModel) -> BaseModel:
    """Through a pickle and back."""
    back: BaseModel = pickle.loads(pickle.dumps(model))  # noqa: S301 - our own
    return back


def twin(message: Message) -> Message:
    """The same, made and validated by pydantic."""
    fields = message.model_dump()
    return Message(**{name: fields[name] for name in message.model_fields_set})


@pytest.mark.parametrize("record", [PLAIN, FULL, COPY], ids=["plain", "full", "copy"])
def test_it_is_what_pydantic_would_make(record: bytes) -> None:
    whole = twin(made(record))
    assert type(made(record)) is Message
    assert made(record) == whole
    assert whole == made(record)
    assert vars(made(record)) == vars(whole)
    assert made(record).model_fields_set == whole.model_fields_set
    assert repr(made(record)) == repr(whole)
    assert made(record).model_dump() == whole.model_dump()
    assert dict(made(record)) == dict(whole)
    assert pickled(made(record)) == whole
    assert copy.copy(made(record)) == copy.deepcopy(made(record)) == whole
    assert made(record).model_copy(update={"body": b"other"}) == whole.model_copy(update={"body": b"other"})
    assert TypeAdapter(Message).validate_python(made(record)) == whole
    assert Message.model_validate(made(record), from_attributes=True) == whole
    assert made(record) != whole.model_copy(update={"label": "another"})


def test_as_a_field_of_another_model() -> None:
    class Box(BaseModel):
        message: Message

    assert Box(message=made()).model_dump()["message"] == twin(made()).model_dump()


def test_the_fields_one_by_one_are_those_of_the_whole() -> None:
    seed = random.randrange(sys.maxsize)
    print("seed", seed)
    shuffle = random.Random(seed).shuffle
    for record in (PLAIN, FULL, COPY):
        for state in (b"", b"2 1 3 1763676000002"):
            whole = vars(made(record, state))
            names = list(whole)
            for _ in range(20):
                shuffle(names)
                message = made(record, state)
                assert {name: getattr(message, name) for name in names} == whole


def test_values() -> None:
    message = made()
    assert message.properties == {
        "a": "i\x01i", "n": None, "t": True, "f": False, "i": -12, "d": 1e-05, "x": b"\xff\0", "late": 1,
    }  # fmt: skip
    assert (message.message_id, message.correlation_id, message.group_id) == ("mine", "\x02name", b"\xff")
    assert (message.body, message.delivery_count, message.abort_count, message.move_count) == (
        b"\0body\0", 2, 1, 3,
    )  # fmt: skip
    assert (message.acknowledge, message.journal) == (Acknowledge(14), Journal(3))
    assert message.sent_at.timestamp() == 1763675999.0
    assert message.expires_at == datetime.fromtimestamp(1763676004, UTC)
    assert (message.original_lookup_id, message.message_class, message.recoverable) == (255, 32768, False)
    assert (made(PLAIN).message_id, made(PLAIN).token) == ("mq-04000000000000a0", "life-04000000000000a0")
    assert (made(COPY).acknowledge, made(COPY).expires_at, made(COPY).dedup_key) == (5, None, "key")


def test_it_cannot_be_changed_and_has_no_other_fields() -> None:
    message = made()
    with pytest.raises(ValidationError):
        message.body = b"other"
    with pytest.raises(ValidationError):
        del message.label
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = getattr(message, "nothing")  # noqa: B009 - mypy knows it
    assert message == made()


def asked_at_once(message: Message | Outgoing) -> list[Any]:
    """The properties that four threads find who ask in two ways at the same moment."""
    found: list[Any] = []
    barrier = threading.Barrier(4)

    def ask(n: int) -> None:
        barrier.wait()
        found.append(message.properties if n % 2 else vars(message)["properties"])

    threads = [threading.Thread(target=ask, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    return found


def test_threads_that_ask_at_once_find_the_same() -> None:
    for _ in range(50):
        message = made()
        found = asked_at_once(message)
        assert all(each is found[0] for each in found)


#: Heads with something in them that cannot be read, or stands nowhere.
BROKEN = (
    b"loose", b"\x01name", b"\x01name\x02", b"\x01name\x02q1", b"\x01i\x02i1x", b"\x01i\x02i", b"\x01d\x02dnan",
    b"\x01x\x02xabc", b"\x01t\x02tt", b"\x01a\xff\x02s", b"\x01a\x02s\xff", b"\x01i\x02i" + b"1" * 21, b"\x03",
    b"\x03pX", b"\x03a16", b"\x03j4", b"\x03z8", b"\x03Xa", b"\x03mno kind", b"\x03cx1", b"\x03I", b"\x03e1.5",
)  # fmt: skip
SHORT = (b"", b"1763676000000", b"17636760000000no end", b"176367600000x0\0", b"1763676000000w\0")


@pytest.mark.parametrize("record", [*SHORT, *(b"17636760000001" + head + b"\0body" for head in BROKEN)])
def test_damage_shows_when_the_message_arrives(record: bytes) -> None:
    with pytest.raises(InvariantBroken, match=r"message 04000000000000a0 of queue 'q' is damaged: "):
        made(record)


@pytest.mark.parametrize("state", [b"1", b"1 2 3", b"x 0 0 0", b"-1 0 0 0", b"0 0 0 1.5", b"0 0 0 0 0"])
def test_so_does_a_damaged_state(state: bytes) -> None:
    with pytest.raises(InvariantBroken, match="damaged: its state"):
        made(state=state)


def test_times_without_a_year() -> None:
    assert made(b"17636760000001\x03e" + b"9" * 300 + b"\0").expires_at == datetime(
        9999, 12, 31, 23, 59, 59, 999000, UTC
    )
    assert made(b"17636760000001\x03S" + b"9" * 300 + b"\0").sent_at == datetime(1, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"body": b"x"},
        {"body": b"x", "properties": {"a": "b", "ä": "ö", "n": None, "f": 1.5, "t": True, "x": b"1"}},
        {
            "body": b"x",
            "correlation_id": "c",
            "message_id": "ä",
            "group_id": "g",
            "content_type": "text/plain",
        },
        {"priority": 7, "response_queue": "back", "dedup_key": "k"},
        {"priority": 3, "correlation_id": None, "label": "l"},
        {"body": "text", "properties": {"deep": 2**70}, "correlation_id": b"\xff"},
        {"body": b"x", "properties": {"": 1}, "correlation_id": "c"},
        {"body": b"x", "properties": {}, "correlation_id": "c"},
        {"body": b"x", "correlation_id": "c"},
        {"properties": {f"{n}": n for n in range(129)}},
    ],
)
def test_an_outgoing_is_what_pydantic_makes(fields: dict[str, Any]) -> None:
    whole = Outgoing.model_validate(fields)
    assert Outgoing(**fields) == whole
    assert Outgoing(**fields).model_fields_set == whole.model_fields_set == set(fields)
    assert vars(Outgoing(**fields)) == vars(whole)
    assert pickled(Outgoing(**fields)) == whole
    assert Outgoing(**fields).model_copy(update={"label": "x"}) == whole.model_copy(update={"label": "x"})
    assert {name: getattr(Outgoing(**fields), name) for name in Outgoing.model_fields} == vars(whole)


def test_what_an_outgoing_was_given_is_its_own() -> None:
    properties: dict[str, Any] = {"a": 1}
    message = Outgoing(properties=properties)
    properties["a"] = 2
    assert message.properties == {"a": 1}
    bare = Outgoing()
    assert bare.properties is bare.properties is vars(bare)["properties"]


@pytest.mark.parametrize(
    "way", [lambda m: m.properties, lambda m: vars(m)["properties"], lambda m: dict(m)["properties"]]
)
def test_what_is_changed_in_an_outgoing_is_sent(way: Callable[[Outgoing], dict[str, Any]]) -> None:
    message = Outgoing(body=b"x", correlation_id="c", properties={"a": 1})
    way(message)["b"] = "late"
    assert message.properties == {"a": 1, "b": "late"}
    for each in (message, message.model_copy(update={"label": "l"})):
        assert b"\x01a\x02i1\x01b\x02slate" in codec.encode(each)[0]
    bare = Outgoing(body=b"x")
    bare.properties["b"] = "late"
    assert b"\x01b\x02slate" in codec.encode(bare)[0]


def test_threads_that_ask_for_properties_at_once_find_the_same() -> None:
    for bare in (True, False):
        for _ in range(50):
            message = Outgoing() if bare else Outgoing(properties={"a": 1})
            found = asked_at_once(message)
            assert all(each is message.properties for each in found)


@pytest.mark.parametrize(
    "fields",
    [
        {"properties": {"a": float("nan")}},
        {"properties": {"a": float("inf")}},
        {"properties": {1: 1}},
        {"properties": {"a": object()}},
        {"properties": [("a", 1)]},
        {"correlation_id": 1},
        {"content_type": "x" * 256},
        {"priority": 8},
        {"priority": True},
        {"body": 1},
        {"nothing": 1},
    ],
)
def test_pydantic_judges_what_is_not_plain(fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Outgoing(**fields)


def test_it_is_made_as_any_model_is() -> None:
    class Mine(Outgoing):
        mine: int = 1

    fields = list(Outgoing.model_fields)
    assert list(inspect.signature(Outgoing).parameters) == fields
    assert list(inspect.signature(Mine).parameters) == [*fields, "mine"]
    with pytest.raises(TypeError, match=r"^Outgoing\.__init__\(\) takes 1 positional argument"):
        Outgoing(b"x")  # type: ignore[call-arg]
    with pytest.raises(ValidationError) as raised:
        Outgoing(nothing=1, properties={"a": object()}, body=1)  # type: ignore[call-arg, dict-item, arg-type]
    places = dict.fromkeys(error["loc"][0] for error in raised.value.errors())
    assert list(places) == ["body", "properties", "nothing"]
    assert Outgoing.model_validate_json('{"body": "x"}') == Outgoing(body=b"x")


def test_a_class_of_ones_own_is_validated_by_its_own_rules() -> None:
    class Mine(Outgoing):
        label: str = "mine"

    assert Mine(body=b"x").label == "mine"
    assert codec.encode(Mine(body=b"x")) == codec.encode(Outgoing(body=b"x"))


def test_what_a_send_answers(backend: Backend) -> None:
    with mqredis.connect(backend.client(), settings=mqredis.Settings(allow_volatile=True)) as qm:
        qm.create_queue("q")
        with qm.open("q") as queue:
            sent = queue.send(b"x", message_id="mine")
            taken = queue.receive(0)
    assert (sent.lookup_id, sent.message_id, sent.token) == (taken.lookup_id, "mine", taken.token)
    values: dict[str, Any] = {
        "lookup_id": taken.lookup_id,
        "message_id": "mine",
        "token": taken.token,
        "group_id": None,
    }
    assert sent == Sent(**values) == pickled(sent)
    assert sent.copies == ()
    assert sent.model_fields_set == set(values)
