"""A cluster of two primaries without replicas; the first has the lower half of the slots."""

from __future__ import annotations

import random
from collections.abc import Callable

import redis
from redis.crc import key_slot

from mqredis.keys import ManagerKeys
from tests.support.server import RedisServer
from tests.support.until import until

_HALF = 8192


class Cluster:
    """The constructor returns when the servers run and agree on the slots; ``close`` ends them."""

    def __init__(self, start_server: Callable[..., RedisServer] | None = None) -> None:
        options = {"cluster-enabled": "yes", "cluster-node-timeout": "2000"}
        start = start_server or (lambda **more: RedisServer(**more).start())
        self.nodes = [start(tcp=True, options=options) for _ in range(2)]
        one, two = (self.client(n) for n in range(2))
        one.execute_command("CLUSTER", "ADDSLOTS", *range(_HALF))
        two.execute_command("CLUSTER", "ADDSLOTS", *range(_HALF, 2 * _HALF))
        one.execute_command("CLUSTER", "MEET", "127.0.0.1", self.nodes[1].port)
        until(lambda: all(self._agrees(n) for n in range(2)), "the nodes agree", 60)
        self.ids = [self.client(n).execute_command("CLUSTER", "MYID") for n in range(2)]

    def _agrees(self, n: int) -> bool:
        client = self.client(n)
        is_ok: bool = client.cluster("info")["cluster_state"] == "ok"
        return is_ok and len(client.execute_command("CLUSTER", "SLOTS")) == 2

    def client(self, n: int) -> redis.Redis:
        """A plain client of one node."""
        return self.nodes[n].client()

    @staticmethod
    def slot(manager: str) -> int:
        """The slot of a queue manager."""
        return int(key_slot(ManagerKeys(manager).own[0].encode()))

    def owner(self, manager: str) -> int:
        """The index of the node that initially owns the slot."""
        return 0 if self.slot(manager) < _HALF else 1

    @property
    def url(self) -> str:
        """The URL to which a client connects."""
        return "redis+cluster://" + ",".join(f"127.0.0.1:{node.port}" for node in self.nodes)

    def move(
        self,
        slot: int,
        source: int,
        target: int,
        *,
        rng: random.Random | None = None,
        between: Callable[[], object] | None = None,
        finish: bool = True,
    ) -> int:
        """Move a slot key by key, in random order if ``rng`` is given; return the number of moved keys.

        ``between`` is called before each key. ``finish=False`` moves all keys but does not announce the new owner.
        """
        old, new = self.client(source), self.client(target)
        new.execute_command("CLUSTER", "SETSLOT", slot, "IMPORTING", self.ids[source])
        old.execute_command("CLUSTER", "SETSLOT", slot, "MIGRATING", self.ids[target])
        moved = 0
        while keys := old.execute_command("CLUSTER", "GETKEYSINSLOT", slot, 1000):
            if rng is not None:
                rng.shuffle(keys)
            for key in keys:
                if between is not None:
                    between()
                old.execute_command("MIGRATE", "127.0.0.1", self.nodes[target].port, key, 0, 60_000)
                moved += 1
        if finish:
            self.finish(slot, target)
        return moved

    def finish(self, slot: int, target: int) -> None:
        """Announce the new owner of a slot to every node, first to the owner itself."""
        for n in (target, 1 - target):
            self.client(n).execute_command("CLUSTER", "SETSLOT", slot, "NODE", self.ids[target])

    def close(self) -> None:
        """End the servers."""
        for node in self.nodes:
            node.close()

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
