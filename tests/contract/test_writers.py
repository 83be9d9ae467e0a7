"""Messages and counters are written only by lua/core/store.lua and by the modules in EXCEPTIONS."""

from __future__ import annotations

import re

import pytest
import redis

import mqredis
from mqredis import Settings, scripts
from mqredis.lua_files import Line
from mqredis.scripts import Script
from tests.contract.scenario import everything
from tests.support.server import RedisServer

# The key under which the scripts of this test record their writes.
NOTES = "writers"
# Wraps the commands of a bundle. A command that core/chunked runs is recorded for the module that called it.
RECORDER = """local asked
local writes = {HSET=1, HDEL=1, HINCRBY=1, ZADD=1, ZREM=1, ZREMRANGEBYRANK=1, ZREMRANGEBYLEX=1, DEL=1, UNLINK=1}
local function asking(module, first) asked = module return first end
local function recorded(module, name, ...)
  if writes[name] then
    local words = {...}
    if module == "core/chunked" then module = asked end
    local part = string.match(words[1], "([^:]*)$")
    local several = name == "UNLINK" or name == "DEL"
    for n = several and 1 or 2, (several or part == "meta" and name == "HSET") and #words or 2, several and 1 or 2 do
      local what = several and string.match(words[n], "([^:]*)$") or part
      if part == "s" and string.find(words[n], "^[bc]%d+:") then what = "pages" end
      if part == "meta" then what = words[n] == "counters" and "counters" or "meta" end
      redis.call("SADD", "writers", module .. " " .. what)
    end
  end
  return redis.call(name, ...)
end
"""
_CALL = re.compile(r"\bredis\.call\(")
_CHUNKED = re.compile(r"\bchunked\.(\w+)\(([^,()]+(?:\([^()]*\))?),")

# The parts that only the store writes: available, locked, records and states of a queue, and the manager's counters.
# The pages of claims are in the hash of the states, in fields of their own.
PARTS = {"a", "l", "m", "s", "pages", "counters"}
# The other modules that write one of them, and why.
EXCEPTIONS = {
    # Expands packed locks of readers into elements of l and s.
    "core/locks": {"l", "s"},
    # Reads and writes the pages of claims.
    "claims/claim_pages": {"pages"},
    # Writes the counters and the stored reply in one command.
    "core/context": {"counters"},
    # Writes the counters of a new manager, all zero.
    "session_open": {"counters"},
    # Carries out the repairs that the doctor decided.
    "repair": {"a", "l", "m", "s"},
}


def recording(script: Script) -> Script:
    """Return the script with a recorder of its writes."""
    lines = []
    for file, number, line in script.joined:
        module = file.removeprefix("lua/").removesuffix(".lua")
        code, dashes, comment = line.partition("--")
        if module != "core/chunked":
            code = _CHUNKED.sub(rf'chunked.\1(asking("{module}", \2),', code)
        lines.append((file, number, _CALL.sub(f'recorded("{module}", ', code) + dashes + comment))
    # The first line is replaced by flags.
    lines[1] = (*lines[1][:2], " ".join(RECORDER.splitlines()) + " " + lines[1][2])
    return made(script.name, lines)


def made(name: str, joined: list[Line]) -> Script:
    script = Script(name)
    script.joined = joined
    return script


@pytest.fixture
def written(redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch) -> dict[str, set[str]]:
    """The parts that each module writes in a scenario that calls all scripts."""
    get = scripts.get
    recorded: dict[str, Script] = {}

    def changed(name: str) -> Script:
        if name not in recorded:
            recorded[name] = recording(get(name))
        return recorded[name]

    monkeypatch.setattr(scripts, "get", changed)
    settings = Settings(test_clock=True, functions="off")
    with redis_server.client() as raw:
        raw.delete(NOTES)
        with mqredis.connect(redis_server.url, manager="writers", settings=settings) as qm:
            everything(qm, raw)
        found: dict[str, set[str]] = {}
        for note in raw.smembers(NOTES):
            module, part = note.decode().split(" ")
            found.setdefault(module, set()).add(part)
        raw.delete(NOTES)
    return found


def test_only_the_store_and_named_modules_write_messages_and_counters(written: dict[str, set[str]]) -> None:
    others = {module: parts & PARTS for module, parts in written.items() if module != "core/store"}
    wrong = {module: parts for module, parts in others.items() if parts - EXCEPTIONS.get(module, set())}
    assert wrong == {}


def test_recorder_sees_the_writes_of_store_and_context(written: dict[str, set[str]]) -> None:
    assert written["core/store"] >= {"a", "l", "m", "s"}
    assert written["core/context"] >= {"counters", "meta"}
    assert written["claims/claim_pages"] >= {"pages"}


def test_recorder_sees_a_write_of_another_module(redis_server: RedisServer) -> None:
    script = made("x", [("", 0, "-- spare"), ("lua/x.lua", 1, "redis.call('ZADD', KEYS[1], 0, 'm')")])
    with redis_server.client() as raw:
        raw.eval(recording(script).text, 1, "mq:{x}:q:y:a")
        assert raw.smembers(NOTES) == {b"x a"}
        raw.delete(NOTES)
    assert isinstance(raw, redis.Redis)
