"""Calls of several tasks in one transaction, made at the same time."""

from __future__ import annotations

import asyncio

import pytest

import mqredis
import mqredis.asyncio
from mqredis import IoTimeout, TransactionSequence
from tests.coalescing.kit import Gate, turns

QueueManager = mqredis.asyncio.QueueManager


async def test_first_calls_of_a_transaction_are_all_part_of_it(qm: QueueManager, gate: Gate) -> None:
    """None of them knows yet that another one has begun the transaction."""
    for name in ("t", "u"):
        await qm.create_queue(name, transactional=True)
    t, u = await qm.open("t"), await qm.open("u")
    first = await qm.transaction()
    await t.send(b"0", transaction=first)
    await first.commit()
    unit = await qm.transaction()
    gate.open.clear()
    receiving = asyncio.ensure_future(t.receive(0, transaction=unit))
    sending = asyncio.gather(
        t.send(b"1", transaction=unit),
        t.send_many([b"2", b"3"], transaction=unit),
        u.send(b"4", transaction=unit),
    )
    await turns()
    assert gate.waiting == 4
    gate.open.set()
    assert (await receiving).body == b"0"
    await sending
    await unit.commit()
    assert sorted([message.body async for message in t.browse()]) == [b"1", b"2", b"3"]
    assert [message.body async for message in u.browse()] == [b"4"]


@pytest.mark.parametrize("end, what", [("commit", "committed"), ("abort", "aborted")])
async def test_first_call_of_a_transaction_that_ended_meanwhile_is_refused(
    qm: QueueManager, gate: Gate, end: str, what: str
) -> None:
    """The end does not wait for the call, so the message is no part of what was committed."""
    await qm.create_queue("t", transactional=True)
    queue = await qm.open("t")
    unit = await qm.transaction()
    gate.open.clear()
    sending = asyncio.ensure_future(queue.send(b"a", transaction=unit))
    await turns()
    await getattr(unit, end)()
    gate.open.set()
    with pytest.raises(TransactionSequence, match=f"was {what} while this call was under way"):
        await sending
    with pytest.raises(IoTimeout):
        await queue.receive(0)


async def test_second_of_two_commits_is_told_of_the_first(qm: QueueManager, gate: Gate) -> None:
    await qm.create_queue("t", transactional=True)
    queue = await qm.open("t")
    unit = await qm.transaction()
    await queue.send(b"a", transaction=unit)
    gate.open.clear()
    commits = [asyncio.ensure_future(unit.commit()) for _ in range(2)]
    await turns()
    gate.open.set()
    ends = await asyncio.gather(*commits, return_exceptions=True)
    refused = [str(end) for end in ends if isinstance(end, TransactionSequence)]
    assert len(refused) == 1
    assert "is committed already" in refused[0]
    assert (await queue.receive(0)).body == b"a"
