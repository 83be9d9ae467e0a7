"""Check: the slot of a queue manager moves from node to node of a cluster, key by key, while it is worked with."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable

import mqredis
from mqredis import BrokerUnavailable, IoTimeout, Queue, QueueManager, Settings
from tests.reliability.check import Run, check
from tests.support.cluster import Cluster
from tests.support.until import until

SETTINGS = Settings(
    manager="m", lease_seconds=600, retry_seconds=60, retry_pause_seconds=0.002, retry_pause_max_seconds=0.02
)
# Seconds that nothing but a hang lasts.
LONG = 90.0
_PAUSE = threading.Event()


class Worker:
    """One client in a thread of its own: does its work again and again until it is told to stop."""

    def __init__(self, url: str, work: Callable[[Worker, QueueManager], None]) -> None:
        self.url, self.work = url, work
        self.stop = threading.Event()
        self.turns = 0
        self.retryable = 0
        self.sent: list[bytes] = []
        self.got: list[bytes] = []
        self.error: BaseException | None = None
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        try:
            with mqredis.connect(self.url, settings=SETTINGS) as qm:
                while not self.stop.is_set():
                    try:
                        self.work(self, qm)
                    except BrokerUnavailable:
                        self.retryable += 1  # it certainly was not done: the same again
                    self.turns += 1
        except BaseException as error:  # noqa: BLE001 - told by the check
            self.error = error

    def end(self) -> None:
        """Stop after the operation in progress."""
        self.stop.set()
        self.thread.join(LONG)
        if self.thread.is_alive():
            raise AssertionError("a client hangs")
        if self.error is not None:
            raise AssertionError(f"a client met {type(self.error).__name__}: {self.error}") from self.error


def _produce(self: Worker, qm: QueueManager) -> None:
    """Send to the first queue."""
    body = b"%d" % len(self.sent)
    with qm.open("q") as q:
        q.send(body)
    self.sent.append(body)


def _transfer(self: Worker, qm: QueueManager) -> None:
    """From the first queue, under a lock, into the transactional one: twice is noticed, as a body that comes twice."""
    with qm.open("q") as q, qm.open("t") as t:
        try:
            lock = q.lock(0)
        except IoTimeout:
            return
        unit = qm.transaction()
        for _ in range(2):
            t.send(lock.body, transaction=unit)
        unit.commit()
        while True:  # from here on only this keeps it from being transferred twice
            try:
                lock.commit()
            except BrokerUnavailable:
                self.retryable += 1
            else:
                return


def _consume(self: Worker, qm: QueueManager) -> None:
    """From the transactional queue, in a transaction."""
    with qm.open("t") as t:
        unit = qm.transaction()
        try:
            found = t.receive_many(10, 0, transaction=unit)
        except IoTimeout:
            return
        unit.commit()
        self.got += [message.body for message in found]


@check(
    "resharding",
    "the slot moves key by key under load: nothing torn or on both nodes, only retryable errors, output equals input",
)
def resharding(run: Run) -> None:
    """Move it there and back in random order, then drain and compare."""
    moves, rng = run.size(50, 2), run.rng("resharding")
    with Cluster() as cluster:
        with mqredis.connect(cluster.url, settings=SETTINGS) as qm:
            qm.create_queue("q")
            qm.create_queue("t", transactional=True)
        slot, owner = cluster.slot("m"), cluster.owner("m")
        workers = [Worker(cluster.url, work) for work in (_produce, _transfer, _consume)]
        try:
            for _ in range(moves):
                _turn(workers, rng.randint(1, 20))
                between = _pauses(rng.choice((0.0, 0.001, 0.003)))
                run.add("keys moved", cluster.move(slot, owner, 1 - owner, rng=rng, between=between))
                if left := cluster.client(owner).execute_command("CLUSTER", "GETKEYSINSLOT", slot, 10):
                    raise AssertionError(f"keys are on both nodes: {left}")
                owner = 1 - owner
            _turn(workers, 2)
        finally:
            for worker in workers:
                worker.stop.set()
        for worker in workers:
            worker.end()
        producer, _, consumer = workers
        with mqredis.connect(cluster.url, settings=SETTINGS) as qm, qm.open("q") as q, qm.open("t") as t:
            report = qm.doctor()
            if not report.healthy:
                raise AssertionError(f"the store is torn: {report.findings[:3]}")
            rest = Counter(_drain(q))
            wanted = Counter(producer.sent) - rest
            found = Counter(consumer.got) + Counter(_drain(t, qm))
        if found != wanted + wanted:
            missing, extra = (wanted + wanted) - found, found - (wanted + wanted)
            raise AssertionError(f"lost {len(missing)}, too many {len(extra)} messages")
        run.counts.update(
            {
                "moves": moves,
                "messages": len(producer.sent),
                "calls refused for now": sum(worker.retryable for worker in workers),
                "calls tried again": _retries(cluster),
            }
        )


def _turn(workers: list[Worker], turns: int) -> None:
    """Wait until each client has made some calls."""
    goals = [worker.turns + turns for worker in workers]

    def made() -> bool:
        for worker in workers:
            if worker.error is not None:
                worker.end()
        return all(worker.turns >= goal for worker, goal in zip(workers, goals, strict=True))

    until(made, "the work goes on", LONG)


def _pauses(seconds: float) -> Callable[[], object]:
    """Before each key: so that calls meet every stage of a move."""
    return lambda: _PAUSE.wait(seconds)


def _drain(queue: Queue, qm: QueueManager | None = None) -> list[bytes]:
    bodies: list[bytes] = []
    while True:
        try:
            if qm is None:
                found = queue.receive_many(256, 0)
            else:
                with qm.transaction() as unit:
                    found = queue.receive_many(256, 0, transaction=unit)
        except IoTimeout:
            return bodies
        bodies += [message.body for message in found]


def _retries(cluster: Cluster) -> int:
    """How often a node said: not now, or not here."""
    total = 0
    for n in range(2):
        with cluster.client(n) as client:
            stats = client.info("errorstats")
        total += sum(
            int(row["count"])
            for name, row in stats.items()
            if name.removeprefix("errorstat_") in ("TRYAGAIN", "ASK", "MOVED")
        )
    return total
