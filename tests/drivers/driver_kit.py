"""Tiny scripts and servers for the drivers' own tests: no queue is needed to see whether a call is lost."""

from __future__ import annotations

import hashlib
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import redis

from mqredis.keys import ManagerKeys
from mqredis.settings import Settings
from mqredis.status import Status
from mqredis.steps import Call, Operation, perform

_FRAME = """
local function envelope(code, ...)
  return { code, redis.call('HGET', KEYS[1], 'incarnation') or '', redis.call('HGET', KEYS[1], 'history') or 0, ... }
end
local function token()
  if redis.call('EXISTS', KEYS[1]) == 0 then return { %(gone)d, '', 0 } end
  if ARGV[2] == '' then return end
  local number = string.match(ARGV[1], '^(%%d+)%%.')
  if redis.call('HEXISTS', KEYS[2], number) == 0 then return envelope(%(expired)d) end
  local kept = redis.call('HGET', KEYS[2], ARGV[1])
  if not kept then return end
  local last, reply = string.match(kept, '^(%%d+) (.*)$')
  if tonumber(last) == tonumber(ARGV[2]) then return envelope(0, reply, 'again') end
  if tonumber(last) > tonumber(ARGV[2]) then return envelope(%(reused)d) end
end
local function done(reply)
  redis.call('HINCRBY', KEYS[1], 'history', 1)
  redis.call('HSET', KEYS[2], ARGV[1], ARGV[2] .. ' ' .. reply)
  return envelope(0, reply)
end
""" % {"gone": Status.MANAGER_NOT_FOUND, "expired": Status.SESSION_EXPIRED, "reused": Status.TOKEN_REUSED}

BODIES = {
    "session_open": """
local _, _, schema, ttl, run, test, proposal, present = unpack(ARGV)
if redis.call('EXISTS', KEYS[1]) == 0 then
  if proposal == '' then return { %d, '', 0 } end
  redis.call('HSET', KEYS[1], 'incarnation', proposal, 'history', 0, 'sessno', 0)
end
redis.call('HINCRBY', KEYS[1], 'opened', 1)
redis.call('HSET', KEYS[1], 'run_id', run)
if present == '' or redis.call('HEXISTS', KEYS[2], present) == 0 then
  present = tostring(redis.call('HINCRBY', KEYS[1], 'sessno', 1))
  redis.call('HSET', KEYS[2], present, ttl)
end
return envelope(0, present)
"""
    % Status.MANAGER_NOT_FOUND,
    "session_close": "redis.call('HDEL', KEYS[2], ARGV[3]) return envelope(0)",
    # Adds to a counter: what is run twice shows.
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
    # Registers the slot as a waiter unless something is there; takes one if so.
    "take": """
local refused = token()
if refused then return refused end
if tonumber(redis.call('HGET', KEYS[1], 'counter') or '0') > 0 then
  redis.call('HDEL', KEYS[3], ARGV[1])
  return done(tostring(redis.call('HINCRBY', KEYS[1], 'counter', -1)))
end
redis.call('HSET', KEYS[3], ARGV[1], ARGV[3])
return done('wait')
""",
    # Adds one and rings one waiter, as the real scripts do.
    "put": """
local refused = token()
if refused then return refused end
redis.call('HINCRBY', KEYS[1], 'counter', 1)
local reply = done('put')
local waiters = redis.call('HGETALL', KEYS[3])
for n = 1, #waiters, 2 do
  local bell = string.sub(KEYS[1], 1, -5) .. 'bell:' .. waiters[n]
  redis.call('HDEL', KEYS[3], waiters[n])
  if waiters[n + 1] == 'p' then
    redis.pcall('PUBLISH', '__keyspace@' .. ARGV[3] .. '__:' .. bell, 'sadd')
  else
    redis.pcall('SADD', bell, '1')
    redis.pcall('DEL', bell)
  end
  break
end
return reply
""",
    "fails": "return redis.call('INCR', KEYS[2])",
}


class TinyScript:
    """Stands in for ``scripts.Script``."""

    def __init__(self, name: str, body: str) -> None:
        self.name = name
        self.text = f"-- tiny {name}\n{_FRAME}{body}"

    def variant(self, shebang: bool) -> tuple[str, str]:
        """Text and sha."""
        text = "#!lua flags=allow-oom\n" + self.text if shebang else self.text
        return text, hashlib.sha1(text.encode()).hexdigest()


class Server:
    """A private redis-server on a unix socket."""

    def __init__(self, directory: Path, *options: str) -> None:
        self.path = str(directory / "redis.sock")
        self.directory = directory
        self.options = options
        self.start()

    def start(self) -> None:
        """Start and wait until it answers."""
        self.process = subprocess.Popen(
            ["redis-server", "--port", "0", "--unixsocket", self.path, "--dir", str(self.directory),
             "--save", "", "--appendonly", "yes", "--appendfsync", "always", *self.options],
            stdout=subprocess.DEVNULL,
        )  # fmt: skip
        until(lambda: self.client().ping())

    def client(self) -> redis.Redis:
        """An ordinary client for looking from outside."""
        return redis.Redis(unix_socket_path=self.path)

    @property
    def url(self) -> str:
        """Address."""
        return f"unix://{self.path}"

    def kill(self) -> None:
        """kill -9."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


def until(condition: Callable[[], Any], seconds: float = 10.0) -> Any:
    """Wait until the condition holds; errors count as no."""
    end = time.monotonic() + seconds
    while True:
        try:
            if found := condition():
                return found
        except redis.RedisError:
            pass
        if time.monotonic() > end:
            raise AssertionError("it did not happen in time")
        time.sleep(0.002)


FAST = Settings(
    retry_seconds=3, retry_pause_seconds=0.005, retry_pause_max_seconds=0.05,
    connect_timeout_seconds=1, reply_timeout_seconds=1,
)  # fmt: skip


def first(status: int, payload: list[bytes]) -> str:
    """Parser: the first element."""
    assert status == 0, hex(status)
    return payload[0].decode()


def add(keys: ManagerKeys, amount: int = 1) -> Operation[str]:
    """Add to the counter."""
    return perform(Call("add", keys.call(), [amount], first))


def read(keys: ManagerKeys) -> Operation[str]:
    """Read the counter."""
    return perform(Call("read", keys.call(), [], first, changes=False))
