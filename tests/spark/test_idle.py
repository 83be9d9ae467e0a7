"""Idle queries and the progress that they report."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from mqredis.spark.connection import manager_of
from tests.spark.calls import make, rows, take

pytestmark = pytest.mark.spark


def calls(monkeypatch: pytest.MonkeyPatch, options: dict[str, str]) -> list[str]:
    """Records the scripts that readers of this process call."""
    driver = manager_of(options["url"], options["queueManager"])._driver
    called: list[str] = []
    call = driver.call

    def counted(step: Any, run: Any, *more: Any) -> Any:
        called.append(step.script)
        return call(step, run, *more)

    monkeypatch.setattr(driver, "call", counted)
    return called


def test_idle_query_makes_one_long_poll(mode, options, fill, monkeypatch):
    """However long it waits, an idle query lists its queues once, polls, registers and removes its registration."""
    queue = fill(count=3)
    reader = make(options, queue="orders", readMode=mode)
    end, bodies = take(reader, reader.initialOffset())
    assert len(bodies) == 3
    assert reader.latestOffset(end, ReadAllAvailable()) == end  # receives what is done
    called = calls(monkeypatch, options)
    for poll in ("100", "1500"):
        idle = make(options, queue="orders", readMode=mode, pollTimeoutMs=poll)
        assert idle.latestOffset(end, ReadAllAvailable()) == end  # the first time a named claim is asked for
        called.clear()
        assert idle.latestOffset(end, ReadAllAvailable()) == end
        # Its queues are looked up, and it may look again when it is woken in vain.
        assert sorted(set(called)) == [
            "claim_backlog",
            "claim_wait",
            "queue_info",
            "queue_list",
            "stop_waiting",
        ], called
        assert len(called) <= 8, called
    queue.send(b"x")
    assert take(reader, end)[1] == [b"x"]


def test_idle_query_is_woken_by_a_message(mode, options, fill, redis_server, qm):
    queue = fill(count=1)
    reader = make(options, queue="orders", readMode=mode, pollTimeoutMs="60000")
    end, _ = take(reader, reader.initialOffset())
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(reader.latestOffset(end, ReadAllAvailable())))
    thread.start()
    with redis_server.client() as client:
        waiters = f"mq:{{{qm.name}}}:q:orders:w"
        while not client.zcard(waiters) and thread.is_alive():
            thread.join(0.01)
    queue.send(b"wake")
    thread.join(30)
    assert not thread.is_alive(), "nothing woke the query"
    assert rows(reader, end, found[0]) == [b"wake"]


def test_query_waits_while_every_group_is_locked(options, qm, monkeypatch):
    qm.create_queue("orders", group_exclusive=True)
    queue = qm.open("orders")
    for n in range(2):
        queue.send(b"%d" % n, group_id="g")
    held = queue.lock(0)
    reader = make(options, queue="orders", pollTimeoutMs="100")
    start = reader.initialOffset()
    called = calls(monkeypatch, options)
    assert reader.latestOffset(start, ReadAllAvailable()) == start
    assert "stop_waiting" in called  # it was registered until its time was over
    held.commit()
    assert take(reader, start)[1] == [b"1"]


def test_progress_reports_backlog_and_age(redis_server, clocked, mode):
    clocked.create_queue("aged")
    clocked.open("aged").send_many([b"x"] * 10)
    clocked.advance_clock(90)
    given = {"url": redis_server.url, "queueManager": clocked.name, "queue": "aged"}
    reader = make(given, readMode=mode)
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadMaxRows(4))
    report = reader.reportLatestOffset()
    assert report["backlog"] == 6
    assert 90_000 <= report["oldestAgeMs"] < 3_690_000
    assert report["queues"] == {f"{clocked.name}/aged": 6}
    rows(reader, start, end)
    upto = reader.latestOffset(end, ReadMaxRows(6))
    assert len(rows(reader, end, upto)) == 6
    clocked.open("aged").send(b"x", priority=6)
    reader.latestOffset(upto, ReadMaxRows(1))
    report = reader.reportLatestOffset()
    assert report["backlog"] == 0
    assert 0 <= report["oldestAgeMs"] < 90_000
