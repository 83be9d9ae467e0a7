"""A server that returns with fewer changes: exactly the clients that knew more get an error, whatever was done
since."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import mqredis
import mqredis.asyncio
from mqredis import HistoryRolledBack, QueueManager, Settings
from tests.support.cluster import Cluster
from tests.support.server import RedisServer

Start = Callable[..., RedisServer]
SETTINGS = Settings(retry_seconds=60, retry_pause_seconds=0.005, retry_pause_max_seconds=0.05)


@pytest.fixture
def server(start_server: Start) -> RedisServer:
    """Comes back with its last snapshot."""
    return start_server(options={"save": "86400 2"})


def snapshot(server: RedisServer) -> None:
    with server.client() as raw:
        raw.save()


def again(server: RedisServer) -> None:
    server.restart(kill=True)


def connect(server: RedisServer) -> QueueManager:
    return mqredis.connect(server.url, settings=SETTINGS)


@pytest.mark.parametrize("since", [0, 1, 7])
def test_one_lost_change_is_told_however_much_others_have_done_since(server: RedisServer, since: int) -> None:
    with connect(server) as knows, connect(server) as other:
        knows.create_queue("q")
        other.info()
        snapshot(server)
        knows.open("q").send(b"lost", recoverable=False)
        again(server)
        with other.open("q") as q:  # knows nothing that is gone
            for _ in range(since):
                q.send(b"new")
        with pytest.raises(HistoryRolledBack) as told:
            knows.info()
        assert told.value.details["found"] < told.value.details["known"]
        assert knows.info().messages == since  # told once


def test_nobody_is_told_of_a_restart_that_loses_nothing(server: RedisServer) -> None:
    with connect(server) as one, connect(server) as two:
        one.create_queue("q")
        for _ in range(3):
            one.open("q").send(b"x")
            two.info()
            snapshot(server)
            again(server)
            assert two.info().messages == one.info().messages


def test_a_loss_behind_other_restarts(server: RedisServer) -> None:
    with connect(server) as sleeper, connect(server) as other:
        sleeper.create_queue("q")
        snapshot(server)
        with sleeper.open("q") as q:
            q.send(b"lost")
        again(server)
        for _ in range(3):  # the server goes on, and restarts without loss
            with connect(server) as third, third.open("q") as q:
                q.send(b"new")
            snapshot(server)
            again(server)
        with pytest.raises(HistoryRolledBack):
            sleeper.info()
        other.info()
        assert sleeper.info().messages == 3


def test_ids_of_a_recovery_that_is_lost_too(server: RedisServer) -> None:
    with connect(server) as qm:
        qm.create_queue("q")
    snapshot(server)
    issued = []
    for _ in range(2):  # comes back with the snapshot, and forgets the second time that it has come back
        again(server)
        with connect(server) as qm, qm.open("q") as q:
            issued.append(q.send(b"x", recoverable=False).lookup_id)
    assert issued[0] != issued[1]


async def test_for_tasks(server: RedisServer) -> None:
    async with mqredis.asyncio.connect(server.url, settings=SETTINGS) as knows:
        await knows.create_queue("q")
        snapshot(server)
        await (await knows.open("q")).send(b"lost")
        again(server)
        with connect(server) as other, other.open("q") as q:
            q.send(b"new")
        with pytest.raises(HistoryRolledBack):
            await knows.info()
        assert (await knows.info()).messages == 1


@pytest.fixture
def cluster(start_server: Start) -> Cluster:
    return Cluster(start_server)


class Moving:
    """The slot of a queue manager, and a second client, which is the first one at each new node."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster, self.slot, self.owner = cluster, cluster.slot("m"), cluster.owner("m")

    def move(self) -> None:
        """Move the slot to the other node."""
        self.cluster.move(self.slot, self.owner, 1 - self.owner)
        self.owner = 1 - self.owner

    def visit(self) -> None:
        """Open a session at the owner."""
        url = f"redis+cluster://127.0.0.1:{self.cluster.nodes[self.owner].port}"
        with mqredis.connect(url, manager="m", settings=SETTINGS) as visitor:
            assert visitor.info().queues == 1

    def asked(self, act: Callable[[], object]) -> None:
        """Act while the former owner has not heard yet that the move is over, so it answers ASK."""
        former, ids = self.cluster.client(1 - self.owner), self.cluster.ids
        for _ in range(100):  # it hears that at some time in each second
            before = former.info("errorstats").get("errorstat_ASK")
            former.execute_command("CLUSTER", "SETSLOT", self.slot, "NODE", ids[1 - self.owner])
            former.execute_command("CLUSTER", "SETSLOT", self.slot, "MIGRATING", ids[self.owner])
            act()
            if former.info("errorstats").get("errorstat_ASK") != before:
                return
        raise AssertionError("the former owner never answered ASK")


def test_nobody_is_told_of_a_loss_because_a_slot_moves(cluster: Cluster) -> None:
    moving = Moving(cluster)
    with mqredis.connect(cluster.url, manager="m", settings=SETTINGS) as qm:
        qm.create_queue("q")
        with qm.open("q") as q:
            moving.move()
            moving.visit()
            moving.asked(lambda: [q.send(b"x") for _ in range(3)])
            with cluster.client(moving.owner) as raw:  # no call passed for one of the former owner
                assert raw.hget("mq:{m}:meta", "run_id").decode() == raw.info("server")["run_id"]
            cluster.finish(moving.slot, moving.owner)
            assert qm.info().messages % 3 == 0


def test_nobody_is_told_of_a_loss_because_a_slot_moves_there_and_back(cluster: Cluster) -> None:
    moving = Moving(cluster)
    with mqredis.connect(cluster.url, manager="m", settings=SETTINGS) as qm:
        qm.create_queue("q")
        with qm.open("q") as q:
            moving.move()
            moving.visit()
            moving.asked(lambda: q.send(b"x"))
            cluster.finish(moving.slot, moving.owner)
            moving.move()  # back, before this client was at the other node
            q.send(b"y")
            moving.move()
            moving.visit()
            assert qm.info().messages
