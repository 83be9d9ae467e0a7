"""Instructions that the server spends on a message, counted by callgrind: the same in each run.

    python -m bench.instructions [--shapes abcdef] [--beside COMMIT] [path/to/redis-server]

System calls do not count. ``--beside`` counts another commit of this repository too.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import redis

from bench import envs
from bench.messages import SHAPES, Shape
from tests.support.until import until

OPTIONS = ("--port", "0", "--save", "86400 1", "--hz", "1", "--notify-keyspace-events", "Ks")


# What a server is started with: it counts only while that is switched on.
_CALLGRIND = ("valgrind", "--tool=callgrind", "--instr-atstart=no")
_TOTAL = re.compile(r"^(?:summary|totals): (\d+)", re.MULTILINE)


class Server:
    """A redis-server under callgrind."""

    def __init__(self, binary: str) -> None:
        self._made = tempfile.TemporaryDirectory(prefix="mqredis-callgrind-")  # removed with the server
        self.folder = Path(self._made.name)
        self.socket = self.folder / "s"
        command = [*_CALLGRIND, f"--callgrind-out-file={self.folder}/out", binary, *OPTIONS]
        command += ["--unixsocket", str(self.socket), "--dir", str(self.folder)]
        quiet = subprocess.DEVNULL
        self.process = subprocess.Popen(command, stdout=quiet, stderr=quiet)
        self.client = redis.Redis(unix_socket_path=str(self.socket))
        until(lambda: self.socket.exists() and self.client.ping(), "the server answers", 60)

    def _control(self, *args: str) -> None:
        quiet = subprocess.DEVNULL
        command = ["callgrind_control", *args, str(self.process.pid)]
        subprocess.run(command, check=True, stdout=quiet, stderr=quiet)

    def instructions(self, work: Callable[[], object]) -> int:
        """The instructions of the server while ``work`` runs."""
        self._control("-i", "on")
        self._control("-z")
        work()
        seen = set(self.folder.glob("out*"))
        self._control("--dump")
        self._control("-i", "off")

        def total() -> int:
            self.client.ping()  # callgrind acts only when the server runs
            for path in set(self.folder.glob("out*")) - seen:
                if found := _TOTAL.search(path.read_text()):
                    return int(found[1])
            return 0

        return int(until(total, "callgrind answers", 60))

    def count(self, work: Callable[[], object], times: int, messages: int) -> float:
        """Thousands of instructions for each message of ``work``, which handles so many messages."""

        def repeat() -> None:
            for _ in range(times):
                work()

        for _ in range(3):
            work()
        return self.instructions(repeat) / times / messages / 1000


def measure(binary: str, shape: Shape) -> dict[str, float]:
    """Thousands of instructions for each message, by kind of work."""
    import mqredis
    from bench.peers.mqredis import Mqredis

    server = Server(binary)
    try:
        peer = Mqredis(f"unix://{server.socket}", shape.letter, 200)
        peer.open()
        peer.send_batch(0, 1_000, 100)  # below 128 messages Redis stores a queue in another form
        peer.fill_source(0, 300)
        held: list[mqredis.LockedMessage] = []
        number = iter(range(1_000, 1_000_000))

        def lock(size: int) -> None:
            held[:] = peer.queue.lock_many(size, 0, settle=held)

        works: tuple[tuple[str, Callable[[], object], int, int], ...] = (
            ("send", lambda: peer.send(next(number), 1), 200, 1),
            ("lock and settle", lambda: lock(1), 150, 1),
            ("send 100", lambda: peer.send_batch(next(number) * 100, 100, 100), 8, 100),
            ("lock and settle 100", lambda: lock(100), 6, 100),
            ("receive, send, commit", lambda: peer.transact(1), 100, 1),
        )
        return {name: server.count(work, times, messages) for name, work, times, messages in works}
    finally:
        server.process.kill()
        server.process.wait()


def _elsewhere(binary: str, letters: str, commit: str) -> dict[str, dict[str, float]]:
    """The counts of another commit, measured by a process that imports its mqredis."""
    command = [sys.executable, "-m", "bench.instructions", "--json", "--shapes", letters, binary]
    done = subprocess.run(
        command,
        env=envs.variables(envs.checkout(commit)),
        check=True,
        capture_output=True,
        text=True,
        cwd="/",
    )
    found: dict[str, dict[str, float]] = json.loads(done.stdout)
    return found


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("binary", nargs="?", default="redis-server")
    parser.add_argument("--shapes", default="abcdef")
    parser.add_argument("--beside", metavar="COMMIT")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = {letter: measure(options.binary, SHAPES[letter]) for letter in options.shapes}
    if options.json:
        print(json.dumps(found))
        return
    other = _elsewhere(options.binary, options.shapes, options.beside) if options.beside else {}
    print(f"| thousand instructions per message | {' | '.join(found)} |\n|---|{'---|' * len(found)}")
    for work in found[options.shapes[0]]:
        cells = [
            f"{row[work]:.0f}" + (f" ({row[work] / other[letter][work]:.2f})" if other else "")
            for letter, row in found.items()
        ]
        print(f"| {work} | {' | '.join(cells)} |")
    if other:
        print(f"\nIn brackets: the ratio to {options.beside}.")


if __name__ == "__main__":
    main()
