"""Set-up of the promotion check, and the error of a client whose promoted replica has no data."""

from __future__ import annotations

import socket

import pytest

import mqredis
from mqredis import ManagerNotFound
from tests.reliability import promotion_check
from tests.reliability.check import CHECKS, play
from tests.reliability.promotion_check import SETTINGS, ServerPair
from tests.support.relay import Relay
from tests.support.server import RedisServer


def test_promotion_check_waits_for_replication_of_the_manager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Over a slow link the creation of the manager may not be replicated yet when the check begins."""
    in_step, follow = ServerPair.in_step, ServerPair.follow

    def slow(servers: ServerPair) -> None:
        follow(servers)
        servers.relay.hold()

    def flow_then_wait(servers: ServerPair) -> None:
        servers.relay.flow()
        in_step(servers)

    monkeypatch.setattr(ServerPair, "follow", slow)
    monkeypatch.setattr(ServerPair, "in_step", flow_then_wait)
    line = play(CHECKS["promotion"], 4340118, 0.001, output=None)
    assert line["verdict"] == "pass", line.get("why")


def test_messages_of_an_earlier_writer_do_not_count_as_units(redis_server: RedisServer) -> None:
    """Messages that an earlier round left in one queue are no units of the next round."""
    with mqredis.connect(redis_server.url, settings=SETTINGS) as qm:
        for name in ("t", "u"):
            qm.create_queue(name, transactional=True)
        earlier = promotion_check.Writer(qm, "memory", set())
        earlier.commit()
        earlier.queues[0].purge()
        writer = promotion_check.Writer(qm, "memory", set(), first=100)
        writer.commit()
        assert writer.present() == {101: promotion_check.PARTS}
        assert qm.info().messages == 0


def test_relay_sends_nothing_after_a_gap() -> None:
    """Bytes after lost ones would be replicated as if nothing were missing."""
    with Relay() as relay, socket.create_server(("127.0.0.1", 0)) as upstream:
        relay.upstream = upstream.getsockname()[1]
        with socket.create_connection(("127.0.0.1", relay.port)) as replica:
            primary, _ = upstream.accept()
            with primary:
                relay.freeze(3)
                primary.sendall(b"abcdef")
                assert replica.recv(3, socket.MSG_WAITALL) == b"abc"
                relay._sockets.clear()  # as if the connections were cut too late
                relay.thaw()
                primary.sendall(b"ghi")
            assert replica.recv(1) == b""


def test_promoted_replica_without_the_manager_raises_and_creates_none() -> None:
    with promotion_check.server_pair() as servers:
        servers.relay.freeze(0)
        with mqredis.connect(servers.url, settings=SETTINGS) as qm:
            qm.create_queue("q")
            servers.fail_over()
            for _ in range(2):
                with pytest.raises(ManagerNotFound, match="has changed its incarnation"):
                    qm.queues()
            with servers.primary.client() as promoted:
                assert promoted.keys("*") == [b"sign"]
