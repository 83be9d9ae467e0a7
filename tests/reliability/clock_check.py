"""Check: the server's clock is set forward and back while leases, delays, retries and transactions run."""

from __future__ import annotations

import time
from typing import Any

import mqredis
from mqredis import RetryPolicy, Settings
from tests.reliability.check import Run, check
from tests.support.clock import ClockServer

# Seconds of each lease, delay and pause.
SHORT = 0.5
# Seconds within which everything that is due has to come (docs/decisions/time.md).
BOUND = 15.0
# The clock stays within so many seconds of the machine's.
DAY = 86_400.0
WAYS = ("locked", "delayed", "retried", "received")


@check(
    "clock",
    "the server's clock is set forward and back by up to a day, several times: nothing that is due stays stuck, "
    "nothing is lost or delivered twice, and late holders are refused",
)
def clock(run: Run) -> None:
    """Each round leaves one message in each waiting state, sets the clock, and receives all of them."""
    rng, worst = run.rng("clock"), 0.0
    with ClockServer() as server, mqredis.connect(server.url, settings=Settings(lease_seconds=SHORT)) as qm:
        queues = _queues(qm)
        for number in range(run.size(60)):
            texts = {way: f"{way} {number}" for way in WAYS}
            lock, dead = _leave(qm, queues, texts)
            for _ in range(rng.randint(1, 3)):
                server.shift(rng.choice((-1, 1)) * rng.choice((1.0, 60.0, 3600.0, DAY)) * rng.random())
                run.add("steps of the clock")
            for way, queue in queues.items():
                began = time.monotonic()
                if queue.receive(timeout=BOUND).text != texts[way]:
                    raise AssertionError(f"another message than {texts[way]!r}")
                worst = max(worst, time.monotonic() - began)
            _refused(lock, dead)
            run.add("messages", len(WAYS))
        report = qm.doctor()
        if qm.info().messages or not report.healthy:
            raise AssertionError(f"{qm.info().messages} messages are left over, findings {report.findings}")
    run.counts["worst seconds"] = round(worst, 3)


def _queues(qm: mqredis.QueueManager) -> dict[str, mqredis.Queue]:
    for way in WAYS:
        policy = RetryPolicy(immediate=0, cycles=5, delay=SHORT, factor=1.0) if way == "retried" else None
        qm.create_queue(way, transactional=way == "received", retry=policy)
    return {way: qm.open(way) for way in WAYS}


def _leave(
    qm: mqredis.QueueManager, queues: dict[str, mqredis.Queue], texts: dict[str, str]
) -> tuple[Any, Any]:
    """Leave a message locked, one delayed, one between two attempts, and one received in a transaction."""
    queues["locked"].send(texts["locked"])
    queues["delayed"].send(texts["delayed"], delay=SHORT)
    queues["retried"].send(texts["retried"])
    queues["retried"].lock(timeout=0).abort()
    with qm.transaction() as tx:
        queues["received"].send(texts["received"], transaction=tx)
    dead = qm.transaction()
    queues["received"].receive(timeout=0, transaction=dead)
    return queues["locked"].lock(timeout=0), dead


def _refused(lock: Any, dead: Any) -> None:
    """The lock and the transaction whose messages went to others can change nothing."""
    for late, error in ((lock, mqredis.LockLost), (dead, mqredis.TransactionSequence)):
        try:
            late.commit()
        except error:
            continue
        raise AssertionError(f"a late commit was accepted: {late!r}")
