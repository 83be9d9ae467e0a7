"""A plain send runs the Lua functions that docs/architecture.md describes, and few lines.

The bundle runs in a Lua interpreter outside the server, whose debug hooks report each line; its commands go to a real
server.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import mqredis
from mqredis import Settings, scripts
from tests.support.server import RedisServer

lua51 = pytest.importorskip("lupa.lua51")

DOC = Path(__file__).parents[2] / "docs" / "architecture.md"
# The limits for Lua lines and files, from the first line of the script to its last write.
MOST_LINES, MOST_FILES = 150, 5


def run_traced(
    name: str, keys: list[bytes], calls: list[list[bytes]], raw: Any
) -> tuple[list[tuple[str, int]], list[str]]:
    """Call a script as a function library does, once with each list of arguments.

    Returns the distinct lines that the last call ran (without lines that are only ``end``), and the functions that it
    entered.
    """
    script = scripts.get(name)
    lua = lua51.LuaRuntime(encoding=None, unpack_returned_tuples=True)
    ran: dict[int, None] = {}
    entered: dict[int, None] = {}

    def call(*words: Any) -> Any:
        reply = raw.execute_command(*words)
        if isinstance(reply, list | tuple):
            return lua.table_from([False if item is None else item for item in reply])
        if isinstance(reply, dict):
            raise TypeError("the raw client must not convert replies")
        return False if reply is None else reply

    lines = script.text.split("\n")
    own = next(n for n, (file, number, _) in enumerate(script.joined) if file == f"lua/{name}.lua" and number)
    lines[own] = "return function() " + lines[own]
    lines[-1] += " end"
    hook = lua.eval(
        b"""function(ran, entered, text, call, keys, calls)
          redis, KEYS = { call = call, pcall = call }, keys
          local function hook(event, line)
            local info = debug.getinfo(2, "S")
            if info.source ~= "=bundle" then return end
            if event == "line" then ran(line) else entered(info.linedefined) end
          end
          local run, reply = assert(loadstring(text, "=bundle"))(), nil
          for n = 1, #calls do
            ARGV = calls[n]
            if n == #calls then debug.sethook(hook, "lc") end
            reply = run()
            debug.sethook()
            assert(reply[1] == 0)
          end
        end"""
    )
    text = "\n".join(lines).encode()
    arguments = lua.table_from([lua.table_from(args) for args in calls])
    hook(
        ran.setdefault,
        entered.setdefault,
        text,
        call,
        lua.table_from(keys),
        arguments,
    )
    places = [line[:2] for line in script.joined]
    functions = [re.match(r"\s*(?:local )?function ([\w.]+)", lines[n - 1]) for n in entered]
    return [places[n - 1] for n in ran if lines[n - 1].strip() != "end"], [
        found[1] for found in functions if found
    ]


@pytest.fixture
def plain_send(redis_server: RedisServer) -> tuple[list[tuple[str, int]], list[str]]:
    settings = Settings(functions="off")
    with (
        redis_server.client() as raw,
        mqredis.connect(redis_server.url, manager="path", settings=settings) as qm,
    ):
        qm.create_queue("tea")
        qm.open("tea").send(b"before")
        for command in ("TIME", "HMGET", "HSET", "ZADD"):
            raw.response_callbacks.pop(command, None)
        meta = raw.hgetall(b"mq:{path}:meta")
        slot = next(name for name in meta if b"." in name)
        sequence = int(meta[slot].split(b" ")[0]) + 1
        generation = raw.hget("mq:{path}:q:tea:q", "generation")
        parts = [f"mq:{{path}}:q:tea:{part}".encode() for part in "qalmstwi"]
        keys = [b"mq:{path}:meta", b"mq:{path}:txs", *parts]
        calls = [[slot, b"%d" % (sequence + n), generation, b"", b"", b"3", b"0\0hello"] for n in range(2)]
        found = run_traced("send", keys, calls, raw)
        assert raw.zcard(keys[3]) == 3
        return found


def test_plain_send_stays_within_the_line_and_file_limits(
    plain_send: tuple[list[tuple[str, int]], list[str]],
) -> None:
    lines = Counter(file for file, _ in plain_send[0])
    print(lines, sum(lines.values()))
    assert sum(lines.values()) <= MOST_LINES, lines
    assert len(lines) <= MOST_FILES, lines


def test_plain_send_enters_the_documented_functions(
    plain_send: tuple[list[tuple[str, int]], list[str]],
) -> None:
    told = re.search(r"<!-- functions of a plain send -->(.*?)\n\n", DOC.read_text(), re.DOTALL)
    assert told is not None
    named = re.findall(r"`((?:context|queue|enqueue|store)\.\w+|finish)`", told[1])
    assert plain_send[1] == named
