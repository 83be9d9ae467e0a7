"""Checks: fences, lost notifications, killed waiters, storms of CLIENT KILL, a server restarted under its readers."""

from __future__ import annotations

import asyncio
import contextlib
import queue as queues
import threading
import time
from importlib.util import find_spec

import mqredis
import mqredis.asyncio
from mqredis import Settings
from mqredis.codec import encode
from mqredis.commands import manager, read, send, settlement
from mqredis.models import Outgoing
from mqredis.worker import Worker
from tests.reliability.check import Run, check
from tests.reliability.store import Reader
from tests.reliability.wire import Place
from tests.support.server import RedisServer

# What a busy machine may add to a bound in seconds.
SLACK = 2.0
FAST = Settings(recheck_seconds=0.1, retry_pause_seconds=0.005, retry_pause_max_seconds=0.05)


@check("fences", "a lock whose lease is over is refused, whatever its holder wants, and changes nothing")
def fences(run: Run) -> None:
    """Lock holders exceed their lease, others take over and commit, then the first ones try to commit."""
    holders = run.size(10_000, 256)
    with RedisServer() as server:
        reader = Reader(server)
        [session] = reader.wire.open_session([reader.keys])
        reader.create("q")
        place, q = Place(f"{session}.0"), reader.address("q")
        item = encode(Outgoing(body=b"x"), "")
        for _ in range(0, holders, 64):
            reader.call(send.send(q, [item] * 64), place)
            old = reader.call(read.receive(q, "lock", 64, grant="1000"), place)
            reader.call(manager.update(reader.keys, "clock", "1001"), place)
            # No call was made since. The leases are over nevertheless, also more of them than one call serves.
            first = run.rng(place.last).choice("caxj")
            late = [(first, old.fence, item[0].decode()) for item in old.messages]
            assert len(reader.call(settlement.settle(q, late, 60_000), place).lost) == 64, (
                "a lapsed lock was settled"
            )
            reader.call(manager.maintain(q), place)
            new = reader.call(read.receive(q, "lock", 64, grant="60000"), place)
            assert len(new.messages) == 64
            before = reader.store().queues["q"].records
            for action in "caxj":
                late = [(action, old.fence, item[0].decode()) for item in old.messages]
                lost = reader.call(settlement.settle(q, late, 60_000), place).lost
                assert len(lost) == 64, f"{64 - len(lost)} late settlements {action} were accepted"
                run.add("late settlements refused", 64)
            assert reader.store().queues["q"].records == before, "a refused settlement changed something"
            done = [("c", new.fence, item[0].decode()) for item in new.messages]
            assert reader.call(settlement.settle(q, done), place).lost == []
        assert not reader.ids("q")
        assert not reader.faults()


def _gauge(name: str, run: Run, value: float) -> None:
    run.counts[name] = max(float(run.counts.get(name, 0.0)), round(value, 3))


async def _storms(server: RedisServer, run: Run, consumers: int, storms: int) -> None:
    arrived: asyncio.Queue[bytes] = asyncio.Queue()
    settings = FAST.model_copy(update={"recheck_seconds": 1.0})
    async with await mqredis.asyncio.connect(server.url, settings=settings) as qm:
        await qm.create_queue("q")
        q = await qm.open("q")

        async def consume() -> None:
            while True:
                arrived.put_nowait((await q.receive(None)).body)

        tasks = [asyncio.create_task(consume()) for _ in range(consumers)]
        with server.client() as raw:
            for _ in range(storms):
                for kind in ("normal", "pubsub"):
                    raw.execute_command("CLIENT", "KILL", "TYPE", kind, "SKIPME", "yes")
                began = time.monotonic()
                async with asyncio.timeout(60):
                    await q.send_many([b"x"] * consumers)
                    for _ in range(consumers):
                        await arrived.get()
                _gauge("worst seconds", run, time.monotonic() - began)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        report = await qm.doctor()
        assert report.healthy, report.findings[:3]


