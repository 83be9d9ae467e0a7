"""A primary, its replicas and the Sentinels that watch them, as processes on loopback."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

import redis

from tests.support.server import RedisServer, find_binary, free_port
from tests.support.until import until

NAME = "shop"


class SentinelGroup:
    """Two servers, of which the first is the primary, and three Sentinels. ``close`` ends them."""

    def __init__(self) -> None:
        self.servers = [
            RedisServer(aof=True, tcp=True, options={"repl-diskless-sync-delay": "0"}) for _ in range(2)
        ]
        self.servers[1].options["replicaof"] = f"127.0.0.1 {self.servers[0].port}"
        self.ports = [free_port() for _ in range(3)]
        self.directory = Path(tempfile.mkdtemp(prefix="mq-"))
        self.sentinels: list[subprocess.Popen[bytes]] = []

    @property
    def url(self) -> str:
        """What a client connects to."""
        return f"redis+sentinel://{','.join(f'127.0.0.1:{port}' for port in self.ports)}/{NAME}/0"

    def start(self) -> Self:
        """Start everything and return when the Sentinels know each other and the replica."""
        for server in self.servers:
            server.start()
        del self.servers[1].options["replicaof"]  # from now on Sentinel decides which server is the primary
        for port in self.ports:
            config = self.directory / f"{port}.conf"
            config.write_text(
                f"port {port}\nbind 127.0.0.1\ndir {self.directory}\n"
                f"sentinel monitor {NAME} 127.0.0.1 {self.servers[0].port} 2\n"
                f"sentinel down-after-milliseconds {NAME} 300\nsentinel failover-timeout {NAME} 3000\n"
            )
            self.sentinels.append(
                subprocess.Popen(
                    [find_binary(), str(config), "--sentinel"],
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                )
            )
        for port in self.ports:
            until(partial(self._complete, port), "the Sentinels know each other", 60)
        self.in_step()
        return self

    def _complete(self, port: int) -> bool:
        with redis.Redis(port=port) as sentinel:
            state = sentinel.sentinel_master(NAME)
            return bool(state["num-other-sentinels"] == 2 and state["num-slaves"] == 1)

    def named(self, port: int) -> int:
        """The port that the Sentinel at ``port`` names as the primary's."""
        with redis.Redis(port=port) as sentinel:
            return int(sentinel.sentinel_get_master_addr_by_name(NAME)[1])

    @property
    def primary(self) -> RedisServer:
        """The server that the first Sentinel names."""
        port = self.named(self.ports[0])
        return next(server for server in self.servers if server.port == port)

    def moved(self, old: RedisServer) -> None:
        """Return when every Sentinel names another primary than ``old``."""
        until(lambda: old.port not in [self.named(port) for port in self.ports], "a failover", 60)

    def in_step(self) -> None:
        """Return when the primary has a replica that has everything."""
        with self.primary.client() as client:
            client.set("sign", "1")
            until(lambda: client.execute_command("WAIT", 1, 100) == 1, "the replica follows", 60)

    def close(self) -> None:
        """End all processes."""
        for process in self.sentinels:
            process.kill()
            process.wait()
        for server in self.servers:
            server.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
