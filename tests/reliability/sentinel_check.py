"""Check: Sentinel replaces the primary, which comes back and takes writes until Sentinel makes it a replica."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import mqredis
from tests.reliability.check import Run, check
from tests.support.facade import Broker, LoopThread, connected
from tests.support.sentinel import SentinelGroup
from tests.support.server import RedisServer
from tests.support.until import until

SETTINGS: dict[str, Any] = {
    "retry_seconds": 60.0,
    "retry_pause_seconds": 0.005,
    "retry_pause_max_seconds": 0.05,
}
# Longer than a connection may rest before a blocking client looks whether it is still open, in seconds.
IDLE = 1.1
_PAUSE = threading.Event()


class Clients:
    """An idle client and a busy one of one interface, and what was acknowledged to them."""

    def __init__(self, name: str, connect: Callable[..., Any], url: str) -> None:
        self.name = name
        self.broker = Broker(partial(connect, url), "m")
        self.idle, self.busy = (self.broker.handle(**SETTINGS) for _ in range(2))
        self.sent: list[str] = []

    def send(self, queue: Any, text: str) -> None:
        """Send a message and note it when it was acknowledged."""
        queue.send(f"{self.name} {text}")
        self.sent.append(f"{self.name} {text}")


@check(
    "sentinel",
    "the primary is killed while clients are idle or busy, is replaced, and takes writes again before Sentinel "
    "makes it a replica: nothing acknowledged is lost, and no client goes back to it",
)
def sentinel(run: Run) -> None:
    """Each round kills the primary, restarts it behind the failover and sends from every client."""
    loop = LoopThread()
    with SentinelGroup() as group:
        with mqredis.connect(group.url, manager="m") as qm:
            qm.create_queue("q")
        clients = [
            Clients("blocking", mqredis.connect, group.url),
            Clients("asyncio", partial(connected, loop), group.url),
        ]
        try:
            for number in range(run.size(30)):
                old = _fail_over(group, clients, number)
                _compare(run, group, clients, old)
                _rejoin(group, old)
                run.add("failovers")
        finally:
            for each in clients:
                each.broker.close()
            loop.close()


def _fail_over(group: SentinelGroup, clients: list[Clients], number: int) -> RedisServer:
    for each in clients:
        for queue in (each.idle, each.busy):
            each.send(queue, f"{number} before")
    group.in_step()
    old = group.primary
    _PAUSE.wait(IDLE)
    old.kill()
    for each in clients:
        each.send(each.busy, f"{number} during")
    group.moved(old)
    old.start()
    with old.client() as client:
        if client.role()[0] != b"master":
            raise AssertionError("Sentinel was faster: the old primary is a replica already")
    for each in clients:
        for queue in (each.idle, each.busy):
            each.send(queue, f"{number} after")
    return old


def _compare(run: Run, group: SentinelGroup, clients: list[Clients], old: RedisServer) -> None:
    """Everything that was acknowledged is on the new primary, once, and nothing new on the old one."""
    with mqredis.connect(group.primary.tcp_url, manager="m") as qm, qm.open("q") as queue:
        found = sorted(str(message.text) for message in queue.browse())
        sent = sorted(text for each in clients for text in each.sent)
        if found != sent:
            raise AssertionError(f"acknowledged {sent}, found {found}")
        if not qm.doctor().healthy:
            raise AssertionError("the new primary is torn")
        queue.purge()
    with mqredis.connect(old.tcp_url, manager="m") as qm, qm.open("q") as queue:
        if any("before" not in str(message.text) for message in queue.browse()):
            raise AssertionError("a client went back to the old primary")
    run.add("acknowledged messages", len(sent))
    for each in clients:
        each.sent.clear()


def _rejoin(group: SentinelGroup, old: RedisServer) -> None:
    """Make the old primary a replica, as Sentinel would some seconds later."""
    with old.client() as client:
        client.execute_command("REPLICAOF", "127.0.0.1", group.primary.port)
        until(lambda: client.info("replication")["master_link_status"] == "up", "the old primary follows", 60)
    group.in_step()
