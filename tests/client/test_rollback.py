"""A server that restarts with older data: exactly the clients that had seen newer data get an error, whatever was
done since."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import mqredis
import mqredis.asyncio
from mqredis import HistoryRolledBack, QueueManager, Settings
from tests.support.cluster import Cluster
from tests.support.counts import set_count
from tests.support.server import RedisServer

Start = Callable[..., RedisServer]
SETTINGS = Settings(retry_seconds=60, retry_pause_seconds=0.005, retry_pause_max_seconds=0.05)


@pytest.fixture
def server(start_server: Start) -> RedisServer:
    """A server that restarts with its last snapshot."""
    return start_server(options={"save": "86400 2"})


def snapshot(server: RedisServer) -> None:
    with server.client() as raw:
        raw.save()


def again(server: RedisServer) -> None:
    server.restart(kill=True)


def connect(server: RedisServer) -> QueueManager:
    return mqredis.connect(server.url, settings=SETTINGS)


@pytest.mark.parametrize("since", [0, 1, 7])
def test_lost_change_is_reported_once_whatever_others_did_since(
    connect_either: Callable[..., Any], server: RedisServer, since: int
) -> None:
    with connect_either(server.url, settings=SETTINGS) as knows, connect(server) as other:
        knows.create_queue("q")
        other.info()
        snapshot(server)
        knows.open("q").send(b"lost", recoverable=False)
        again(server)
        with other.open("q") as q:  # has seen nothing of what was lost
            for _ in range(since):
                q.send(b"new")
        with pytest.raises(HistoryRolledBack) as raised:
            knows.info()
        assert raised.value.details["found"] < raised.value.details["known"]
        assert knows.info().messages == since  # reported once


def test_single_lost_change_is_reported_although_idle_sessions_have_ended(
    server: RedisServer,
) -> None:
    """The first call after the restart ends them, which must not count as a change of before the restart."""
    settings = SETTINGS.model_copy(update={"test_clock": True, "session_ttl_seconds": 60})
    idle = mqredis.connect(server.url, settings=settings)
    with mqredis.connect(server.url, settings=settings) as knows, connect(server) as other, idle:
        knows.create_queue("q")
        idle.info()
        knows.advance_clock(600)
        other.info()
        q = knows.open("q")
        snapshot(server)
        q.send(b"lost", recoverable=False)
        again(server)
        other.info()
        with pytest.raises(HistoryRolledBack):
            knows.info()


def test_ids_of_lost_messages_are_not_reissued_by_a_client_whose_session_is_lost(server: RedisServer) -> None:
    with connect(server) as first:
        first.create_queue("q")
        snapshot(server)
        with connect(server) as later, later.open("q") as q:
            lost = q.send(b"lost", recoverable=False)
            again(server)
            with pytest.raises(HistoryRolledBack):
                later.info()
            assert q.send(b"new").lookup_id > lost.lookup_id


def test_restart_without_loss_is_not_reported(server: RedisServer) -> None:
    with connect(server) as one, connect(server) as two:
        one.create_queue("q")
        for _ in range(3):
            one.open("q").send(b"x")
            two.info()
            snapshot(server)
            again(server)
            assert two.info().messages == one.info().messages


def test_loss_is_reported_after_later_restarts_without_loss(server: RedisServer) -> None:
    with connect(server) as sleeper, connect(server) as other:
        sleeper.create_queue("q")
        snapshot(server)
        with sleeper.open("q") as q:
            q.send(b"lost")
        again(server)
        for _ in range(3):  # more changes, each followed by a restart without loss
            with connect(server) as third, third.open("q") as q:
                q.send(b"new")
            snapshot(server)
            again(server)
        with pytest.raises(HistoryRolledBack):
            sleeper.info()
        other.info()
        assert sleeper.info().messages == 3


def test_ids_are_not_reissued_if_the_recovery_itself_is_lost(server: RedisServer) -> None:
    with connect(server) as qm:
        qm.create_queue("q")
    snapshot(server)
    issued = []
    for _ in range(2):  # the second restart also loses the record of the first
        again(server)
        with connect(server) as qm, qm.open("q") as q:
            issued.append(q.send(b"x", recoverable=False).lookup_id)
    assert issued[0] != issued[1]


def test_ids_after_a_restart_are_later_than_earlier_ones_that_are_ahead_of_the_clock(
    redis_server: RedisServer,
) -> None:
    ids = []
    with redis_server.client() as raw:
        for is_first in (True, False):
            with mqredis.connect(redis_server.url, settings=Settings(allow_volatile=True)) as qm:
                if is_first:
                    qm.create_queue("q")
                    set_count(raw, "mq:{default}:meta", "seq", 1 << 50)
                ids.append(qm.open("q").send(b"x").lookup_id)
            raw.hset("mq:{default}:meta", "run_id", "former process")
    assert ids[0] < ids[1]


def test_the_last_64_restarts_are_remembered(redis_server: RedisServer) -> None:
    meta, began = "mq:{default}:meta", []
    with redis_server.client() as raw:
        for number in range(66):
            if number:
                raw.hset(meta, "run_id", f"former process {number}")
            with mqredis.connect(redis_server.url, settings=Settings(allow_volatile=True)) as qm:
                qm.info()
            began.append((raw.hget(meta, "terms") or b"").split(b" "))
    newest = [terms[-1] for terms in began]
    assert began[64] == newest[1:65]
    assert began[65] == newest[2:66]
    assert len(set(newest)) == 66


@pytest.fixture
def cluster(start_server: Start) -> Cluster:
    return Cluster(start_server)


class SlotMigration:
    """The slot of a queue manager, moved between nodes, and a second client that is the first at each new node."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster, self.slot, self.owner = cluster, cluster.slot("m"), cluster.owner("m")

    def move(self) -> None:
        """Move the slot to the other node."""
        self.cluster.move(self.slot, self.owner, 1 - self.owner)
        self.owner = 1 - self.owner

    def visit(self) -> None:
        """Open a session at the slot's owner."""
        url = f"redis+cluster://127.0.0.1:{self.cluster.nodes[self.owner].port}"
        with mqredis.connect(url, manager="m", settings=SETTINGS) as visitor:
            assert visitor.info().queues == 1

    def with_ask_redirection(self, act: Callable[[], object]) -> None:
        """Call ``act`` while the former owner does not know yet that the move is complete, so that it answers ASK."""
        former, ids = self.cluster.client(1 - self.owner), self.cluster.ids
        for _ in range(100):  # it learns that at some time in each second
            before = former.info("errorstats").get("errorstat_ASK")
            former.execute_command("CLUSTER", "SETSLOT", self.slot, "NODE", ids[1 - self.owner])
            former.execute_command("CLUSTER", "SETSLOT", self.slot, "MIGRATING", ids[self.owner])
            act()
            if former.info("errorstats").get("errorstat_ASK") != before:
                return
        raise AssertionError("the former owner never answered ASK")


