"""What the features cost those who do not use them: instructions per message of the shipped scripts, and of scripts
from which the hooks of the features are cut out. By callgrind, so the same in every run, however busy the machine is.

    python -m bench.features path/to/redis-server

Cut out are journals, dead letters, acknowledgements, expiry, delay, dedup keys, retry policies, purges of what is
locked, inhibited queues, groups with turns and identifiers; what is left sends, locks, takes and settles messages.
"""

# ruff: noqa: E501
from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import mqredis
from bench.instructions import Server
from bench.payload import BODY_BYTES, properties
from mqredis import scripts

#: File, what stands there, what stands there instead. A text that is not found is an error: then this list is to be
#: brought up to date.
CUTS: tuple[tuple[str, str, str], ...] = (
    ("send.lua", 'if queue.is(q, "p") then return refuse(status.PUT_INHIBITED) end\n', ""),
    ("send.lua", "if asked then\n  special.load()", "if false then\n  special.load()"),
    ("send.lua", "if asked then special.hold(q, entries) end\n", ""),
    ("core/enqueue.lua", "    if flag ~= 48 and flag ~= 104 then", "    if false then"),
    ("core/enqueue.lua", "    if exclusive then\n      rec = record.set_flag(rec, 1)\n      hooked = true\n    end\n", ""),
    ("core/position.lua", "    elseif not free and record.flag(e.rec, 1) then\n      fate", "    elseif false then\n      fate"),
    ("core/position.lua", "  return not frame.missing\nend\n\n-- Message Position Deleted", "  return true\nend\n\n--"),
    ("core/position.lua", '  local traced = reason == "receive" and queue.is(q, "j")\n', "  local traced\n"),
    ("core/position.lua", "    if e.keys ~= \"\" and (not e.rec or string.byte(e.rec, 14) ~= 48) then", "    if false then"),
    ("core/position.lua", 'local traced = reason == "poison" or (reason == "receive" and', "local traced = (false and"),
    ("core/position.lua", 'local turns = queue.is(q, "x")\n', "local turns = false\n"),
    ("core/settle.lua", '  position.may_leave(q, done.c, "receive")\n', ""),
    ("core/settle.lua", '  position.may_leave(q, done.j, "receive_rejected")\n', ""),
    ("core/settle.lua", '  position.may_leave(q, done.p, "queue_purged")\n', ""),
    ("core/settle.lua", ' and not queue.is(q, "j")\n', "\n"),
    ("receive.lua", 'if mode == "take" and not position.may_leave(q, entries, "receive") then return finish(frame.missing) end\n', ""),
    ("core/release.lua", '  return string.find(q.flags, "r", 1, true) and not', "  return false and not"),
)  # fmt: skip


def cut(folder: Path) -> Path:
    """A copy of the Lua sources without the hooks."""
    target = folder / "lua"
    shutil.copytree(scripts.root(), target)
    for name, text, instead in CUTS:
        source = (target / name).read_text()
        if text not in source:
            raise SystemExit(f"bench.features: {name} has no {text.strip()!r:.60} any more")
        (target / name).write_text(source.replace(text, instead))
    return target


def measure(server: Server) -> dict[str, float]:
    """Thousand instructions per message for each kind of work."""
    settings = mqredis.Settings.model_validate({"allow_volatile": True})
    results = {}
    with mqredis.connect(f"unix://{server.socket}", manager="features", settings=settings) as qm:
        qm.create_queue("plain")
        queue = qm.open("plain")
        held: list[mqredis.LockedMessage] = []

        def step(size: int) -> None:
            held[:] = queue.lock_many(size, 0, settle=held)

        batch = [mqredis.Outgoing(body=BODY_BYTES, properties=dict(properties(n))) for n in range(100)]
        kinds: tuple[tuple[str, Callable[[], object], int, int], ...] = (
            ("send", lambda: queue.send(batch[0]), 150, 1),
            ("receive", lambda: queue.receive(0), 100, 1),
            ("send 100", lambda: queue.send_many(batch), 8, 100),
            ("receive 100", lambda: queue.receive_many(100, 0), 3, 100),
            ("lock and settle 100", lambda: step(100), 2, 100),
            ("send 100 again", lambda: queue.send_many(batch), 4, 100),
            ("lock and settle", lambda: step(1), 100, 1),
        )
        for what, work, times, size in kinds:
            results[what] = server.count(work, times, size)
    del results["send 100 again"]  # only to have something to lock
    return results


def child(binary: str, bare: bool) -> dict[str, float]:
    """The same in a process of its own, which has its own scripts."""
    command = [sys.executable, "-m", "bench.features", binary, "--one", "bare" if bare else "shipped"]
    found = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    results: dict[str, float] = json.loads(found)
    return results


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("binary", nargs="?", default="redis-server")
    parser.add_argument("--one", choices=("bare", "shipped"), help="measure one kind of scripts, print JSON")
    arguments = parser.parse_args()
    if arguments.one:
        with tempfile.TemporaryDirectory(prefix="mqredis-bare-") as folder:
            if arguments.one == "bare":
                place = cut(Path(folder))
                scripts.root = lambda: place  # type: ignore[assignment]
            server = Server(arguments.binary)
            try:
                print(json.dumps(measure(server)))
            finally:
                server.process.kill()
        return
    bare, shipped = child(arguments.binary, True), child(arguments.binary, False)
    print(
        "| thousand instructions per message | without the features | shipped | they cost |\n|---|---|---|---|"
    )
    for what, least in bare.items():
        print(f"| {what} | {least:.1f} | {shipped[what]:.1f} | {shipped[what] / least - 1:+.1%} |")


if __name__ == "__main__":
    main()
