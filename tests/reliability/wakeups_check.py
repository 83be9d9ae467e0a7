"""Check: every reader is served, although half of all notifications are lost and notified readers are killed."""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue as queues
import signal
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import mqredis
import mqredis.asyncio
from mqredis import Settings
from mqredis.keys import QUEUE_PARTS, ManagerKeys
from tests.reliability.check import Run, check
from tests.support.faults import DropPush
from tests.support.proxy import Proxy
from tests.support.server import RedisServer
from tests.support.until import until

RECHECK = 0.1
# How much longer than the re-check period a message may wait, in seconds. A message waits from the reply of its send
# until a reader has it; a re-check that began before that cannot see the message. Asserted at full size only, where
# nothing else runs.
SLACK = 0.2
# Within so many re-checks of its client, begun after the message was sent, a reader must have taken it. One is enough;
# on a busy machine some more may begin between a re-check and the read that it causes. Without them it would be 300.
LOOKS = 12
# Readers, each with a client of its own: so many threads, and as many tasks.
READERS = 12
FAST = Settings(recheck_seconds=RECHECK, retry_pause_seconds=0.005, retry_pause_max_seconds=0.05)


class WaiterForker:
    """A process forked before any thread started, which forks waiters to be killed."""

    def __init__(self, url: str) -> None:
        orders, self._orders = os.pipe()
        self._born, born = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                os.close(self._orders)
                signal.signal(signal.SIGCHLD, signal.SIG_IGN)
                while os.read(orders, 1):
                    if os.fork() == 0:
                        _wait_for_ever(url, born)
            finally:
                os._exit(0)
        os.close(orders)
        os.close(born)
        self._lines = os.fdopen(self._born)

    def waiter(self) -> tuple[int, str]:
        """A new process that is about to wait: its id and the number of its session."""
        os.write(self._orders, b".")
        pid, session = self._lines.readline().split()
        return int(pid), session

    def close(self) -> None:
        os.close(self._orders)
        os.waitpid(self.pid, 0)
        self._lines.close()


def _wait_for_ever(url: str, born: int) -> None:
    with mqredis.connect(url, settings=FAST) as qm, qm.open("q") as q:
        os.write(born, f"{os.getpid()} {qm._driver.session}\n".encode())
        q.receive(None)


@dataclass
class Arrivals:
    """Which reader got which message, and when; and when each client began its last re-checks."""

    queue: queues.SimpleQueue[tuple[int, int, float]] = field(default_factory=queues.SimpleQueue)
    rechecks: list[deque[float]] = field(
        default_factory=lambda: [deque(maxlen=100) for _ in range(2 * READERS)]
    )
    gates: list[threading.Semaphore] = field(
        default_factory=lambda: [threading.Semaphore(0) for _ in range(2 * READERS)]
    )
    """A reader that got a message waits for the next round, so that one reader does not take all."""

    def count(self, number: int, qm: Any) -> None:
        """Record the re-checks of this client."""
        registry = qm._driver._waiters
        plain: Callable[[], Any] = registry.recheck

        def recheck() -> Any:
            self.rechecks[number].append(time.monotonic())
            return plain()

        registry.recheck = recheck

    def tell(self, number: int, message: int) -> None:
        """Record that a reader received a message."""
        self.queue.put((number, message, time.monotonic()))

    def since(self, number: int, sent: float, taken: float) -> int:
        """How many re-checks of this client began between these two times."""
        return sum(sent <= began <= taken for began in list(self.rechecks[number]))


def _settings(number: int) -> Settings:
    """Return settings for a wake mode that is not tested first, since a lost test notification would select polling."""
    return FAST.model_copy(update={"wake": ("keyspace", "publish")[number % 2]})


def _consume(url: str, number: int, arrivals: Arrivals) -> None:
    with mqredis.connect(url, settings=_settings(number)) as qm, qm.open("q") as q:
        arrivals.count(number, qm)
        while (body := q.receive(None).body) != b"end":
            arrivals.tell(number, int(body))
            arrivals.gates[number].acquire()


