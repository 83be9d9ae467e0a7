"""The ACL rules that ``mqredis acl`` prints, tested on a real server."""

from __future__ import annotations

import re
import subprocess
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import redis

import mqredis
import mqredis.asyncio
from mqredis import BrokerRefused, BrokerUnavailable, ScriptsNotLoaded, Settings, scripts
from mqredis.cli import acl
from mqredis.drivers import deploy
from tests.cli.acl_users import SERVER_OPTIONS, deployed, login
from tests.cli.conftest import Run
from tests.support.cluster import Cluster
from tests.support.server import RedisServer, server_version
from tests.support.until import until


def work(url: str) -> None:
    """Run one operation of each kind."""
    with mqredis.connect(url, manager="shop") as qm:
        qm.create_queue("orders", transactional=True)
        orders = qm.open("orders")
        with qm.transaction() as unit:
            orders.send_many([b"a", b"b", b"c"], transaction=unit)
        with orders.lock(0):
            pass
        retry = qm.open("orders;retry")
        orders.move(orders.peek(0).lookup_id, retry)
        with qm.transaction() as unit:
            orders.receive(0, transaction=unit)
        waiting = threading.Thread(target=lambda: qm.open("plain").receive(20))
        qm.create_queue("plain")
        waiting.start()
        qm.open("plain").send(b"x", time_to_be_received=60)
        waiting.join(30)
        assert not waiting.is_alive()
        qm.maintain()
        retry.purge()
        qm.delete_queue("orders")
        qm.delete_queue("plain")


@pytest.mark.parametrize("functions", [True, False])
def test_worker_runs_only_after_the_scripts_are_loaded(server: RedisServer, functions: bool) -> None:
    functions = functions and SERVER_OPTIONS["functions"]
    with pytest.raises(ScriptsNotLoaded, match=r"nothing was done.*`mqredis scripts load`"):
        work(login(server, "worker", functions=functions))
    with server.client() as raw:
        assert raw.keys("*") == []
    deployed(server, functions=functions)
    with server.client() as raw:
        raw.config_resetstat()
        work(login(server, "worker", functions=functions))
        used: Any = raw.info("commandstats")
    assert (used.get("cmdstat_fcall", {"calls": 0})["calls"] > 0) == functions
    work(login(server, "admin", functions=functions))


@pytest.mark.skipif(
    server_version() < (7,), reason="the scripts that a server before Redis 7 keeps have their own test"
)
def test_functions_survive_a_restart(start_server: Callable[..., RedisServer]) -> None:
    # With everysec Redis delays a write while an fsync is running, and SIGKILL would lose it.
    server = start_server(tcp=True, aof=True, options={"appendfsync": "always"})
    deployed(server)
    url = login(server, "worker")
    with server.client() as raw:
        rules = raw.execute_command("ACL", "LIST")
        work(url)
        server.restart(kill=True)
    with server.client() as raw:  # users without an ACL file do not survive the restart
        for rule in rules:
            raw.execute_command("ACL", "SETUSER", *rule.decode().split()[1:])
    work(url)


def test_flushed_scripts_raise_scripts_not_loaded(server: RedisServer) -> None:
    """Scripts for EVALSHA, which Redis before 7 requires, do not survive the server process."""
    deployed(server, functions=False)
    url = login(server, "worker", functions=False)
    with mqredis.connect(url, manager="shop", settings=Settings(allow_volatile=True)) as qm:
        qm.create_queue("orders")
        with server.client() as raw:
            raw.script_flush()  # as a restart does, which would also take the user
        with pytest.raises(ScriptsNotLoaded, match="mqredis scripts load"):
            qm.queue_info("orders")
        deployed(server, functions=False)
        assert qm.queue_info("orders").messages == 0


async def test_async_connect_raises_scripts_not_loaded(server: RedisServer) -> None:
    with pytest.raises(ScriptsNotLoaded, match="mqredis scripts load"):
        await mqredis.asyncio.connect(login(server, "worker"), manager="shop")


def test_worker_with_the_right_to_load_scripts_needs_no_deploy_step(server: RedisServer) -> None:
    work(login(server, "worker", preloaded=False))


