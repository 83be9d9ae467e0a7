"""Minimal ACL rules for Redis, per role and queue manager.

Commands inside a script are checked one by one against the user who runs it, so a role needs what its scripts use.
Separation is by queue manager: whoever may send may also touch the same keys otherwise.
"""

from __future__ import annotations

import secrets

from mqredis.errors import InvalidArgument
from mqredis.keys import ManagerKeys

#: What the scripts run (a test compares this with lua/), and what a connection needs.
SCRIPT_COMMANDS = (
    "del", "exists", "hdel", "hexists", "hget", "hgetall", "hincrby", "hkeys", "hlen", "hmget", "hscan", "hset",
    "hstrlen", "lindex", "llen", "lrange", "ltrim", "persist", "pexpire", "publish", "pubsub|numsub", "rpush",
    "sadd", "time", "unlink", "zadd", "zcard", "zcount", "zlexcount", "zrange", "zrangebylex", "zrangebyscore",
    "zrank", "zrem", "zremrangebylex", "zremrangebyrank", "zrevrangebylex", "zscore",
)  # fmt: skip
CONNECTION = (
    "evalsha",
    "script|load",
    "subscribe",
    "unsubscribe",
    "ping",
    "hello",
    "auth",
    "select",
    "client|setname",
    "wait",  # durability="replica"; waitaof, which Redis knows since 7.2, is for whoever needs it to add
)
#: Who may run these can change what every user of the server calls, whatever the queue manager.
FUNCTIONS = ("function|load", "function|list", "function|delete")
#: What the doctor runs besides, and what it reads of the server's settings.
DOCTOR_COMMANDS = ("zscan", "type", "pttl", "scan", "dbsize", "info", "config|get")
MONITOR_COMMANDS = ("exists", "hget", "hgetall", "hkeys", "hlen", "hmget", "hstrlen", "time", "type", "zcard", "zrange",
                    "zrangebylex", "zrangebyscore", "zscore")  # fmt: skip

ROLES = {
    "worker": "sends, receives, creates queues: everything but the doctor",
    "admin": "the same, the doctor, and the settings that it reads",
    "monitor": "may read the keys with plain commands; runs no script",
}


def rules(
    role: str, manager: str, database: int = 0, *, preloaded: bool = False, functions: bool = False
) -> str:
    """The rules of ``ACL SETUSER`` behind the user's name and password.

    ``preloaded``: somebody with role admin has loaded the scripts, so this user may not load any. ``functions``: users
    may call the scripts as functions, which is faster, and admins load them (Redis 7, Valkey).
    """
    keys = ManagerKeys(manager)
    if role not in ROLES:
        raise InvalidArgument(f"role must be one of {', '.join(ROLES)}, not {role!r:.40}")
    if role == "monitor":
        reads = ("ping", "hello", "auth", "select", *MONITOR_COMMANDS)
        return _join(("resetkeys", "resetchannels", "-@all"), reads, (f"~{keys.tag}*",))
    commands: tuple[str, ...] = (*CONNECTION, *SCRIPT_COMMANDS, *(DOCTOR_COMMANDS if role == "admin" else ()))
    if preloaded:
        commands = tuple(name for name in commands if name != "script|load")
    if functions:
        commands = (*commands, "fcall", *(FUNCTIONS if role == "admin" else ()))
    channel = f"&__keyspace@{database}__:{keys.tag}bell:*"
    return _join(("resetkeys", "resetchannels", "-@all"), commands, (f"~{keys.tag}*", channel))


def _join(start: tuple[str, ...], commands: tuple[str, ...], ends: tuple[str, ...]) -> str:
    return " ".join((*start, *(f"+{name}" for name in dict.fromkeys(commands)), *ends))


def line(role: str, manager: str, database: int, *, preloaded: bool = False, functions: bool = False) -> str:
    """A whole command with a new password, for redis-cli or a file of users (without its first two words)."""
    name = f"{ManagerKeys(manager).tag[4:-2]}-{role}"
    found = rules(role, manager, database, preloaded=preloaded, functions=functions)
    return f"ACL SETUSER {name} on >{secrets.token_urlsafe(24)} {found}"
