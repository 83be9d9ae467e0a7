"""Where the server's instructions of a call go, by command and in Lua: thousands for a message, by callgrind.

    python -m bench.commands path/to/redis-server

The server must have symbols (built with ``-g``): the costs of functions are told by their names.
"""

from __future__ import annotations

import argparse
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import mqredis
from bench.instructions import Server
from bench.payload import BODY_BYTES, properties

#: What carries out a command is a function of Redis with this end to its name, as FCALL is, and two that do so for all.
_COMMAND = re.compile(r"^(?!fcall|process|lookup)([a-z]+)Command$")
#: ``fn=(7) name`` and ``cfn=(7) name``: the name stands where the number comes first.
_NAMED = re.compile(r"^(c?fn)=\((\d+)\)(?: (.*))?$")
#: What runs a script, and by which way Lua calls the commands.
RUNS, CALLS = "fcallCommand", "luaRedisGenericCommand"
#: Instructions for a message below which a command is not told.
LEAST = 200
#: Told by themselves beside the commands; everything inside them counts.
OTHERS = {"luaC_step": "the collector"}
ALL = "in all"


def inclusive(text: str) -> dict[str, int]:
    """What each function cost with all it called, by name: the sum of the calls from other functions."""
    names: dict[str, str] = {}
    found: Counter[str] = Counter()
    caller = callee = ""
    lines = iter(text.splitlines())
    for line in lines:
        if named := _NAMED.match(line):
            kind, number, name = named.groups()
            name = names.setdefault(number, (name or "").partition("'")[0])
            if kind == "fn":
                caller = name
            else:
                callee = name
        elif line.startswith("calls="):
            cost = int(next(lines).split()[-1])
            if callee != caller:
                found[callee] += cost
    return dict(found)


def profile(server: Server, work: Callable[[], object], times: int, messages: int) -> dict[str, float]:
    """Thousands of instructions for a message: each command inside the script, and the parts that are none."""

    def repeat() -> None:
        for _ in range(times):
            work()

    for _ in range(3):
        work()
    whole = server.instructions(repeat, server.client.ping)
    costs = inclusive(server.dump.read_text())
    commands = {
        found[1].upper(): cost
        for name, cost in costs.items()
        if (found := _COMMAND.match(name)) and cost >= LEAST * times * messages
    }
    script = costs[RUNS]
    inside = costs[CALLS]
    others = {what: costs.get(name, 0) for name, what in OTHERS.items()}
    parts = {
        "outside of the script: reading, looking up, writing": whole - script,
        **commands,
        "the way from Lua to the commands and back": inside - sum(commands.values()),
        **others,
        "Lua, and bringing keys and arguments into it": script - inside - sum(others.values()),
        ALL: whole,
    }
    return {what: cost / times / messages / 1000 for what, cost in parts.items()}


def measure(server: Server) -> dict[str, dict[str, float]]:
    """The plainest calls, on a queue of a thousand messages without identifiers."""
    settings = mqredis.Settings.model_validate({"allow_volatile": True})
    with mqredis.connect(f"unix://{server.socket}", settings=settings) as qm:
        qm.create_queue("q")
        queue = qm.open("q")
        held: list[mqredis.LockedMessage] = []
        batch = [mqredis.Outgoing(body=BODY_BYTES, properties=dict(properties(n))) for n in range(100)]
        for _ in range(10):
            queue.send_many(batch)

        def step(size: int) -> None:
            held[:] = queue.lock_many(size, 0, settle=held)

        for name in ("from", "to"):
            qm.create_queue(name, transactional=True)
        source, target = qm.open("from"), qm.open("to")
        with qm.transaction() as unit:
            for queue_ in (source, target):  # long enough for Redis to keep them as it keeps long ones
                queue_.send_many([*batch, *batch], transaction=unit)

        def forward() -> None:
            with qm.transaction() as unit:
                source.receive(0, transaction=unit)
                target.send(batch[0], transaction=unit)

        kinds: tuple[tuple[str, Callable[[], object], int, int], ...] = (
            ("send", lambda: queue.send(batch[0]), 200, 1),
            ("lock and settle", lambda: step(1), 150, 1),
            ("receive", lambda: queue.receive(0), 150, 1),
            ("send 100", lambda: queue.send_many(batch), 8, 100),
            ("lock and settle 100", lambda: step(100), 5, 100),
            ("receive, send and commit", forward, 100, 1),
        )
        return {name: profile(server, work, times, size) for name, work, times, size in kinds}


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("binary", type=Path)
    server = Server(str(parser.parse_args().binary))
    try:
        columns = measure(server)
    finally:
        server.process.kill()
    rows = dict.fromkeys(what for column in columns.values() for what in column)
    print(f"| thousand instructions per message | {' | '.join(columns)} |\n|---|{'---|' * len(columns)}")
    for what in sorted(rows, key=lambda what: (what == ALL, not what.isupper(), what)):
        cells = (f"{column[what]:.1f}" if what in column else "" for column in columns.values())
        print(f"| {what} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
