"""A Redis Cluster of three nodes on one machine, queue managers as its shards."""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import Any

from bench import company
from bench.server import Server

SLOTS = 16384


class Node(Server):
    """One node; its clients find their shard by the name of a queue manager that lives there."""

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        self.manager = ""

    @property
    def address(self) -> str:
        """Where the children connect: the cluster, and their queue manager."""
        return f"redis+cluster://127.0.0.1:{self.port}/?manager={self.manager}"


def form(nodes: list[Node]) -> None:
    """Make a cluster of them, each with a third of the slots, and give each a queue manager of its own."""
    for number, node in enumerate(nodes):
        first, stop = number * SLOTS // len(nodes), (number + 1) * SLOTS // len(nodes)
        node.wire.ask("CLUSTER", "ADDSLOTSRANGE", str(first), str(stop - 1))
        node.wire.ask("CLUSTER", "SET-CONFIG-EPOCH", str(number + 1))
        name = next(
            name
            for name in (f"shard-{number}-{n}" for n in range(1000))
            if first <= int(node.wire.ask("CLUSTER", "KEYSLOT", f"mq:{{{name}}}:meta")) < stop
        )
        node.manager = name
    for node in nodes[1:]:
        node.wire.ask("CLUSTER", "MEET", "127.0.0.1", str(nodes[0].port), nodes[0].options["cluster-port"])
    deadline = time.monotonic() + 30
    while any("cluster_state:ok" not in node.wire.ask("CLUSTER", "INFO") for node in nodes) or any(
        "cluster_known_nodes:3" not in node.wire.ask("CLUSTER", "INFO") for node in nodes
    ):
        if time.monotonic() > deadline:
            raise TimeoutError("the nodes do not find each other")
        time.sleep(0.05)


def shards(rounds: int, turn: float, seconds: float) -> list[dict[str, Any]]:
    """Six processes on one node's manager, then on three managers, one on each node."""
    start = time.monotonic()
    with ExitStack() as stack:
        nodes = [Node({"cluster-enabled": "yes"}) for _ in range(3)]
        for node in nodes:
            stack.enter_context(node)
        form(nodes)
        both = [company.Crowd("mqredis, sharded", 6, tuple(part)) for part in (nodes[:1], nodes)]
        return company.crowds(both, turn, rounds, seconds - (time.monotonic() - start))