# Commands that would show a secret, reach another manager, or run Lua of the user's own.
FORBIDDEN: tuple[tuple[str | bytes, ...], ...] = (
    ("CONFIG", "GET", "requirepass"), ("CONFIG", "GET", "masterauth"), ("CONFIG", "GET", "tls-key-file-pass"),
    ("CONFIG", "GET", "*"), ("CONFIG", "SET", "maxmemory", "1"), ("CONFIG", "REWRITE"), ("CONFIG", "RESETSTAT"),
    ("ACL", "LIST"), ("ACL", "GETUSER", "default"), ("ACL", "USERS"), ("ACL", "LOG"), ("ACL", "WHOAMI"),
    ("ACL", "SETUSER", "default", "nopass"), ("ACL", "SAVE"), ("ACL", "LOAD"),
    ("HGETALL", "mq:{bank}:meta"), ("GET", "mq:{bank}:meta"), ("ZRANGE", "mq:{bank}:queues", "0", "-1"),
    ("HSET", "mq:{bank}:meta", "a", "b"), ("DEL", "mq:{bank}:meta"), ("TYPE", "mq:{bank}:meta"), ("GET", "secret"),
    ("DUMP", "mq:{bank}:meta"), ("OBJECT", "ENCODING", "mq:{bank}:meta"), ("MEMORY", "USAGE", "mq:{bank}:meta"),
    ("SORT", "mq:{shop}:x", "BY", "nosort", "GET", "secret"), ("COPY", "secret", "mq:{shop}:x"),
    ("KEYS", "*"), ("SCAN", "0"), ("RANDOMKEY",), ("DBSIZE",),
    ("EVAL", "return 1", "0"), ("SCRIPT", "LOAD", "return 1"), ("SCRIPT", "FLUSH"), ("SCRIPT", "KILL"),
    ("SCRIPT", "EXISTS", "a"), ("SCRIPT", "DEBUG", "YES"),
    ("FUNCTION", "LOAD", "#!lua name=x"), ("FUNCTION", "LIST", "WITHCODE"), ("FUNCTION", "DUMP"), ("FUNCTION", "FLUSH"),
    ("FUNCTION", "DELETE", "mqredis_x"), ("FUNCTION", "RESTORE", b"x"), ("FUNCTION", "KILL"), ("FUNCTION", "STATS"),
    ("EVAL_RO", "return 1", "0"),
    ("MONITOR",), ("CLIENT", "LIST"), ("CLIENT", "INFO"), ("CLIENT", "KILL", "ID", "1"), ("CLIENT", "TRACKING", "ON"),
    ("SLOWLOG", "GET"), ("LATENCY", "LATEST"), ("DEBUG", "SLEEP", "0"), ("DEBUG", "JMAP"),
    ("MODULE", "LIST"), ("MODULE", "LOAD", "/x.so"), ("COMMAND", "GETKEYS", "GET", "a"),
    ("PUBSUB", "CHANNELS"), ("PSUBSCRIBE", "*"), ("SUBSCRIBE", "__keyspace@0__:mq:{bank}:wake:1.1"),
    ("PUBLISH", "__keyspace@0__:mq:{bank}:wake:1.1", "sadd"), ("SSUBSCRIBE", "x"),
    ("FLUSHALL",), ("FLUSHDB",), ("SWAPDB", "0", "1"), ("MIGRATE", "h", "1", "mq:{shop}:x", "0", "1"),
    ("RESTORE", "mq:{shop}:x", "0", b"x"), ("SHUTDOWN",), ("BGSAVE",), ("BGREWRITEAOF",), ("SAVE",),
    ("REPLICAOF", "h", "1"), ("SYNC",), ("PSYNC", "?", "-1"), ("FAILOVER",), ("CLUSTER", "RESET"), ("CLUSTER", "NODES"),
)  # fmt: skip
# Exceptions: commands that a role needs.
ALLOWED_TO = {
    "deploy": {("SCRIPT", "LOAD"), ("SCRIPT", "EXISTS"), ("FUNCTION", "LOAD"), ("FUNCTION", "LIST"),
               ("FUNCTION", "DELETE")},
}  # fmt: skip


@pytest.mark.parametrize("role", acl.ROLES)
def test_no_role_may_read_secrets_or_run_other_lua(server: RedisServer, role: str) -> None:
    with server.client() as root:
        root.set("secret", "x")
        root.hset("mq:{bank}:meta", "a", "b")
        known = {name.upper() for name in root.command()}
    deployed(server)
    with redis.Redis.from_url(login(server, role)) as user:
        for words in FORBIDDEN:
            if str(words[0]) not in known or words[:2] in ALLOWED_TO.get(role, ()):
                continue
            with pytest.raises(redis.ResponseError, match=r"(?i)permission|unknown|command not allowed"):
                user.execute_command(*words)
        known_password = "RootPw123"
    with server.client() as root:
        root.config_set("requirepass", known_password)
    with redis.Redis.from_url(login_with_password(server, role, known_password)) as user:
        info = user.execute_command("INFO", "everything")
        assert known_password not in str(info)
        assert known_password not in str(user.execute_command("ROLE"))


