"""Single calls in a database with a fixed clock, which tests move."""

from __future__ import annotations

import random
from collections import Counter
from itertools import cycle
from typing import Any

from mqredis.commands import manager, queues, read, send, transactions
from mqredis.commands.address import Address
from mqredis.models import QueueProperties
from mqredis.steps import Call
from tests.property.fixed_clock import KEYS, START, Store
from tests.support.backend import Backend


class FixedClockCalls:
    """The database, its clock, and a few calls."""

    def __init__(self, backend: Backend, seed: int) -> None:
        self.rng = random.Random(seed)
        self.store = Store(backend.client())
        self.now, self.sequences = START, Counter({"1.1": 0, "1.2": 0})
        self.subscription = self.store.client.pubsub()
        self.listens = False
        self.store.client.flushdb()
        self.store.stand(self.now)
        opening = manager.session_arguments(10**9, "run", True, "0" * 16)
        self.call(Call("session_open", KEYS.admin(), opening, lambda *_: None), "", "")
        self.address = {}
        for path, slot in zip("qptu", cycle(self.sequences)):
            made = queues.create(KEYS, path, QueueProperties(transactional=path in "tu").model_dump())
            generation = self.call(made, *self.token(slot))[3].decode()
            self.address[path] = Address(KEYS, path, generation)
        sub = Address(KEYS, "t;s")
        opened = self.call(queues.open_handle(KEYS, sub.family, "1", "all", "none"), *self.token())
        sub.generation = opened[3].decode()
        self.address["t;s"] = sub

    def close(self) -> None:
        self.subscription.close()
        self.store.client.close()

    def token(self, slot: str = "") -> tuple[str, object]:
        slot = slot or self.rng.choice(list(self.sequences))
        self.sequences[slot] += 1
        return slot, self.sequences[slot]

    def call(self, call: Call[Any], slot: str, sequence: object) -> Any:
        return self.store.call(call, slot, sequence)

    def listen(self, wanted: bool) -> None:
        """Subscribe to the wake channel of the first slot, or unsubscribe."""
        if wanted is self.listens:
            return
        channel = KEYS.channel("1.1", 0)
        change = self.subscription.subscribe if wanted else self.subscription.unsubscribe
        change(channel)
        while (said := self.subscription.get_message(timeout=10)) is None or "subscribe" not in said["type"]:
            pass  # notifications are not of interest
        self.listens = wanted

    def pass_time(self, ms: int) -> None:
        self.now += ms
        self.store.stand(self.now)

    @staticmethod
    def locks(reply: Any) -> list[tuple[str, str]]:
        """Return fence and lookup id of each lock in the reply of a receive."""
        ids = reply[7 + int(reply[6])]
        return [(reply[3].decode(), ids[n : n + 16].decode()) for n in range(0, len(ids), 16)]

    def sent(self, message: tuple[bytes, bytes | None], path: str, grant: str) -> str:
        """Send in transaction x; return its fence, or an empty text if the send is refused."""
        reply = self.call(send.send(self.address[path], [message], "x", grant), *self.token())
        return "" if reply[0] else str(reply[4].decode())

    def taken(self, path: str, grant: str) -> str:
        reply = self.call(read.receive(self.address[path], "tx", 1, owner="x", grant=grant), *self.token())
        assert reply[0] == 0
        return str(reply[3].decode())

    def ended(self, outcome: str, fence: str, *paths: str) -> int:
        return int(self.call(transactions.end(KEYS, "x", fence, outcome, paths), *self.token())[0])
