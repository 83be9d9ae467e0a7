"""The plainest calls of both faces, with the short way and without it: the same is asked, answered and left behind."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from mqredis import codec
from mqredis.commands import read
from mqredis.commands import send as commands
from mqredis.commands.common import Address
from mqredis.drivers.wire import pack, pack_way
from mqredis.errors import InvalidHandle, InvariantBroken, OutcomeUnknown
from mqredis.models import Access, Match
from mqredis.operations import straight
from mqredis.operations.context import Handle
from mqredis.scripts import Form
from mqredis.selector import parse
from mqredis.steps import Call, Way
from tests.unit.short_way import (
    COMMITS,
    EARLIER,
    ENDS,
    IDS,
    KEYS,
    READS,
    RECORD,
    SENDS,
    Answer,
    Work,
    World,
    both,
    found,
)

FACES = pytest.mark.parametrize("face", ["client", "asyncio"])


@FACES
@pytest.mark.parametrize("waited", [False, True])
@pytest.mark.parametrize("timeout", [0, -1, 0.0, 2.5])
@pytest.mark.parametrize("settles", [0, 1, 2])
@pytest.mark.parametrize("answer", READS)
def test_lock_and_settle(answer: str, settles: int, timeout: float, waited: bool, face: str) -> None:
    def work(world: World) -> Any:
        return world.queue.lock_many(1, timeout, settle=world.locks[:settles])

    world = both(work, READS[answer], face, waited=waited)
    assert world.broker.went == (settles < 2 and (timeout <= 0 or not waited))


@FACES
@pytest.mark.parametrize("answer", READS)
def test_lock(answer: str, face: str) -> None:
    assert both(lambda world: world.queue.lock(0), READS[answer], face).broker.went


@FACES
@pytest.mark.parametrize("transaction", [False, True])
@pytest.mark.parametrize("answer", READS)
def test_receive(answer: str, transaction: bool, face: str) -> None:
    def work(world: World) -> Any:
        return world.queue.receive(0, transaction=world.transaction if transaction else None)

    assert both(work, READS[answer], face, flags="t" if transaction else "").broker.went


@FACES
@pytest.mark.parametrize("transaction", [False, True])
@pytest.mark.parametrize("answer", SENDS)
def test_send(answer: str, transaction: bool, face: str) -> None:
    def work(world: World) -> Any:
        unit = world.transaction if transaction else None
        return world.queue.send(b"body", correlation_id="c", priority=5, transaction=unit)

    assert both(work, SENDS[answer], face, flags="t" if transaction else "").broker.went


@FACES
@pytest.mark.parametrize("answer", COMMITS)
def test_commit_of_a_lock(answer: str, face: str) -> None:
    assert both(lambda world: world.locks[0].commit(), COMMITS[answer], face).broker.went


@FACES
@pytest.mark.parametrize("answer", ENDS)
def test_commit_of_a_transaction(answer: str, face: str) -> None:
    assert both(lambda world: world.transaction.commit(), ENDS[answer], face).broker.went


@FACES
def test_a_commit_that_nobody_knows_the_outcome_of(face: str) -> None:
    world = both(lambda world: world.transaction.commit(), OutcomeUnknown("who knows", token="1.1:7"), face)
    assert (world.unit.finished, world.broker.went) == ("in doubt", True)


UNUSUAL: dict[str, Work] = {
    "no number": lambda world: world.queue.lock_many(True, 0),
    "a float": lambda world: world.queue.lock_many(1.0, 0),
    "settle nothing": lambda world: world.queue.lock_many(1, 0, settle=None),
    "settle a text": lambda world: world.queue.lock_many(1, 0, settle="x"),
    "settle what is no lock": lambda world: world.queue.lock_many(1, 0, settle=["x"]),
    "wait for a word": lambda world: world.queue.lock_many(1, "0"),
    "wait for truth": lambda world: world.queue.receive(True),
    "wait for no number": lambda world: world.queue.lock(float("nan")),
    "a lease": lambda world: world.queue.lock(0, lease=5),
    "a tag": lambda world: world.queue.receive(0, tag="x"),
    "a match": lambda world: world.queue.receive(0, match=Match(correlation_id="c-1")),
    "a lease of many": lambda world: world.queue.lock_many(1, 0, lease=5),
    "a match of many": lambda world: world.queue.lock_many(1, 0, match=Match(correlation_id="c-1")),
    "a selector": lambda world: world.queue.receive(0, selector="colour = 'red'"),
    "a selector of one": lambda world: world.queue.lock(0, selector="colour = 'red'"),
    "a selector of many": lambda world: world.queue.lock_many(1, 0, selector="colour = 'red'"),
    "a tag of one": lambda world: world.queue.lock(0, tag="x"),
    "a match of one": lambda world: world.queue.lock(0, match=Match(correlation_id="c-1")),
    "a large body": lambda world: world.queue.send(b"x" * 5000),
    "a body too large": lambda world: world.queue.send(b"x" * 20_000),
    "a durable body": lambda world: world.queue.send(b"x", durability="fsync"),
    "give back durably": lambda world: world.locks[0].commit(durability="fsync"),
    "end durably": lambda world: world.transaction.commit(durability="fsync"),
    "give back": lambda world: world.locks[0].abort(),
    "go on after the commit": lambda world: world.transaction.commit(retaining=True),
}


@FACES
@pytest.mark.parametrize("work", UNUSUAL)
def test_what_is_unusual_goes_the_usual_way(work: str, face: str) -> None:
    answer = SENDS["taken"] if "body" in work else COMMITS["done"] if "give" in work else READS["one"]
    assert not both(UNUSUAL[work], answer, face).broker.went


def closed(world: World) -> None:
    world.handle.close()


def joined(world: World) -> None:
    world.handle.parts[EARLIER] = (EARLIER, IDS[1].decode())


def brought(world: World) -> None:
    world.handle.address.bring(["journal"])


def selects(world: World) -> None:
    world.handle.selector = parse("colour = 'red'")


def several(world: World) -> None:
    world.handle.elements = tuple(
        dataclasses.replace(world.handle, address=Address(KEYS, path, "1")) for path in ("a", "b")
    )


def seals(world: World) -> None:
    world.handle.context.sealer = Seal()


def another(world: World) -> None:
    """The locks are of another handle of the same queue."""
    handle = dataclasses.replace(world.handle, address=Address(KEYS, "q", "1"), locks={})
    for lock in world.locks:
        lock._grant = SimpleNamespace(**{**vars(lock._grant), "handle": handle})


def of_a_transaction(world: World) -> None:
    for lock in world.locks:
        lock._grant.unit = world.unit


class Seal:
    """No secret, but what was sealed shows it."""

    def seal(self, body: bytes, _manager: bytes) -> bytes:
        return b"<" + body + b">"

    def open(self, body: bytes, _manager: bytes) -> bytes:
        return b"open: " + body


def finished(world: World) -> None:
    world.unit.finished = "committed"


def unknown(world: World) -> None:
    world.unit.fence = ""


EACH = pytest.mark.parametrize(
    "work",
    [
        lambda world: world.queue.lock_many(1, 0, settle=world.locks[:1]),
        lambda world: world.queue.receive(0, transaction=world.transaction),
        lambda world: world.queue.send(b"body"),
        lambda world: world.queue.send(b"body", transaction=world.transaction),
        lambda world: world.locks[0].commit(),
        lambda world: world.transaction.commit(),
    ],
    ids=["lock", "receive", "send", "send in", "commit", "end"],
)


@FACES
@pytest.mark.parametrize(
    "change", [closed, joined, brought, several, another, of_a_transaction, finished, unknown]
)
@EACH
def test_what_changes_once_the_way_is_known(work: Work, change: Callable[[World], None], face: str) -> None:
    def twice(world: World) -> Any:
        for name in straight.WAYS:
            assert straight._way(world.handle, name) is not None
        change(world)
        return work(world)

    both(twice, found(IDS[0]), face)


@FACES
@pytest.mark.parametrize("opens", [selects, seals])
@EACH
def test_what_is_so_from_the_start(work: Work, opens: Callable[[World], None], face: str) -> None:
    def opened(world: World) -> Any:
        opens(world)
        return work(world)

    both(opened, found(IDS[0]), face)


def test_a_handle_that_is_closed_while_a_way_is_made_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(READS["one"], "client", True)
    make, *others = straight.WAYS["lock"]

    def late(handle: Handle) -> Any:
        call = make(handle)
        handle.close()
        return call

    monkeypatch.setitem(straight.WAYS, "lock", (late, *others))
    assert straight._way(world.handle, "lock") is None
    assert not world.handle.address.ways
    with pytest.raises(InvalidHandle):
        straight._way(world.handle, "lock")


@FACES
@pytest.mark.parametrize("access", Access)
@pytest.mark.parametrize("work", [lambda world: world.queue.lock(0), lambda world: world.queue.send(b"body")])
def test_who_may_not(work: Work, access: Access, face: str) -> None:
    def opened(world: World) -> Any:
        world.handle.access = access
        return work(world)

    both(opened, found(IDS[0]), face)


def waited(world: World) -> None:
    world.handle.waited = True


def settles_more(world: World) -> None:
    world.held.append(world.locks[1])


@FACES
@pytest.mark.parametrize("change", [waited, closed, joined, finished, settles_more])
@pytest.mark.parametrize(
    "answer",
    [
        "one",
        "large",
        "two",
        "the settled one is lost",
        "nothing",
        "nothing, and one is lost",
        "goes on",
        "too short",
    ],
)
@pytest.mark.parametrize(
    "work",
    [
        lambda world: world.queue.lock_many(1, 2.5, settle=world.held),
        lambda world: world.queue.lock(2.5),
        lambda world: world.queue.receive(2.5),
        lambda world: world.queue.receive(2.5, transaction=world.transaction),
    ],
    ids=["settle", "lock", "receive", "receive in"],
)
def test_what_happens_while_a_read_is_made(
    work: Work, answer: str, change: Callable[[World], None], face: str
) -> None:
    def meanwhile(world: World) -> Any:
        world.held = world.locks[:1]
        world.broker.meanwhile = lambda: change(world)
        return work(world)

    assert both(meanwhile, READS[answer], face).broker.went


@FACES
@pytest.mark.parametrize("change", [closed, joined, finished])
@pytest.mark.parametrize(
    "work, answers",
    [
        (lambda world: world.queue.send(b"body"), SENDS),
        (lambda world: world.queue.send(b"body", transaction=world.transaction), SENDS),
        (lambda world: world.locks[0].commit(), COMMITS),
        (lambda world: world.transaction.commit(), ENDS),
    ],
    ids=["send", "send in", "commit", "end"],
)
def test_what_happens_while_a_change_is_made(
    work: Work, answers: dict[str, Answer], change: Callable[[World], None], face: str
) -> None:
    def meanwhile(world: World) -> Any:
        world.broker.meanwhile = lambda: change(world)
        return work(world)

    for answer in answers.values():
        assert both(meanwhile, answer, face).broker.went


ONE: list[Any] = found(IDS[0])[1]


@pytest.mark.parametrize(
    "word", [b"", IDS[0][1:], IDS[0] * 2, b"040000000000000G", b"0400000000000 01", b"+400000000000001"]
)
def test_what_is_no_id_is_none(word: bytes) -> None:
    assert read.alone([*ONE[:4], word, *ONE[5:]]) is None
    assert commands.alone([word, b"16"]) is None


@pytest.mark.parametrize("reply", [None, [], ONE[:6], [*ONE, b""], [*ONE[:3], 1, *ONE[4:]], 7])
def test_what_has_more_or_less_is_none(reply: Any) -> None:
    assert read.alone(reply) is None
    assert commands.alone(reply) is None


def test_two_states_are_none() -> None:
    assert read.alone([*ONE[:5], b"1 0 0 0,1 0 0 0", ONE[6]]) is None


def test_a_deadline_is_a_number_or_none_is_there() -> None:
    assert read.alone([ONE[0], b"", *ONE[2:]]) is not None
    for wrong in (b"soon", b"-1", b"1.5"):
        assert read.alone([ONE[0], wrong, *ONE[2:]]) is None


@pytest.mark.parametrize("size", [0, 3, 1023, 1024, 3000])
@pytest.mark.parametrize("count", [0, 1, 2, 3, 4])
def test_it_is_packed_as_the_whole_call_is(count: int, size: int) -> None:
    address = Address(KEYS, "q", "1")
    args: list[str | bytes | int] = ["one", 2, b"three", *[b""] * count, "four", 5]
    way: Way[Any] = Way(Call("x", address.call, args, read.peek(address).parse), 3, count)
    differing = [b"%d" % n + b"x" * size for n in range(count)]
    for form in (Form("FCALL", "name", ()), Form("EVALSHA", "sha", ())):
        for number in (1, 12_345):
            token = b"$3\r\n1.1\r\n" + b"$%d\r\n%d\r\n" % (len(str(number)), number)
            call = way.call(differing)
            whole = b"".join(pack(call.keys, form, token, call.args, call.fixed, call.ending))
            assert pack_way(way, form, b"$3\r\n1.1\r\n", number, differing) == whole


def _usual(payload: Any) -> Any:
    """What operations make of it, element by element."""
    if (one := read.alone(payload)) is None or (one[0] and not one[0].isdigit()):
        return None
    fence, deadline, now_ms, lookup_id, state, record = one
    try:
        found = codec.alone("q", lookup_id, state, record)
    except InvariantBroken:
        return None
    return fence, (deadline, now_ms), lookup_id.decode(), found


@pytest.mark.parametrize("seed", range(5))
def test_one_message_is_looked_at_whole_as_it_is_by_its_parts(seed: int) -> None:
    chance = random.Random(seed)
    good: list[Any] = [b"16", b"1795414161337", 1795414131337, 0, IDS[0], b"1 0 0 0", RECORD]
    assert read.sole(good) == _usual(good) is not None
    sound = 0
    for _ in range(4_000):
        payload: list[Any] = [*good]
        at = chance.choice([0, 1, 4, 5, 6, 6])
        text = bytearray(payload[at])
        for _ in range(chance.randint(1, 2)):
            where = chance.randrange(len(text) + 1)
            text[where : where + chance.randint(0, 2)] = bytes(
                chance.choices(b"0123456789abcdef,+- hp\0\1\2\3\4\x80\xff", k=chance.randint(0, 2))
            )
        payload[at] = bytes(text)
        found = read.sole(payload)
        assert found == _usual(payload), payload
        sound += found is not None
    assert 200 < sound < 3_800


@pytest.mark.parametrize("payload", [answer[1] for answer in READS.values()], ids=READS)
def test_a_reply_of_another_kind_is_not_one_message(payload: Any) -> None:
    assert read.sole(payload) == _usual(payload)