def login_with_password(server: RedisServer, role: str, password: str) -> str:
    """Create the user on a server that requires a password. Return its URL."""
    command = acl.line(role, "shop", 0, **SERVER_OPTIONS).split()
    with server.client(password=password) as raw:
        raw.execute_command(*command)
    return server.tcp_url.replace("redis://", f"redis://{command[2]}:{command[4][1:]}@")


def test_deploy_role_may_not_access_keys_or_run_scripts(server: RedisServer) -> None:
    deployed(server)
    with redis.Redis.from_url(login(server, "deploy")) as user:
        for words in (
            ("EVALSHA", "0" * 40, "0"), ("EVAL", "return 1", "0"), ("FCALL", "x", "0"), ("HGETALL", "mq:{shop}:meta"),
            ("GET", "x"), ("SUBSCRIBE", "x"), ("PUBLISH", "x", "y"), ("FUNCTION", "FLUSH"), ("SCRIPT", "FLUSH"),
        ):  # fmt: skip
            with pytest.raises(redis.ResponseError, match=r"permission|unknown"):
                user.execute_command(*words)


def test_worker_of_another_manager_is_refused(server: RedisServer) -> None:
    deployed(server)
    with pytest.raises(BrokerRefused, match=r"permission|may not run|can't"):
        mqredis.connect(login(server, "worker"), manager="other")


@pytest.mark.parametrize("database", [0, 11])
def test_channel_rules_apply_to_one_database(server: RedisServer, database: int) -> None:
    deployed(server)
    url = login(server, "worker", database=database)
    work(url)
    channel = "__keyspace@{}__:mq:{{shop}}:wake:1.1"
    with redis.Redis.from_url(url) as user, user.pubsub() as subscription:
        subscription.subscribe(channel.format(database))
        found = subscription.get_message(timeout=20)
        assert found is not None
        assert found["type"] == "subscribe"
        subscription.subscribe(channel.format(database + 1))
        with pytest.raises(redis.exceptions.NoPermissionError):
            subscription.get_message(timeout=20)


def test_database_is_taken_from_option_or_url(run: Run) -> None:
    for arguments in (["--database", "11"], ["--url", "redis://h/11"]):
        found = run("acl", "--role", "worker", "--manager", "shop", "--json", *arguments).rows[0]
        assert found["database"] == 11
        assert "&__keyspace@11__:mq:{shop}:wake:*" in found["rules"]
        assert "database 11" in run("acl", "--role", "worker", "--manager", "shop", *arguments).err


def test_redis_cli_accepts_the_printed_commands(run: Run, server: RedisServer) -> None:
    options = [] if SERVER_OPTIONS["functions"] else ["--no-functions"]
    printed = run("acl", "--manager", "shop", *options)
    told = subprocess.run(
        ["redis-cli", "-u", server.tcp_url], input=printed.out, capture_output=True, text=True, check=True
    )
    assert told.stdout.split() == ["OK"] * len(acl.ROLES)
    assert [line.partition(":")[0] for line in printed.err.splitlines()] == [
        f"# {role}" for role in acl.ROLES
    ]


def test_worker_role_works_in_a_cluster_with_moving_slots(start_server: Callable[..., RedisServer]) -> None:
    cluster = Cluster(start_server)
    deploying = [
        acl.line("deploy", "shop", 0, **SERVER_OPTIONS).split(),
        acl.line("worker", "shop", 0, **SERVER_OPTIONS).split(),
    ]
    for n in range(2):
        for command in deploying:
            cluster.client(n).execute_command(*command)
    urls = [
        cluster.url.replace("redis+cluster://", f"redis+cluster://{command[2]}:{command[4][1:]}@")
        for command in deploying
    ]
    done = deploy.load(urls[0], Settings(), **SERVER_OPTIONS)
    assert [found.count for found in done] == [len(scripts.names())] * 2
    work(urls[1])
    with mqredis.connect(urls[1], manager="shop") as qm:
        qm.create_queue("moving")
        with qm.open("moving") as queue:
            queue.send_many([b"1", b"2"])
            slot, owner = cluster.slot("shop"), cluster.owner("shop")
            cluster.move(slot, owner, 1 - owner, finish=False)
            # The new node is asked during the migration and refuses to load the script; the call must not fail.
            with ThreadPoolExecutor(1) as pool, cluster.client(1 - owner) as new:
                received = pool.submit(queue.receive, 0)
                until(lambda: "cmdstat_asking" in new.info("commandstats"))
                cluster.finish(slot, 1 - owner)
                assert received.result().body == b"1"
            assert queue.receive(0).body == b"2"
    assert all(not found.missing for found in deploy.check(urls[0], Settings(), **SERVER_OPTIONS))


