"""PackedStore pages of claims of one queue: storage, reads, lost pages, release and receive."""

from __future__ import annotations

import pytest

from mqredis import codec
from mqredis.commands import claims, read, send, transactions
from mqredis.commands.arguments import Mode
from mqredis.commands.claims import Order
from mqredis.commands.waiting import Waiter
from mqredis.models import Outgoing
from mqredis.status import Status
from tests.property.fixed_clock import KEYS
from tests.property.packed import SingleQueue, key
from tests.support.backend import Backend
from tests.support.counts import counts


def test_claim_of_plain_messages_is_packed(backend: Backend) -> None:
    """Claims of plain messages are packed, so test_packed compares packed claims; no message has a lock of its own."""
    single = SingleQueue(backend)
    message = codec.encode(Outgoing(body=b"x"), "")
    single.call(send.send(single.address, [message] * 20))
    ids = single.client.zrange(key("a"), 0, -1)
    answers = [single.claim(20)[:1] for _ in range(4)]
    assert answers == [[Status.CONTINUE]] * 3 + [[0]]
    assert not single.client.exists(key("l"), key("a"))
    assert sorted(single.client.hkeys(key("s"))) == [
        b"%s1:%d" % (f, n) for f in (b"b", b"c") for n in range(4)
    ]
    for offset in range(20):
        assert single.read(offset, 7) == ids[offset : offset + 7]
    assert [single.call(claims.commit(single.address, "lake", "x", 1))[3] for _ in range(4)] == [
        6,
        6,
        6,
        2,
    ]
    assert not single.client.exists(key("m"), key("s"))
    assert counts(single.client, key("q"))[:3] == [b"0", b"0", b"20"]
    assert not single.client.hexists(key("q"), "pages")
    single.client.close()


@pytest.mark.parametrize("mode", ["lock", "take", "tx"])
def test_notified_reader_does_not_receive_a_claimed_message(backend: Backend, mode: Mode) -> None:
    """A notification may name a message that is plain and has no state, but is not available."""
    single, tx = SingleQueue(backend, mode == "tx"), mode == "tx"
    message = codec.encode(Outgoing(body=b"x"), "")
    sent = single.call(send.send(single.address, [message] * 3, "s" * tx, "+30000" * tx))
    if tx:
        fence = sent[4].decode()
        assert single.call(transactions.end(KEYS, "s", fence, "commit", ["q"]))[0] == 0
    (first, *_) = single.client.zrange(key("a"), 0, -1)
    assert single.claim(3)[0] == 0
    before = single.client.hgetall(key("s")), single.client.hgetall(key("m"))
    single.client.hset(KEYS.admin().keys[0], "1.1!", b"h " + first)
    grant = {"lock": "30000", "take": "", "tx": "+30000"}[mode]
    looked = read.receive(single.address, mode, 1, owner="t" * tx, grant=grant, waiter=Waiter("D k0 ", "1"))
    assert single.call(looked)[0] == Status.WAITING
    assert (single.client.hgetall(key("s")), single.client.hgetall(key("m"))) == before
    assert not single.client.exists(key("l"))
    for seek in ("current", "first", "next"):
        looked = read.lookup(single.address, mode, seek, first.decode(), owner="t" * tx, grant=grant)
        assert single.call(looked)[0] == Status.MESSAGE_NOT_FOUND
    single.client.close()


@pytest.mark.parametrize("field", ["c1:1", "b1:1", "pages", "0400000000000003"])
def test_claim_with_a_lost_page_reports_a_gap_and_can_be_committed(backend: Backend, field: str) -> None:
    """No part of a lost page can be read, and the rest of the claim can be committed."""
    single = SingleQueue(backend)
    message = codec.encode(Outgoing(body=b"x"), "")
    single.call(send.send(single.address, [message] * 20))
    while single.claim(20)[0] == Status.CONTINUE:
        continue
    if field[0] == "0":  # unpacked, and one of them is not locked any more
        single.store.restore(single.store.loose()[0])
        single.client.zrem(key("l"), field)
    else:
        single.client.hdel(key("q" if field == "pages" else "s"), field)
    command = claims.read(single.address, "lake", "x", 1, 5, 7)
    reply = single.call(command)
    assert (reply[0], reply[3]) == (Status.LOCK_LOST, b"gap") or field == "b1:1"
    for _ in range(10):
        reply = single.call(claims.commit(single.address, "lake", "x", 1))
    assert reply[0] == 0
    assert not single.client.hexists(key("q"), "pages")
    single.client.close()


def test_pages_of_different_sizes_are_read_from_any_offset(backend: Backend) -> None:
    single = SingleQueue(backend)
    plain = codec.encode(Outgoing(body=b"x"), "")
    special = codec.encode(Outgoing(body=b"x", group_id="g"), "")
    single.call(send.send(single.address, [plain] * 8))
    assert single.claim(20)[0] == Status.CONTINUE  # a run of plain messages
    single.call(send.send(single.address, [special] * 12))  # pages are shorter from here on
    ids = sorted(single.client.hkeys(key("m")))
    while single.claim(20)[0] == Status.CONTINUE:
        continue
    pages = [single.client.hget(key("s"), f"c1:{n}") for n in range(5)]
    assert [len(page) // 16 for page in pages[:3]] == [6, 4, 4]
    for offset in range(20):
        for count in range(1, 21 - offset):
            assert single.read(offset, count) == ids[offset : offset + count]
    single.client.hdel(key("s"), "c1:4")  # the last one
    reply = single.call(claims.read(single.address, "lake", "x", 1, 0, 20))
    assert (reply[0], reply[3]) == (Status.LOCK_LOST, b"gap")
    single.client.close()


def test_claim_is_refused_until_the_release_is_complete(backend: Backend) -> None:
    single = SingleQueue(backend)
    single.call(send.send(single.address, [codec.encode(Outgoing(body=b"x"), "")] * 20))
    while single.claim(20)[0] == Status.CONTINUE:
        continue
    kinds = set()
    for back in (4, 8, 12, 16):
        assert single.call(claims.release(single.address, "lake", False))[0] == Status.CONTINUE
        assert single.client.zcard(key("a")) == back
        kinds.add(single.client.exists(key("l")))
        for lineage in ("x", "y"):  # the same checkpoint, and a new one
            again = claims.claim(single.address, "lake", lineage, 1, Order(20), first=True)
            reply = single.call(again)
            assert (reply[0], reply[3]) == (Status.LOCK_LOST, b"released")
    assert kinds == {0, 1}  # the page was unpacked, or all remaining pages are packed
    single.client.close()
