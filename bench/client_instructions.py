"""Instructions that the client spends on a message, by callgrind: the same in every run, however busy the machine is.

    python -m bench.client_instructions [kind ...]

The client runs under callgrind, the server beside it as it is. ``body`` and ``lookup_id`` of each message are read, as
the least a consumer does; "all fields" has each field of it asked for.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
import tempfile
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import redis

import mqredis
import mqredis.asyncio
from bench.adapters.base import Tally
from bench.adapters.mqredis_sync import SETTINGS, message
from bench.callgrind import Counted
from bench.payload import BODY_BYTES, check, correlation_id, envelope, properties
from mqredis.worker import Worker

#: Given how often, does the work so often.
Work = Callable[[int], object]


def fields(number: int) -> dict[str, Any]:
    """What a send of one message is given besides its body."""
    return {"correlation_id": correlation_id(number), "properties": properties(number)}


class Client:
    """All kinds of work: so often, so many messages each time."""

    def __init__(self, socket: str) -> None:
        self.url = f"unix://{socket}"
        self.raw = redis.Redis(unix_socket_path=socket)
        self.qm = mqredis.connect(self.url, manager="m", settings=SETTINGS)
        self.qm.create_queue("q")
        self.queue = self.qm.open("q")
        self.held: list[mqredis.LockedMessage] = []
        self.qm.create_queue("from", transactional=True)
        self.qm.create_queue("to", transactional=True)
        self.source, self.target = self.qm.open("from"), self.qm.open("to")
        #: Open transactions, each with what was received in it.
        self.units: list[tuple[mqredis.Transaction, mqredis.Message]] = []
        self.loop = asyncio.new_event_loop()
        self.kinds: dict[str, tuple[Work, int, int]] = {
            "send": (self.send, 200, 1),
            "lock and settle": (lambda times: self.lock(times, 1), 200, 1),
            "receive": (self.receive, 200, 1),
            "send 100": (self.send_many, 8, 100),
            "lock and settle 100": (lambda times: self.lock(times, 100), 8, 100),
            "lock and settle 100, all fields": (lambda times: self.lock(times, 100, whole=True), 8, 100),
            "transaction: receive": (self.tx_receive, 200, 1),
            "transaction: send": (self.tx_send, 200, 1),
            "transaction: commit": (self.tx_commit, 200, 1),
            "transaction: abort": (self.tx_abort, 200, 1),
            "worker": (self.work, 1000, 1),
            "worker, prefetch=32": (lambda times: self.work(times, prefetch=32), 1000, 1),
            "asyncio, one task: send": (lambda times: self.tasks(times, 1, self.asend), 200, 1),
            "asyncio, one task: lock and settle": (lambda times: self.tasks(times, 1, self.alock), 200, 1),
            "asyncio, 20 tasks: send": (lambda times: self.tasks(times, 20, self.asend), 20, 20),
            "asyncio, 20 tasks: lock and settle": (lambda times: self.tasks(times, 20, self.alock), 20, 20),
            "raw list: LPUSH": (self.push, 200, 1),
            "raw list: LMOVE and LREM": (self.pop, 200, 1),
            "raw list: LPUSH of 100": (self.push_many, 8, 100),
            "raw list: LPUSH, 100 in a pipeline": (self.push_pipeline, 8, 100),
            "raw list: 100 LMOVE, then 100 LREM, in pipelines": (self.pop_many, 8, 100),
        }  # fmt: skip

    def run(self, kind: str, times: int) -> None:
        """Do it, after what has to be there for it."""
        self.kinds[kind][0](times)

    def prepare(self, kind: str) -> None:
        """Put enough messages there, and warm up."""
        _, times, size = self.kinds[kind]
        warm = times if kind.startswith("worker") else 3
        count = (times + warm) * size + 300
        for _ in range(count // 100):
            self.queue.send_many([message(number) for number in range(100)])
        if kind.startswith("transaction"):
            self.prepare_transactions(kind, times + warm)
        if kind.startswith("raw"):
            self.raw.lpush("list", *[envelope(n) for n in range(count)])
        if kind.startswith("asyncio"):
            self.loop.run_until_complete(self.connect())
        self.run(kind, warm)

    def finish(self) -> None:
        """Leave nothing behind for the next kind."""
        for lock in self.held:
            lock.commit()
        self.held = []
        for unit, _ in self.units:
            unit.abort()
        self.units = []
        for queue in (self.queue, self.source, self.target):
            queue.purge()
        self.raw.delete("list", "held")

    def send(self, times: int) -> None:
        for number in range(times):
            self.queue.send(BODY_BYTES, correlation_id=correlation_id(number), properties=properties(number))

    def receive(self, times: int) -> None:
        for _ in range(times):
            check(self.queue.receive(timeout=0).body)

    def send_many(self, times: int) -> None:
        for _ in range(times):
            self.queue.send_many([message(number) for number in range(100)])

    def lock(self, times: int, size: int, whole: bool = False) -> None:
        for _ in range(times):
            self.held = self.queue.lock_many(size, timeout=0, settle=self.held)
            for locked in self.held:
                check(locked.body)
                assert locked.lookup_id
                if whole:
                    assert locked.message.delivery_count == 1
                    assert len(locked.message.properties) == 4

    # ---- transactions: each step of as many of them ------------------------------------------------

    def prepare_transactions(self, kind: str, count: int) -> None:
        """What comes before the step that is to be counted."""
        for _ in range(count // 100 + 1):
            with self.qm.transaction() as unit:
                self.source.send_many([message(number) for number in range(100)], transaction=unit)
        if not kind.endswith("receive"):
            self.tx_receive(count)
        if not kind.endswith(("receive", "send")):
            self.tx_send(count)

    def tx_receive(self, times: int) -> None:
        for _ in range(times):
            unit = self.qm.transaction()
            received = self.source.receive(timeout=0, transaction=unit)
            check(received.body)
            self.units.append((unit, received))

    def tx_send(self, times: int) -> None:
        for unit, received in self.units[-times:]:
            self.target.send(
                BODY_BYTES,
                correlation_id=received.correlation_id,
                properties=received.properties,
                transaction=unit,
            )

    def tx_commit(self, times: int) -> None:
        for _ in range(times):
            self.units.pop()[0].commit()

    def tx_abort(self, times: int) -> None:
        for _ in range(times):
            self.units.pop()[0].abort()

    def work(self, times: int, **options: Any) -> None:
        worker = Worker()
        tally = Tally(times, worker.stop)

        def handle(message: mqredis.Message) -> None:
            tally(message.body)

        worker.consumer("q", **options)(handle)
        worker.run(manager=self.qm, signals=False)

    # ---- asyncio ---------------------------------------------------------------------------------

    async def connect(self) -> None:
        if not hasattr(self, "aqueue"):
            self.aqm = await mqredis.asyncio.connect(self.url, manager="m", settings=SETTINGS)
            self.aqueue = await self.aqm.open("q")

    def tasks(self, times: int, tasks: int, work: Callable[[int], Coroutine[Any, Any, None]]) -> None:
        async def together() -> None:
            async with asyncio.TaskGroup() as group:
                for _ in range(tasks):
                    group.create_task(work(times))

        self.loop.run_until_complete(together())

    async def asend(self, times: int) -> None:
        for number in range(times):
            await self.aqueue.send(
                BODY_BYTES, correlation_id=correlation_id(number), properties=properties(number)
            )

    async def alock(self, times: int) -> None:
        held: list[mqredis.asyncio.LockedMessage] = []
        for _ in range(times):
            held = await self.aqueue.lock_many(1, timeout=0, settle=held)
            check(held[0].body)
            assert held[0].lookup_id
        for locked in held:
            await locked.commit()

    # ---- the raw list ----------------------------------------------------------------------------

    def push(self, times: int) -> None:
        for number in range(times):
            self.raw.lpush("list", envelope(number))

    def pop(self, times: int) -> None:
        for _ in range(times):
            text: Any = self.raw.lmove("list", "held", "RIGHT", "LEFT")
            assert len(text) > 200
            self.raw.lrem("held", 1, text)

    def push_many(self, times: int) -> None:
        for _ in range(times):
            self.raw.lpush("list", *[envelope(number) for number in range(100)])

    def push_pipeline(self, times: int) -> None:
        for _ in range(times):
            with self.raw.pipeline(transaction=False) as pipe:
                for number in range(100):
                    pipe.lpush("list", envelope(number))
                pipe.execute()

    def pop_many(self, times: int) -> None:
        for _ in range(times):
            with self.raw.pipeline(transaction=False) as pipe:
                for _ in range(100):
                    pipe.lmove("list", "held", "RIGHT", "LEFT")
                texts = pipe.execute()
                for text in texts:
                    pipe.lrem("held", -1, text)
                pipe.execute()


def serve(socket: str) -> None:
    """The client: does what it is told on stdin."""
    client = Client(socket)
    print(*client.kinds, sep="\t", flush=True)
    for line in sys.stdin:
        order, _, kind = line.strip().partition(" ")
        if order == "prepare":
            client.prepare(kind)
        elif order == "run":
            client.run(kind, client.kinds[kind][1])
        elif order == "finish":
            client.finish()
        print(*client.kinds[kind][1:] if kind else (), flush=True)


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kinds", nargs="*", help="only these; none: all")
    parser.add_argument("--serve", metavar="SOCKET", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        return serve(arguments.serve)
    folder = Path(tempfile.mkdtemp(prefix="mqredis-callgrind-"))
    socket = folder / "s"
    server = subprocess.Popen(
        ["redis-server", "--port", "0", "--save", "", "--unixsocket", str(socket), "--dir", str(folder)],
        stdout=subprocess.DEVNULL,
    )
    counted = Counted(
        [sys.executable, "-m", "bench.client_instructions", "--serve", str(socket)],
        folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=None, text=True,
    )  # fmt: skip
    client: Any = counted.process

    def order(text: str) -> str:
        print(text, file=client.stdin, flush=True)
        answer: str = client.stdout.readline()
        if not answer:
            raise EOFError("the client has ended")
        return answer.strip()

    try:
        counted.until(socket.exists)
        known = client.stdout.readline().strip().split("\t")
        print("| thousand instructions of the client per message | |\n|---|---|")
        for kind in arguments.kinds or known:
            times, size = map(int, order(f"prepare {kind}").split())
            spent = counted.instructions(lambda k=kind: order(f"run {k}"), lambda: order("poke"))  # type: ignore[misc]
            order("finish")
            print(f"| {kind} | {spent / times / size / 1000:.1f} |", flush=True)
    finally:
        client.kill()
        server.kill()


if __name__ == "__main__":
    main()