@check("storms", "every connection killed at once: all waiting consumers consume again within 2 seconds")
def storms(run: Run) -> None:
    """CLIENT KILL of everything, against 50 waiting consumers."""
    count = run.size(500, 4)
    with RedisServer() as server:
        asyncio.run(_storms(server, run, 50, count))
    run.counts.update({"storms": count, "consumers": 50})
    assert float(run.counts["worst seconds"]) < 2 + SLACK


class Readers:
    """One reader of each kind, with its own queue and client."""

    def __init__(self, server: RedisServer) -> None:
        self.settings = FAST.model_copy(update={"retry_seconds": 60})
        self.server = server
        self.arrived: queues.SimpleQueue[tuple[str, bytes]] = queues.SimpleQueue()
        self.over = threading.Event()
        self.kinds = {"sync": self._sync, "asyncio": self._asyncio, "worker": self._worker}
        if find_spec("kombu"):
            self.kinds["kombu"] = self._kombu
        self.threads = [
            threading.Thread(target=run, name=kind, daemon=True) for kind, run in self.kinds.items()
        ]

    def _sync(self) -> None:
        with mqredis.connect(self.server.tcp_url, settings=self.settings) as qm, qm.open("sync") as q:
            while (body := q.receive(None).body) != b"end":
                self.arrived.put(("sync", body))

    def _asyncio(self) -> None:
        async def read() -> None:
            async with await mqredis.asyncio.connect(self.server.tcp_url, settings=self.settings) as qm:
                q = await qm.open("asyncio")
                while (body := (await q.receive(None)).body) != b"end":
                    self.arrived.put(("asyncio", body))

        asyncio.run(read())

    def _worker(self) -> None:
        worker = Worker(shutdown_seconds=5)

        @worker.consumer("worker")
        def handle(message: mqredis.Message) -> None:
            if message.body == b"end":
                worker.stop()
            else:
                self.arrived.put(("worker", message.body))

        with mqredis.connect(self.server.tcp_url, settings=self.settings) as qm:
            worker.run(manager=qm, signals=False)

    def _kombu(self) -> None:
        import kombu

        import mqredis.kombu  # noqa: F401 - for its effect

        def handle(body: object, message: kombu.Message) -> None:
            message.ack()
            self.arrived.put(("kombu", bytes(message.body)))

        url = self.server.tcp_url.replace("redis://", "mqredis://")
        options = {"settings": self.settings.model_dump()}
        with (
            kombu.Connection(url, transport_options=options) as connection,
            connection.Consumer([kombu.Queue("kombu")], callbacks=[handle], accept=None),
        ):
            while not self.over.is_set():
                with contextlib.suppress(TimeoutError):
                    connection.drain_events(timeout=0.5)


@check("restarts", "a server that restarts never leaves a consumer deaf")
def restarts(run: Run) -> None:
    """Kill and start the server under waiting readers of both interfaces, a worker and, if installed, kombu."""
    count = run.size(50, 2)
    with RedisServer(aof=True, tcp=True, options={"appendfsync": "always"}) as server:
        readers = Readers(server)
        with mqredis.connect(server.url, settings=readers.settings) as qm:
            handles = {}
            for kind in readers.kinds:
                qm.create_queue(kind)
                handles[kind] = qm.open(kind)
            for thread in readers.threads:
                thread.start()
            for number in range(count + 1):
                if number:  # each reader has read a message before the first one
                    server.restart(kill=True)
                began = time.monotonic()
                for q in handles.values():
                    q.send(b"%d" % number)
                for _ in handles:
                    kind, body = readers.arrived.get(timeout=60)
                    assert body == b"%d" % number, f"{kind} read {body!r} after restart {number}"
                _gauge("worst seconds", run, time.monotonic() - began)
            readers.over.set()
            for kind, q in handles.items():
                if kind != "kombu":
                    q.send(b"end")
            for thread in readers.threads:
                thread.join(60)
                assert not thread.is_alive(), f"the reader {thread.name} is stuck"
            report = qm.doctor()
            assert report.healthy, report.findings[:3]
        run.counts.update({"restarts": count, "readers": ", ".join(readers.kinds)})
