"""A scenario that calls every script, for tests that check all calls. A new script must be called here."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import Any

from mqredis import IoTimeout, Journal, Mark, Match, MqError, Outgoing, QueueManager, RetryPolicy, Seek, Share
from mqredis.commands import manager, workers
from mqredis.commands import stages as commands
from mqredis.commands.claims import Order
from mqredis.commands.filters import Filter
from mqredis.models import Access
from mqredis.operations import pipelines
from mqredis.selector import parse
from mqredis.steps import perform
from tests.support.counts import set_count
from tests.support.pipeline import Pipeline
from tests.support.sink_job import SinkJob


def everything(qm: QueueManager, raw: Any) -> None:
    """Call every script; ``raw`` is a Redis client, used to plant a fault that the doctor repairs."""
    qm.create_queue("orders", quota_messages=10_000, quota_bytes=10_000_000)
    qm.create_queue("tx", transactional=True)
    qm.create_queue("turns", group_exclusive=True)
    orders, tx, turns = qm.open("orders"), qm.open("tx"), qm.open("turns")
    _plain(qm)
    _waits(qm)
    _transactions(qm)
    _positions(qm)
    _matching(qm)
    _beside(qm)
    _pipelines(qm, raw)
    with contextlib.suppress(MqError):
        qm.open("orders", Access.RECEIVE, Share.DENY_RECEIVE)
    qm.update_queue("orders", label="l", get_inhibited=True)
    qm.update_queue("orders", get_inhibited=False)
    qm.throttle(True)
    with contextlib.suppress(MqError):
        orders.send(b"x")
    qm.throttle(False)
    qm.set_quota(messages=100_000)
    qm.resolve("1.1:1")
    qm.resolve(f"{qm.driver.session}.99:1")
    qm.operator("ada").cancel("orders")
    qm.operator("ada").pause("orders")
    qm.operator("ada").begin("inhibit", "orders", token="t")
    qm.workers()
    qm.run(perform(workers.beat(qm.context.keys, "a", 0, True, "{}", ["q:orders"])))
    qm.operator("ada").create_schedule("hourly", 3600, "orders")
    qm.operator("ada").trigger_schedule("hourly")
    qm.schedules()
    qm.operator("ada").release("orders", [1])
    with contextlib.suppress(MqError):
        qm.operator("ada").abort("none")
    qm.info()
    qm.queues()
    _shown(qm)
    set_count(raw, f"mq:{{{qm.name}}}:q:orders:q", "messages", 5)
    qm.doctor(repair=True)
    qm.advance_clock(100_000)
    qm.maintain()
    for queue in (orders, tx, turns):
        queue.close()
    orders = qm.open("orders")
    orders.send_many([b"x"] * 3)
    orders.lock(0)
    orders.purge()
    qm.delete_queue("orders")


def _shown(qm: QueueManager) -> None:
    """The calls that operators use to inspect a manager, with items of each kind."""
    tx, orders = qm.open("tx"), qm.open("orders")
    held = qm.transaction()
    tx.send(b"x", transaction=held)
    orders.send_many([b"x"] * 11)
    locks = [*orders.lock_many(3, 0), orders.lock(0)]
    qm.overview()
    qm.histories(["q", "nothing"])
    qm.locks("orders", limit=2)
    qm.locks("orders", limit=2, after=qm.locks("orders", limit=2).next)
    qm.locks("tx")
    qm.transactions()
    qm.sessions()
    qm.messages("orders", selector="n = 1")
    qm.scheduled("orders")
    orders.commit_many(locks)
    held.abort()
    tx.close()


def _plain(qm: QueueManager) -> None:
    orders = qm.open("orders")
    orders.send(b"a", priority=7, label="l", properties={"region": "EU", "n": 1})
    orders.send(b"b" * 10_000, delay=5)
    orders.send(b"c", time_to_be_received=5, correlation_id="c", message_id=b"m", group_id="g")
    orders.send_many([b"x"] * 20)
    orders.peek(0)
    list(orders.browse())
    orders.receive(0)
    orders.receive_many(3, 0)
    with orders.lock(0, lease=5) as lock:
        lock.extend(10)
    with contextlib.suppress(ValueError), orders.lock(0):
        raise ValueError
    orders.lock(0).reject()
    locks = orders.lock_many(2, 0)
    orders.lock_many(2, 0, settle=locks)
    with orders.cursor() as cursor:
        cursor.peek(0)
        cursor.peek_next(0)
        cursor.receive(0)
        cursor.peek(0)
        cursor.lock(0).abort()
    orders.lock(0, lease=1)
    qm.advance_clock(10)  # lapses, expires and ends the delay
    orders.receive_many(256, 0)
    orders.close()


def _until_waiting(qm: QueueManager, thread: threading.Thread) -> None:
    for _ in range(10_000):
        if qm.queue_info("orders").waiters or not thread.is_alive():
            return
    raise AssertionError("no reader waits")


def _waits(qm: QueueManager) -> None:
    orders = qm.open("orders")
    keys = qm._driver.core.keys
    look = manager.poll_all(keys, [keys.queue("turns"), keys.queue("never")])
    assert qm.run(perform(look))[:2] == ([False, True], [])
    ended = []

    def wait(read: Callable[[], object]) -> None:
        try:
            read()
        except MqError as error:
            ended.append(error)

    reads: list[Callable[[], object]] = [
        lambda: orders.receive(20),
        lambda: orders.peek(20),
        lambda: orders.cursor().receive(20),
        lambda: orders.receive(20, match=Match(correlation_id="never"), tag="tag"),
    ]
    for n, read in enumerate(reads):
        thread = threading.Thread(target=wait, args=(read,))
        thread.start()
        _until_waiting(qm, thread)
        if n == 3:
            orders.cancel("tag")
        else:
            orders.send(b"late")
        thread.join(30)
        assert not thread.is_alive()
    with contextlib.suppress(IoTimeout):
        orders.receive(0.01, match=Match(correlation_id="never"))
    leaving = qm.open("orders")
    thread = threading.Thread(
        target=wait, args=(lambda: leaving.receive(20, match=Match(message_id="never")),)
    )
    thread.start()
    _until_waiting(qm, thread)
    leaving.close()
    thread.join(30)
    orders.purge()
    orders.close()


def _transactions(qm: QueueManager) -> None:
    tx = qm.open("tx")
    with qm.transaction() as unit:
        tx.send_many([b"1", b"2", b"3", b"4"], transaction=unit)
        unit.prepare()
    with qm.transaction(id="named") as unit:
        message = tx.receive(0, transaction=unit)
        unit.extend(60)
        unit.reject(tx, message)
        tx.receive_by_lookup_id(tx.peek(0).lookup_id, transaction=unit, allow_peek=True)
        tx.peek(0)
    sub = qm.open("tx;sub")
    with qm.transaction() as unit:
        tx.move(tx.peek(0).lookup_id, sub, transaction=unit)
        tx.send(b"5", transaction=unit)
    unit = qm.transaction()
    sub.receive(0, transaction=unit)
    unit.abort()
    unit = qm.transaction(lease=1)
    tx.receive(0, transaction=unit)
    tx.send(b"6", transaction=unit)
    qm.advance_clock(5)
    with contextlib.suppress(MqError):
        unit.commit()
    sub.move(sub.peek(0).lookup_id, tx)
    sub.close()
    tx.close()


def _positions(qm: QueueManager) -> None:
    orders = qm.open("orders")
    orders.send_many([b"1", b"2", b"3", b"4"])
    middle = list(orders.browse())[1].lookup_id
    for seek in Seek:
        orders.peek_by_lookup_id(middle, seek=seek)
    orders.receive_by_lookup_id(middle, seek=Seek.NEXT)
    orders.lock_by_lookup_id(middle).commit()
    orders.purge()
    orders.close()


def _matching(qm: QueueManager) -> None:
    orders, turns = qm.open("orders"), qm.open("turns")
    orders.send_group([b"1", b"2", b"3"], group_id="g")
    orders.send(Outgoing(body=b"x", correlation_id="c", properties={"n": 1}))
    orders.receive(0, match=Match(correlation_id="c"))
    orders.peek(0, selector="n IS NULL")
    with orders.browser() as browser:
        browser.first(mark=Mark.HANDLE)
        browser.next(lock=True)
        browser.unlock()
        browser.next(unmarked=True)
        browser.take()
    orders.receive_many(10, 0)
    for n in range(6):
        turns.send(b"%d" % n, group_id=f"g{n % 2}")
    with turns.lock(0), turns.lock(0):
        pass
    with contextlib.suppress(IoTimeout):
        turns.receive_many(10, 0)
    orders.close()
    turns.close()


def _beside(qm: QueueManager) -> None:
    """Journals, dead letters, retries, topics, requests."""
    qm.create_queue("beside", journaling=True, trail=True, retry=RetryPolicy(immediate=0, cycles=1, delay=1))
    qm.create_queue("news", topic=True)
    qm.subscribe("news", "beside")
    qm.subscriptions("news")
    beside, news = qm.open("beside"), qm.open("news")
    news.send(b"to all")
    beside.receive(0)
    qm.unsubscribe("news", "beside")
    beside.send(b"bad")
    beside.lock(0).abort()
    qm.advance_clock(30)
    qm.maintain()
    with contextlib.suppress(IoTimeout):
        beside.lock(0).abort()
    sent = beside.send(b"brief", journal=Journal.DEAD_LETTER, time_to_be_received=1)
    qm.advance_clock(5)
    qm.maintain()
    qm.redrive()
    qm.trail("beside", sent.lookup_id)
    qm.statistics("beside")
    with contextlib.suppress(IoTimeout):
        qm.request(beside, b"hello", timeout=0.01)
    beside.close()
    news.close()


def _pipelines(qm: QueueManager, raw: Any) -> None:
    """A reader and a writer of a data pipeline."""
    qm.create_queue("lake", journaling=True)
    reader, writer = Pipeline(qm, raw, path="lake"), SinkJob(qm, raw)
    stages = [writer.stage(batch, f"{batch}-a", [Outgoing(body=b"x")] * 3, "lake") for batch in range(4)]
    qm.run(perform(commands.withdraw(qm.context.keys, writer.name, 9, ["9-a"], True)))
    assert writer.step(0, stages[0], limit=1).more
    qm.run(perform(commands.withdraw(qm.context.keys, writer.name, 0, ["0-a"], True)))
    assert writer.publish(1, stages[1]) == 3
    assert writer.sweep(3, close_ttl_ms=60_000) > 0
    assert len(writer.state.stages) < 2
    every = Order(10, match=Filter(programs=[parse("$label IS NULL").program]).text())
    assert qm.run(pipelines.matches(reader.queue, every))
    assert reader.claim(1, 2, first=True).count == 2
    assert len(reader.read(1)) == 2
    qm.claims("lake")
    assert reader.commit(1) == 2
    assert reader.claim(2).count == 2
    assert reader.release() == 2
    assert qm.run(pipelines.wait(qm.context, [(reader.queue, "")], 0.01))
    qm.delete_queue("lake")
