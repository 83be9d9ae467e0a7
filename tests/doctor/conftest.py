"""A queue manager with messages in every state, and a raw client of its store."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

import mqredis
from mqredis import Match, Outgoing, QueueManager, Settings, Transaction
from tests.support.backend import Backend

_numbers = itertools.count(1)
# Id of a message that does not exist.
GHOST = "0400000000000fff"


@dataclass
class Store:
    """A queue manager, and a raw client of the same data."""

    qm: QueueManager
    raw: Any
    tag: str
    units: list[Transaction] = field(default_factory=list)

    def key(self, name: str) -> str:
        """Redis key for ``meta``, or for a part of a queue: ``orders.m``."""
        queue, dot, part = name.rpartition(".")
        return f"{self.tag}q:{queue.replace(';', '%3B')}:{part}" if dot else self.tag + name

    def id(self, queue: str, body: bytes) -> str:
        """Lookup id of the message with this body, whatever its state."""
        for lid, record in self.raw.hgetall(self.key(f"{queue}.m")).items():
            if lid[:1] != b"^" and record.endswith(b"\0" + body):
                return str(lid, "ascii")
        raise LookupError(body)

    def codes(self, **how: Any) -> set[str]:
        """Codes of the doctor's findings."""
        return {finding.code for finding in self.qm.doctor(**how).findings}


@pytest.fixture
def store(backend: Backend) -> Iterator[Store]:
    raw = backend.client()
    name = f"doctor-{os.getpid()}-{next(_numbers)}"
    with mqredis.connect(backend.client(), manager=name, settings=Settings(test_clock=True)) as qm:
        yield Store(qm, raw, f"mq:{{{name}}}:")
    raw.close()


@pytest.fixture
def full(store: Store) -> Store:
    """Available, locked, delayed, expiring, large, moved and uncommitted messages."""
    qm = store.qm
    qm.create_queue("orders", quota_messages=100_000)
    qm.create_queue("tx", transactional=True)
    orders, tx = qm.open("orders"), qm.open("tx")
    orders.send_many([b"a", b"b", b"c", b"d"])
    orders.send(b"locked", priority=7)
    orders.lock(0, lease=60)
    orders.send(b"large" * 2000)
    orders.send(b"late", delay=60)
    orders.send(b"brief", time_to_be_received=60)
    orders.send(Outgoing(body=b"named", correlation_id="c", properties={"a\x01": "\x03"}))
    orders.send(b"moved")
    # The search builds the index up to the last of these.
    assert orders.peek(0, match=Match(correlation_id="c")).body == b"named"
    retry = qm.open("orders;retry")
    orders.move(orders.peek_by_lookup_id(int(store.id("orders", b"moved"), 16)).lookup_id, retry)
    with qm.transaction() as done:
        tx.send(b"1", transaction=done)
        tx.send(b"2", transaction=done)
        tx.send(b"3", transaction=done)
    unit = qm.transaction(lease=60)
    store.units.append(unit)
    tx.receive(0, transaction=unit)
    tx.receive_by_lookup_id(tx.peek(0).lookup_id, transaction=unit, allow_peek=True)
    tx.send(b"new", transaction=unit)
    return store
