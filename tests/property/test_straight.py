"""The short way (lua/lib/straight.lua) against the long one: the same calls in two databases, at the same moment of a
clock that stands still, must be answered alike and leave the same bytes."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import cycle
from typing import Any

import pytest
import redis

from mqredis import codec
from mqredis.commands import manager, queues, read, send, transactions
from mqredis.commands.common import Address
from mqredis.commands.read import Waiter
from mqredis.keys import QUEUE_PARTS
from mqredis.models import Outgoing, QueueProperties
from mqredis.status import Status
from mqredis.steps import Call
from tests.property.standing import KEYS, START, Store
from tests.support.backend import Backend

FULL = bool(os.environ.get("MQREDIS_TEST_FULL"))


@dataclass
class Unit:
    """A transaction: its fence ("" before it begins), and the queues that it may have touched."""

    id: str
    fence: str = ""
    paths: dict[str, None] = field(default_factory=dict)


class Walk:
    """Random calls, by hand: also such as no client makes."""

    def __init__(self, backend: Backend, seed: int) -> None:
        self.dice = random.Random(seed)
        self.stores = [Store(backend.client(db=n), n == 0) for n in (0, 1)]
        self.now, self.sequences = START, Counter({"1.1": 0, "1.2": 0})
        self.held: list[tuple[str, str]] = []  # fence and lookup id of locks, lost ones among them
        self.units: list[Unit] = []  # open transactions, and such as have ended
        self.begun = 0
        self.received: list[tuple[Unit, str, str]] = []  # queue and lookup id of what was received in one
        self.unit: Unit | None = None  # in which this call is
        self.step = ""
        self.ears = self.stores[0].client.pubsub()
        self.listens = False
        for store in self.stores:
            store.client.flushdb()
            store.stand(self.now)
        opening = manager.session_arguments(10**9, "run", True, "0" * 16)
        self.both(Call("session_open", KEYS.admin(), opening, lambda *_: None), "", "")
        self.address = {}
        for path, slot in zip("qptu", cycle(self.sequences)):  # a slot's first call goes the long way
            made = queues.create(KEYS, path, QueueProperties(transactional=path in "tu").model_dump())
            generation = self.both(made, *self.token(slot))[3].decode()
            self.address[path] = Address(KEYS, path, generation)
        sub = Address(KEYS, "t;s")
        opened = self.both(queues.open_handle(KEYS, sub.family, "1", "all", "none"), *self.token())
        sub.generation = opened[3].decode()
        self.address["t;s"] = sub

    def close(self) -> None:
        self.ears.close()
        for store in self.stores:
            store.client.close()

    def token(self, slot: str = "") -> tuple[str, object]:
        slot = slot or self.dice.choice(list(self.sequences))
        self.sequences[slot] += 1
        return slot, self.sequences[slot]

    def both(self, call: Call[Any], slot: str, sequence: object) -> Any:
        self.step = f"{call.script} {slot}:{sequence} {list(call.args)}"
        one, other = [store.call(call, slot, sequence) for store in self.stores]
        assert one == other, self.step
        return one

    def listen(self, wanted: bool) -> None:
        """Somebody hears the bell of the first slot, or nobody does."""
        if wanted is self.listens:
            return
        channel = KEYS.channel("1.1", 0)
        change = self.ears.subscribe if wanted else self.ears.unsubscribe
        change(channel)
        while (said := self.ears.get_message(timeout=10)) is None or "subscribe" not in said["type"]:
            pass  # what rings is not of interest
        self.listens = wanted

    @staticmethod
    def locks(reply: Any) -> list[tuple[str, str]]:
        """Fence and lookup id of each lock that a receive answered."""
        ids = reply[7 + int(reply[6])]
        return [(reply[3].decode(), ids[n : n + 16].decode()) for n in range(0, len(ids), 16)]

    def plain(self) -> None:
        """The plainest life of a message goes the short way at every step."""
        address = self.address["q"]
        message = codec.encode(Outgoing(body=b"x"), "")
        self.both(send.send(address, [message]), *self.token())
        reply = self.both(read.receive(address, "lock", 1, grant="30000"), *self.token())
        (lock,) = self.locks(reply)
        self.both(read.settle(address, [("c", *lock)], 1000), *self.token())
        self.plain_wake(message)
        self.plain_hand(message)
        self.plain_transactions(message)
        self.plain_transactions(codec.encode(Outgoing(body=b"x", correlation_id="c"), ""))
        self.plain_batches()
        assert self.stores[0].took == Counter(
            {"straight_send.one": 5, "straight.receive": 4, "straight.settle": 1, "straight_many.send": 3}
            | {"straight_tx.send": 6, "straight_tx.receive": 8, "straight_tx.commit": 8}
        )

    def plain_wake(self, message: tuple[bytes, bytes | None]) -> None:
        """A send that rings a reader, and one that finds nobody where somebody had waited."""
        address, waiter = self.address["q"], Waiter("D k0 -")
        look = partial(read.receive, address, "take", waiter=waiter)
        self.listen(True)
        assert self.both(look(), *self.token("1.1"))[0] == Status.WAITING
        waiter.ticket = "1"
        for _ in range(2):
            self.both(send.send(address, [message]), *self.token("1.2"))
            self.same()
            assert self.both(look(), *self.token("1.1"))[0] == 0
        self.same()
        self.listen(False)

    def plain_hand(self, message: tuple[bytes, bytes | None]) -> None:
        """A lock that is handed to a reader, which looks all the same, then settles it; and one that it gives back."""
        address, waiter = self.address["q"], Waiter("D k0 -,30000")
        look = partial(read.receive, address, "lock", grant="30000", waiter=waiter)
        self.listen(True)
        assert self.both(look(), *self.token("1.1"))[0] == Status.WAITING
        waiter.ticket = "1"
        self.both(send.send(address, [message]), *self.token("1.2"))
        reply = self.both(look(), *self.token("1.1"))
        assert reply[0] == 0
        waiter.ticket = ""
        settle = [("c", *self.locks(reply)[0])]
        assert self.both(look(settle=settle), *self.token("1.1"))[0] == Status.WAITING
        self.both(send.send(address, [message]), *self.token("1.2"))
        assert self.both(read.leave(address, waiter.member), *self.token("1.1"))[0] == 0
        self.both(read.receive(address, "take"), *self.token("1.2"))
        self.same()
        self.listen(False)

    def plain_batches(self) -> None:
        """Batches too small for a form of their own, and larger ones, over ends of the numbers' last digit."""
        for count in (2, 17, 40):
            self.both(send.send(self.address["q"], self.batch(count)), *self.token())
            self.same()
        self.both(read.purge(self.address["q"]), *self.token())

    def plain_transactions(self, message: tuple[bytes, bytes | None]) -> None:
        """Sent in one transaction to two queues, taken, taken in one that is undone, taken and sent on, and taken."""
        fence = self.sent(message, "t", "+30000")
        assert self.sent(message, "u", fence) == fence
        assert self.ended("commit", fence, "t", "u") == 0
        assert self.ended("commit", self.taken("u", "+30000"), "u") == 0
        assert self.ended("abort", self.taken("t", "+30000"), "t") == 0
        fence = self.taken("t", "+30000")
        assert self.sent(message, "u", fence) == fence
        assert self.ended("commit", fence, "t", "u") == 0
        assert self.ended("commit", self.taken("u", "+30000"), "u") == 0

    def plain_no_more(self) -> None:
        """Commits of plain transactions whose messages were purged meanwhile, or whose lease is over."""
        message, purge = codec.encode(Outgoing(body=b"x"), ""), read.purge(self.address["t"])
        # Time first: a lease that the other leaves in the second queue would be over then, which is not plain.
        for spoil in (lambda: self.pass_time(2_000), lambda: self.both(purge, *self.token())):
            spoil()
            assert self.ended("commit", self.sent(message, "t", "+30000"), "t") == 0
            fence = self.taken("t", "+1500")
            spoil()
            self.same()
            self.ended("commit", fence, "t")
            fence = self.sent(message, "t", "+1500")
            spoil()
            self.sent(message, "u", fence)
            self.same()
            self.ended("commit", fence, "t", "u")
            self.same()

    def sent(self, message: tuple[bytes, bytes | None], path: str, grant: str) -> str:
        """Sent in transaction x: its fence, "" if that is refused."""
        reply = self.both(send.send(self.address[path], [message], "x", grant), *self.token())
        return "" if reply[0] else str(reply[4].decode())

    def taken(self, path: str, grant: str) -> str:
        reply = self.both(read.receive(self.address[path], "tx", 1, owner="x", grant=grant), *self.token())
        assert reply[0] == 0
        return str(reply[3].decode())

    def ended(self, outcome: str, fence: str, *paths: str) -> int:
        return int(self.both(transactions.end(KEYS, "x", fence, outcome, paths), *self.token())[0])

    # ---- what happens ----------------------------------------------------------------------------

    def go(self) -> None:
        """One more call, sometimes made twice, then a look at both databases."""
        dice = self.dice
        kinds = (self.send, self.receive, self.settle, self.end, self.undo, self.change, self.wait)
        self.unit = None
        call: Call[Any] | None = dice.choices(kinds, (12, 14, 6, 12, 2.5, 0.7, 2.5))[0]()
        if call is not None:
            slot, sequence = self.token()
            if dice.random() < 0.03:  # a slot or session that nobody has heard of, or a call from the past
                slot, sequence = dice.choice((("1.9", 1), ("7.1", 1), (slot, max(1, int(str(sequence)) - 2))))
            reply = self.both(call, slot, sequence)
            if dice.random() < 0.1:
                assert self.both(call, slot, sequence) is not None
            self.note(call, reply)
        self.same()

    def same(self) -> None:
        """Both databases hold the same bytes."""
        one, other = [store.bytes() for store in self.stores]
        assert one == other, self.step

    def note(self, call: Call[Any], reply: Any) -> None:
        """What a call has locked, or received in a transaction, and the fence of that."""
        # A slot's number that was used before gets what was answered then, whatever script that was.
        if call.script == "receive" and reply[0] == 0 and len(reply) > 9 and reply[3]:
            locks = self.locks(reply)
            if call.args[1] == "lock":
                self.held += locks
            elif self.unit:
                path = next(path for path, address in self.address.items() if address.call == call.keys)
                self.unit.fence = locks[0][0]
                self.received += [(self.unit, path, lid) for _, lid in locks]
        elif call.script == "send" and self.unit and len(reply) == 5 and reply[4].isdigit():
            self.unit.fence = reply[4].decode()

    def message(self) -> tuple[bytes, bytes | None]:
        dice = self.dice
        fields: dict[str, Any] = {}
        if dice.random() < 0.5:
            fields["correlation_id"] = dice.choice("abc") * 3
        if dice.random() < 0.15:
            fields |= dice.choice(
                ({"time_to_be_received": 5.0}, {"delay": 1.0}, {"group_id": "g"}, {"journal": 2})
            )
        if dice.random() < 0.3:
            fields["priority"] = dice.randrange(8)
        size = 70_000 if dice.random() < 0.02 else dice.randrange(200)
        return codec.encode(Outgoing(body=b"x" * size, **fields), "")

    def batch(self, count: int) -> list[tuple[bytes, bytes | None]]:
        """Messages that at most a correlation id sets apart."""
        dice = self.dice
        messages = []
        for _ in range(count):
            body, name = b"x\3c\0" * dice.randrange(20), dice.choice(("a", "bbb", None))
            outgoing = Outgoing(body=body, correlation_id=name, priority=dice.randrange(8))
            messages.append(codec.encode(outgoing, ""))
        return messages

    def queue(self) -> Address:
        dice = self.dice
        path = (
            dice.choice("ttttuuuus" if self.unit else "qqqp") if dice.random() < 0.97 else dice.choice("qptu")
        )
        path = "t;s" if path == "s" else path
        if self.unit:
            self.unit.paths |= dict.fromkeys(self.address[path].family)
        return Address(KEYS, path, "99") if dice.random() < 0.02 else self.address[path]

    def begin(self) -> tuple[str, str]:
        """In half of the calls a transaction, an open one or another: its id, and its fence or how it begins."""
        dice = self.dice
        if dice.random() < 0.5:
            return "", ""
        if len(self.units) < 2 or dice.random() < 0.25:
            self.begun += 1
            self.units.append(Unit(f"t1.{self.begun}"))
        self.unit = unit = dice.choice(self.units)
        begins = dice.choice(("+30000", "+30000", "+1500"))
        grant = unit.fence or begins
        return unit.id, dice.choices((grant, begins, "1"), (91, 6, 3))[0]

    def end(self) -> Call[Any] | None:
        dice = self.dice
        if not self.units:
            return None
        unit = dice.choice(self.units)
        outcome = dice.choice(("commit",) * 7 + ("abort", "prepare"))
        if outcome != "prepare" and dice.random() < 0.95:
            self.units.remove(unit)
        paths = list(unit.paths)
        if dice.random() < 0.1:  # not all that it touched, or more, or in another order
            paths = dice.sample([*self.address, "x"], dice.randrange(4))
        fence = "1" if dice.random() < 0.03 else unit.fence
        return transactions.end(KEYS, unit.id, fence, outcome, paths)

    def undo(self) -> Call[Any]:
        """Calls after which a transaction holds what it did not receive, or no longer what it did."""
        dice = self.dice
        if not self.received or dice.random() < 0.4:
            return read.purge(self.address[dice.choice("qtu")])
        unit, path, lid = dice.choice(self.received[-4:])
        source, target = self.address[path], self.address["t;s"]
        unit.paths |= {"t;s": None, "t": None}
        there = self.stores[0].client.zrange(KEYS.queue("t")[QUEUE_PARTS.index("a")], 0, 0)
        if dice.random() < 0.5 or not there:
            return transactions.reject(source, unit.id, unit.fence, lid, "")
        return read.move(self.address["t"], target, there[0].decode(), unit.id, unit.fence)

    def send(self) -> Call[Any]:
        owner, grant = self.begin()
        count = self.dice.choice((1, 1, 1, 1, 3, 20) if not owner else (1, 1, 1, 1, 1, 1, 1, 3))
        plain = count > 1 and self.dice.random() < 0.6
        messages = self.batch(count) if plain else [self.message() for _ in range(count)]
        return send.send(self.queue(), messages, owner, grant)

    def settlements(self) -> Sequence[tuple[str, str, str]]:
        dice = self.dice
        found = []
        for _ in range(dice.choice((0, 1, 1, 1, 1, 2))):
            if not self.held:
                break
            lock = dice.choice(self.held)
            if dice.random() < 0.8:
                self.held.remove(lock)
            fence = "1" if dice.random() < 0.05 else lock[0]
            found.append((dice.choice("cccccax"), fence, lock[1]))
        return found

    def receive(self) -> Call[Any]:
        dice, mode = self.dice, self.dice.choice(("lock", "lock", "lock", "take"))
        owner, grant = self.begin()
        if owner:
            mode = "tx"
        tag = dice.choice(("-", "-,30000", "-,1500"))
        waiter = Waiter(f"D k0 {tag}", dice.choice(("", "1", "1", "leave:"))) if dice.random() < 0.3 else None
        queue = self.queue()
        if dice.random() < 0.3:
            there = self.stores[0].client.zrange(KEYS.queue(queue.path)[QUEUE_PARTS.index("a")], 0, 5)
            there = [lid.decode() for lid in there] + [lid for _, lid in self.held[-3:]]
            hint = dice.choice(there) if there and dice.random() < 0.9 else "0400000000000001"
            handed = dice.choice(
                (f"h {hint}", f"h {hint}", f"h {hint}", f"c {int(Status.OPERATION_CANCELLED)}")
            )
            for store in self.stores:
                store.client.hset(KEYS.admin().keys[0], "1.1!", handed)
        if waiter is not None and dice.random() < 0.3:
            for store in self.stores:
                place = KEYS.queue(queue.path)[QUEUE_PARTS.index("w")]
                store.client.zadd(place, {f"1.1 {waiter.member}": 1})
        return read.receive(
            queue,
            mode,
            dice.choice((1, 1, 1, 1, 2)),
            owner=owner,
            grant="" if mode == "take" else grant or dice.choice(("30000", "30000", "1500")),
            waiter=waiter,
            settle=self.settlements() if mode == "lock" else (),
        )

    def settle(self) -> Call[Any] | None:
        found = self.settlements()
        return read.settle(self.queue(), found, 1000) if found else None

    def change(self) -> Call[Any]:
        """Properties that send calls the long way, and back."""
        dice = self.dice
        self.listen(dice.random() < 0.7)
        if dice.random() < 0.5:
            return manager.update(KEYS, "throttled", dice.choice("0000000001"))
        name, values = dice.choice(
            (
                ("quota_messages", (None, None, 5)),
                ("max_message_bytes", (4_194_304, 150)),
                ("get_inhibited", (False, False, True)),
                ("put_inhibited", (False, False, True)),
                ("journaling", (False, False, True)),
            )
        )
        return queues.update(KEYS, dice.choice("qptu"), {name: dice.choice(values)})

    def wait(self) -> None:
        """Time passes."""
        self.pass_time(self.dice.choice((1, 7, 1_000, 2_000)))

    def pass_time(self, ms: int) -> None:
        self.now += ms
        for store in self.stores:
            store.stand(self.now)


@pytest.mark.timeout(1800 if FULL else 300)
def test_the_short_way_leads_where_the_long_one_does(backend: Backend) -> None:
    walks, steps = (300, 400) if FULL else (4, 400) if backend.kind == "real" else (1, 300)
    took: Counter[str] = Counter()
    seed = random.randrange(10**6)
    for number in range(walks):
        walk = Walk(backend, seed + number)
        try:
            walk.plain()
            walk.plain_no_more()
            for _ in range(steps):
                walk.go()
        except (AssertionError, redis.RedisError) as error:
            pytest.fail(f"seed {seed + number}: {walk.step}\n{error!r}")
        finally:
            walk.close()
        took += walk.stores[0].took
        assert not walk.stores[1].took
    print(f"seed {seed}: {dict(took)} went the short way")