def test_the_deploy_step_from_the_command_line(run: Run, redis_server: RedisServer, server_kind: str) -> None:
    if server_kind == "fake":
        assert run("scripts", "check", code=1).out  # a fake keeps scripts for each client apart
        return
    how = [] if SERVER_OPTIONS["functions"] else ["--no-functions"]
    with redis_server.client() as raw:
        raw.script_flush()
        if SERVER_OPTIONS["functions"]:
            raw.execute_command("FUNCTION", "FLUSH")
            raw.execute_command("FUNCTION", "LOAD", OLD)
    lacking = run("scripts", "check", "--json", *how, code=1).rows[0]
    assert set(lacking["missing"]) == set(scripts.names())
    loaded = run("scripts", "load", "--json", *how).rows[0]
    assert (loaded["count"], loaded["missing"]) == (len(scripts.names()), [])
    assert run("scripts", "check", "--json", *how).rows[0]["missing"] == []
    assert run("scripts", "clean", "--json").rows[0]["count"] == SERVER_OPTIONS["functions"]
    assert run("scripts", "clean", "--json").rows[0]["count"] == 0
    assert run("scripts", "check", *how).out.endswith(f"as {loaded['kind']}\n")


# A library of another release.
OLD = """#!lua name=mqredis_0123456789ab_send
redis.register_function('mqredis_0123456789ab_send', function() return 1 end)
"""


def test_deploy_step_errors_name_the_missing_right_or_server(server: RedisServer) -> None:
    with pytest.raises(BrokerRefused, match="mqredis acl --role deploy"):
        deploy.load(login(server, "worker"), Settings(), **SERVER_OPTIONS)
    with pytest.raises(BrokerRefused, match="mqredis acl --role deploy"):
        deploy.load(server.tcp_url.replace("redis://", "redis://a:wrong@"), Settings(), **SERVER_OPTIONS)
    with pytest.raises(BrokerRefused, match="Some scripts may have been loaded"):
        deploy.load(login(server, "worker"), Settings(), **SERVER_OPTIONS)
    with pytest.raises(BrokerRefused, match=r"Nothing was changed\. `mqredis acl --role deploy`"):
        deploy.check(server.tcp_url.replace("redis://", "redis://a:wrong@"), Settings(), **SERVER_OPTIONS)
    with pytest.raises(BrokerRefused, match="Some functions may have been deleted"):
        deploy.clean(server.tcp_url.replace("redis://", "redis://a:wrong@"), Settings())
    server.stop()
    with pytest.raises(BrokerUnavailable):
        deploy.load(server.tcp_url, Settings(connect_timeout_seconds=0.5), **SERVER_OPTIONS)


def test_worker_who_runs_the_doctor_is_told_of_the_role_admin(server: RedisServer) -> None:
    deployed(server)
    refused = pytest.raises(mqredis.BrokerRefused, match="needs the rights of the role admin")
    with mqredis.connect(login(server, "worker"), manager="shop") as qm, refused:
        qm.doctor()


def test_admin_role_may_run_the_doctor(server: RedisServer) -> None:
    deployed(server)
    with mqredis.connect(login(server, "admin"), manager="shop") as qm:
        qm.create_queue("orders")
        report = qm.doctor(repair=True)
    assert report.healthy
    assert report.server["version"] != "unknown"
    assert report.server["appendonly"] == "no"
    assert report.server["maxmemory-policy"] == "noeviction"
    unchecked = next(item for item in report.advice if item.code == "server.unchecked")
    assert "appendfsync" in unchecked.text
    assert unchecked.severity == "notice"


def test_script_commands_equal_those_the_scripts_run() -> None:
    used: set[str] = set()
    for path in scripts.root().rglob("*.lua"):
        if path.stem in ("audit", "repair", "preflight"):
            continue
        used |= {
            name.lower() for name in re.findall(r'(?:redis\.p?call|many\.run)\("([A-Z]+)"', path.read_text())
        }
    assert used == {name.partition("|")[0] for name in acl.SCRIPT_COMMANDS}
    text = (scripts.root() / "preflight.lua").read_text()
    assert used == set(re.findall(r'\{ "(\w+)"', text))


def test_manager_name_cannot_inject_a_key_pattern() -> None:
    text = acl.rules("worker", "a b~")
    assert "~mq:{a%20b%7E}:*" in text
    with pytest.raises(ValueError, match="holds one of"):
        acl.rules("worker", "x*")
