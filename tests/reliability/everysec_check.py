"""Check: losses with ``appendfsync everysec``, measured."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import redis

import mqredis
from mqredis import MqError, QueueManager, Settings
from tests.reliability.check import Run, check
from tests.reliability.promotion_check import PARTS, Writer, told
from tests.support.replication import syncs_on_demand
from tests.support.server import RedisServer

SETTINGS = Settings(lease_seconds=300, retry_seconds=0, connect_timeout_seconds=60, reply_timeout_seconds=60)
# Looks at the server before it is killed at any rate: on a fast disk the moment may not come.
LOOKS = 3000
# More units than one round commits.
ROUND = 1_000_000


@check(
    "everysec",
    "kill -9 under appendfsync everysec, aimed at a pending fsync: what is lost is the end, in whole units, and is "
    "reported; how much is counted",
)
def everysec(run: Run) -> None:
    """Write, kill when the log is behind, start again, count. With WAITAOF, half of the rounds ask for the disk."""
    rounds = run.size(200)
    run.counts.update({"kills": rounds, "kills with a loss": 0, "acknowledged units": 0, "lost units": 0})
    worst_units, worst_ms, ids = 0, 0.0, set[int]()
    with RedisServer(aof=True) as server:
        with mqredis.connect(server.url) as qm:
            for name in ("t", "u"):
                qm.create_queue(name, transactional=True)
        levels = ("memory", "fsync") if syncs_on_demand(server) else ("memory",)
        for number in range(rounds):
            with mqredis.connect(server.url, settings=SETTINGS) as qm:
                writer = Writer(qm, levels[number % len(levels)], ids, b" " * 2000, number * ROUND)
                times = load(writer, 20 if writer.level == "memory" else 1, lambda: _kill_behind(server))
                lost, age = after(server, writer, times, qm)
            if writer.level == "fsync":
                if lost:
                    raise AssertionError(f"{lost} units were on disk, and they are gone")
                run.add("acknowledged units at fsync, none lost", len(times))
                continue
            run.add("acknowledged units", len(times))
            run.add("lost units", lost)
            run.add("kills with a loss", int(lost > 0))
            worst_units, worst_ms = max(worst_units, lost), max(worst_ms, age)
    run.counts["most units lost by one kill"] = worst_units
    run.counts["oldest lost, ms before the kill"] = round(worst_ms)


def load(writer: Writer, least: int, strike: Callable[[], object]) -> dict[int, float]:
    """Commit until ``strike`` ends the server, which it does once more than ``least`` units are acknowledged.

    :returns: when each unit was acknowledged, in seconds before the end.
    """
    times: dict[int, float] = {}
    enough = threading.Event()

    def work() -> None:
        try:
            while True:
                writer.commit()
                if writer.unit in writer.acknowledged:
                    times[writer.unit] = time.monotonic()
                if len(times) > least:
                    enough.set()
        except MqError:
            enough.set()  # killed

    thread = threading.Thread(target=work)
    thread.start()
    if not enough.wait(60):
        raise AssertionError("nothing is written")
    strike()
    end = time.monotonic()
    thread.join(90)
    if thread.is_alive():
        raise AssertionError("the writer hangs")
    return {unit: end - when for unit, when in times.items()}


def _kill_behind(server: RedisServer) -> None:
    """``kill -9`` when its log is behind, at the latest after some polls."""
    with server.client() as raw:
        for _ in range(LOOKS):
            if _behind(raw):
                break
    server.kill()


def _behind(raw: redis.Redis) -> bool:
    """Return whether the server has acknowledged writes that wait for the disk."""
    state = raw.info("persistence")
    return bool(int(state.get("aof_buffer_length", 0)) > 0 and int(state.get("aof_pending_bio_fsync", 0)) > 0)


def after(
    server: RedisServer, writer: Writer, times: dict[int, float], qm: QueueManager
) -> tuple[int, float]:
    """How many acknowledged units are lost, and how old the oldest is, in ms."""
    server.start()
    reported = told(qm)
    report = qm.doctor()
    if not report.healthy:
        raise AssertionError(f"the server came back torn: {report.findings[:3]}")
    present = writer.present()
    if torn := {unit: count for unit, count in present.items() if count != PARTS}:
        raise AssertionError(f"units of work are torn: {torn}")
    lost = times.keys() - present.keys()
    if lost and not reported:
        raise AssertionError(f"{len(lost)} acknowledged units are lost, and the client was not told")
    if lost and min(lost) <= max(times.keys() - lost, default=0):
        raise AssertionError("what is lost is not the end")
    return len(lost), max((times[unit] * 1000 for unit in lost), default=0.0)
