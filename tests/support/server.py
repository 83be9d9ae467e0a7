"""A private redis-server for tests: started, stopped, killed and restarted at will.

Listens on a Unix socket in a folder of its own, so that nothing on the machine collides with it; ``tcp=True``
adds a port on 127.0.0.1. Data survive ``kill`` and ``restart`` only with ``aof=True``.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import redis

from mqredis import scripts
from mqredis.operations import libraries

# Names another server binary for the whole run: a path, or a name on PATH.
BINARY_VARIABLE = "MQREDIS_TEST_SERVER"
_START_SECONDS = 15.0
_STOP_SECONDS = 10.0
_SNAPSHOTS = "86400 1"
# sockaddr_un takes 108 bytes on Linux and 104 on macOS, the closing zero included.
_LONGEST_SOCKET_PATH = 103
# The function libraries of this release, before any test changes a script.
LIBRARIES = frozenset(library.title for library in scripts.libraries())


class ServerMissing(RuntimeError):
    """There is no redis-server to test with."""


def find_binary() -> str:
    """The server to test with: ``MQREDIS_TEST_SERVER``, else redis-server or valkey-server on PATH."""
    wanted = os.environ.get(BINARY_VARIABLE)
    for name in [wanted] if wanted else ["redis-server", "valkey-server"]:
        path = shutil.which(name)
        if path is not None:
            return path
    raise ServerMissing(
        f"{BINARY_VARIABLE} names {wanted!r}, which is not there."
        if wanted
        else "No redis-server on PATH. `make redis` installs one (Debian: apt-get install redis-server; "
        f"macOS: brew install redis); {BINARY_VARIABLE} names another."
    )


@cache
def server_version() -> tuple[int, ...]:
    """Release of that server: (6, 2, 16), or of Valkey (9, 1, 2). Valkey began with 7.2."""
    said = subprocess.run([find_binary(), "--version"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"\bv=(\d+(?:\.\d+)*)", said)
    if found is None:
        raise ServerMissing(f"{find_binary()} does not tell its version: {said!r}")
    return tuple(map(int, found[1].split(".")))


class RedisServer:
    """One server process. ``start`` it (or use ``with``); ``stop``, ``kill``, ``restart`` as the test needs.

    :param aof: keep an append-only file and sync it every second, as the broker asks of a real server.
    :param tcp: also listen on a free port of 127.0.0.1, for tests that need TCP (proxies, clusters).
    :param options: more settings of redis.conf; they win over ours. A value of several words is one string.
    """

    def __init__(
        self, *, aof: bool = False, tcp: bool = False, options: Mapping[str, str | int] | None = None
    ) -> None:
        self.directory = _short_directory()
        self.socket_path = self.directory / "redis.sock"
        self.log_path = self.directory / "redis.log"
        self.port = free_port(bus="cluster-enabled" in (options or {})) if tcp else 0
        self.options: dict[str, str] = {
            "port": str(self.port),
            "bind": "127.0.0.1",
            "unixsocket": str(self.socket_path),
            "unixsocketperm": "700",
            "dir": str(self.directory),
            # Snapshots, though none is ever due: a server that is set to keep nothing takes no recoverable messages.
            "save": "" if aof else _SNAPSHOTS,
            "appendonly": "yes" if aof else "no",
            "appendfsync": "everysec",
            "maxmemory-policy": "noeviction",
            "notify-keyspace-events": "Ks",
            **{name: str(value) for name, value in (options or {}).items()},
        }
        # More variables of its environment.
        self.environment: dict[str, str] = {}
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """URL of database 0 over the Unix socket."""
        return f"unix://{self.socket_path}?db=0"

    @property
    def tcp_url(self) -> str:
        """URL of database 0 over TCP; only with ``tcp=True``."""
        if not self.port:
            raise ValueError("this server was made without tcp=True")
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def pid(self) -> int:
        """The process, which must be running."""
        if self._process is None:
            raise ValueError("the server is not running")
        return self._process.pid

    @property
    def running(self) -> bool:
        """Is the process there?"""
        return self._process is not None and self._process.poll() is None

    def client(self, **options: Any) -> redis.Redis:
        """A plain client for looking behind the broker's back; the caller closes it."""
        return redis.Redis(unix_socket_path=str(self.socket_path), **options)

    def start(self) -> Self:
        """Start the process and return when it answers; its log is in the error when it does not."""
        if self.running:
            return self
        arguments = [part for name, value in self.options.items() for part in _option(name, value)]
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                [find_binary(), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **self.environment},
            )
        deadline = time.monotonic() + _START_SECONDS
        while not self._answers():
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(0.005)  # the pause between two tries, cut short when it dies
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise RuntimeError(f"redis-server did not start:\n{self.log()}")
        return self

    def stop(self) -> None:
        """End it in good order: what an append-only file holds is complete. No-op when not running."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """``kill -9``. No-op when not running."""
        self._end(signal.SIGKILL)

    def restart(self, *, kill: bool = False) -> None:
        """Stop (or kill) and start again, with the same folder, socket, port and ``options``."""
        self._end(signal.SIGKILL if kill else signal.SIGTERM)
        self.start()

    def close(self) -> None:
        """Stop it and remove its folder."""
        self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)

    def reset(self) -> None:
        """Empty it and put back the settings that tests like to change."""
        with self.client() as client:
            for name in ("maxmemory-policy", "notify-keyspace-events"):
                client.config_set(name, self.options[name])
            client.config_set("maxmemory", self.options.get("maxmemory", "0"))
            client.flushall()
            # FLUSHALL keeps functions: the doctor would report those of a test that had changed a script.
            known = LIBRARIES
            with contextlib.suppress(redis.ResponseError):  # before Redis 7
                for library in client.execute_command("FUNCTION", "LIST", "LIBRARYNAME", "mqredis_*"):
                    if (name := libraries.library_name(library)) not in known:
                        client.execute_command("FUNCTION", "DELETE", name)

    def log(self) -> str:
        """What the process has written so far."""
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _answers(self) -> bool:
        """Does it serve commands? (One that asks for a password does; one that loads its file does not.)"""
        try:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.settimeout(1)
                connection.connect(str(self.socket_path))
                connection.sendall(b"PING\r\n")
                return connection.recv(64).startswith((b"+PONG", b"-NOAUTH"))
        except OSError:
            return False

    def _end(self, how: signal.Signals) -> None:
        if self._process is None:
            return
        self._process.send_signal(how)
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:  # frozen, or deep in a script
            self._process.kill()
            self._process.wait()
        self._process = None
        self.socket_path.unlink(missing_ok=True)
        if self.options["save"] == _SNAPSHOTS:  # an orderly end has made one
            (self.directory / "dump.rdb").unlink(missing_ok=True)


def _option(name: str, value: str) -> list[str]:
    """One setting as arguments. Words are separate arguments; an empty value is an empty one."""
    return [f"--{name}", *(value.split() or [""])]


def _short_directory() -> Path:
    """A new private folder whose name leaves room for a socket."""
    path = Path(tempfile.mkdtemp(prefix="mq-"))
    if len(os.fsencode(path / "redis.sock")) > _LONGEST_SOCKET_PATH:
        path.rmdir()
        path = Path(tempfile.mkdtemp(prefix="mq-", dir="/tmp"))
    return path


def free_port(*, bus: bool = False) -> int:
    """A free port. ``bus``: the port 10,000 above is free, too, which a node of a cluster uses."""
    while True:
        with socket.socket() as probe, socket.socket() as above:
            probe.bind(("127.0.0.1", 0))
            port: int = probe.getsockname()[1]
            if not bus:
                return port
            with contextlib.suppress(OSError, OverflowError):
                above.bind(("127.0.0.1", port + 10_000))
                return port
