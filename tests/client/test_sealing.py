"""Sealed bodies: without the key a stored body can be neither read nor changed; a body that cannot be opened is
kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import mqredis
import mqredis.asyncio
from mqredis import InvalidArgument, SealBroken
from mqredis.sealing import MAGIC, AesGcm
from tests.support.server import RedisServer

OLD, NEW = b"o" * 32, b"n" * 16
SECRET = b"the launch code is 0000"


def sealer(current: str = "old", **options: Any) -> AesGcm:
    return AesGcm({"old": OLD, "new": NEW}, current, **options)


def connect(server: RedisServer, **options: Any) -> mqredis.QueueManager:
    return mqredis.connect(server.url, **options)


def all_values(server: RedisServer) -> bytes:
    """Every value of every key."""
    with server.client() as raw:
        return b"".join(
            b"".join(map(bytes, raw.hgetall(key).values()))
            for key in raw.keys("*")
            if raw.type(key) == b"hash"
        )


READS: dict[str, Callable[[mqredis.Queue], mqredis.Message]] = {
    "receive": lambda q: q.receive(0),
    "receive_many": lambda q: q.receive_many(5, 0)[0],
    "lock": lambda q: q.lock(0).message,
    "peek": lambda q: q.peek(0),
    "browse": lambda q: next(iter(q.browse())),
    "cursor": lambda q: q.cursor().peek(0),
    "by lookup id": lambda q: q.receive_by_lookup_id(q.peek(0).lookup_id),
}


@pytest.mark.parametrize("how", READS)
@pytest.mark.parametrize("size", [0, 1, 10_000])
def test_sealed_body_is_opened_by_every_read(redis_server: RedisServer, how: str, size: int) -> None:
    body = (SECRET * 1000)[:size]
    with connect(redis_server, sealer=sealer()) as qm:
        qm.create_queue("q")
        with qm.open("q") as q:
            q.send_many([mqredis.Outgoing(body=body, label="readable")])
            found = READS[how](q)
            assert (found.body, found.label) == (body, "readable")


def test_lock_of_a_message_whose_seal_is_broken_lasts_until_its_lease_ends(redis_server: RedisServer) -> None:
    with connect(redis_server) as plain, connect(redis_server, sealer=sealer()) as qm:
        plain.create_queue("q")
        with plain.open("q") as q:
            q.send(SECRET)
        with qm.open("q") as q, plain.open("q") as other:
            with pytest.raises(SealBroken) as broken:
                q.lock(0, lease=0.5)
            assert [message.body for message in broken.value.messages] == [SECRET]
            with pytest.raises(mqredis.IoTimeout):
                other.receive(0)
            assert other.receive(timeout=30).attempts == 2


def test_store_does_not_contain_the_plain_body(redis_server: RedisServer) -> None:
    with connect(redis_server, sealer=sealer()) as qm:
        qm.create_queue("q")
        with qm.open("q") as q:
            q.send(SECRET)
            q.send_group([SECRET * 2, SECRET * 3])
            with pytest.raises(InvalidArgument, match="segments"):
                q.send_group([SECRET * 3], segment_bytes=20)
            assert SECRET[:12] not in all_values(redis_server)
            assert MAGIC in all_values(redis_server)
            assert q.receive(0).body == SECRET
            assert [message.body for message in q.receive_group(0)] == [SECRET * 2, SECRET * 3]


def test_bodies_of_the_old_and_the_new_key_are_opened(redis_server: RedisServer) -> None:
    with (
        connect(redis_server, sealer=sealer("old")) as old,
        connect(redis_server, sealer=sealer("new")) as new,
    ):
        old.create_queue("q")
        old.open("q").send(b"1")
        new.open("q").send(b"2")
        assert [message.body for message in old.open("q").receive_many(2, 0)] == [b"1", b"2"]


@pytest.mark.parametrize(
    "spoil",
    [
        lambda body: body[:-1] + bytes([body[-1] ^ 1]),
        lambda body: body[:-20],
        lambda body: body[:7],
        lambda _: MAGIC,
        lambda body: body.replace(b"old", b"new", 1),
        lambda body: body.replace(b"old", b"odd", 1),
        lambda _: b"plain",
    ],
)
def test_changed_body_is_refused_and_not_lost(redis_server: RedisServer, spoil: Any) -> None:
    with connect(redis_server) as plain, connect(redis_server, sealer=sealer()) as qm:
        qm.create_queue("q")
        qm.open("q").send(SECRET)
        with plain.open("q") as q:
            spoiled = spoil(q.receive(0).body)
            q.send_many([spoiled])
        with qm.open("q") as q:
            q.send(b"good")
            with pytest.raises(SealBroken):
                q.peek(0)
            with pytest.raises(SealBroken) as broken:
                q.receive_many(2, 0)
            assert [message.body for message in broken.value.messages] == [spoiled, b"good"]


def test_browser_stands_on_a_message_that_cannot_be_opened(redis_server: RedisServer) -> None:
    with connect(redis_server) as plain, connect(redis_server, sealer=sealer()) as qm:
        qm.create_queue("q")
        plain.open("q").send(b"plain")
        with qm.open("q") as q:
            q.send(b"good")
            browser = q.browser()
            with pytest.raises(SealBroken) as broken:
                browser.first(lock=True)
            assert [message.body for message in broken.value.messages] == [b"plain"]
            browser.unlock()
            assert qm.queue_info("q").locked == 0
            assert browser.next().body == b"good"


def test_group_goes_on_behind_a_member_that_cannot_be_opened(redis_server: RedisServer) -> None:
    with connect(redis_server) as plain, connect(redis_server, sealer=sealer()) as qm:
        qm.create_queue("q")
        plain.open("q").send_group([b"one", b"two"])
        with qm.open("q") as q:
            for body in (b"one", b"two"):
                with pytest.raises(SealBroken) as broken:
                    q.receive(0, grouping=mqredis.Grouping.LOGICAL_ORDER)
                assert [message.body for message in broken.value.messages] == [body]


def test_body_sealed_for_another_manager_is_refused(redis_server: RedisServer) -> None:
    with (
        connect(redis_server, manager="one", sealer=sealer()) as one,
        connect(redis_server, manager="one") as raw,
    ):
        one.create_queue("q")
        one.open("q").send(SECRET)
        stolen = raw.open("q").receive(0).body
    with (
        connect(redis_server, manager="two", sealer=sealer()) as two,
        connect(redis_server, manager="two") as raw,
    ):
        two.create_queue("q")
        raw.open("q").send(stolen)
        with pytest.raises(SealBroken, match="another queue manager"):
            two.open("q").receive(0)


def test_accept_plain_reads_unsealed_bodies(redis_server: RedisServer) -> None:
    with connect(redis_server) as plain, connect(redis_server, sealer=sealer(accept_plain=True)) as qm:
        plain.create_queue("q")
        plain.open("q").send(b"from before")
        assert qm.open("q").receive(0).body == b"from before"


async def test_asyncio_body_is_sealed_in_the_store_and_opened_by_receive(redis_server: RedisServer) -> None:
    async with mqredis.asyncio.connect(redis_server.url, sealer=sealer()) as qm:
        await qm.create_queue("q")
        async with qm.open("q") as q:
            await q.send(SECRET)
            assert SECRET not in all_values(redis_server)
            assert (await q.receive(0)).body == SECRET


def test_repr_shows_key_ids_and_no_key(redis_server: RedisServer) -> None:
    assert "ooo" not in repr(sealer())
    assert "old, new" in repr(sealer())


@pytest.mark.parametrize(
    "keys, current",
    [
        ({}, "a"),
        ({"a": b"short"}, "a"),
        ({"": OLD}, ""),
        ({"a" * 256: OLD}, "a"),
        ("short", "a"),
        ({"a": "short" * 4}, "a"),
        ({1: OLD}, 1),
        ({"a": OLD}, None),
    ],
)
def test_invalid_keys_are_refused_without_showing_them(keys: Any, current: Any) -> None:
    with pytest.raises(InvalidArgument) as refused:
        AesGcm(keys, current)
    assert "short" not in str(refused.value)


def test_body_that_an_earlier_release_has_sealed_is_opened() -> None:
    """The form of a sealed body may not change, since such bodies are in queues for long."""
    body = bytes.fromhex(
        "006d71733107323032362d3131700247046c95bc1e13e9f8df5ef7157bbbb66efc0bcbfad587b01ecbe4a494009646291020f09e6ec4"
    )
    keys = AesGcm({"2026-11": bytes(range(32))}, "2026-11")
    assert keys.open(body, b"manager") == b"a secret body"
    with pytest.raises(SealBroken):
        keys.open(body, b"another manager")


@pytest.mark.parametrize("wrong", ["a key", b"k" * 32, object()])
def test_sealer_is_checked_before_a_connection_is_made(wrong: Any) -> None:
    with pytest.raises(InvalidArgument, match="sealer must have the methods seal and open"):
        mqredis.connect("redis://127.0.0.1:1", sealer=wrong)
