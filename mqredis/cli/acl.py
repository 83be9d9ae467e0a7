"""Rules of Redis's access control lists (ACLs) for each role, with the fewest rights that the role needs.

``mqredis acl`` prints them (``cli.admin``); docs/production.md describes the roles. ``tests/cli/test_acl.py`` runs
clients with each of them, and compares ``SCRIPT_COMMANDS`` and ``MONITOR_COMMANDS`` with lua/ and lua/preflight.lua. A
plain command that a driver, an operation or Spark sends is in none of these: it needs a row in ``CONNECTION``,
``CLIENT`` or ``MONITOR_COMMANDS`` by hand, and so does a key outside of the manager's prefix. The plain commands of
Spark are those of the role worker, which a Spark job needs, also for a batch read.

Redis checks each command inside a script against the user who called the script, so a role has the commands that its
scripts run. The unit of separation is the queue manager: a user who may send to one of its queues may also read and
delete in all of them.

Three rights are in no role of a client, because each reaches beyond the queue manager:

- ``CONFIG GET``: Redis cannot limit it to some settings, and it shows the passwords of the server.
- ``EVAL``, ``SCRIPT LOAD``, ``FUNCTION LOAD``: Lua of a client's own is the way into the server that most of Redis's
  advisories are about. The role ``deploy`` loads the scripts, and may touch no key.
- ``SCAN``, ``KEYS``, ``DBSIZE``, ``FUNCTION LIST``: they show the names of other managers' keys, or other users' code.
"""

from __future__ import annotations

import secrets

from mqredis.errors import InvalidArgument
from mqredis.keys import ManagerKeys, encode

# What the scripts run (a test compares this with lua/); what Spark reads without them.
SCRIPT_COMMANDS = (
    "del", "exists", "hdel", "hexists", "hget", "hgetall", "hincrby", "hkeys", "hlen", "hmget", "hscan", "hset",
    "hstrlen", "lindex", "llen", "lrange", "ltrim", "persist", "pttl", "pexpire", "publish", "pubsub|numsub", "rpush",
    "sadd", "time", "unlink", "zadd", "zcard", "zcount", "zlexcount", "zrange", "zrangebylex", "zrangebyscore",
    "zrem", "zremrangebylex", "zremrangebyrank", "zrevrangebylex", "zscore",
)  # fmt: skip
# What every connection needs, on a single server and in a cluster.
CONNECTION = ("ping", "hello", "auth", "select", "client|setname", "info", "role", "cluster|slots")
# What a client of the broker sends besides: scripts, subscriptions, durability="replica", a slot that moves.
CLIENT = ("evalsha", "subscribe", "unsubscribe", "wait", "asking")
# What the doctor's script runs besides.
DOCTOR_COMMANDS = ("zscan", "type", "pttl")
# What the scripts run that write nothing (a test compares this with lua/), and `mqredis show` besides.
MONITOR_COMMANDS = (
    "exists", "hexists", "hget", "hgetall", "hkeys", "hlen", "hmget", "hscan", "hstrlen", "llen", "pttl",
    "pubsub|numsub", "time", "type", "zcard", "zcount", "zrange", "zrangebylex", "zrangebyscore",
    "zrevrangebylex", "zscore",
)  # fmt: skip
DEPLOY_COMMANDS = ("script|load", "script|exists")
# Since Redis 7. A user who may load functions can change what every user of the server calls.
DEPLOY_FUNCTIONS = ("function|load", "function|list", "function|delete")

ROLES = {
    "worker": "sends, receives, creates queues: everything but the doctor",
    "admin": "does what a worker does, and runs the doctor",
    "monitor": "reads with Settings(read_only=True) and with plain commands; the server refuses every change",
    "deploy": "loads the scripts of a release (mqredis scripts load) for all managers of the server; touches no key",
}


def rules(
    role: str,
    manager: str,
    database: int = 0,
    *,
    preloaded: bool = True,
    functions: bool = True,
    fsync: bool = False,
) -> str:
    """The rules of ``ACL SETUSER``, to stand behind the user's name and password.

    Args:
        role: a key of :data:`ROLES`.
        manager: the name of the queue manager.
        database: the number of the database that the user works in; it is part of the channels that wake readers.
        preloaded: the role ``deploy`` loads the scripts. False: the user loads them, and so can run Lua of its own.
        functions: the user calls the scripts as functions, which Redis has since 7.0. False, in the role ``monitor``:
            the server is older than that.
        fsync: the user may run ``WAITAOF``, which Redis has since 7.2, for ``durability="fsync"``.

    Raises:
        InvalidArgument: the role is unknown, or the name of the manager is not allowed.
    """
    keys = ManagerKeys(manager)
    if role not in ROLES:
        raise InvalidArgument(f"role must be one of {', '.join(ROLES)}, not {role!r:.40}")
    if role == "deploy":
        return _join((*CONNECTION, *DEPLOY_COMMANDS, *(DEPLOY_FUNCTIONS if functions else ())))
    if role == "monitor":
        # A server before Redis 7 knows neither scripts that only read nor keys that a user may only read: there the
        # commands of the user are all that keeps scripts from writing.
        run = ("fcall_ro", "evalsha_ro") if functions else ("evalsha",)
        load = () if preloaded else ("script|load",)
        keys_of = f"%R~{keys.tag}*" if functions else f"~{keys.tag}*"
        return _join((*CONNECTION, *MONITOR_COMMANDS, *run, *load), keys_of)
    commands = (
        *CONNECTION,
        *CLIENT,
        *SCRIPT_COMMANDS,
        *(DOCTOR_COMMANDS if role == "admin" else ()),
        *(("fcall",) if functions else ()),
        *(("waitaof",) if fsync else ()),
        *(() if preloaded else ("script|load",)),
    )
    return _join(commands, f"~{keys.tag}*", f"&{keys.channel('*', database)}")


def _join(commands: tuple[str, ...], *patterns: str) -> str:
    allowed = (f"+{name}" for name in dict.fromkeys(commands))
    return " ".join(("resetkeys", "resetchannels", "-@all", *allowed, *patterns))


def line(role: str, manager: str, database: int, **how: bool) -> str:
    """A whole ``ACL SETUSER`` command with a new password; ``how`` as in :func:`rules`.

    The user has the encoded name of the manager, since names of users have no spaces.
    """
    name = "mqredis" if role == "deploy" else encode(ManagerKeys(manager).manager)
    return (
        f"ACL SETUSER {name}-{role} on >{secrets.token_urlsafe(24)} {rules(role, manager, database, **how)}"
    )
