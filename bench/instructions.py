"""Instructions that the server spends on a message, by callgrind: the same in every run, however busy the machine is.

    python -m bench.instructions path/to/redis-server

The server should be built with symbols; system calls do not count.
"""

from __future__ import annotations

import argparse
import contextlib
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import redis

import mqredis
from bench import floor as bounds
from bench import kept
from bench.callgrind import Counted
from bench.payload import BODY_BYTES, correlation_id, properties
from mqredis.scripts import Form

#: So many transactions are open at once, so that each of their steps is counted by itself.
OPEN = 100
#: How our scripts are called; and the functions in their place that keep the promises and know no other case.
EVALSHA, FCALL, KEPT = "EVALSHA", "FCALL", "promises"


class Server(Counted):
    """A redis-server under callgrind, which counts only while it is told to."""

    def __init__(self, binary: str) -> None:
        folder = Path(tempfile.mkdtemp(prefix="mqredis-callgrind-"))
        self.socket = folder / "s"
        options = [
            "--port",
            "0",
            "--save",
            "",
            "--unixsocket",
            str(self.socket),
            "--dir",
            str(folder),
            "--hz",
            "1",
        ]
        super().__init__([binary, *options], folder)
        self.client = redis.Redis(unix_socket_path=str(self.socket))
        self.until(lambda: self.socket.exists() and self.client.ping())

    def count(self, work: Callable[[], object], times: int, messages: int) -> float:
        """Instructions per message of ``work``, which moves so many messages, in thousands."""

        def repeat() -> None:
            for _ in range(times):
                work()

        for _ in range(3):
            work()
        return self.instructions(repeat, self.client.ping) / times / messages / 1000


def measure(server: Server, called: str) -> dict[str, float]:
    """The kinds of work, without and with a correlation id."""
    functions = "off" if called == EVALSHA else "auto"
    settings = mqredis.Settings.model_validate({"allow_volatile": True, "functions": functions})
    results: dict[str, float] = {}
    with mqredis.connect(f"unix://{server.socket}", manager=f"m-{called}", settings=settings) as qm:
        for name in ("plain", "correlation id"):
            qm.create_queue(name)
            queue = qm.open(name)
            held: list[mqredis.LockedMessage] = []

            def message(number: int, named: bool = name != "plain") -> mqredis.Outgoing:
                identity = correlation_id(number) if named else None
                return mqredis.Outgoing(
                    body=BODY_BYTES, correlation_id=identity, properties=dict(properties(number))
                )

            def step(
                size: int, queue: mqredis.Queue = queue, held: list[mqredis.LockedMessage] = held
            ) -> None:
                held[:] = queue.lock_many(size, 0, settle=held)

            batch = [message(number) for number in range(100)]
            # A queue of some length: below 128 messages Redis keeps it in another form.
            for _ in range(10):
                queue.send_many(batch)
            if called == KEPT:  # not before: the first call of a slot is not plain
                qm._driver.command(*kept.LOAD)
                forms = {script: Form("FCALL", own, ()) for script, own in kept.FUNCTIONS.items()}
                qm._driver.core.forms.update(forms)
            kinds: tuple[tuple[str, Callable[[], object], int, int], ...] = (
                ("send", lambda q=queue, b=batch: q.send(b[0]), 200, 1),  # type: ignore[misc]
                ("lock and settle", lambda s=step: s(1), 150, 1),  # type: ignore[misc]
                ("send 100", lambda q=queue, b=batch: q.send_many(b), 8, 100),  # type: ignore[misc]
                ("lock and settle 100", lambda s=step: s(100), 6, 100),  # type: ignore[misc]
            )
            for what, work, times, size in kinds:
                results[f"{name}: {what}"] = server.count(work, times, size)
            if called != KEPT:
                for what, thousands in transact(server, qm, message).items():
                    results[f"{name}: {what}"] = thousands
    return results


