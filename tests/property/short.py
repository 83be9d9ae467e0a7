"""Calls that go the short way of the scripts, and the same the long one: in two databases, at the same moment."""

from __future__ import annotations

import random
from collections import Counter
from functools import partial
from itertools import cycle
from typing import Any

from mqredis import codec
from mqredis.commands import manager, queues, read, send, transactions
from mqredis.commands.common import Address
from mqredis.commands.read import Waiter
from mqredis.models import Outgoing, QueueProperties
from mqredis.status import Status
from mqredis.steps import Call
from tests.property.standing import KEYS, START, Store
from tests.support.backend import Backend


class Short:
    """Both databases, the clock of both, and the plainest calls, made by hand."""

    def __init__(self, backend: Backend, seed: int) -> None:
        self.dice = random.Random(seed)
        self.stores = [Store(backend.client(db=n), n == 0) for n in (0, 1)]
        self.now, self.sequences = START, Counter({"1.1": 0, "1.2": 0})
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

    def same(self) -> None:
        """Both databases hold the same bytes."""
        one, other = [store.bytes() for store in self.stores]
        assert one == other, self.step

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

    def pass_time(self, ms: int) -> None:
        self.now += ms
        for store in self.stores:
            store.stand(self.now)

    @staticmethod
    def locks(reply: Any) -> list[tuple[str, str]]:
        """Fence and lookup id of each lock that a receive answered."""
        ids = reply[7 + int(reply[6])]
        return [(reply[3].decode(), ids[n : n + 16].decode()) for n in range(0, len(ids), 16)]

    def batch(self, count: int) -> list[tuple[bytes, bytes | None]]:
        """Messages that at most a correlation id sets apart."""
        dice = self.dice
        messages = []
        for _ in range(count):
            body, name = b"x\3c\0" * dice.randrange(20), dice.choice(("a", "bbb", None))
            outgoing = Outgoing(body=body, correlation_id=name, priority=dice.randrange(8))
            messages.append(codec.encode(outgoing, ""))
        return messages

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
            {
                "straight_send.one": 5,
                "straight.receive": 4,
                "straight.settle": 1,
                "straight_sends.all": 4,
                "straight_locks.all": 3,
                "straight_locks.settle": 1,
            }
            | {"straight_tx.send": 6, "straight_tx.receive": 8}
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
        assert self.both(look(settle=read.runs(settle)), *self.token("1.1"))[0] == Status.WAITING
        self.both(send.send(address, [message]), *self.token("1.2"))
        assert self.both(read.leave(address, waiter.member), *self.token("1.1"))[0] == 0
        self.both(read.receive(address, "take"), *self.token("1.2"))
        self.same()
        self.listen(False)

    def plain_batches(self) -> None:
        """Batches too small for a form of their own, and larger ones, over ends of the numbers' last digit."""
        address, held = self.address["q"], list[tuple[str, str]]()
        large = codec.encode(Outgoing(body=b"x" * 4_096, priority=0), "")
        for batch in (self.batch(2), self.batch(17), self.batch(40), [large] * 256):
            self.both(send.send(address, batch), *self.token())
            self.same()
            settle = [("c", *lock) for lock in held]
            call = read.receive(address, "lock", len(batch), grant="30000", settle=read.runs(settle))
            held = self.locks(self.both(call, *self.token()))
            # Those that are more than a reply takes go the long way, which decides how many there are.
            assert len(held) == (254 if batch[0] is large else len(batch))
            self.same()
        self.both(read.settle(address, [("c", *lock) for lock in held], 1000), *self.token())
        self.both(read.purge(address), *self.token())

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
