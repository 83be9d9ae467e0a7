"""How transactions end: the same, whatever else is in the transaction. A message that asks for nothing stays a row in
columns, every other one is an entry (lua/transactions/tx_parts.lua)."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import mqredis
from mqredis import Match, Queue, QueueManager, RetryPolicy, Settings, Transaction
from tests.support.backend import Backend
from tests.support.counts import count

_numbers = itertools.count(1)

# Fields of one additional message; the others have none of them.
EXTRA: dict[str, dict[str, Any] | None] = {
    "all plain": None,
    "one expires": {"time_to_be_received": 60.0},
    "one has a dedup key": {"dedup_key": "k", "dedup_window": 60.0},
    "one has a message id": {"message_id": "m"},
    "one is large": {"body": b"x" * 5000},
}
# Properties of the queues.
QUEUES: dict[str, dict[str, Any]] = {
    "plain queues": {},
    "journals": {"journaling": True},
    "retries": {"retry": RetryPolicy(immediate=3)},
    "turns of groups": {"group_exclusive": True},
}


class Scenario:
    """A queue manager with two queues, and a raw client of its store."""

    def __init__(self, qm: QueueManager, raw: Any, **properties: Any) -> None:
        self.qm, self.raw = qm, raw
        for name in ("t", "u"):
            qm.create_queue(name, transactional=True, **properties)
        self.t, self.u = qm.open("t"), qm.open("u")
        for body in (b"a", b"b", b"c"):  # each in its own transaction
            with qm.transaction() as unit:
                self.t.send(body, correlation_id=body.decode(), transaction=unit)

    def open(self, extra: dict[str, Any] | None) -> Transaction:
        """A transaction that has received two messages and sent some to both queues."""
        unit = self.qm.transaction()
        assert [self.t.receive(0, transaction=unit).body for _ in range(2)] == [b"a", b"b"]
        self.u.send(b"1", correlation_id="1", transaction=unit)
        self.u.send(b"2", transaction=unit)
        if extra is not None:
            self.u.send(
                extra.get("body", b"odd"), transaction=unit, **{k: extra[k] for k in extra if k != "body"}
            )
        self.t.send(b"3", correlation_id="3", transaction=unit)
        return unit

    def left(self, queue: Queue) -> int:
        """Number of messages removed from this queue."""
        return count(self.raw, queue._handle.address.call.keys[2], "gone")

    def check(self) -> None:
        """Check that no transaction is left, and that the doctor has no finding."""
        assert self.raw.hlen(self.qm._context.keys.own[1]) == 0
        assert self.qm.doctor().findings == ()


@pytest.fixture
def scenario(backend: Backend) -> Iterator[Callable[..., Scenario]]:
    raw = backend.client()
    name = f"ends-{os.getpid()}-{next(_numbers)}"
    with mqredis.connect(backend.client(), manager=name, settings=Settings(test_clock=True)) as qm:
        yield lambda **properties: Scenario(qm, raw, **properties)
    raw.close()


def seen(queue: Queue) -> list[tuple[Any, ...]]:
    """The messages of a queue: body (first byte of a large one), marks, deliveries, aborts."""
    return [
        (
            message.body if len(message.body) < 5000 else message.body[:1],
            message.first_in_transaction,
            message.last_in_transaction,
            message.delivery_count,
            message.abort_count,
        )
        for message in queue.browse()
    ]


def committed(scenario: Scenario, extra: dict[str, Any] | None) -> None:
    more = (
        []
        if extra is None
        else [(extra.get("body", b"odd")[:3][: 1 if "body" in extra else 3], False, False, 0, 0)]
    )
    assert seen(scenario.u) == [(b"1", True, False, 0, 0), (b"2", False, False, 0, 0), *more]
    assert seen(scenario.t) == [(b"c", True, True, 0, 0), (b"3", False, True, 0, 0)]
    assert scenario.qm.queue_info("t").messages == 2
    assert (scenario.left(scenario.t), scenario.left(scenario.u)) == (2, 0)
    for queue, correlation_id in ((scenario.u, "1"), (scenario.t, "3"), (scenario.t, "c")):
        with scenario.qm.transaction() as unit:
            found = queue.receive(0, transaction=unit, match=Match(correlation_id=correlation_id))
            assert found.body == correlation_id.encode()
    scenario.check()


def aborted(scenario: Scenario) -> None:
    assert seen(scenario.u) == []
    assert seen(scenario.t) == [(b"a", True, True, 1, 1), (b"b", True, True, 1, 1), (b"c", True, True, 0, 0)]
    assert scenario.qm.queue_info("u").messages == 0
    assert scenario.qm.queue_info("t").messages == 3
    assert (scenario.left(scenario.t), scenario.left(scenario.u)) == (0, 0)
    with scenario.qm.transaction() as unit:
        assert scenario.t.receive(0, transaction=unit, match=Match(correlation_id="b")).body == b"b"
    scenario.check()


@pytest.mark.parametrize("queues", QUEUES)
@pytest.mark.parametrize("extra", EXTRA)
def test_commit_applies_all_sends_and_receives(
    scenario: Callable[..., Scenario], extra: str, queues: str
) -> None:
    made = scenario(**QUEUES[queues])
    made.open(EXTRA[extra]).commit()
    committed(made, EXTRA[extra])
    left = [message.body for message in made.qm.open("t;journal").browse()] if queues == "journals" else []
    assert left == ([b"a", b"b", b"3", b"c"] if queues == "journals" else [])


@pytest.mark.parametrize("queues", QUEUES)
@pytest.mark.parametrize("extra", EXTRA)
def test_abort_undoes_all_sends_and_receives(
    scenario: Callable[..., Scenario], extra: str, queues: str
) -> None:
    made = scenario(**QUEUES[queues])
    made.open(EXTRA[extra]).abort()
    aborted(made)
    if extra == "one has a dedup key":  # the abort freed it
        with made.qm.transaction() as unit:
            made.u.send(b"again", transaction=unit, dedup_key="k", dedup_window=60.0)


@pytest.mark.parametrize("end", ["commit", "abort", "lapse"])
def test_transaction_begun_by_an_older_version_can_be_ended(
    scenario: Callable[..., Scenario], end: str
) -> None:
    # Older versions wrote no N in the states of sent messages, and did not mark messages with identifiers.
    made = scenario()
    unit = made.open(None)
    for queue in (made.t, made.u):
        keys = queue._handle.address.call.keys[2:]
        for lid, text in made.raw.hgetall(keys[4]).items():
            made.raw.hset(keys[4], lid, re.sub(rb" ([RS])N ", rb" \1 ", text))
        for lid, record in made.raw.hgetall(keys[3]).items():
            flag = {b"h": b"1", b"n": b"7"}.get(record[13:14], record[13:14])
            made.raw.hset(keys[3], lid, record[:13] + flag + record[14:])
    if end == "lapse":
        made.qm.advance_clock(60)
        made.qm.maintain()
        aborted(made)
        return
    getattr(unit, end)()
    committed(made, None) if end == "commit" else aborted(made)


def test_commit_after_the_lease_rolls_the_transaction_back(scenario: Callable[..., Scenario]) -> None:
    made = scenario()
    unit = made.open(None)
    made.qm.advance_clock(60)
    with pytest.raises(mqredis.TransactionSequence):
        unit.commit()
    aborted(made)


@pytest.mark.parametrize("end", ["commit", "abort"])
def test_message_received_with_allow_peek_is_removed_or_returned_at_the_end(
    scenario: Callable[..., Scenario], end: str
) -> None:
    made = scenario()
    unit = made.qm.transaction()
    made.t.receive_by_lookup_id(made.t.peek(0).lookup_id, transaction=unit, allow_peek=True)
    assert made.t.peek(0).body == b"a"
    getattr(unit, end)()
    assert made.t.peek(0).body == (b"b" if end == "commit" else b"a")
    made.check()


def test_commit_of_more_operations_than_one_page(scenario: Callable[..., Scenario]) -> None:
    made = scenario()
    with made.qm.transaction() as unit:
        for start in range(0, 750, 250):
            made.u.send_many([b"%d" % n for n in range(start, start + 250)], transaction=unit)
    found = seen(made.u)
    assert [body for body, *_ in found] == [b"%d" % n for n in range(750)]
    assert [n for n, one in enumerate(found) if one[1]] == [0]
    assert [n for n, one in enumerate(found) if one[2]] == [749]
    with made.qm.transaction() as unit:
        while made.u.receive_many(256, 0, transaction=unit)[-1].body != b"749":
            pass
    assert made.qm.queue_info("u").messages == 0
    made.check()
