"""Tiny scripts and servers for the drivers' own tests: whether a call is lost can be tested without queues."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

from mqredis.keys import ManagerKeys
from mqredis.scripts import Entry, Form, library_text
from mqredis.settings import Settings
from mqredis.status import Status
from mqredis.steps import Call, Listen, Operation, Steps, Wait, Woken, perform, procedure
from tests.support.faults import BlackHole, CutReply, CutRequest, Fault

_FRAME = """
local function envelope(code, ...)
  local known = redis.call('HMGET', KEYS[1], 'incarnation', 'history')
  return { code, known[1] or '', known[2] or 0, ... }
end
local function token()
  if redis.call('EXISTS', KEYS[1]) == 0 then return { GONE, '', 0 } end
  if ARGV[2] == '' then return end
  local number = string.match(ARGV[1], '^(%d+)%.')
  if redis.call('HEXISTS', KEYS[1], number) == 0 then return envelope(EXPIRED) end
  local kept = redis.call('HGET', KEYS[1], ARGV[1])
  if not kept then return end
  local last, reply = string.match(kept, '^(%d+) (.*)$')
  if tonumber(last) == tonumber(ARGV[2]) then return envelope(0, reply, 'again') end
  if tonumber(last) > tonumber(ARGV[2]) then return envelope(REUSED) end
end
local function done(reply)
  redis.call('HINCRBY', KEYS[1], 'history', 1)
  redis.call('HSET', KEYS[1], ARGV[1], ARGV[2] .. ' ' .. reply)
  return envelope(0, reply)
end
"""

_STATUS = {
    "GONE": Status.MANAGER_NOT_FOUND,
    "EXPIRED": Status.SESSION_EXPIRED,
    "REUSED": Status.TOKEN_REUSED,
}

BODIES = {
    "session_open": """
local _, _, ttl, run, test, proposal, present = unpack(ARGV)
if redis.call('EXISTS', KEYS[1]) == 0 then
  if present ~= '' or proposal == '' then return { GONE, '', 0 } end
  redis.call('HSET', KEYS[1], 'incarnation', proposal, 'history', 0, 'sessno', 0)
end
for n = 2, #KEYS do redis.call('HSET', KEYS[n], '-', '') end
redis.call('HSET', KEYS[1], 'run_id', run)
if present == '' or redis.call('HEXISTS', KEYS[1], present) == 0 then
  present = tostring(redis.call('HINCRBY', KEYS[1], 'sessno', 1))
  redis.call('HSET', KEYS[1], present, ttl)
end
return envelope(0, present)
""",
    "session_close": "redis.call('HDEL', KEYS[1], ARGV[3]) return envelope(0)",
    # Adds to a counter, which shows whether a call was executed twice.
    "add": """
local refused = token()
if refused then return refused end
return done(tostring(redis.call('HINCRBY', KEYS[1], 'counter', ARGV[3])))
""",
    "read": """
local refused = token()
if refused then return refused end
return envelope(0, redis.call('HGET', KEYS[1], 'counter') or '0', ARGV[3] or '')
""",
    # Takes one if the counter is positive; registers the slot as a waiter otherwise.
    "take": """
local refused = token()
if refused then return refused end
if tonumber(redis.call('HGET', KEYS[1], 'counter') or '0') > 0 then
  redis.call('HDEL', KEYS[2], ARGV[1])
  return done(tostring(redis.call('HINCRBY', KEYS[1], 'counter', -1)))
end
redis.call('HSET', KEYS[2], ARGV[1], ARGV[3])
return done('wait')
""",
    # Adds one and notifies one waiter, as the real scripts do.
    "put": """
local refused = token()
if refused then return refused end
redis.call('HINCRBY', KEYS[1], 'counter', 1)
local reply = done('put')
local waiters = redis.call('HGETALL', KEYS[2])
for n = 1, #waiters, 2 do
  if waiters[n] ~= '-' then
    local key = string.sub(KEYS[1], 1, -5) .. 'wake:' .. waiters[n]
    redis.call('HDEL', KEYS[2], waiters[n])
    if waiters[n + 1] == 'p' then
      redis.pcall('PUBLISH', '__keyspace@' .. ARGV[3] .. '__:' .. key, 'sadd')
    else
      redis.pcall('SADD', key, '1')
      redis.pcall('DEL', key)
    end
    break
  end