def test_slot_migration_is_not_reported_as_a_loss(cluster: Cluster) -> None:
    moving = SlotMigration(cluster)
    with mqredis.connect(cluster.url, manager="m", settings=SETTINGS) as qm:
        qm.create_queue("q")
        with qm.open("q") as q:
            moving.move()
            moving.visit()
            moving.with_ask_redirection(lambda: [q.send(b"x") for _ in range(3)])
            with cluster.client(moving.owner) as raw:  # no call was taken for one of the former owner
                assert raw.hget("mq:{m}:meta", "run_id").decode() == raw.info("server")["run_id"]
            cluster.finish(moving.slot, moving.owner)
            assert qm.info().messages % 3 == 0


def test_slot_migration_there_and_back_is_not_reported_as_a_loss(cluster: Cluster) -> None:
    moving = SlotMigration(cluster)
    with mqredis.connect(cluster.url, manager="m", settings=SETTINGS) as qm:
        qm.create_queue("q")
        with qm.open("q") as q:
            moving.move()
            moving.visit()
            moving.with_ask_redirection(lambda: q.send(b"x"))
            cluster.finish(moving.slot, moving.owner)
            moving.move()  # back, before this client has used the other node
            q.send(b"y")
            moving.move()
            moving.visit()
            assert qm.info().messages


def test_client_that_was_idle_while_the_slot_went_there_and_back_goes_on(cluster: Cluster) -> None:
    moving = SlotMigration(cluster)
    with mqredis.connect(cluster.url, manager="m", settings=SETTINGS) as qm:
        qm.create_queue("q")
        with qm.open("q") as q:
            first = q.send(b"a")
            lock = q.lock(0)
            moving.move()
            moving.visit()
            cluster.finish(moving.slot, moving.owner)
            moving.move()
            cluster.finish(moving.slot, moving.owner)
            second = q.send(b"b")
            assert second.lookup_id > first.lookup_id
            lock.commit()
            assert [message.body for message in q.browse()] == [b"b"]
            assert qm.doctor().findings == ()
