"""The stage of the promotion check, and what a client is told when the promoted replica has nothing at all."""

from __future__ import annotations

import socket

import pytest

import mqredis
from mqredis import ManagerNotFound
from tests.reliability import promotion_check
from tests.reliability.check import CHECKS, play
from tests.reliability.promotion_check import SETTINGS, Ring
from tests.support.relay import Relay
from tests.support.server import RedisServer


def test_what_the_bar_freezes_is_never_the_manager_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Open a queue. Over a slow link its creation may still be under way, so this waits for it."""
    in_step, follow = Ring.in_step, Ring.follow

    def slow(ring: Ring) -> None:
        follow(ring)
        ring.relay.hold()

    def patient(ring: Ring) -> None:
        ring.relay.flow()
        in_step(ring)

    monkeypatch.setattr(Ring, "follow", slow)
    monkeypatch.setattr(Ring, "in_step", patient)
    line = play(CHECKS["promotion"], 4340118, 0.001, output=None)
    assert line["verdict"] == "pass", line.get("why")


def test_a_purge_that_the_server_forgot_tears_no_unit(redis_server: RedisServer) -> None:
    """What an earlier round left in one of the two queues is none of the next round's units."""
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


def test_nothing_follows_a_gap_in_a_stream() -> None:
    """Bytes behind the lost ones would be replicated as if they came next."""
    with Relay() as relay, socket.create_server(("127.0.0.1", 0)) as upstream:
        relay.upstream = upstream.getsockname()[1]
        with socket.create_connection(("127.0.0.1", relay.port)) as replica:
            primary, _ = upstream.accept()
            with primary:
                relay.freeze(3)
                primary.sendall(b"abcdef")
                assert replica.recv(3, socket.MSG_WAITALL) == b"abc"
                relay._sockets.clear()  # as a cut that comes a moment too late
                relay.thaw()
                primary.sendall(b"ghi")
            assert replica.recv(1) == b""


def test_a_promoted_replica_that_never_had_the_manager_is_told_and_gets_no_new_one() -> None:
    with promotion_check.ring_of_two() as ring:
        ring.relay.freeze(0)
        with mqredis.connect(ring.url, settings=SETTINGS) as qm:
            qm.create_queue("q")
            ring.fail_over()
            for _ in range(2):
                with pytest.raises(ManagerNotFound, match="has changed its incarnation"):
                    qm.queues()
            with ring.primary.client() as promoted:
                assert promoted.keys("*") == [b"sign"]
