"""PackedStore claims (claims/claim_pages.lua) compared with unpacked ones.

Before each call of a random run, the database is copied to one in which claims are never packed. Both calls run at the
same time of a fixed clock and must have equal replies. Afterwards the packed database, unpacked, must equal the copy.
"""

from __future__ import annotations

import os
import random
import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import redis

from mqredis import codec
from mqredis.codec.claims import Claim
from mqredis.commands import claims, contents, doctor, features, manager, queues, read, send, settlement
from mqredis.commands.address import Address
from mqredis.commands.arguments import Mode
from mqredis.commands.claims import Order
from mqredis.commands.waiting import Waiter
from mqredis.models import Outgoing, QueueProperties
from mqredis.status import Status
from mqredis.steps import Call
from tests.property.fixed_clock import KEYS, START
from tests.property.packed import PackedStore, forget_calls, forget_order, key
from tests.support.backend import Backend

FULL = bool(os.environ.get("MQREDIS_TEST_FULL"))
OWNERS = ("lake", "sea")


class PackedComparison:
    """Random calls on one queue that two pipelines claim."""

    def __init__(self, backend: Backend, seed: int) -> None:
        self.rng = random.Random(seed)
        self.special = self.rng.choice((0.0, 0.0, 0.02, 0.12))  # how many of its messages ask for something
        self.live, self.copy, self.twin = (PackedStore(backend.client(db=n), n != 1) for n in range(3))
        self.now, self.sequence, self.step = START, 0, ""
        self.most = 0  # messages that were packed at once
        self.called: Counter[str] = Counter()
        self.live.client.flushdb()
        self.live.stand(self.now)
        opening = manager.session_arguments(10**9, "run", True, "0" * 16)
        self.both(Call("session_open", KEYS.admin(), opening, lambda *_: None), "", "")
        created = self.call(queues.create(KEYS, "q", QueueProperties(max_message_bytes=100_000).model_dump()))
        self.address = Address(KEYS, "q", created[3].decode())
        opened = self.call(queues.open_handle(KEYS, ("q;s", "q"), "1", "all", "none"))
        self.sub = Address(KEYS, "q;s", opened[3].decode())
        self.call(queues.ensure(KEYS, ["q;journal"]))
        self.address.bring(["q;journal"])

    def close(self) -> None:
        for store in (self.live, self.copy, self.twin):
            store.client.close()

    def both(self, call: Call[Any], slot: str, sequence: object) -> Any:
        """Make a call, and compare."""
        self.step = f"{call.script} {list(call.args)}"
        self.copy.restore(self.live.loose()[0])
        if self.removes(call):  # the pages that it removes are others: it is compared at its end
            self.twin.restore(self.live.bytes())
            assert self.through(self.twin, call) == self.through(self.copy, call), self.step
            self.same(self.twin)
            reply = self.live.call(call, slot, sequence)
        else:
            reply = self.live.call(call, slot, sequence)
            assert reply == self.copy.call(call, slot, sequence), self.step
            self.same(self.live)
        self.called[call.script] += 1
        return reply

    def removes(self, call: Call[Any]) -> bool:
        """Does it remove pages of a claim that is committed?"""
        if call.script == "claim_release":
            known = self.known(str(call.args[0]))
            return known is not None and known.draining > 0
        return call.script in ("claim_commit", "queue_delete")

    @staticmethod
    def through(store: PackedStore, call: Call[Any]) -> tuple[Any, int]:
        """A call to its end: what it answers then, and how many messages it has told of."""
        total = 0
        for number in range(1000):
            reply = store.call(call, "1.2", number + 1)
            if reply[0] != Status.CONTINUE:
                return (reply[0], total) if reply[0] else (reply[0], total + int(reply[3]))
            total += int(reply[3])
        raise AssertionError("it does not end")

    def call(self, call: Call[Any]) -> Any:
        if call.changes:
            self.sequence += 1
        return self.both(call, "1.1", self.sequence if call.changes else "")

    def same(self, store: PackedStore) -> None:
        (one, count), (other, none) = store.loose(), self.copy.loose()
        for found in (one, other):
            forget_order(found)
            if store is self.twin:
                forget_calls(found)
        assert one == other, self.step
        assert none == 0
        self.most = max(self.most, count)

    # ---- what happens ----------------------------------------------------------------------------

    def any(self, part: str = "m") -> str:
        """The id of some message, or of none."""
        ids = sorted(lid for lid in self.live.client.hkeys(key(part)) if lid[:1] == b"0")
        return self.rng.choice([*ids, b"0400000000000077"]).decode()

    def known(self, owner: str) -> Claim | None:
        text = self.live.client.hget(key("q"), f"claim:{owner}")
        return Claim.parse(text.decode()) if text else None

    def who(self, ahead: int) -> tuple[str, str, int]:
        """An owner, its checkpoint and a sequence that are mostly right."""
        rng = self.rng
        owner = rng.choice(OWNERS)
        known = self.known(owner)
        lineage = known.lineage if known and rng.random() < 0.9 else rng.choice("xy")
        sequence = known.committed + ahead if known else 1
        return owner, lineage, sequence if rng.random() < 0.95 else rng.randrange(1, 5)

    def send(self) -> Call[Any]:
        rng = self.rng
        count = rng.choice((1, 5, 14, 14))
        fields: dict[str, Any] = {}
        if rng.random() < self.special:
            fields = rng.choice(
                ({"correlation_id": "abc"}, {"time_to_be_received": 5.0}, {"delay": 1.0}, {"group_id": "g"})
            )
        if rng.random() < 0.2:
            fields = {**fields, "priority": rng.randrange(8)}
        size = 70_000 if rng.random() < 0.02 else rng.randrange(60)
        bodies = [b"x" * (size + n % rng.choice((1, 3))) for n in range(count)]
        return send.send(self.address, [codec.encode(Outgoing(body=body, **fields), "") for body in bodies])

    def claim(self) -> Call[Any]:
        rng = self.rng
        owner, lineage, sequence = self.who(1)
        bound = rng.choice(("", "", "", self.any()[2:]))
        after = rng.choice(("", "", "", self.any()[2:]))
        most = rng.choice((None, None, None, 300))
        order = Order(rng.choice((3, 6, 20, 20, 40)), most, after, bound)
        return claims.claim(self.address, owner, lineage, sequence, order, rng.random() < 0.8)

    def claimed(self) -> Call[Any]:
        rng = self.rng
        return claims.read(self.address, *self.who(1), rng.randrange(12), rng.choice((1, 5, 12, 99)))

    def commit(self) -> Call[Any]:
        rng = self.rng
        return claims.commit(self.address, *self.who(rng.choice((0, 1, 1))))

    def release(self) -> Call[Any]:
        return claims.release(self.address, self.rng.choice(OWNERS), self.rng.random() < 0.2)

    def receive(self) -> Call[Any]:
        mode: Mode = self.rng.choice(("lock", "take"))
        grant = self.rng.choice(("1500", "30000")) if mode == "lock" else ""
        if self.rng.random() < 0.5:
            return read.receive(self.address, mode, self.rng.choice((1, 2, 9)), grant=grant)
        # It was notified of a message that another reader may have by now.
        self.live.client.hset(KEYS.admin().keys[0], "1.1!", f"h {self.any()}")
        return read.receive(self.address, mode, 1, grant=grant, waiter=Waiter("D k0 ", "1"))

    def settle(self) -> Call[Any]:
        """Also of what pipelines hold, by their fence and by others."""
        rng, found = self.rng, []
        fences = [str(n) for n in range(4)]
        for part in ("s", "m", "m"):
            lid = self.any(part)
            text = self.live.client.hget(key("s"), lid)
            fence = text.split(b" ")[-1].decode() if text and rng.random() < 0.7 else rng.choice(fences)
            found.append((rng.choice("cajx"), fence, lid))
        return settlement.settle(self.address, found[: rng.choice((1, 3))], 1000)

    def lookup(self) -> Call[Any]:
        rng = self.rng
        mode: Mode = rng.choice(("peek", "peek", "take", "lock"))
        seek = rng.choice(("current", "current", "current", "next", "previous", "first", "last"))
        grant = "30000" if mode == "lock" else ""
        return read.lookup(self.address, mode, seek, self.any(), grant=grant, allow_peek=rng.random() < 0.3)

    def peek(self) -> Call[Any]:
        cursor = self.rng.choice(("", "U" + self.any(), "R" + self.any()))
        return read.peek(self.address, self.rng.choice((1, 30)), cursor=cursor)

    def purge(self) -> Call[Any]:
        return contents.purge(self.address)

    def move(self) -> Call[Any]:
        return contents.move(self.address, self.sub, self.any())

    def look(self) -> Call[Any]:
        after, bound = (self.rng.choice(("", self.any()[2:])) for _ in "ab")
        return claims.backlog(self.address, self.rng.choice(("", *OWNERS)), bound, after)

    def claims(self) -> Call[Any]:
        return claims.listing(self.address)

    def info(self) -> Call[Any]:
        return queues.info(KEYS, ["q", "q;s"])

    def stats(self) -> Call[Any]:
        return features.statistics(KEYS, "q")

    def wait(self) -> None:
        self.now += self.rng.choice((1, 7, 1000, 2000))
        self.live.stand(self.now)

    def change(self) -> Call[Any]:
        return queues.update(KEYS, "q", {"journaling": self.rng.random() < 0.4})

    def audit(self) -> None:
        """What the doctor looks at."""
        self.copy.restore(self.live.loose()[0])
        told = []
        for store in (self.live, self.copy):
            rows = self.rows(store.call(doctor.audit(KEYS, ["q", "q;s"], "+1 0"), "", ""))
            told.append(sorted(repr(row) for row in rows if row[0] in "MOXB"))
        assert told[0] == told[1]
        assert not [row for row in told[0] if row.startswith("('O'")]

    @staticmethod
    def rows(reply: Any) -> list[Any]:
        page = doctor.audit(KEYS, ["q"], "+1 0").parse(0, reply[3:])
        assert page.place == ""
        return page.rows

    def go(self) -> None:
        kinds: dict[Callable[[], Call[Any] | None], float] = {
            self.send: 10, self.claim: 10, self.claimed: 6, self.commit: 8, self.release: 1.5, self.receive: 2,
            self.settle: 4, self.lookup: 6, self.peek: 2, self.purge: 1, self.move: 2, self.look: 2, self.claims: 1,
            self.info: 2, self.stats: 2, self.wait: 1, self.change: 1,
            self.audit: 2,
        }  # fmt: skip
        call = self.rng.choices(list(kinds), list(kinds.values()))[0]()
        if call is not None:
            self.call(call)
            if call.changes and self.rng.random() < 0.1:
                self.both(call, "1.1", self.sequence)

    def end(self) -> None:
        """All that is claimed is committed or given back, or goes with the queue; no page is left then."""
        way = self.rng.choice(("commit", "release", "delete"))
        if way == "delete":
            self.last(queues.delete(KEYS, ["q", "q;s", "q;journal"], []))
            return
        for owner in OWNERS:
            known = self.known(owner)
            if known and way == "commit":
                self.last(claims.commit(self.address, owner, known.lineage, known.sequence))
            if known:  # also claims that could not be committed
                self.last(claims.release(self.address, owner, True))
        names = [*self.live.client.hkeys(key("q")), *self.live.client.hkeys(key("s"))]
        assert not [name for name in names if name == b"pages" or re.match(rb"[bc]\d+:\d+$", name)]

    def last(self, call: Call[Any]) -> None:
        while self.call(call)[0] == Status.CONTINUE:
            continue


@pytest.mark.timeout(1800 if FULL else 300)
def test_packed_and_unpacked_claims_have_equal_results(backend: Backend) -> None:
    is_real = backend.kind == "real"
    runs, steps = (4, 300) if is_real else (1, 150)
    if FULL:
        runs, steps = 300 if is_real else 30, 400  # more of them on the fake would take longer than the limit
    seed, most, called = random.randrange(10**6), 0, Counter[str]()
    number = 0
    while number < runs or not most:  # a single run may pack nothing
        run = PackedComparison(backend, seed + number)
        run.special = run.special if number else 0.0
        try:
            for _ in range(steps):
                run.go()
            run.end()
        except (AssertionError, redis.RedisError) as error:
            pytest.fail(f"seed {seed + number}: {run.step}\n{error!r}")
        finally:
            run.close()
        most = max(most, run.most)
        called += run.called
        number += 1
    print(f"seed {seed}: {number} runs, {dict(called)}, {most} packed at once")
