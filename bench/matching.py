"""Measures reads of particular messages of a long queue: ``python -m bench.matching [--count N] [--json]``.

Prints a table of goals and verdicts: a get by each identifier beside a plain get, what the index costs in memory, how
fast a selector scans (with bodies of 200 bytes and of 64 KiB) and how long one call of a scan holds the server, what a
selector does that names an identifier, how long the worst selector that is allowed holds the server; and beside it the
same search in a plain Redis list and by browsing. Gets are measured in turns, so that both kinds see the same machine;
scans are deterministic call by call, so of each call the quickest of several runs counts.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import redis

import mqredis
from bench.messages import Properties
from bench.server import Server
from mqredis import Match, Outgoing, Settings
from mqredis.keys import INDEX, QUEUE_PARTS
from mqredis.selector import parse

BATCH = 256
_SCRIPT = re.compile(rb"(?i)fcall|evalsha")


def fill(queue: Any, messages: Iterator[Outgoing]) -> float:
    """Send all messages. Returns the seconds that it took."""
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


def gets(manager: Any, client: redis.Redis, count: int, rounds: int) -> dict[str, Any]:
    """A plain get and a get by each identifier."""
    body = b"x" * 200
    few = max(4 * rounds + 20_000, count // 10)
    manager.create_queue("plain")
    manager.create_queue("indexed")
    plain, indexed = manager.open("plain"), manager.open("indexed")
    before = memory(client)
    fill(plain, (Outgoing(body=body) for _ in range(few)))
    between = memory(client)
    seconds = fill(indexed, (Outgoing(body=body, correlation_id=f"c{n:08}") for n in range(count)))
    last = count - 1
    begun = time.perf_counter()
    next(indexed.browse(match=Match(correlation_id=f"c{last:08}")))
    first = time.perf_counter() - begun
    tokens = some(plain, "token", rounds)
    ids = some(plain, "message_id", rounds, rounds)
    by_plain, by_first, by_correlation, by_selector, by_token, by_message = medians(
        rounds,
        lambda _: plain.receive(0),
        lambda _: indexed.receive(0),
        lambda n: indexed.receive(0, match=Match(correlation_id=f"c{last - 97 * n:08}")),
        lambda n: indexed.receive(
            0, selector=f"JMSCorrelationID = 'c{last - 97 * n - 1:08}' AND $priority = 3"
        ),
        lambda n: plain.receive(0, match=Match(token=tokens[n])),
        lambda n: plain.receive(0, match=Match(message_id=ids[n])),
    )
    return {
        "messages": count,
        "send_many_per_second": round(count / seconds),
        "first_question_s": round(first, 2),
        "first_question_us_per_message": round(first / count * 1e6, 2),
        "plain_get_us": round(by_plain, 1),
        "plain_get_of_indexed_us": round(by_first, 1),
        "by_correlation_id_us": round(by_correlation, 1),
        "by_selector_on_correlation_id_us": round(by_selector, 1),
        "by_token_us": round(by_token, 1),
        "by_generated_message_id_us": round(by_message, 1),
        "by_group_and_sequence_us": round(by_groups(manager, rounds), 1),
        "by_correlation_id_to_plain": round(by_correlation / by_plain, 2),
        "bytes_per_plain_message": round((between - before) / few),
        "bytes_of_the_index_per_message": round(
            index_bytes(manager, client, "indexed") / (count - 3 * rounds), 1
        ),
        "bytes_of_the_index_of_plain_messages": index_bytes(manager, client, "plain"),
        "calls_of_a_selector_on_an_identifier": calls_of(
            client, indexed, f"JMSCorrelationID = 'c{last // 2:08}'"
        ),
    }


def index_bytes(manager: Any, client: redis.Redis, queue: str) -> int:
    """Bytes that the index of a queue takes; 0 if it has none."""
    key = manager.context.keys.queue(queue)[QUEUE_PARTS.index(INDEX)]
    return int(client.memory_usage(key, samples=1000) or 0)


def calls_of(client: redis.Redis, queue: Any, selector: str) -> dict[str, int]:
    """Counts of commands for one peek: with an index few messages are read, however long the queue is."""
    queue.peek(0, selector=selector)
    client.config_resetstat()
    queue.peek(0, selector=selector)
    stats: dict[str, Any] = client.info("commandstats")
    names = ("fcall", "evalsha", "zrangebylex", "zrange", "hmget")
    return {name: stats[f"cmdstat_{name}"]["calls"] for name in names if f"cmdstat_{name}" in stats}


def some(queue: Any, name: str, wanted: int, skip: int = 0) -> list[str]:
    """An attribute of messages well inside the queue."""
    found: list[str] = []
    for at, message in enumerate(queue.browse()):
        if at >= 20_000 + skip:
            found.append(getattr(message, name))
            if len(found) == wanted:
                break
    return found


def by_groups(manager: Any, rounds: int) -> float:
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


def scans(manager: Any, client: redis.Redis, size: int, count: int, runs: int = 9) -> dict[str, Any]:
    """A selector that only the last of ``count`` messages passes."""
    name = f"scan-{size}"
    manager.create_queue(name)
    queue = manager.open(name)
    fill(queue, (Outgoing(body=b"x" * size, properties={"region": "EU", "amount": n}) for n in range(count)))
    selector = f"region = 'EU' AND amount = {count - 1}"
    seconds, held, calls = watched(client, lambda: queue.peek(0, selector=selector), runs)
    browsed = timed(lambda: next(m for m in queue.browse() if m.properties["amount"] == count - 1))
    manager.delete_queue(name)
    return {
        "body_bytes": size,
        "messages": count,
        "scanned_per_second": round(count / min(seconds)),
        "scanned_per_second_of_the_server": round(count / sum(calls) * 1e6),
        "calls": len(calls),
        "messages_per_call": round(count / len(calls)),
        "median_call_ms": round(statistics.median(calls) / 1000, 2),
        "longest_call_ms": round(max(calls) / 1000, 2),
        "longest_call_of_any_run_ms": round(max(map(max, held)) / 1000, 2),
        "browsed_per_second": round(count / browsed),
    }


def watched(
    client: redis.Redis, call: Callable[[], object], runs: int
) -> tuple[list[float], list[list[int]], list[int]]:
    """Seconds of each run, microseconds of each script in it, and the least that each script took in any run."""
    call()
    client.config_set("slowlog-log-slower-than", 0)
    client.config_set("slowlog-max-len", 20_000)
    seconds, held = [], []
    for _ in range(runs):
        client.slowlog_reset()
        seconds.append(timed(call))
        rows: Any = client.slowlog_get(20_000)
        held.append([row["duration"] for row in reversed(rows) if _SCRIPT.match(row["command"])])
    client.config_set("slowlog-log-slower-than", 10_000)
    return seconds, held, [min(durations) for durations in zip(*held, strict=True)]


# Selectors that can be made as long as one likes and that nothing passes, for messages with the properties below.
_HOSTILE: dict[str, Callable[[int], str]] = {
    "one LIKE": lambda n: "s LIKE '" + "%a_" * n + "b'",
    "many LIKEs": lambda n: " OR ".join(["s LIKE '%a_a%b'"] * n),
    "LIKEs of two bytes a character": lambda n: " OR ".join(["w LIKE '%é_é%b'"] * n),
    "long LIKEs": lambda n: " OR ".join(["s LIKE '" + "%aa_" * n + "b'"] * 16),
    "sum of 64 bits": lambda n: "+".join(["n"] * n) + " = 1",
    "product": lambda n: "*".join(["n"] * n) + " = 1",
    "quotient of doubles": lambda n: "/".join(["d"] * n) + " = 7",
    "comparisons": lambda n: " OR ".join(["n < 9223372036854775806"] * n),
    "list": lambda n: "s IN (" + ",".join(f"'{'a' * 4}{k}'" for k in range(n)) + ")",
    "brackets": lambda n: " OR ".join(["((((((((s = 'b'))))))))"] * n),
    "NOT": lambda n: " OR ".join(["NOT NOT (-n > +n)"] * n),
}


def longest(make: Callable[[int], str]) -> str:
    """The longest of these selectors that is allowed."""
    low, high = 1, 8192
    while low < high:
        middle = (low + high + 1) // 2
        try:
            parse(make(middle))
            low = middle
        except mqredis.SelectorSyntaxError:
            high = middle - 1
    return make(low)


def hostile(manager: Any, client: redis.Redis, count: int = 24, runs: int = 5) -> dict[str, float]:
    """Milliseconds of the longest script that each of the worst selectors runs, over a queue that it fails on."""
    manager.create_queue("hostile")
    queue = manager.open("hostile")
    properties: Properties = {"s": "a" * 4_000, "w": "é" * 2_000, "n": 9_223_372_036_854_775_807, "d": 1.1}
    fill(queue, (Outgoing(body=b"x", properties=dict(properties)) for _ in range(count)))
    found = {}
    for name, make in _HOSTILE.items():
        selector = longest(make)

        def search(selector: str = selector) -> None:
            with contextlib.suppress(mqredis.IoTimeout):
                queue.peek(0, selector=selector)
                raise AssertionError(f"a message passed {selector:.80}")

        found[name] = round(max(watched(client, search, runs)[2]) / 1000, 2)
    manager.delete_queue("hostile")
    return found


def timed(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def plain_list(client: redis.Redis, count: int) -> dict[str, Any]:
    """The naive solution: a Redis list, read in pages and parsed in the client."""
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


def table(report: dict[str, Any]) -> list[tuple[str, str, str, str]]:
    """Name, figure, goal and verdict of each measurement."""
    got, (small, large) = report["gets"], report["scans"]
    rows: list[tuple[str, str, str, str]] = []

    def judged(what: str, figure: float, goal: float, least: bool, unit: str = "") -> None:
        met = figure >= goal if least else figure <= goal
        shown = f"{'>=' if least else '<='} {goal:,g}{unit}"
        rows.append((what, f"{figure:,g}{unit}", shown, "met" if met else "MISSED"))

    def told(what: str, figure: object) -> None:
        rows.append((what, f"{figure:,}" if isinstance(figure, int | float) else str(figure), "", ""))

    told("messages in the queue of the gets", got["messages"])
    told("plain get, us", got["plain_get_us"])
    told("the first question for an identifier, s", got["first_question_s"])
    told("... us for each message", got["first_question_us_per_message"])
    told("get by correlation id, us", got["by_correlation_id_us"])
    judged("get by correlation id / plain get", got["by_correlation_id_to_plain"], 1.5, False)
    told("get by a selector that names the correlation id, us", got["by_selector_on_correlation_id_us"])
    judged(
        "... commands of one kind that it takes",
        max(got["calls_of_a_selector_on_an_identifier"].values()),
        4,
        False,
    )
    told("get by token, us", got["by_token_us"])
    told("get by generated message id, us", got["by_generated_message_id_us"])
    told("get by group and sequence, us", got["by_group_and_sequence_us"])
    told("memory of a plain message, bytes", got["bytes_per_plain_message"])
    told("memory of the index per message in it, bytes", got["bytes_of_the_index_per_message"])
    judged(
        "memory of the index per message without an identifier",
        got["bytes_of_the_index_of_plain_messages"],
        0,
        False,
    )
    judged("selector scan, messages/s", small["scanned_per_second"], 150_000, True)
    told("... of the server's time alone", small["scanned_per_second_of_the_server"])
    judged("longest call of it", small["longest_call_ms"], 5, False, " ms")
    judged("longest call with bodies of 64 KiB", large["longest_call_ms"], 5, False, " ms")
    share = large["scanned_per_second_of_the_server"] / small["scanned_per_second_of_the_server"]
    judged("server's speed with bodies of 64 KiB / 200 bytes", round(share, 2), 0.8, True)
    worst = max(report["hostile"], key=lambda name: report["hostile"][name])
    judged(f"slowest hostile selector ({worst})", report["hostile"][worst], 50, False, " ms")
    told("the same search by browsing, messages/s", small["browsed_per_second"])
    told("... with bodies of 64 KiB", large["browsed_per_second"])
    told("the same search in a plain Redis list, messages/s", report["list"]["scanned_per_second"])
    return rows


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.matching", description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=1_000_000, help="messages in the queue of the gets")
    parser.add_argument("--scan", type=int, default=200_000, help="messages in the queues of the scans")
    parser.add_argument("--rounds", type=int, default=2_000, help="gets of each kind")
    parser.add_argument("--json", action="store_true", help="all figures as JSON")
    chosen = parser.parse_args(arguments)
    with Server() as server:
        client = redis.Redis(port=server.port)
        settings = Settings(allow_volatile=True)
        with mqredis.connect(server.url, manager="bench", settings=settings) as manager:
            report = {
                "gets": gets(manager, client, chosen.count, chosen.rounds),
                "scans": [
                    scans(manager, client, 200, chosen.scan),
                    scans(manager, client, 65_536, chosen.scan // 50),
                ],
                "hostile": hostile(manager, client),
                "list": plain_list(client, chosen.scan),
            }
        client.close()
    if chosen.json:
        json.dump(report, sys.stdout, indent=2)
        print()
        return 0
    rows = [("", "figure", "goal", "verdict"), *table(report)]
    widths = [max(len(row[n]) for row in rows) for n in range(4)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    return int(any(row[3] == "MISSED" for row in rows))


if __name__ == "__main__":
    sys.exit(main())