async def _aconsume(url: str, number: int, arrivals: Arrivals, waiting: Executor) -> None:
    async with await mqredis.asyncio.connect(url, settings=_settings(number)) as qm:
        q = await qm.open("q")
        arrivals.count(number, qm)
        while (body := (await q.receive(None)).body) != b"end":
            arrivals.tell(number, int(body))
            await asyncio.get_running_loop().run_in_executor(waiting, arrivals.gates[number].acquire)


async def _aconsumers(url: str, arrivals: Arrivals) -> None:
    with ThreadPoolExecutor(READERS) as waiting:
        await asyncio.gather(*(_aconsume(url, READERS + n, arrivals, waiting) for n in range(READERS)))


@check(
    "lost wake-ups",
    "half of all notifications lost and chosen waiters killed: every reader is served within a re-check",
)
def lost_wakeups(run: Run) -> None:
    """As many messages as there are readers, again and again, over a proxy that swallows notifications."""
    rounds = run.size(100_000, 6 * READERS) // (2 * READERS)
    kills = run.size(1000, 3)
    arrivals, rng = Arrivals(), run.rng("victims")
    victims = sorted(rng.choices(range(rounds), k=kills))
    with RedisServer() as server, contextlib.ExitStack() as stack:
        with mqredis.connect(server.url) as qm:
            qm.create_queue("q")
        nursery = WaiterForker(server.url)
        stack.callback(nursery.close)
        proxy = stack.enter_context(Proxy(server.socket_path, seed=run.seed))
        rule = proxy.add(DropPush(), times=None, chance=0.5)
        threads = [
            threading.Thread(target=_consume, args=(proxy.url(), n, arrivals), daemon=True)
            for n in range(READERS)
        ]
        threads.append(
            threading.Thread(target=lambda: asyncio.run(_aconsumers(proxy.url(), arrivals)), daemon=True)
        )
        for thread in threads:
            thread.start()
        worst, most, pushes = 0.0, 0, 0
        with mqredis.connect(server.url) as qm, qm.open("q") as q, server.client() as raw:
            for number in range(rounds):
                for _ in range(victims.count(number)):
                    pid, session = nursery.waiter()
                    _registered(raw, 1, session)
                    os.kill(pid, signal.SIGKILL)
                    run.add("waiters killed")
                _registered(raw, 2 * READERS)
                sent = []
                for message in range(2 * READERS):
                    q.send(b"%d" % message)
                    sent.append(time.monotonic())
                for _ in range(2 * READERS):
                    who, message, taken = arrivals.queue.get(timeout=60)
                    worst = max(worst, taken - sent[message])
                    most = max(most, arrivals.since(who, sent[message], taken))
                for gate in arrivals.gates:
                    gate.release()
            q.send_many([b"end"] * 2 * READERS)
            for thread in threads:
                thread.join(60)
                assert not thread.is_alive(), "a reader is stuck"
            report = qm.doctor()
            assert report.healthy, report.findings[:3]
        pushes = rule.hits
    run.counts.update({"waits": rounds * 2 * READERS, "notifications lost": pushes})
    run.counts.update({"worst seconds": round(worst, 3), "most looks": most})
    assert most <= LOOKS, f"a message was taken only after {most} looks"
    if run.scale >= 1:
        assert worst <= RECHECK + SLACK, f"a message waited {worst:.3f} s"


def _registered(raw: Any, count: int, session: str = "") -> None:
    """Wait until so many waiters are registered, of which the next message notifies one."""
    key = ManagerKeys("default").queue("q")[QUEUE_PARTS.index("w")]
    prefix = f"{session}." if session else ""
    until(
        lambda: sum(member.decode().startswith(prefix) for member in raw.zrange(key, 0, -1)) >= count,
        "a waiter registers",
        60,
    )
