"""Checks: a server that is full, read-only, busy, loading, or cannot write to its disk."""

from __future__ import annotations

import contextlib
import shutil
import threading
from collections.abc import Callable
from typing import Any

import redis

import mqredis
from mqredis import BrokerFull, BrokerUnavailable, Settings, UnsafeServer
from tests.reliability.check import Run, check
from tests.support.faults import Refuse, is_script
from tests.support.proxy import Proxy
from tests.support.server import RedisServer, server_version
from tests.support.until import until

LONG_RETRY = Settings(retry_seconds=30, retry_pause_seconds=0.005, retry_pause_max_seconds=0.05)
SHORT_RETRY = LONG_RETRY.model_copy(update={"retry_seconds": 0.3})


@check("full server", "at maxmemory every send is refused and everything can still be received and committed")
def full_server(run: Run) -> None:
    """Fill the server, lower maxmemory, and drain it by each way of reading."""
    messages = run.size(100_000, 600)
    with (
        RedisServer() as server,
        mqredis.connect(server.url, settings=SHORT_RETRY) as qm,
        server.client() as raw,
    ):
        qm.create_queue("q")
        qm.create_queue("t", transactional=True)
        q, t = qm.open("q"), qm.open("t")
        half = messages // 2
        for at in range(0, half, 500):
            q.send_many([b"%d" % n for n in range(at, min(at + 500, half))])
            with qm.transaction() as unit:
                t.send_many([b"%d" % n for n in range(at, min(at + 500, half))], transaction=unit)
        raw.config_set("maxmemory", 1_000_000)
        got: list[list[bytes]] = [[], []]
        raw.script_flush()
        with mqredis.connect(server.url, settings=SHORT_RETRY) as late, late.open("q") as newcomer:
            got[0].append(newcomer.receive(0).body)  # a late reader helps to drain the queue
            assert late.info().messages == 2 * half - 1
            assert late.doctor().healthy
        while len(got[0]) < half or len(got[1]) < half:
            for refused in (lambda: q.send(b"new"), lambda: q.send_many([b"1", b"2"])):
                try:
                    refused()
                except BrokerFull:
                    run.add("sends refused")
                else:
                    assert len(got[0]) + len(got[1]) > 0, "a full server accepted a send"
                    q.receive_many(256, 0)
                    raise AssertionError("the server is not full any more before it is drained")
            if len(got[0]) < half:
                for locked in q.lock_many(64, 0):
                    got[0].append(locked.message.body)
                    locked.commit()
                got[0] += [message.body for message in q.receive_many(256, 0)] if len(got[0]) < half else []
            if len(got[1]) < half:
                with qm.transaction() as unit:
                    got[1] += [m.body for m in t.receive_many(256, 0, transaction=unit)]
        wanted = [b"%d" % n for n in range(half)]
        assert got == [wanted, wanted], "messages were lost or came out of order"
        report = qm.doctor()
        assert report.healthy, report.findings[:3]
        raw.config_set("maxmemory", 0)
        q.send(b"again")
        run.counts["messages drained"] = 2 * half


@check(
    "refusing server",
    "READONLY, BUSY, LOADING, a full disk, an evicting policy: typed, retried where it is safe, once",
)
def refusing_server(run: Run) -> None:
    """Inject each fault once with a long and once with a short retry time."""
    # Redis 7 protects what fills our disk; older ones have no such setting.
    protected = {"enable-protected-configs": "yes"} if server_version() >= (7,) else {}
    for _ in range(run.size(20)):
        with RedisServer(options=protected) as server, server.client() as raw:
            _evicting(run, server, raw)
            with mqredis.connect(server.url) as qm:
                qm.create_queue("q")
            _read_only(run, server, raw)
            _busy(run, server, raw)
            _loading(run, server)
            _disk_full(run, server, raw)
            with mqredis.connect(server.url) as qm:
                sent = int(run.counts["carried out once"]) - _base(run)
                found = qm.queue_info("q").messages
                assert found == sent, f"{found} messages, {sent} were sent"
                assert qm.doctor().healthy
            run.counts["_base"] = run.counts["carried out once"]
    run.counts.pop("_base", None)


def _base(run: Run) -> int:
    return int(run.counts.get("_base", 0))


def _once(run: Run, url: str, settings: Settings) -> None:
    with mqredis.connect(url, settings=settings) as qm, qm.open("q") as q:
        q.send(b"x")
    run.add("carried out once")


