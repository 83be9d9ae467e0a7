"""Regression tests for bugs that the reliability checks found."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import mqredis
from mqredis import InvalidArgument, ManagerNotFound, Settings, codec
from mqredis.commands import contents, manager, read, send, transactions
from mqredis.keys import ManagerKeys
from mqredis.models import Outgoing
from mqredis.models.lookup_ids import split_ids
from mqredis.status import Status
from mqredis.steps import Call
from tests.reliability.engine import Engine
from tests.reliability.scenarios import SCENARIOS
from tests.reliability.schedule import parse
from tests.reliability.store import Reader
from tests.reliability.wire import TTL_MS, Place, Wire, fire
from tests.support.server import RedisServer

KEYS = ManagerKeys("r")


@pytest.fixture
def wire(redis_server: RedisServer) -> Iterator[Wire]:
    wire = Wire(redis_server)
    yield wire
    wire.close()


def sessions(wire: Wire) -> set[str]:
    return {name.decode() for name in wire.command("HKEYS", KEYS.own[0]) if name[:1].isdigit()}


def left_behind(wire: Wire, session: str) -> set[str]:
    """Close the session and return the fields of sessions that are left."""
    close: Call[int] = Call("session_close", KEYS.admin(), [session], lambda status, _: status, False)
    wire.volley([fire(close, Place(""))])
    return sessions(wire)


def use(wire: Wire, session: str, place: int) -> None:
    wire.volley([fire(manager.update(KEYS, "throttled", "0"), Place(f"{session}.{place}"))])


def test_closed_session_removes_slots_with_gaps(wire: Wire) -> None:
    [session] = wire.open_session([KEYS])
    for place in (3, 40, 700):
        use(wire, session, place)
    assert left_behind(wire, session) == set()


def test_slot_after_a_gap_keeps_its_session_alive(wire: Wire) -> None:
    [session] = wire.open_session([KEYS])
    for _ in range(3):
        wire.volley([fire(manager.update(KEYS, "clock", "50000000"), Place(f"{session}.90", 0))])
        wire.command("HDEL", KEYS.own[0], f"{session}.90")
        use(wire, session, 90)
        [other] = wire.open_session([KEYS])
    assert session in sessions(wire)
    assert other in sessions(wire)


def test_closed_session_removes_resolved_tokens_of_unused_slots(wire: Wire) -> None:
    [session] = wire.open_session([KEYS])
    for asking in (f"{session}.2", f"{session}.90"):
        for token in (f"{session}.60:1", f"{session}.80:1"):
            wire.volley([fire(manager.resolve(KEYS, token), Place(asking, wire.calls))])
    assert left_behind(wire, session) == set()


def test_closed_session_removes_a_slot_resolved_by_a_lower_one(wire: Wire) -> None:
    [session] = wire.open_session([KEYS])
    wire.volley([fire(manager.resolve(KEYS, f"{session}.980:1"), Place(f"{session}.950"))])
    assert left_behind(wire, session) == set()


@pytest.mark.parametrize("token", ["1.99999999:1", "1.1:" + "9" * 40, "1.٣:1", "9" * 30 + ".1:1"])
def test_malformed_token_is_refused(token: str) -> None:
    with pytest.raises(InvalidArgument):
        manager.resolve(KEYS, token)


def test_client_of_a_lost_manager_does_not_create_it_again(redis_server: RedisServer) -> None:
    qm = mqredis.connect(redis_server.url, manager="lost", settings=Settings(retry_seconds=1))
    qm.create_queue("q")
    with redis_server.client() as raw:
        raw.flushall()
        qm._driver.core.session = None
        with pytest.raises(ManagerNotFound):
            qm.queues()
        assert raw.keys("*") == []
    qm.close()


def test_lapsed_transaction_without_messages_is_removed(wire: Wire) -> None:
    [session] = wire.open_session([KEYS])
    place = Place(f"{session}.1")
    wire.volley([fire(transactions.begin(KEYS, "chosen", 1000), place)])
    wire.open_session([KEYS])
    assert wire.command("HLEN", KEYS.own[1]) == 1  # its lease has not ended
    wire.volley([fire(manager.update(KEYS, "clock", "2000"), place)])
    wire.open_session([KEYS])
    assert wire.command("HLEN", KEYS.own[1]) == 0
    [answer] = wire.volley([fire(transactions.begin(KEYS, "chosen", 1000), place)])
    assert not answer.refused


@pytest.mark.parametrize(
    "name, line",
    [
        # Client B reuses the transaction id while a queue still holds a message of the first transaction.
        ("a chosen transaction id used again", "A0 A1 A2 T0 T1 B0 B1 B2"),
        # As above, and the doctor runs before the queue has released that message.
        ("a chosen transaction id used again", "B0 B1 T0 A0 A1 A2d B2 T1 A2q A2c"),
        # The reply with a handoff had an older history number than the stored reply of that call.
        ("handed over against leaving", "A0 B0 C0 B1 C1 A1l A1r A2 A3 B2"),
    ],
)
def test_schedule_that_once_violated_a_guarantee_passes(
    redis_server: RedisServer, name: str, line: str
) -> None:
    scenario = next(scenario for scenario in SCENARIOS if scenario.name == name)
    wire = Wire(redis_server)
    Engine(wire).run(scenario, [parse(line)])
    wire.close()


def test_ids_issued_before_a_rollback_are_not_issued_again(redis_server: RedisServer) -> None:
    reader = Reader(redis_server)
    [session] = reader.wire.open_session([reader.keys])
    reader.create("q")
    item = codec.encode(Outgoing(body=b"x"), "")
    place = Place(f"{session}.1")
    before = {key: reader.wire.command("DUMP", key) for key in reader.wire.command("KEYS", "*")}
    lost = split_ids(reader.call(send.send(reader.address("q"), [item] * 9), place).ids)
    reader.wire.command("FLUSHDB")  # the server is rolled back to the earlier data
    for key, data in before.items():
        reader.wire.command("RESTORE", key, 0, data)
    arguments = manager.session_arguments(TTL_MS, "another process", True, "", session)
    shown: Call[int] = Call("session_open", reader.keys.admin(), arguments, lambda status, _: status, False)
    reader.call(shown, Place(""))
    again = split_ids(reader.call(send.send(reader.address("q"), [item] * 9), Place(f"{session}.2")).ids)
    assert not set(lost) & set(again)
    assert max(lost) < min(again)
    reader.close()


@pytest.mark.parametrize("purged", [False, True])
def test_lapsed_lock_not_yet_served_cannot_be_taken_over(wire: Wire, purged: bool) -> None:
    """A call serves 32 lapsed locks; the last of 40 is as lapsed as the first."""
    [session] = wire.open_session([KEYS])
    reader = Reader(wire.server, "r")
    reader.create("q", transactional=False)
    place, q = Place(f"{session}.1"), reader.address("q")
    reader.call(send.send(q, [codec.encode(Outgoing(body=b"x"), "")] * 40), place)
    locked = reader.call(read.receive(q, "lock", 40, grant="1000"), place)
    if purged:
        reader.call(contents.purge(q), place)
    reader.call(manager.update(KEYS, "clock", "2000"), place)
    last = locked.messages[-1][0].decode()
    take = read.lookup(q, "lock", "current", last, grant="60000", own_fence=locked.fence)
    [answer] = wire.volley([fire(take, place)])
    if purged:  # a purged message is removed when its lock lapses
        assert answer.refused
        assert answer.value.status == Status.MESSAGE_NOT_FOUND
    else:
        [(_, state, _)] = answer.value.messages
        assert state.split()[0] == b"2"  # it counts as a second delivery
    assert reader.faults() == []
    reader.close()