def transact(
    server: Server, qm: mqredis.QueueManager, message: Callable[[int], mqredis.Outgoing]
) -> dict[str, float]:
    """The steps of a transaction that takes a message from one queue and sends it to another."""
    for name in ("from", "to"):
        with contextlib.suppress(mqredis.QueueNotFound):
            qm.delete_queue(name)
        qm.create_queue(name, transactional=True)
    source, target = qm.open("from"), qm.open("to")
    for start in range(0, 1_000, 100):
        with qm.transaction() as unit:
            source.send_many([message(number) for number in range(start, start + 100)], transaction=unit)
    # What is short in this moment is kept compact, and searched from the front.
    long = "z" * 65
    for queue in (source, target):
        q = queue._handle.address.call.keys[2:]
        server.client.zadd(q[2], {long: 9e15})
        server.client.hset(q[4], long, "")
    server.client.hset(qm._context.keys.own[1], long, "")
    units: list[mqredis.Transaction] = []

    def begin() -> None:
        units.append(qm.transaction())
        source.receive(0, transaction=units[-1])

    def forward(unit: mqredis.Transaction) -> None:
        target.send(message(0), transaction=unit)

    def whole() -> None:
        with qm.transaction() as unit:
            source.receive(0, transaction=unit)
            forward(unit)

    def count(work: Callable[[mqredis.Transaction], object]) -> float:
        rest = iter(units)
        return server.count(lambda: work(next(rest)), OPEN, 1)

    results = {}
    for end in (mqredis.Transaction.commit, mqredis.Transaction.abort):
        units.clear()
        received, sent = server.count(begin, OPEN, 1), count(forward)
        results[end.__name__] = count(end)
        if end is mqredis.Transaction.commit:  # what an abort gives back is not read like a new message
            results |= {"receive in a transaction": received, "send in it": sent}
            results["receive, send and commit in a transaction"] = server.count(whole, OPEN, 1)
    return results


def floor(server: Server) -> dict[str, float]:
    """The raw list, and what a function of the server costs before it has done anything of use."""
    client: Any = server.client
    record, keys = "x" * 310, bounds.KEYS
    for command in (bounds.LOAD, *bounds.setting()):
        client.execute_command(*command)
    send = bounds.words("send", bounds.PLAIN_KEYS, record)
    for _ in range(1_000):  # a queue of some length
        client.execute_command(*send)

    def function(body: str) -> Callable[[], object]:
        text = f"local function run(KEYS, ARGV) local call = redis.call {body}\nend"
        end = "redis.register_function{function_name='floor', callback=run}"
        client.execute_command("FUNCTION", "LOAD", "REPLACE", f"#!lua name=floor\n{text}\n{end}")
        return lambda: client.execute_command(
            "FCALL", "floor", len(keys), *keys, record, "1.1", "17", "1", ""
        )

    def pipeline(work: Callable[[Any], object]) -> None:
        with client.pipeline(transaction=False) as pipe:
            work(pipe)
            pipe.execute()

    def pop(pipe: Any) -> None:
        for _ in range(100):
            pipe.lmove("list", "held", "RIGHT", "LEFT")

    def acknowledge(pipe: Any) -> None:
        for _ in range(100):
            pipe.lrem("held", -1, record)

    def life() -> None:
        pipeline(pop)
        pipeline(acknowledge)

    def one() -> None:
        client.lrem("held", 1, client.lmove("list", "held", "RIGHT", "LEFT"))

    return {
        "`PING`": server.count(client.ping, 200, 1),
        "raw list: `LPUSH`": server.count(lambda: client.lpush("list", record), 1_500, 1),
        "raw list: `LMOVE` and `LREM`": server.count(one, 200, 1),
        "raw list: `LPUSH` of 100": server.count(lambda: client.lpush("list", *[record] * 100), 10, 100),
        "raw list: `LMOVE` and `LREM`, 100 in a pipeline": server.count(life, 8, 100),
        "a function that does nothing, 10 keys and 5 arguments": server.count(function("return 0"), 200, 1),
        "the same with 10 `GET` of nothing": server.count(
            function("for _ = 1, 10 do call('GET', KEYS[9]) end return 0"), 200, 1
        ),
        "the reads and writes of a send, with nothing decided": server.count(
            lambda: client.execute_command(*send), 200, 1
        ),
    }


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("binary", nargs="?", default="redis-server")
    server = Server(parser.parse_args().binary)
    try:
        columns = {called: measure(server, called) for called in (EVALSHA, FCALL, KEPT)}
        beside = floor(server)
    finally:
        server.process.kill()
    print(f"| thousand instructions per message | {' | '.join(columns)} |\n|---|{'---|' * len(columns)}")
    for what in columns[EVALSHA]:
        row = (f"{column[what]:.0f}" if what in column else "" for column in columns.values())
        print(f"| {what} | {' | '.join(row)} |")
    print("\n| for comparison | |\n|---|---|")
    for what, thousands in beside.items():
        print(f"| {what} | {thousands:.1f} |")


if __name__ == "__main__":
    main()
