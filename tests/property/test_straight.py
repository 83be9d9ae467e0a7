"""The short way (lua/lib/straight.lua) against the long one: the same calls in two databases, at the same moment of a
clock that stands still, must be answered alike and leave the same bytes."""

from __future__ import annotations

import os
import random
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
import redis

from mqredis import codec, scripts
from mqredis.commands import manager, queues, read, send
from mqredis.commands.common import Address
from mqredis.commands.read import Waiter
from mqredis.keys import QUEUE_PARTS, ManagerKeys
from mqredis.models import Outgoing, QueueProperties
from mqredis.status import Status
from mqredis.steps import Call
from tests.support.backend import Backend

FULL = bool(os.environ.get("MQREDIS_TEST_FULL"))
KEYS = ManagerKeys("straight")
START = 1_763_676_000_000
#: The scripts that have a short way.
SHORT = ("send", "receive", "settle")
_CLOCK = 'redis.call("HMGET", KEYS[1], "stands", "zero")'
_ENTRY = re.compile(r"^local reply, meta, time, p = straight\.([a-z]+)\(\)$", re.MULTILINE)
#: Where a call stands that took the short way.
_TOOK = "local reply, meta, time, p = straight.{0}()\nif reply then redis.call('SADD', KEYS[1] .. ':short', '{0}') end"


def text_of(name: str, short: bool) -> str:
    """A bundle whose clock stands still, with or without its short way."""
    text = scripts.get(name).text.replace('redis.call("TIME")', _CLOCK)
    way = (lambda found: _TOOK.format(found[1])) if short else "local reply, meta, time, p"
    text, count = _ENTRY.subn(way, text)
    assert count == (name in SHORT), name
    return text


class Store:
    """One of the two databases."""

    def __init__(self, client: Any, short: bool) -> None:
        self.client, self.short = client, short
        self._texts: dict[str, str] = {}
        self.took: Counter[str] = Counter()

    def call(self, call: Call[Any], slot: str, sequence: object) -> Any:
        if call.script not in self._texts:
            self._texts[call.script] = text_of(call.script, self.short)
        keys = call.keys.keys
        reply = self.client.eval(self._texts[call.script], len(keys), *keys, slot, sequence, *call.args)
        mark = f"{KEYS.admin().keys[0]}:short"
        self.took.update(name.decode() for name in self.client.smembers(mark))
        self.client.delete(mark)
        return reply

    def stand(self, ms: int) -> None:
        """Set the clock."""
        self.client.hset(KEYS.admin().keys[0], mapping={"stands": ms // 1000, "zero": ms % 1000 * 1000})

    def bytes(self) -> dict[bytes, Any]:
        found: dict[bytes, Any] = {}
        for key in sorted(self.client.keys()):
            kind = self.client.type(key)
            if kind == b"hash":
                found[key] = self.client.hgetall(key)
            elif kind == b"zset":
                found[key] = self.client.zrange(key, 0, -1, withscores=True)
            else:
                found[key] = kind, self.client.dump(key)
        return found


class Walk:
    """Random calls, by hand: also such as no client makes."""

    def __init__(self, backend: Backend, seed: int) -> None:
        self.dice = random.Random(seed)
        self.stores = [Store(backend.client(db=n), n == 0) for n in (0, 1)]
        self.now, self.sequences = START, Counter({"1.1": 0, "1.2": 0})
        self.held: list[tuple[str, str]] = []  # fence and lookup id of locks, lost ones among them
        self.step = ""
        for store in self.stores:
            store.client.flushdb()
            store.stand(self.now)
        opening = manager.session_arguments(10**9, "run", True, "0" * 16)
        self.both(Call("session_open", KEYS.admin(), opening, lambda *_: None), "", "")
        self.address = {}
        for path, slot in zip("qp", self.sequences, strict=True):  # a slot's first call goes the long way
            made = queues.create(KEYS, path, QueueProperties().model_dump())
            generation = self.both(made, *self.token(slot))[3].decode()
            self.address[path] = Address(KEYS, path, generation)

    def close(self) -> None:
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
        assert self.stores[0].took == Counter(SHORT)

    # ---- what happens ----------------------------------------------------------------------------

    def go(self) -> None:
        """One more call, sometimes made twice, then a look at both databases."""
        dice = self.dice
        kinds = [(self.send, 8), (self.receive, 8), (self.settle, 6), (self.change, 0.7), (self.wait, 1)]
        call: Call[Any] | None = dice.choices([kind for kind, _ in kinds], [often for _, often in kinds])[0]()
        if call is not None:
            slot, sequence = self.token()
            if dice.random() < 0.03:  # a slot or session that nobody has heard of, or a call from the past
                slot, sequence = dice.choice((("1.9", 1), ("7.1", 1), (slot, max(1, int(str(sequence)) - 2))))
            reply = self.both(call, slot, sequence)
            if dice.random() < 0.1:
                assert self.both(call, slot, sequence) is not None
            # A slot's number that was used before gets what was answered then, whatever script that was.
            if call.script == "receive" and reply[0] == 0 and len(reply) > 9 and reply[3]:
                self.held += self.locks(reply)
        one, other = [store.bytes() for store in self.stores]
        assert one == other, self.step

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
        path = self.dice.choice("qqqp")
        address = self.address[path]
        return Address(KEYS, path, "99") if self.dice.random() < 0.02 else address

    def send(self) -> Call[Any]:
        count = self.dice.choice((1, 1, 1, 1, 3, 20))
        return send.send(self.queue(), [self.message() for _ in range(count)])

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
        waiter = Waiter("D k0 ", dice.choice(("", "1", "1", "leave:"))) if dice.random() < 0.3 else None
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
            grant="" if mode == "take" else dice.choice(("30000", "30000", "1500")),
            waiter=waiter,
            settle=self.settlements() if mode == "lock" else (),
        )

    def settle(self) -> Call[Any] | None:
        found = self.settlements()
        return read.settle(self.queue(), found, 1000) if found else None

    def change(self) -> Call[Any]:
        """Properties that send calls the long way, and back."""
        dice = self.dice
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
        return queues.update(KEYS, dice.choice("qp"), {name: dice.choice(values)})

    def wait(self) -> None:
        """Time passes."""
        self.now += self.dice.choice((1, 7, 1_000, 2_000))
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
            for step in range(steps):
                try:
                    walk.go()
                except (AssertionError, redis.RedisError) as error:
                    pytest.fail(f"seed {seed + number}, step {step}: {walk.step}\n{error!r}")
        finally:
            walk.close()
        took += walk.stores[0].took
        assert not walk.stores[1].took
    print(f"seed {seed}: {dict(took)} went the short way")
