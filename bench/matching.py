"""Getting a particular message out of a long queue: ``python -m bench.matching [--count N]``.

Prints, for a queue of N messages: a plain get, a get by each identifier, what the index costs in memory, how fast a
selector scans (with bodies of 200 bytes and of 64 KiB), how long one call of a scan holds the server, and the same
search in a plain Redis list and by browsing. Gets are measured in turns, so that both kinds see the same machine.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import redis

import mqredis
from bench.server import Server
from mqredis import Match, Outgoing, Settings

BATCH = 256


def fill(queue: Any, messages: Iterator[Outgoing]) -> float:
    """Send all; answers the seconds it took."""
    start, batch = time.perf_counter(), []
    for message in messages:
        batch.append(message)
        if len(batch) == BATCH:
            queue.send_many(batch)
            batch.clear()
    if batch:
        queue.send_many(batch)
    return time.perf_counter() - start


def medians(rounds: int, *calls: Callable[[int], object]) -> list[float]:
    """Median microseconds of each call, measured in turns."""
    taken: list[list[float]] = [[] for _ in calls]
    for n in range(rounds):
        for times, call in zip(taken, calls, strict=True):
            start = time.perf_counter()
            call(n)
            times.append((time.perf_counter() - start) * 1e6)
    return [statistics.median(times) for times in taken]


def memory(client: redis.Redis) -> int:
    return int(client.info("memory")["used_memory"])


def processor(client: redis.Redis) -> float:
    """Seconds of processor time that the server has used: unlike a clock it does not mind a busy machine."""
    cpu = client.info("cpu")
    return float(cpu["used_cpu_user"]) + float(cpu["used_cpu_sys"])


def gets(manager: Any, client: redis.Redis, count: int, rounds: int) -> dict[str, Any]:
    """Plain get and get by identifier, in two queues of the same length."""
    body = b"x" * 200
    before = memory(client)
    manager.create_queue("plain")
    manager.create_queue("indexed")
    plain, indexed = manager.open("plain"), manager.open("indexed")
    seconds = fill(plain, (Outgoing(body=body) for _ in range(count)))
    between = memory(client)
    fill(indexed, (Outgoing(body=body, correlation_id=f"c{n:08}") for n in range(count)))
    after = memory(client)
    last = count - 1
    tokens = some(plain, "token", rounds)
    ids = some(plain, "message_id", rounds, rounds)
    by_plain, by_first, by_correlation, by_token, by_message = medians(
        rounds,
        lambda _: plain.receive(0),
        lambda _: indexed.receive(0),
        lambda n: indexed.receive(0, match=Match(correlation_id=f"c{last - 97 * n:08}")),
        lambda n: plain.receive(0, match=Match(token=tokens[n])),
        lambda n: plain.receive(0, match=Match(message_id=ids[n])),
    )
    grouped = ids_of_groups(manager, rounds)
    return {
        "messages": count,
        "send_many_per_second": round(count / seconds),
        "plain_get_us": round(by_plain, 1),
        "plain_get_of_indexed_us": round(by_first, 1),
        "by_correlation_id_us": round(by_correlation, 1),
        "by_token_us": round(by_token, 1),
        "by_generated_message_id_us": round(by_message, 1),
        "by_group_and_sequence_us": round(grouped, 1),
        "by_correlation_id_to_plain": round(by_correlation / by_plain, 2),
        "bytes_per_plain_message": round((between - before) / count),
        "bytes_of_the_index_per_message": round((after - between - (between - before)) / count),
    }


def some(queue: Any, name: str, wanted: int, skip: int = 0) -> list[str]:
    """An attribute of messages well inside the queue."""
    found: list[str] = []
    for at, message in enumerate(queue.browse()):
        if at >= 20_000 + skip:
            found.append(getattr(message, name))
            if len(found) == wanted:
                break
    return found


def ids_of_groups(manager: Any, rounds: int) -> float:
    manager.create_queue("groups")
    queue = manager.open("groups")
    fill(
        queue,
        (
            Outgoing(body=b"x" * 200, group_id=f"g{n % 10_000}", sequence=n // 10_000 + 1)
            for n in range(100_000)
        ),
    )
    found = medians(rounds, lambda n: queue.receive(0, match=Match(group_id=f"g{9_999 - n}", sequence=7)))[0]
    manager.delete_queue("groups")
    return found


def scans(manager: Any, client: redis.Redis, size: int, count: int) -> dict[str, Any]:
    """A selector that only the last of ``count`` messages passes."""
    name = f"scan-{size}"
    manager.create_queue(name)
    queue = manager.open(name)
    fill(queue, (Outgoing(body=b"x" * size, properties={"region": "EU", "amount": n}) for n in range(count)))
    selector = f"region = 'EU' AND amount = {count - 1}"
    queue.peek(0, selector=selector)
    client.config_resetstat()
    client.slowlog_reset()
    client.config_set("slowlog-log-slower-than", 0)
    client.config_set("slowlog-max-len", 20_000)
    before = processor(client)
    best = min(timed(lambda: queue.peek(0, selector=selector)) for _ in range(3))
    spent = processor(client) - before
    calls = [
        row["duration"] for row in client.slowlog_get(20_000) if row["command"].upper().startswith(b"EVALSHA")
    ]
    client.config_set("slowlog-log-slower-than", 10_000)
    browsed = timed(lambda: next(m for m in queue.browse() if m.properties["amount"] == count - 1))
    manager.delete_queue(name)
    return {
        "body_bytes": size,
        "messages": count,
        "scanned_per_second": round(count / best),
        "scanned_per_processor_second_of_the_server": round(3 * count / spent),
        "median_call_ms": round(statistics.median(calls) / 1000, 2),
        "p95_call_ms": round(statistics.quantiles(calls, n=20)[-1] / 1000, 2),
        "longest_call_ms": round(max(calls) / 1000, 2),
        "browsed_per_second": round(count / browsed),
    }


def timed(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def plain_list(client: redis.Redis, count: int) -> dict[str, Any]:
    """The naive way: a Redis list, read in pages and taken apart in the client."""
    for at in range(0, count, 1000):
        rows = [json.dumps({"region": "EU", "amount": n, "body": "x" * 200}) for n in range(at, at + 1000)]
        client.rpush("naive", *rows)

    def search() -> None:
        for at in range(0, count, 1000):
            for row in client.lrange("naive", at, at + 999):
                if json.loads(row)["amount"] == count - 1:
                    return

    seconds = timed(search)
    client.delete("naive")
    return {"messages": count, "scanned_per_second": round(count / seconds)}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.matching", description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=1_000_000, help="messages in the queues of the gets")
    parser.add_argument("--scan", type=int, default=200_000, help="messages in the queues of the scans")
    parser.add_argument("--rounds", type=int, default=2_000, help="gets of each kind")
    chosen = parser.parse_args(arguments)
    with Server() as server:
        client = redis.Redis(port=server.port)
        settings = Settings(allow_volatile=True)
        with mqredis.connect(server.url, manager="bench", settings=settings) as manager:
            report = {
                "gets": gets(manager, client, chosen.count, chosen.rounds),
                "scans": [
                    scans(manager, client, 200, chosen.scan),
                    scans(manager, client, 65_536, chosen.scan // 20),
                ],
                "list": plain_list(client, chosen.scan),
            }
        client.close()
    json.dump(report, sys.stdout, indent=2)
    print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
