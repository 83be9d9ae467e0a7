"""Check: the primary dies behind a cut replication link and its replica is promoted, again and again."""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from collections.abc import Iterator

import mqredis
from mqredis import DurabilityNotReached, HistoryRolledBack, MqError, QueueManager, Settings
from tests.reliability.check import Run, check
from tests.support.relay import FakeSentinel, Relay
from tests.support.server import RedisServer

SETTINGS = Settings(
    lease_seconds=300, retry_seconds=60, retry_pause_seconds=0.005, retry_pause_max_seconds=0.05
)
# Half of the rounds ask for the memory of a replica, and give up soon: behind a frozen link nothing will come.
SURE = SETTINGS.model_copy(update={"durability_seconds": 0.05})
PARTS = 3
_PAUSE = threading.Event()


class ServerPair:
    """Two servers, of which one follows the other through a relay; the sentinel names the primary."""

    def __init__(self, relay: Relay, sentinel: FakeSentinel) -> None:
        options = {"repl-diskless-sync-delay": "0", "repl-diskless-sync": "yes"}
        self.servers = [RedisServer(tcp=True, options=options).start() for _ in range(2)]
        self.relay, self.sentinel = relay, sentinel
        self.first = 0
        self.follow()

    @property
    def primary(self) -> RedisServer:
        return self.servers[self.first]

    @property
    def url(self) -> str:
        return f"redis+sentinel://127.0.0.1:{self.sentinel.port}/shop/0"

    def follow(self) -> None:
        """The other server becomes a replica of the primary, and is in step."""
        self.relay.thaw()
        self.relay.upstream = self.sentinel.primary = self.primary.port
        with self.servers[1 - self.first].client() as replica:
            replica.execute_command("REPLICAOF", "127.0.0.1", self.relay.port)
        self.in_step()

    def in_step(self) -> None:
        """Return when the replica has all there is, and the stream flows.

        Twice, since the snapshot alone may bring what WAIT asks for the first time: a replica that confirms it before
        the process that wrote it is gone gets nothing more until it reports again, a second later.
        """
        confirmed = 0
        with self.primary.client() as primary:
            for _ in range(3000):  # as patient as any test: minutes, if nothing comes of it
                primary.set("sign", "1")
                confirmed = confirmed + 1 if primary.execute_command("WAIT", 1, 20) == 1 else 0
                if confirmed == 2:
                    return
                if not confirmed:
                    _PAUSE.wait(0.01)
        raise AssertionError("the replica does not follow")

    def fail_over(self) -> None:
        """Kill the primary and promote the replica."""
        self.primary.kill()
        self.relay.thaw()
        self.first = 1 - self.first
        with self.primary.client() as promoted:
            promoted.execute_command("REPLICAOF", "NO", "ONE")
        self.sentinel.primary = self.primary.port

    def rejoin(self) -> None:
        """Restart the killed server empty, as a replica."""
        self.servers[1 - self.first].start()
        self.follow()

    def close(self) -> None:
        for server in self.servers:
            server.close()


@contextlib.contextmanager
def server_pair() -> Iterator[ServerPair]:
    with Relay() as relay, FakeSentinel() as sentinel:
        servers = ServerPair(relay, sentinel)
        try:
            yield servers
        finally:
            servers.close()


