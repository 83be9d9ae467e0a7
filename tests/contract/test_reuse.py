"""State that a function library caches between calls equals the stored text.

The table of a queue and the counters of the manager are used again if the stored text has not changed since
(lua/core/queue.lua, lua/core/context.lua). Each reuse is compared with a table parsed from that text.
"""

from __future__ import annotations

import re

import pytest

import mqredis
from mqredis import Outgoing, Settings, scripts
from mqredis.scripts import Library
from tests.contract.scenario import everything
from tests.support.server import RedisServer

# Compares a cached table with one that is parsed from the same header.
CHECK = """local function same(old, new)
  for name, value in pairs(new) do
    if name ~= "call" and name ~= "text" and tostring(old[name]) ~= tostring(value) and name ~= "is" then
      error("a queue is used again with another " .. name)
    end
  end
  for name in pairs(old) do if new[name] == nil then error("a queue is used again with a field " .. name) end end
end
"""
COUNTERS = """local function same_counters(c, text)
  local parts = { c.history_text, c.seq, c.messages, c.bytes, c.latest }
  for n = 2, 5 do parts[n] = string.format("%d", parts[n]) end
  if table.concat(parts, " ") ~= text then error("other counters are used again") end
end
"""


def checked(library: Library) -> Library:
    """Return the library with a check of each reuse; the checks are counted under the key ``reused``."""
    lines = []
    for file, number, line in library.joined:
        if line.startswith("  if q and text and text == q.text then return"):
            line = (
                "if q and text and text == q.text then queue.begin_call(q) cache.tables[key] = nil"
                " same(q, queue.parse(at, text)) cache.tables[key] = q"
                ' redis.call("INCR", "reused") return q end'
            )
        if line.startswith("  context.counters = false"):
            line = (
                "if meta[2] and meta[2] == context.counters then same_counters(context, meta[2]) end "
                + line.lstrip().partition("--")[0]
            )
        lines.append((file, number, line))
    text = " ".join(re.sub(r"--.*", "", CHECK + COUNTERS).split("\n"))
    lines[1] = (*lines[1][:2], text + " " + lines[1][2])
    made = Library(library.name)
    made.joined = lines
    return made


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every library checks the state that it uses again."""
    plain, made = scripts.library, {}

    def changed(name: str) -> Library:
        if name not in made:
            made[name] = checked(plain(name))
        return made[name]

    monkeypatch.setattr(scripts, "library", changed)


@pytest.mark.usefixtures("watched")
def test_cached_queue_and_counters_equal_the_stored_text(redis_server: RedisServer) -> None:
    with redis_server.client() as raw:
        raw.delete("reused")
        settings = Settings(test_clock=True, functions="auto")
        with mqredis.connect(redis_server.url, manager="reuse", settings=settings) as qm:
            everything(qm, raw)
            qm.create_queue("more")
            queue = qm.open("more")
            for number in range(5):
                queue.send(b"x")
                with queue.lock() as lock:
                    assert lock.body == b"x"
                queue.send_many([Outgoing(body=b"y", correlation_id=str(number))] * 3)
                assert len(queue.receive_many(3)) == 3
        assert int(raw.get("reused") or 0) > 60
        raw.delete("reused")
