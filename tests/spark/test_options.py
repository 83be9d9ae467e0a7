"""Each option of a streaming read, by what Spark would call, called directly: no session, exact counts."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows

import mqredis
from mqredis.models import Outgoing
from mqredis.spark import options as parsing
from mqredis.spark import stream
from mqredis.spark.browse import BrowseReader
from mqredis.spark.connection import manager_of
from mqredis.spark.options import check_stream
from mqredis.spark.receive import ReceiveReader
from mqredis.spark.schema import SCHEMA

pytestmark = pytest.mark.spark


_numbers = iter(range(1, 1_000))


def make(options: dict[str, str], **more: str) -> Any:
    """A streaming reader, as Spark gets it."""
    parsed = parsing.parse({"pollTimeoutMs": "0", **options, **more})
    check_stream(parsed)
    return stream.reader(parsed, SCHEMA)


def rows(reader: Any, start: dict[str, Any], end: dict[str, Any], column: str = "body") -> list[Any]:
    """What the tasks of one micro-batch read."""
    found = []
    for part in reader.partitions(start, end):
        for batch in reader.read(part):
            found += batch.column(column).to_pylist()
    return found


def take(reader: Any, start: dict[str, Any], limit: Any = None) -> tuple[dict[str, Any], list[bytes]]:
    end = reader.latestOffset(start, limit or ReadAllAvailable())
    return end, rows(reader, start, end)


@pytest.fixture(params=["receive", "browse"])
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


# ---- what an idle query costs ------------------------------------------------------------------------------


def test_an_idle_query_costs_a_long_poll(mode, options, fill, monkeypatch):
    """However long it waits, an idle query asks once for its queues, looks, registers, and leaves."""
    queue = fill(count=3)
    reader = make(options, queue="orders", readMode=mode)
    end, bodies = take(reader, reader.initialOffset())
    assert len(bodies) == 3
    assert reader.latestOffset(end, ReadAllAvailable()) == end  # receives what is done
    driver = manager_of(options["url"], options["queueManager"])._driver
    called: list[str] = []
    call = driver._call

    def counted(step: Any, run: Any, *more: Any) -> Any:
        called.append(step.script)
        return call(step, run, *more)

    monkeypatch.setattr(driver, "_call", counted)
    for poll in ("100", "1500"):
        idle = make(options, queue="orders", readMode=mode, pollTimeoutMs=poll)
        assert idle.latestOffset(end, ReadAllAvailable()) == end  # the first time a named claim is asked for
        called.clear()
        assert idle.latestOffset(end, ReadAllAvailable()) == end
        # Its queues are looked up, and it may look again when it is woken in vain.
        assert sorted(set(called)) == ["claim_look", "claim_wait", "leave", "queue_info", "queue_list"], (
            called
        )
        assert len(called) <= 8, called
    queue.send(b"x")
    assert take(reader, end)[1] == [b"x"]


def test_an_idle_query_is_woken(mode, options, fill, redis_server, qm):
    import threading

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


# ---- selectors -----------------------------------------------------------------------------------------


def coloured(qm: mqredis.QueueManager, count: int, **more: Any) -> mqredis.Queue:
    qm.create_queue("orders", **more)
    queue = qm.open("orders")
    for at in range(0, count, 500):
        queue.send_many(
            [
                Outgoing(body=b"%d" % n, properties={"n": n, "colour": "red" if n % 7 == 0 else "blue"})
                for n in range(at, min(count, at + 500))
            ]
        )
    return queue


def test_a_selector_takes_only_what_it_selects(options, qm):
    coloured(qm, 3000)
    red = [b"%d" % n for n in range(0, 3000, 7)]
    reader = make(options, queue="orders", selector="colour = 'red'")
    end, bodies = take(reader, reader.initialOffset(), ReadMaxRows(300))
    assert bodies == red[:300]
    assert qm.queue_info("orders").locked == 300
    again = make(options, queue="orders", selector="colour = 'red'")
    assert rows(again, again.initialOffset(), end) == bodies
    end, bodies = take(reader, end, ReadMaxRows(300))
    assert bodies == red[300:]
    assert reader.latestOffset(end, ReadAllAvailable()) == end  # nothing red is left: no empty batches
    assert qm.queue_info("orders").messages == 3000 - len(red)
    assert qm.doctor().findings == ()
    qm.open("orders").send(b"late", properties={"colour": "red"})
    assert take(reader, end)[1] == [b"late"]


def test_a_selector_and_available_now(options, qm):
    queue = coloured(qm, 100)
    reader = make(options, queue="orders", selector="n < 50")
    reader.prepareForTriggerAvailableNow()
    queue.send(b"later", properties={"n": 1})
    end, bodies = take(reader, reader.initialOffset())
    assert bodies == [b"%d" % n for n in range(50)]
    assert reader.latestOffset(end, ReadAllAvailable()) == end
    assert qm.queue_info("orders").messages == 51


def test_a_selector_respects_groups_with_one_active_message(options, qm):
    qm.create_queue("orders", group_exclusive=True)
    queue = qm.open("orders")
    for n in range(6):
        queue.send(b"%d" % n, group_id="ab"[n % 2], properties={"n": n})
    reader = make(options, queue="orders", selector="n >= 2")
    end, bodies = take(reader, reader.initialOffset())
    assert bodies == [b"2", b"3"]  # one of each group
    end, bodies = take(reader, end)
    assert bodies == [b"4", b"5"]
    assert qm.doctor().findings == ()


def test_a_browse_shows_what_its_selector_selects(options, qm):
    coloured(qm, 70)
    reader = make(options, queue="orders", readMode="browse", selector="colour = 'red'")
    end, bodies = take(reader, reader.initialOffset())
    assert bodies == [b"%d" % n for n in range(0, 70, 7)]
    assert reader.latestOffset(end, ReadAllAvailable()) == end


@pytest.mark.parametrize(
    "more, text",
    [
        ({"startingPosition": "soon"}, "earliest, latest or a SequentialID"),
        ({"startingTimestamp": "noon"}, "milliseconds since 1970"),
        ({"startingPosition": "7", "startingTimestamp": "7"}, "not both"),
        ({"selector": "a = = 1"}, "SELECTOR_SYNTAX"),
        ({"readMode": "browse", "consumerName": "a"}, "belongs to readMode=receive"),
        ({"readMode": "browse", "selector": "a = = 1"}, "SELECTOR_SYNTAX"),
        ({"readMode": "take"}, "receive or browse"),
        ({"maxMessagesPerTrigger": "0"}, "at least 1"),
        ({"maxBytesPerTrigger": "1.5"}, "whole number"),
        ({"failOnDataLoss": "maybe"}, "true or false"),
        ({"queues": "a,b"}, "exactly one of"),
        ({"queueManager": "a", "queueManagers": "a,b"}, "not both"),
        ({"fetchSize": "9000"}, "at most 7000"),
        ({"consumername": "a?b"}, "consumerName"),
        ({"startingOffsets": "earliest"}, "unknown option"),
    ],
)
def test_bad_options_are_refused_before_a_job(more, text):
    from mqredis.spark.source import DefaultSource

    given = {
        name.lower(): value for name, value in {"url": "redis://nowhere", "queue": "orders", **more}.items()
    }
    with pytest.raises(Exception, match=text):
        DefaultSource(given).streamReader(SCHEMA)


# ---- where a query begins ----------------------------------------------------------------------------------


@pytest.fixture
def clocked(redis_server: Any) -> Any:
    settings = mqredis.Settings(test_clock=True)
    name = f"clocked{next(_numbers)}"  # a process keeps its clients, and a flushed manager's is of no use
    with mqredis.connect(redis_server.url, manager=name, settings=settings) as qm:
        yield qm


def test_a_query_begins_at_a_moment(mode, redis_server, clocked):
    clocked.create_queue("orders")
    queue = clocked.open("orders")
    moments = []
    for n in range(40):
        queue.send(b"%d" % n, priority=n % 3)
        moments.append(queue.peek(0).arrived_at if n == 0 else None)
        if n in (9, 24):
            clocked.advance_clock(3600)
    first = moments[0]
    assert first is not None
    given = {"url": redis_server.url, "queueManager": clocked.name, "queue": "orders", "readMode": mode}
    second = first.timestamp() + 1800
    spelled = datetime.fromtimestamp(second, UTC).isoformat()
    for text in (spelled, str(int(second * 1000)), spelled.removesuffix("+00:00")):
        reader = make(given, startingTimestamp=text)
        end = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
        assert (
            sum(reader.report["queues"].values() if mode == "receive" else [reader.report["backlog"]]) == 30
        )
    bodies = rows(reader, reader.initialOffset(), end)
    assert sorted(map(int, bodies)) == list(range(10, 40))
    if mode == "receive":
        reader.commit(end)
        assert sorted(int(m.body) for m in queue.browse()) == list(range(10))
    late = make(given, startingTimestamp=str(int((first.timestamp() + 9000) * 1000)))
    assert late.latestOffset(late.initialOffset(), ReadAllAvailable()) == late.initialOffset()


def test_a_query_begins_at_the_end_or_behind_an_id(mode, options, qm, fill):
    queue = fill(count=20)
    ids = [m.lookup_id for m in queue.browse()]
    latest = make(options, queue="orders", readMode=mode, startingPosition="latest", pollTimeoutMs="50")
    start = latest.initialOffset()
    assert latest.latestOffset(start, ReadAllAvailable()) == start
    queue.send(b"new", priority=6)
    end, bodies = take(latest, start)
    assert bodies == [b"new"]
    if mode == "receive":
        latest.commit(end)
    behind = str(ids[9] & ((1 << 56) - 1))
    reader = make(options, queue="orders", readMode=mode, startingPosition=behind)
    end, bodies = take(reader, reader.initialOffset())
    assert [body for body in bodies if body != b"new"] == [b"%d" % n for n in range(10, 20)]
    if mode == "receive":
        reader.commit(end)
        assert qm.queue_info("orders").messages == 10
    assert qm.doctor().findings == ()


def test_a_query_of_groups_begins_at_the_front(options, qm):
    qm.create_queue("orders", group_exclusive=True)
    qm.open("orders").send(b"x", group_id="g")
    reader = make(options, queue="orders", startingPosition="latest")
    with pytest.raises(Exception, match="one active message per group"):
        reader.initialOffset()


# ---- limits, queues, loss ------------------------------------------------------------------------------


def test_queues_share_the_bytes_of_a_trigger(options, qm):
    for name, count in (("a", 30), ("b", 10)):
        qm.create_queue(name)
        qm.open(name).send_many([b"x" * 985] * count)  # 1,000 bytes with what stands before the body
    reader = make(options, queues="a,b", maxBytesPerTrigger="8000")
    assert isinstance(reader.getDefaultReadLimit(), ReadMaxBytes)
    start = reader.initialOffset()
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    assert sorted(rows(reader, start, end, "queue")) == ["a"] * 6 + ["b"] * 2


@pytest.mark.parametrize("bounded", [False, True])
@pytest.mark.parametrize("count", [1000, 1001])
def test_a_limit_of_bytes_that_ends_with_a_page(options, qm, count, bounded):
    """The call behind a full page finds no room for one more message: it takes none, and loses none."""
    qm.create_queue("orders")
    for _ in range(5):
        qm.open("orders").send_many(
            [Outgoing(body=b"x" * 85)] * 500
        )  # 100 bytes with what stands before the body
    reader = make(options, queue="orders", maxBytesPerTrigger=str(count * 100 + 50))
    if bounded:
        reader.prepareForTriggerAvailableNow()
    start = reader.initialOffset()
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    assert len(rows(reader, start, end)) == count
    info = qm.queue_info("orders")
    assert (info.locked, info.ready) == (count, 2500 - count)
    assert qm.doctor().findings == ()


def test_a_pattern_takes_new_queues_in(mode, options, fill, qm):
    fill("a1", 2)
    reader = make(options, queuePattern="a*", readMode=mode)
    end, bodies = take(reader, reader.initialOffset())
    assert len(bodies) == 2
    fill("a2", 3)
    end, bodies = take(reader, end)
    assert len(bodies) == 3
    assert set(end["queues"]) == {f"{qm.name}/a1", f"{qm.name}/a2"}


def test_data_loss_stops_a_query_unless_it_is_told_to_go_on(mode, options, fill, qm):
    fill("a", 5)
    fill("b", 5)
    strict = make(options, queues="a,b", readMode=mode)
    careless = make(options, queues="a,b", readMode=mode, failOnDataLoss="false")
    end, bodies = take(careless, careless.initialOffset())
    assert len(bodies) == 10
    if mode == "receive":
        careless.commit(end)
    qm.delete_queue("b")
    fill("a", 2)
    with pytest.raises(Exception, match="has no queue 'b'"):
        strict.latestOffset(end, ReadAllAvailable())
    end, bodies = take(careless, end)
    assert len(bodies) == 2
    fill("b", 4)
    end, bodies = take(careless, end)
    assert len(bodies) == (4 if mode == "receive" else len(bodies))
    with pytest.raises(Exception, match="without"):
        take(make(options, queue="a", readMode=mode, failOnDataLoss="false"), end)


def test_lost_messages_stop_a_query_unless_it_is_told_to_go_on(options, fill, qm, redis_server):
    fill(count=10)
    reader = make(options, queue="orders")
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadAllAvailable())
    parts = reader.partitions(start, end)
    with redis_server.client() as client:  # what a failover may lose
        stem = f"mq:{{{qm.name}}}:q:orders:"
        client.hdel(stem + "m", client.hkeys(stem + "m")[0])
    with pytest.raises(Exception, match="1 claimed messages of queue 'orders' are gone"):
        [batch for part in parts for batch in reader.read(part)]
    careless = make(options, queue="orders", failOnDataLoss="false")
    assert len(rows(careless, start, end)) == 9


def test_progress_tells_backlog_and_age(redis_server, clocked):
    clocked.create_queue("aged")
    clocked.open("aged").send_many([b"x"] * 10)
    clocked.advance_clock(90)
    given = {"url": redis_server.url, "queueManager": clocked.name, "queue": "aged"}
    reader = make(given)
    start = reader.initialOffset()
    reader.latestOffset(start, ReadMaxRows(4))
    report = reader.reportLatestOffset()
    assert report["backlog"] == 6
    assert 90_000 <= report["oldestAgeMs"] < 3_690_000
    assert report["queues"] == {f"{clocked.name}/aged": 10}


def test_a_reader_without_headers_or_bodies(options, fill):
    from mqredis.spark.schema import full

    assert "`properties`" not in full("", False, True)
    assert "`body`" not in full("", True, False)
    fill(count=2)
    from mqredis.spark.source import DefaultSource

    given = {**options, "queue": "orders", "includeheaders": "false", "includebody": "false"}
    names = DefaultSource(given).schema()
    assert "properties" not in names
    assert "`body`" not in names
    assert "`lookup_id`" in names


# ---- claims of plain and of other messages ---------------------------------------------------------------------


def mixed(number: int) -> Outgoing:
    """Messages of every kind that a claim treats in its own way."""
    body = b"%d" % number
    more: dict[str, Any] = {}
    if number % 11 == 3:
        more["correlation_id"] = f"c{number}"
    if number % 13 == 5:
        body = body.ljust(9000)
    if number % 17 == 7:
        more["time_to_be_received"] = 3600.0
    return Outgoing(body=body, priority=number % 5, **more)


@pytest.mark.parametrize("kinds", ["plain", "mixed"])
@pytest.mark.parametrize("bounded", [False, True])
def test_claims_of_all_kinds_of_messages(options, qm, kinds, bounded):
    qm.create_queue("orders")
    queue = qm.open("orders")
    build: Callable[[int], Outgoing] = mixed if kinds == "mixed" else lambda n: Outgoing(body=b"%d" % n)
    for at in range(0, 2500, 500):
        queue.send_many([build(n) for n in range(at, at + 500)])
    queue.lock(0).abort()  # one was delivered before
    before = {m.lookup_id: (m.body, m.delivery_count) for m in queue.browse()}
    assert sum(count for _, count in before.values()) == 1
    reader: ReceiveReader | BrowseReader = make(options, queue="orders", minPartitions="3")
    if bounded:
        reader.prepareForTriggerAvailableNow()
        queue.send_many([Outgoing(body=b"late", priority=7)] * 3)
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadMaxRows(2200))
    ids = rows(reader, start, end, "lookup_id")
    assert ids == sorted(before)[:2200]
    assert rows(reader, start, end) == [before[lid][0] for lid in ids]
    assert rows(reader, start, end, "delivery_count") == [before[lid][1] + 1 for lid in ids]
    assert qm.doctor().findings == ()
    info = qm.queue_info("orders")
    assert info.locked == 2200
    start, end = end, reader.latestOffset(end, ReadMaxRows(2200))
    assert rows(reader, start, end, "lookup_id") == sorted(before)[2200:]
    reader.commit(end)
    assert qm.doctor().findings == ()
    assert qm.queue_info("orders").messages == (3 if bounded else 0)


def test_a_claim_wakes_nobody_and_what_it_gives_back_does(options, qm, fill):
    from mqredis.spark import claims, release

    queue = fill(count=1500)
    reader = make(options, queue="orders")
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadAllAvailable())
    reader.partitions(start, end)
    with pytest.raises(mqredis.IoTimeout):
        queue.receive(0)
    assert release(qm, "orders", claims(qm)[0].owner) == 1500
    assert queue.receive(0).body == b"0"
    assert qm.doctor().findings == ()


# ---- checkpoints that do not fit -------------------------------------------------------------------------------


def test_a_checkpoint_of_another_query_is_refused(options, fill):
    fill(count=5)
    fill("other", 5)
    receive = make(options, queue="orders")
    end = receive.latestOffset(receive.initialOffset(), ReadAllAvailable())
    browse = make(options, queue="orders", readMode="browse")
    seen = browse.latestOffset(browse.initialOffset(), ReadAllAvailable())
    named = make(options, queue="orders", consumerName="lake")
    for call, text in [
        (lambda: make(options, queue="other").partitions(end, end), "without .*/orders and with .*/other"),
        (lambda: browse.latestOffset(end, ReadAllAvailable()), "readMode=receive, not browse"),
        (lambda: receive.latestOffset(seen, ReadAllAvailable()), "readMode=browse, not receive"),
        (
            lambda: named.latestOffset(end, ReadAllAvailable()),
            "belongs to owner .* but consumerName is 'lake'",
        ),
        (lambda: receive.latestOffset({"v": 2}, ReadAllAvailable()), "this version cannot read"),
    ]:
        with pytest.raises(Exception, match=text):
            call()


def test_a_checkpoint_older_than_the_queue_is_refused(options, fill, qm):
    """A checkpoint was restored from a copy: what it would read was received long ago."""
    fill(count=30)
    reader = make(options, queue="orders")
    offsets = [reader.initialOffset()]
    for _ in range(3):
        end, _ = take(reader, offsets[-1], ReadMaxRows(10))
        offsets.append(end)
    reader.commit(offsets[-1])
    restored = make(options, queue="orders")
    with pytest.raises(Exception, match="received already"):
        restored.partitions(offsets[1], offsets[2])
    assert qm.queue_info("orders").messages == 0