class Writer:
    """Commits units of messages in two queues; remembers which were acknowledged, and every id that was issued.

    ``first``: units are numbered from the next number on.
    """

    def __init__(
        self, qm: QueueManager, level: str, ids: set[int], ballast: bytes = b"", first: int = 0
    ) -> None:
        self.qm, self.level, self.ids, self.ballast = qm, level, ids, ballast
        self.queues = [qm.open(name) for name in ("t", "u")]
        self.unit = self.first = first
        self.acknowledged: set[int] = set()

    def commit(self) -> None:
        """Commit one unit of work."""
        self.unit += 1
        body = b"%d" % self.unit + self.ballast
        unit = self.qm.transaction()
        for n in range(PARTS):
            sent = self.queues[n % 2].send(body, transaction=unit)
            if sent.lookup_id in self.ids:
                raise AssertionError(f"id {sent.lookup_id:#x} was issued twice")
            self.ids.add(sent.lookup_id)
        try:
            unit.commit(durability=self.level)
        except DurabilityNotReached:
            return  # it is done, but its level does not promise that it survives
        self.acknowledged.add(self.unit)

    def present(self) -> Counter[int]:
        """How many messages of each of its units there are; the queues are empty afterwards.

        Those of earlier writers do not count: their purge may be among what the server forgot, in one queue or in both.
        """
        found = Counter(int(message.body) for queue in self.queues for message in queue.browse())
        for queue in self.queues:
            queue.purge()
        return Counter({unit: count for unit, count in found.items() if unit > self.first})


@check(
    "promotion",
    "a replica behind a cut link is promoted: whole scripts only, rollback always reported, no id twice; with "
    "durability replica nothing acknowledged is lost",
)
def promotion(run: Run) -> None:
    """Freeze the link at any byte, go on for a while, kill the primary, promote the replica."""
    rounds, rng = run.size(300, 2), run.rng("promotion")
    ids: set[int] = set()
    with server_pair() as servers:
        with mqredis.connect(servers.url, settings=SETTINGS) as qm:
            for name in ("t", "u"):
                qm.create_queue(name, transactional=True)
        servers.in_step()  # what is frozen below is units of work, not the manager itself: that would just be gone
        for number in range(rounds):
            level = ("memory", "replica")[number % 2]
            with (
                mqredis.connect(servers.url, settings=SETTINGS if level == "memory" else SURE) as qm,
                mqredis.connect(servers.url, settings=SETTINGS) as other,
            ):
                writer = Writer(qm, level, ids)
                for _ in range(rng.randint(1, 10)):
                    writer.commit()
                servers.relay.freeze(rng.choice((0, rng.randint(0, 4000))))
                for _ in range(rng.randint(1, 12)):
                    writer.commit()
                other.info()
                servers.fail_over()
                _check(run, writer, other)
            servers.rejoin()
        run.counts.update({"promotions": rounds, "ids issued": len(ids)})


def _check(run: Run, writer: Writer, other: QueueManager) -> None:
    """Check the data of the promoted server, and that both clients learned of what is missing."""
    reports = [told(manager) for manager in (writer.qm, other)]
    report = other.doctor()
    if not report.healthy:
        raise AssertionError(f"the promoted server is torn: {report.findings[:3]}")
    present = writer.present()
    if torn := {unit: count for unit, count in present.items() if count != PARTS}:
        raise AssertionError(f"units of work are torn: {torn}")
    lost = writer.acknowledged - present.keys()
    run.add("acknowledged units", len(writer.acknowledged))
    run.add("acknowledged units lost at memory", len(lost))
    run.add("rollbacks reported", sum(reports))
    if lost and writer.level == "replica":
        raise AssertionError(f"a replica had acknowledged units {sorted(lost)}, and they are gone")
    if lost and not all(reports):
        raise AssertionError(f"{len(lost)} acknowledged units are lost, and clients were told so: {reports}")
    for _ in range(3):
        writer.level = "memory"
        writer.commit()  # checks that its ids are new ones
    writer.present()


def told(manager: QueueManager) -> bool:
    """Does the first call after the failover report a rollback? The second call works in any case."""
    known = manager.driver.core.history
    try:
        manager.info()
    except HistoryRolledBack as error:
        if error.details["known"] != known or error.details["found"] >= known:
            raise AssertionError(f"the report says {error.details}, {known} was known") from None
        manager.info()
        return True
    except MqError as error:
        raise AssertionError(f"after the failover: {type(error).__name__}: {error}") from error
    return False