def _evicting(run: Run, server: RedisServer, raw: redis.Redis) -> None:
    for policy in ("allkeys-lru", "allkeys-lfu", "allkeys-random"):
        raw.config_set("maxmemory-policy", policy)
        try:
            mqredis.connect(server.url).close()
        except UnsafeServer:
            run.add("evicting servers refused")
        else:
            raise AssertionError(f"a server with {policy} was accepted")
    raw.config_set("maxmemory-policy", "noeviction")


def _refusals(raw: redis.Redis) -> int:
    stats: Any = raw.info("errorstats")
    return sum(int(row["count"]) for name, row in stats.items() if not name.endswith("NOSCRIPT"))


def _during(
    run: Run, server: RedisServer, raw: redis.Redis, begin: Callable[[], Any], end: Callable[[], Any]
) -> None:
    """Send while the server refuses: calls with a short retry time fail, those with a long one succeed afterwards."""
    with (
        mqredis.connect(server.url, settings=SHORT_RETRY) as short_retry,
        mqredis.connect(server.url, settings=LONG_RETRY) as long_retry,
    ):
        q, p = short_retry.open("q"), long_retry.open("q")
        begin()
        try:
            q.send(b"x")
        except BrokerUnavailable:
            run.add("told that it was not done")
        else:
            raise AssertionError("a refusing server accepted a send")
        before = _refusals(raw)

        def end_soon() -> None:
            until(lambda: _refusals(raw) > before)
            end()

        thread = threading.Thread(target=end_soon)
        thread.start()
        p.send(b"x")
        run.add("carried out once")
        thread.join(60)


def _read_only(run: Run, server: RedisServer, raw: redis.Redis) -> None:
    _during(
        run,
        server,
        raw,
        lambda: raw.execute_command("REPLICAOF", "127.0.0.1", "1"),
        lambda: raw.execute_command("REPLICAOF", "NO", "ONE"),
    )


def _busy(run: Run, server: RedisServer, raw: redis.Redis) -> None:
    raw.config_set("lua-time-limit", 5)
    with mqredis.connect(server.url, settings=LONG_RETRY) as qm, qm.open("q") as q:
        spinning = threading.Thread(target=lambda: _spin(server))
        spinning.start()

        def is_busy() -> bool:
            try:
                raw.ping()
            except redis.ResponseError as error:
                return "BUSY" in str(error)
            return False

        until(is_busy)
        killer = threading.Thread(target=lambda: raw.execute_command("SCRIPT", "KILL"))
        sender = threading.Thread(target=lambda: q.send(b"x"))
        sender.start()
        killer.start()
        for thread in (killer, sender, spinning):
            thread.join(60)
        run.add("carried out once")


def _spin(server: RedisServer) -> None:
    with server.client() as other, contextlib.suppress(redis.RedisError):
        other.eval("while true do end", 0)


def _loading(run: Run, server: RedisServer) -> None:
    with (
        Proxy(server.socket_path) as proxy,
        mqredis.connect(proxy.url(), settings=LONG_RETRY) as qm,
        qm.open("q") as q,
    ):
        for error in (
            "LOADING Redis is loading",
            "MASTERDOWN Link down",
            "TRYAGAIN Multiple keys",
            "CLUSTERDOWN",
            "MISCONF Cannot write to the disk",
            "NOREPLICAS Not enough good replicas to write",
        ):
            rule = proxy.add(Refuse(error + " now"), where=is_script, times=3)
            q.send(b"x")
            assert rule.hits == 3
            run.add("carried out once")


def _disk_full(run: Run, server: RedisServer, raw: redis.Redis) -> None:
    gone = server.directory / "gone"
    gone.mkdir()
    raw.config_set("dir", str(gone))
    raw.config_set("save", "3600 1")
    shutil.rmtree(gone)
    try:
        raw.bgsave()
        until(lambda: raw.info("persistence")["rdb_last_bgsave_status"] == "err")
        with mqredis.connect(
            server.url, settings=SHORT_RETRY.model_copy(update={"allow_volatile": True})
        ) as qm:
            raise AssertionError(f"a server that cannot write was accepted: {qm}")
    except BrokerUnavailable:
        run.add("told that it was not done")
    finally:
        raw.config_set("dir", str(server.directory))
        raw.save()  # it writes again
        raw.config_set("save", server.options["save"])
    _once(run, server.url, LONG_RETRY)
