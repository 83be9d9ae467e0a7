"""Each operation of mqredis against a growing backlog: ``python -m bench.growth [--sizes 1000,1000000]``.

The part growth of ``python -m bench`` calls ``measure`` and ``ratios``, and names the goal.

"commands alone" are the commands of Redis, without mqredis, that move a batch of 100 through a sorted set and a hash of
the same size: that part of the growth is Redis's own.

All backlogs are on one server at once. In each round every operation is timed at every size in turn, in a random order,
so that changes of the machine's speed meet all sizes alike. The figure of an operation is the median over the rounds of
its time at the longest backlog divided by that at the shortest.
"""

from __future__ import annotations

import argparse
import random
import time
from collections import defaultdict
from collections.abc import Callable
from statistics import median
from typing import cast

import redis

import mqredis
from bench.messages import body, correlation_id, properties
from bench.server import Server

Operation = Callable[[], object]
TEXT = body(200).encode()


class Backlog:
    """A queue with ``size`` messages. Its operations leave the number of messages as it was."""

    def __init__(self, qm: mqredis.QueueManager, size: int) -> None:
        qm.create_queue(f"backlog-{size}")
        self.qm, self.queue, self.name = qm, qm.open(f"backlog-{size}"), f"backlog-{size}"
        self.size, self.next, self.ids = size, 0, [0]
        self.random = random.Random(size)
        for _ in range(0, size, 250):
            self.ids = self.put(250)[:1] + self.ids[:100]  # ids somewhere in the queue
        self.cursor = self.queue.cursor()

    def message(self) -> mqredis.Outgoing:
        """The next message, with an id of its own."""
        self.next += 1
        return mqredis.Outgoing(
            body=TEXT, correlation_id=correlation_id(self.next), properties=dict(properties(self.next))
        )

    def put(self, count: int) -> list[int]:
        """Send a batch and return the lookup ids."""
        return [sent.lookup_id for sent in self.queue.send_many([self.message() for _ in range(count)])]

    def send_and_receive(self) -> None:
        self.queue.send(self.message())
        self.queue.receive(0)

    def send_and_lock(self) -> None:
        self.queue.send(self.message())
        self.queue.lock(0).commit()

    def batches(self) -> None:
        self.put(100)
        self.queue.commit_many(self.queue.lock_many(100, 0))

    def lock_and_abort(self) -> None:
        self.queue.lock(0).abort()

    def find(self) -> None:
        """Read by a correlation id in the newer half of the queue."""
        number = self.next - self.random.randrange(self.size // 2)
        self.queue.peek(0, match=mqredis.Match(correlation_id=correlation_id(number)))

    def walk(self) -> None:
        try:
            self.cursor.peek_next(0)
        except mqredis.MqError:
            self.cursor.reset()
            self.cursor.peek(0)

    def operations(self) -> dict[str, Operation]:
        """Each operation by its name."""
        return {
            "send and receive": self.send_and_receive,
            "send, lock and commit": self.send_and_lock,
            "send, lock and commit 100": self.batches,
            "lock and abort": self.lock_and_abort,
            "peek": lambda: self.queue.peek(0),
            "peek by correlation id": self.find,
            "seek next": lambda: self.queue.peek_by_lookup_id(0, seek=mqredis.Seek.FIRST),
            "seek last": lambda: self.queue.peek_by_lookup_id(0, seek=mqredis.Seek.LAST),
            "cursor, next": self.walk,
            "information": lambda: self.qm.queue_info(self.name),
        }


class Commands:
    """A sorted set and a hash with ``size`` elements, as those of a queue."""

    def __init__(self, client: redis.Redis, size: int) -> None:
        self.client, self.set, self.hash, self.next = client, f"set-{size}", f"hash-{size}", 0
        for _ in range(0, size, 250):
            self.put(250)

    def put(self, count: int) -> None:
        """Add elements behind all others."""
        ids = [f"04{number:014x}" for number in range(self.next, self.next + count)]
        self.next += count
        self.client.zadd(self.set, dict.fromkeys(ids, 0))
        self.client.hset(self.hash, mapping=dict.fromkeys(ids, TEXT))

    def batch(self) -> None:
        """Add 100 elements, read the first 100 and remove them."""
        self.put(100)
        ids = cast("list[str]", self.client.zrange(self.set, 0, 99))
        self.client.hmget(self.hash, ids)
        self.client.zrem(self.set, *ids)
        self.client.hdel(self.hash, *ids)


def measure(server: Server, sizes: list[int], rounds: int, count: int) -> dict[str, dict[int, list[float]]]:
    """Seconds for one call, by operation and size, one figure for each round."""
    seconds: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    draw = random.Random(rounds)
    with mqredis.connect(server.url, settings=mqredis.Settings(allow_volatile=True)) as qm:
        backlogs = {size: Backlog(qm, size).operations() for size in sizes}
        client = redis.Redis.from_url(server.url)
        for size in sizes:
            backlogs[size]["commands alone, 100"] = Commands(client, size).batch
        for number in range(rounds + 1):
            for name in backlogs[sizes[0]]:
                times = max(1, count // (100 if name.endswith("100") else 1))
                for size in draw.sample(sizes, len(sizes)):
                    work, start = backlogs[size][name], time.perf_counter()
                    for _ in range(times):
                        work()
                    if number:  # the first round fills caches and the index
                        seconds[name][size].append((time.perf_counter() - start) / times)
    return seconds


def ratios(seconds: dict[str, dict[int, list[float]]], sizes: list[int]) -> dict[str, float]:
    """Of each operation the time at the last size divided by that at the first, the median of the rounds."""
    return {
        name: median(b / a for a, b in zip(by_size[sizes[0]], by_size[sizes[-1]], strict=True))
        for name, by_size in seconds.items()
    }


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default="1000,1000000")
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    sizes = [int(size) for size in options.sizes.split(",")]
    with Server() as server:
        server.pin({0})
        found = ratios(measure(server, sizes, options.rounds, 200), sizes)
    print(f"| operation | {sizes[-1]:,} against {sizes[0]:,} messages |\n|---|---|")
    for name, ratio in found.items():
        print(f"| {name} | {ratio:.2f} |")


if __name__ == "__main__":
    main()
