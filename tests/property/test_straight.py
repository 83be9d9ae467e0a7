"""The short way (lua/core/straight.lua) against the long one: the same calls in two databases, at the same moment of a
clock that stands still, must be answered alike and leave the same bytes."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
import redis

from mqredis import codec
from mqredis.commands import manager, queues, read, send, transactions
from mqredis.commands.common import Address
from mqredis.commands.filters import Filter
from mqredis.commands.read import Waiter
from mqredis.keys import QUEUE_PARTS
from mqredis.models import Match, Outgoing
from mqredis.status import Status
from mqredis.steps import Call
from tests.property.short import Short
from tests.property.standing import KEYS
from tests.support.backend import Backend

FULL = bool(os.environ.get("MQREDIS_TEST_FULL"))


@dataclass
class Unit:
    """A transaction: its fence ("" before it begins), and the queues that it may have touched."""

    id: str
    fence: str = ""
    paths: dict[str, None] = field(default_factory=dict)


class Walk(Short):
    """Random calls, by hand: also such as no client makes."""

    def __init__(self, backend: Backend, seed: int) -> None:
        super().__init__(backend, seed)
        self.held: list[tuple[str, str]] = []  # fence and lookup id of locks, lost ones among them
        self.units: list[Unit] = []  # open transactions, and such as have ended
        self.begun = 0
        self.received: list[tuple[Unit, str, str]] = []  # queue and lookup id of what was received in one
        self.unit: Unit | None = None  # in which this call is

    # ---- what happens ----------------------------------------------------------------------------

    def go(self) -> None:
        """One more call, sometimes made twice, then a look at both databases."""
        dice = self.dice
        kinds = (self.send, self.receive, self.settle, self.end, self.undo, self.change, self.wait, self.many)
        self.unit = None
        call: Call[Any] | None = dice.choices(kinds, (12, 14, 6, 12, 2.5, 0.7, 2.5, 1))[0]()
        if call is not None:
            slot, sequence = own = self.token()
            if dice.random() < 0.03:  # a slot or session that nobody has heard of, or a call from the past
                slot, sequence = dice.choice((("1.9", 1), ("7.1", 1), (slot, max(1, int(str(sequence)) - 2))))
            reply = self.both(call, slot, sequence)
            if dice.random() < 0.1:
                assert self.both(call, slot, sequence) is not None
            # A slot's number that was used before gets what was answered then, whatever script that was.
            if (slot, sequence) == own:
                self.note(call, reply)
        self.same()

    def note(self, call: Call[Any], reply: Any) -> None:
        """What a call has locked, or received in a transaction, and the fence of that."""
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
        if self.held and dice.random() < 0.3:  # what was locked together
            last = self.held[-1][0]
            found = [("c", *lock) for lock in self.held if lock[0] == last]
            if dice.random() < 0.1:
                found.append(dice.choice(found))
            else:
                self.held = [lock for lock in self.held if lock[0] != last]
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
            self.enlist(queue, waiter)
        return read.receive(
            queue,
            mode,
            dice.choice((1, 1, 1, 1, 2, 3, 30)),
            owner=owner,
            grant="" if mode == "take" else grant or dice.choice(("30000", "30000", "1500")),
            waiter=waiter,
            settle=read.runs(self.settlements()) if mode == "lock" else (),
        )

    def enlist(self, queue: Address, waiter: Waiter) -> None:
        """The first slot waits, whatever it was told."""
        for store in self.stores:
            store.client.zadd(KEYS.queue(queue.path)[QUEUE_PARTS.index("w")], {f"1.1 {waiter.member}": 1})

    def settle(self) -> Call[Any] | None:
        found = self.settlements()
        return read.settle(self.queue(), found, 1000) if found else None

    def change(self) -> Call[Any]:
        """Properties that send calls the long way, and back."""
        dice = self.dice
        self.listen(dice.random() < 0.7)
        if dice.random() < 0.2:  # from here on its index of identifiers is kept
            return read.peek(self.queue(), match=Filter(Match(correlation_id="bbb")).text())
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

    def many(self) -> None:
        """Several are sent and locked in a queue that may hold others, and settled with the next or not."""
        dice, address = self.dice, self.address[self.dice.choice("qp")]
        if dice.random() < 0.6:
            self.both(read.purge(address), *self.token())
        held: list[tuple[str, str]] = []
        for _ in range(dice.randrange(1, 5)):
            self.both(send.send(address, self.batch(dice.randrange(2, 40))), *self.token())
            settle = [("c", *lock) for lock in held] if dice.random() < 0.8 else []
            settle += settle[:1] if dice.random() < 0.15 else []  # named twice
            waiter = Waiter("D k0 -,30000") if dice.random() < 0.3 else None
            grant, count = dice.choice(("30000", "30000", "1500")), dice.randrange(2, 40)
            if waiter is not None and dice.random() < 0.5:
                self.enlist(address, waiter)
            match = Filter(Match(correlation_id="a")).text() if dice.random() < 0.1 else b""
            cursor = "U0400000000000001" if dice.random() < 0.1 else ""
            call = read.receive(
                address,
                "lock",
                count,
                grant=grant,
                cursor=cursor,
                waiter=waiter,
                match=match,
                settle=read.runs(settle),
            )
            reply = self.both(call, *self.token())
            self.same()
            held = self.locks(reply) if reply[0] == 0 and len(reply) > 9 else []
        self.held += held

    def wait(self) -> None:
        """Time passes."""
        self.pass_time(self.dice.choice((1, 7, 1_000, 2_000)))


@pytest.mark.timeout(1800 if FULL else 300)
def test_the_short_way_leads_where_the_long_one_does(backend: Backend) -> None:
    walks, steps = (300, 400) if FULL else (4, 400) if backend.kind == "real" else (1, 300)
    took: Counter[str] = Counter()
    together = 0
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
        together += walk.stores[0].together
        assert not walk.stores[1].took
        assert not walk.stores[1].together
    assert together > 0
    print(f"seed {seed}: {dict(took)} went the short way, {together} times a message was in a packed lock")
