"""Selectors in the broker: browse and receive return the messages that the Python evaluator selects.

``MQREDIS_TEST_SEED`` repeats a run.
"""

from __future__ import annotations

import os
import secrets
import threading
from collections.abc import Iterator
from random import Random

import pytest

import mqredis
from mqredis import IoTimeout, Journal, Message, Outgoing, SelectorSyntaxError, Settings
from mqredis.selector import Selector, header_of, parse
from tests.selector import generate

_FULL = bool(os.environ.get("MQREDIS_TEST_FULL"))
_FIELDS = (
    "message_id", "correlation_id", "group_id", "sequence", "priority", "app_tag", "last_in_group", "segment",
    "recoverable", "label",
)  # fmt: skip


@pytest.fixture
def qm(redis_server):
    with mqredis.connect(
        redis_server.url, manager="selectors", settings=Settings(allow_volatile=True)
    ) as made:
        yield made
        assert not made.doctor().findings


@pytest.fixture
def rnd():
    seed = os.environ.get("MQREDIS_TEST_SEED") or secrets.token_hex(8)
    print("MQREDIS_TEST_SEED =", seed)
    return Random(seed)


def outgoing(rnd: Random) -> Outgoing:
    subject = generate.subject(rnd)
    fields = {name: value for name, value in subject.header.items() if name in _FIELDS}
    return Outgoing(
        body=rnd.randbytes(rnd.choice([3, 3, 5000])), properties=dict(subject.properties), **fields
    )


def selector(rnd: Random) -> Selector:
    """Return a random selector that is accepted for reading."""
    while True:
        text = generate.selector(rnd)
        if rnd.random() < 0.3:
            field = rnd.choice(["JMSCorrelationID", "JMSMessageID", "$group_id", "JMSXGroupID"])
            text = f"{field} = '{rnd.choice(['a', 'ab', 'EU', 'ID:0afc23'])}' AND ({text})"
        try:
            return parse(text, refuse_never=True)
        except SelectorSyntaxError:
            continue


def selected(chosen: Selector, messages: list[Message]) -> list[int]:
    return [m.lookup_id for m in messages if chosen.evaluate(m.properties, header_of(m)) is True]


def test_dead_letter_is_selected_by_the_options_that_it_shows(qm):
    """The copy keeps what its message asked for, without effect."""
    qm.create_queue("q")
    with qm.open("q") as queue, qm.open("system$;deadletter") as dead:
        queue.send(b"x", dedup_key="k", administration_queue="a", journal=Journal.DEAD_LETTER)
        queue.lock(0).reject()
        messages = list(dead.browse())
        for text in ("$dedup_key = 'k'", "$administration_queue = 'a'", "$journal = 1", "$journal = 0"):
            found = [message.lookup_id for message in dead.browse(selector=text)]
            assert found == selected(parse(text), messages), text
        assert [message.dedup_key for message in messages] == ["k"]


def test_browse_shows_the_messages_that_the_python_evaluator_selects(qm, rnd):
    qm.create_queue("q")
    queue = qm.open("q")
    some = none = 0
    for _ in range(40 if _FULL else 3):
        queue.send_many([outgoing(rnd) for _ in range(120)])
        messages = list(queue.browse())
        for _ in range(50):
            chosen = selector(rnd)
            wanted = selected(chosen, messages)
            shown = [m.lookup_id for m in queue.browse(selector=chosen.text)]
            assert shown == wanted, chosen.text
            some, none = some + bool(wanted), none + (not wanted)
        queue.purge()
    assert some > 20
    assert none > 5


def drained(queue: mqredis.Queue, text: str, how: int) -> Iterator[int]:
    """Take all selected messages: one by one, in batches, or by locks, as ``how`` says."""
    try:
        while True:
            if how == 0:
                yield queue.receive(0, selector=text).lookup_id
            elif how == 1:
                yield from [m.lookup_id for m in queue.receive_many(7, 0, selector=text)]
            else:
                with queue.lock(0, selector=text) as lock:
                    yield lock.lookup_id
    except IoTimeout:
        return


def test_receive_takes_the_messages_that_the_python_evaluator_selects_in_order(qm, rnd):
    qm.create_queue("q")
    queue = qm.open("q")
    for n in range(300 if _FULL else 20):
        queue.send_many([outgoing(rnd) for _ in range(40)])
        messages, chosen = list(queue.browse()), selector(rnd)
        wanted = selected(chosen, messages)
        taken = list(drained(queue, chosen.text, n % 3))
        assert taken == wanted, chosen.text
        assert [m.lookup_id for m in queue.browse()] == [
            m.lookup_id for m in messages if m.lookup_id not in wanted
        ]


def test_concurrent_consumers_take_each_matching_message_once(qm, rnd, redis_server):
    """Consumers read while messages are sent, and stop when all are sent and no matching message is left."""
    qm.create_queue("q")
    queue, count = qm.open("q"), 4000 if _FULL else 1500
    everything = [outgoing(rnd).replace(app_tag=n) for n in range(count)]
    queue.send_many(everything[: count // 2])
    chosen: list[Selector] = []
    while len(chosen) < 2:
        found = selector(rnd)
        if len(selected(found, list(queue.browse()))) > count // 40:
            chosen.append(found)
    sent = threading.Event()
    taken: list[list[Message]] = [[] for _ in range(6)]
    errors: list[BaseException] = []

    def consume(number: int) -> None:
        try:
            settings = Settings(allow_volatile=True)
            with mqredis.connect(redis_server.url, manager="selectors", settings=settings) as mine:
                handle, text = mine.open("q"), chosen[number % 2].text
                while True:
                    last = sent.is_set()
                    try:
                        taken[number].append(handle.receive(0, selector=text))
                    except IoTimeout:
                        if last:
                            return
        except BaseException as error:  # noqa: BLE001 - asserted at the end of the test
            errors.append(error)

    threads = [threading.Thread(target=consume, args=(n,)) for n in range(len(taken))]
    for thread in threads:
        thread.start()
    for at in range(count // 2, count, 50):
        queue.send_many(everything[at : at + 50])
    sent.set()
    for thread in threads:
        thread.join(120)
    assert not errors
    had = [m for mine in taken for m in mine]
    left = list(queue.browse())
    assert len({m.lookup_id for m in had}) == len(had)
    assert len(had) + len(left) == count
    for number, mine in enumerate(taken):
        ids = [m.lookup_id for m in mine]
        assert selected(chosen[number % 2], mine) == ids
    assert not any(selected(one, left) for one in chosen)
