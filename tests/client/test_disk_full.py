"""A server that cannot write to its disk refuses writes (MISCONF); they are retried for ``retry_seconds``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest

from mqredis import BrokerUnavailable
from tests.support.facade import Broker
from tests.support.server import RedisServer, server_version
from tests.support.until import until

QUICK: dict[str, Any] = {"retry_pause_seconds": 0.005, "retry_pause_max_seconds": 0.05}


class Disk:
    """Breaks and repairs the disk of a server that only this test uses."""

    def __init__(self, server: RedisServer) -> None:
        self.server = server

    def fail_snapshot(self) -> None:
        """Let a snapshot fail; from then on the server refuses every write."""
        gone = self.server.directory / "gone"
        gone.mkdir()
        with self.server.client() as client:
            client.config_set("dir", str(gone))
            client.config_set("save", "3600 1")
            gone.rmdir()
            client.bgsave()
            until(lambda: client.info("persistence")["rdb_last_bgsave_status"] == "err")

    def save_snapshot(self) -> None:
        """Let a snapshot succeed, which ends the refusals."""
        with self.server.client() as client:
            client.config_set("dir", str(self.server.directory))
            client.save()

    def refused(self) -> int:
        """Number of commands refused so far."""
        with self.server.client() as client:
            return int(client.info("errorstats").get("errorstat_MISCONF", {}).get("count", 0))


@pytest.fixture
def disk(start_server: Callable[..., RedisServer]) -> Disk:
    # Redis 7 protects the setting ``dir``; older ones have no such protection.
    protected = {"enable-protected-configs": "yes"} if server_version() >= (7,) else {}
    return Disk(start_server(options=protected))


@pytest.fixture
def broker(disk: Disk, connect_either: Callable[..., Any]) -> Iterator[Broker]:
    made = Broker(partial(connect_either, disk.server.url), "m")
    made.qm.create_queue("q")
    yield made
    made.close()


def test_refused_call_takes_effect_once_after_the_repair(disk: Disk, broker: Broker) -> None:
    queue = broker.handle(retry_seconds=60, **QUICK)
    queue.send("first")
    disk.fail_snapshot()
    calls: list[Callable[[], object]] = [
        lambda: queue.send("second"),
        lambda: queue.send_many(["third", "fourth"]),
        lambda: queue.receive(0),
    ]
    with ThreadPoolExecutor(len(calls)) as pool:
        for call in calls:
            refused = disk.refused()
            going = pool.submit(call)
            until(lambda before=refused, going=going: going.done() or disk.refused() > before + 1)  # type: ignore[misc]
            disk.save_snapshot()
            going.result(30)
            disk.fail_snapshot()
        disk.save_snapshot()
    assert [message.text for message in queue.browse()] == ["second", "third", "fourth"]


def test_refused_call_fails_after_retry_seconds(disk: Disk, broker: Broker) -> None:
    queue = broker.handle(retry_seconds=0.3, **QUICK)
    disk.fail_snapshot()
    with pytest.raises(BrokerUnavailable, match="MISCONF"):
        queue.send("never")
    assert disk.refused() > 1
    disk.save_snapshot()
    assert queue.send("once").lookup_id
    assert [message.text for message in queue.browse()] == ["once"]


def test_client_that_connects_while_writes_are_refused_waits_for_the_repair(
    disk: Disk, broker: Broker
) -> None:
    disk.fail_snapshot()
    before = disk.refused()
    with ThreadPoolExecutor(1) as pool:
        sending = pool.submit(lambda: broker.handle(retry_seconds=60, **QUICK).send("late"))
        until(lambda: sending.done() or disk.refused() > before + 1)
        disk.save_snapshot()
        sending.result(30)
    assert [message.text for message in broker.qm.open("q").browse()] == ["late"]
