"""Deleted queues, lost messages, and checkpoints that do not match."""

from __future__ import annotations

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

import mqredis
from tests.spark.calls import make, rows, take

pytestmark = pytest.mark.spark


def test_data_loss_stops_a_query_unless_fail_on_data_loss_is_off(mode, options, fill, qm):
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


def test_queue_deleted_after_its_batch_was_logged(mode, options, fill, qm):
    fill("a", 5)
    fill("b", 5)
    careless = make(options, queues="a,b", readMode=mode, failOnDataLoss="false")
    start = careless.initialOffset()
    end = careless.latestOffset(start, ReadAllAvailable())
    qm.delete_queue("b")
    assert len(rows(careless, start, end)) == 5
    with pytest.raises(Exception, match="'b'"):
        make(options, queues="a,b", readMode=mode).partitions(start, end)


@pytest.mark.parametrize("received", [True, False])
@pytest.mark.parametrize("restarted", [True, False])
def test_queue_that_was_created_again_is_named_with_the_remedy(options, fill, qm, restarted, received):
    fill("a", 5)
    reader = make(options, queue="a")
    end, _ = take(reader, reader.initialOffset())
    if received:
        reader.commit(end)
    qm.delete_queue("a")
    fill("a", 3)
    with pytest.raises(Exception, match=r"QUEUE_NOT_AVAILABLE .*'a' .* was deleted .* failOnDataLoss=false"):
        (make(options, queue="a") if restarted else reader).latestOffset(end, ReadAllAvailable())
    if not received:
        with pytest.raises(Exception, match=r"'a' .* was deleted .* failOnDataLoss=false"):
            make(options, queue="a").commit(end)
    careless = make(options, queue="a", failOnDataLoss="false")
    assert len(take(careless, end)[1]) == 3


def test_flushed_manager_ends_a_query_and_the_next_one_works(options, fill, qm, redis_server):
    fill(count=5)
    reader = make(options, queue="orders")
    first, _ = take(reader, reader.initialOffset(), ReadMaxRows(2))
    second, _ = take(reader, first, ReadMaxRows(2))
    with redis_server.client() as client:  # also what a server without a log keeps after a restart
        client.delete(*client.keys(f"mq:{{{qm.name}}}:*"))
    with mqredis.connect(redis_server.url, manager=qm.name) as present:
        present.create_queue("orders")
        present.open("orders").send("new")
    with pytest.raises(Exception, match="MANAGER_NOT_FOUND"):
        reader.latestOffset(second, ReadAllAvailable())
    with pytest.raises(Exception, match="does not know the batch before this one"):
        make(options, queue="orders").latestOffset(second, ReadAllAvailable())
    with pytest.raises(Exception, match=r"has skipped batch .* or the server has lost"):
        make(options, queue="orders").latestOffset(first, ReadAllAvailable())
    careless = make(options, queue="orders", failOnDataLoss="false")
    assert take(careless, second)[1] == [b"new"]


def test_available_now_query_continues_without_a_deleted_queue(mode, options, fill, qm):
    fill("a", 5)
    fill("b", 5)
    given = {"queues": "a,b", "readMode": mode}
    reader = make(options, **given)
    end, _ = take(reader, reader.initialOffset())
    reader.commit(end)
    qm.delete_queue("b")
    fill("a", 2)
    careless = make(options, **given, failOnDataLoss="false")
    careless.prepareForTriggerAvailableNow()
    assert len(take(careless, end)[1]) == 2
    with pytest.raises(Exception, match="has no queue 'b'"):
        make(options, **given).prepareForTriggerAvailableNow()
    with pytest.raises(Exception, match="has no queue 'b'"):
        careless.initialOffset()  # of a query without a checkpoint, which never had it


def test_queues_of_a_stream_are_read_once_for_one_decision(options, fill, qm, monkeypatch):
    """A queue that is created again at this moment is either deleted or there, not a queue that the options drop."""
    fill("orders-a", 1)
    fill("orders-b", 1)
    reader = make(options, queuePattern="orders-*")
    start = reader.initialOffset()
    listed = mqredis.QueueManager.queues
    reads = 0

    def queues(manager: mqredis.QueueManager) -> list[mqredis.QueueInfo]:
        nonlocal reads
        reads += 1
        return [info for info in listed(manager) if reads > 1 or info.name != "orders-b"]

    monkeypatch.setattr("mqredis.client.QueueManager.queues", queues)
    with pytest.raises(Exception, match=r"no longer exist: .*/orders-b"):
        reader.latestOffset(start, ReadAllAvailable())


def test_lost_messages_stop_a_query_unless_fail_on_data_loss_is_off(options, fill, qm, redis_server):
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


def test_checkpoint_of_another_query_is_refused(options, fill):
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
            "belongs to the reader .* but consumerName is 'lake'",
        ),
        (lambda: receive.latestOffset({"v": 2}, ReadAllAvailable()), "this version cannot read"),
    ]:
        with pytest.raises(Exception, match=text):
            call()


def test_checkpoint_older_than_the_received_messages_is_refused(options, fill, qm):
    """A checkpoint restored from a copy refers to messages that were received since."""
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
