"""A server that returns with fewer changes: exactly the clients that knew more get an error, whatever was done
since."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import mqredis
import mqredis.asyncio
from mqredis import HistoryRolledBack, QueueManager, Settings
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
