"""The guard of an embedded server: a program of its own, with the standard library only.

``mqredis.embedded`` starts it, as a process that outlives the one that has started it.

    python -I -S guard.py DIRECTORY SERVER SOCKET

Runs the server as its child, starts it again when it dies, and ends it when no process holds the lock on ``users`` any
more, however those processes ended.

A guard of an earlier release may go on after an upgrade, as long as processes use it: so names and locks of the files
stay as they are, and new OPTIONS hold when the server is next started.

Change together with: ``mqredis/embedded.py``, which describes the files of the directory and names them again, since
this program imports nothing of mqredis. The doctor must not warn of OPTIONS (``tests/doctor/test_advice.py``).
"""

import fcntl
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

# A server that dies sooner, in seconds, and so many times in a row, is given up.
SHORT_LIFE = 2.0
MAX_DEATHS = 5

OPTIONS = (
    "--port", "0",
    "--unixsocketperm", "700",
    "--appendonly", "yes",
    "--appendfsync", "everysec",
    "--save", "",
    "--maxmemory-policy", "noeviction",
    "--notify-keyspace-events", "Ks",
    "--daemonize", "no",
)  # fmt: skip


def main(directory: str, server: str, address: str) -> int:
    """Guard the server until no process uses it."""
    os.chdir(directory)
    guard = os.open("guard", os.O_WRONLY | os.O_CREAT, 0o600)
    fcntl.flock(guard, fcntl.LOCK_EX)
    users = os.open("users", os.O_WRONLY | os.O_CREAT, 0o600)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    leaving = threading.Event()
    child = [start(server, directory, address)]
    turn = threading.Lock()

    def watch() -> None:
        fcntl.flock(users, fcntl.LOCK_EX)  # granted when no process uses the server any more
        end()

    def end(*_: object) -> None:
        leaving.set()
        with turn:
            child[0].terminate()

    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=end).start())
    threading.Thread(target=watch, daemon=True).start()
    deaths = 0
    while True:
        began = time.monotonic()
        code = child[0].wait()
        if leaving.is_set():
            break
        deaths = deaths + 1 if time.monotonic() - began < SHORT_LIFE else 1
        print(f"guard: the server ended with {code}", flush=True)  # noqa: T201 - this goes to server.log
        if deaths >= MAX_DEATHS:
            return 1
        with turn:
            if leaving.is_set():
                break
            child[0] = start(server, directory, address)
    Path(address).unlink(missing_ok=True)
    # Before the process ends and with it the lock on users: the next process must not take this guard for alive.
    os.close(guard)
    return 0


def start(server: str, directory: str, address: str) -> "subprocess.Popen[bytes]":
    """Start the server as a child process, without this process's locks."""
    return subprocess.Popen(  # noqa: S603 - what embedded.py found
        [server, "--unixsocket", address, "--dir", directory, *OPTIONS]
    )


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