end
return reply
""",
    # Adds one and notifies no reader.
    "silent": """
local refused = token()
if refused then return refused end
redis.call('HINCRBY', KEYS[1], 'counter', 1)
return done('silent')
""",
    # Tells which of the queues that are waited on have a message.
    "poll_all": """
local refused = token()
if refused then return refused end
local reply = envelope(0)
for n = 3, #KEYS, 8 do
  reply[#reply + 1] = tonumber(redis.call('HGET', KEYS[1], 'counter') or '0') > 0 and '1' or '0'
  reply[#reply + 1] = '-1'
end
return reply
""",
    "fails": "return redis.call('INCR', KEYS[1])",
}


# Makes drivers; of asyncio with blocking methods (tests.support.facade).
Connect = Callable[..., Any]

# Ways in which a call is lost; in the last two it is carried out.
LOST: dict[str, Fault] = {"request": CutRequest(), "reply": CutReply(), "silence": BlackHole(forward=True)}


class TinyScript:
    """Stands in for ``scripts.Script``."""

    def __init__(self, name: str, body: str) -> None:
        self.name = name
        self.text = f"-- tiny {name}\n{_FRAME}{body}"
        for word, status in _STATUS.items():
            self.text = self.text.replace(word, str(int(status)))

    def variant(self, shebang: bool) -> tuple[str, str]:
        """Text and sha."""
        text = "#!lua flags=allow-oom\n" + self.text if shebang else self.text
        return text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()

    def form(self, shebang: bool, reading: bool = False) -> Form:
        """For EVALSHA."""
        assert not reading, "no tiny script is for read-only clients"
        text, sha = self.variant(shebang)
        return Form("EVALSHA", sha, ("SCRIPT", "LOAD", text))

    def draining(self) -> None:
        """No form for a full server."""

    def function(self, reading: bool = False) -> Form:
        """For FCALL, from a library of its own."""
        assert not reading, "no tiny script is for read-only clients"
        lines = self.text.splitlines()
        text = library_text(self.name, lines, [Entry(self.name, 1, len(lines) - 1, "allow-oom")])
        return Form(
            "FCALL", text.partition("\n")[0].partition("name=")[2], ("FUNCTION", "LOAD", "REPLACE", text)
        )


FAST = Settings(
    retry_seconds=30, retry_pause_seconds=0.005, retry_pause_max_seconds=0.05,
    connect_timeout_seconds=1, reply_timeout_seconds=1,
)  # fmt: skip


def first(status: int, payload: list[bytes]) -> str:
    """Parser: the first element."""
    assert status == 0, hex(status)
    return payload[0].decode()


def put(keys: ManagerKeys, database: int = 0) -> Operation[str]:
    """Add one and notify a waiter."""
    return perform(Call("put", keys.call("q"), [str(database)], first))


@procedure
def take(
    keys: ManagerKeys,
    seconds: float | None = None,
    scopes: tuple[object, ...] = (),
    seen: list[Any] | None = None,
) -> Steps[str]:
    """Take one, waiting for it; "timed out" or "cancelled" otherwise.

    ``seen`` receives the wake mode of each attempt and the reason of each wake-up.
    """
    seen = [] if seen is None else seen
    while True:
        mode = yield Listen()
        found = yield Call("take", keys.call("q"), [mode], first)
        if first(*found) != "wait":
            return "taken"
        seen.append(mode)
        woken = yield Wait(seconds, scopes)
        seen.append(woken)
        if woken is not Woken.NOTIFIED:
            return str(woken.value)


def add(keys: ManagerKeys, amount: int = 1) -> Operation[str]:
    """Add to the counter."""
    return perform(adding(keys, amount))


def adding(keys: ManagerKeys, amount: int = 1) -> Call[str]:
    """The call that adds to the counter."""
    return Call("add", keys.call(), [str(amount)], first)


def read(keys: ManagerKeys) -> Operation[str]:
    """Read the counter."""
    return perform(Call("read", keys.call(), [], first, changes=False))
