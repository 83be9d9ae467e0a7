"""What the benchmark calls the least that keeps the promises (bench/kept.py) leaves and answers what our scripts do."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from bench import kept
from mqredis import codec
from mqredis.commands import read, send
from mqredis.models import Outgoing
from mqredis.steps import Call
from tests.property.standing import Store
from tests.property.test_straight import Walk
from tests.support.backend import Backend

_CLOCK = 'call("HMGET", k[1], "stands", "zero")'


def library() -> str:
    """The functions with a clock that stands still."""
    assert 'call("TIME")' in kept.LIBRARY
    return kept.LIBRARY.replace('call("TIME")', _CLOCK)


def text_of(function: str) -> str:
    """One of them as a script."""
    head, _, body = library().partition("\n")
    assert head.startswith("#!lua")
    return f"{body.partition('redis.register_function')[0]}return {function}(KEYS, ARGV)"


class Flat(Store):
    """Calls them in place of our scripts: as functions, which remember, or as scripts, which do not."""

    def __init__(self, client: Any, functions: bool) -> None:
        super().__init__(client, False)
        self._functions = functions
        if functions:
            client.execute_command("FUNCTION", "LOAD", "REPLACE", library())
        names = kept.FUNCTIONS.items()
        self._texts |= {script: text_of(name.removeprefix("kept_")) for script, name in names}

    def call(self, call: Call[Any], slot: str, sequence: object) -> Any:
        if not self._functions or call.script not in kept.FUNCTIONS:
            return super().call(call, slot, sequence)
        keys, name = call.keys.keys, kept.FUNCTIONS[call.script]
        return self.client.execute_command("FCALL", name, len(keys), *keys, slot, sequence, *call.args)


def walks(backend: Backend) -> Iterator[Walk]:
    """Ours beside them as scripts; and as functions, where the server has these."""
    for functions in (False, True) if backend.kind == "real" else (False,):
        seed = random.randrange(10**6)
        print(f"seed {seed}")
        walk = Walk(backend, seed)
        walk.stores[1] = Flat(walk.stores[1].client, functions)
        try:
            yield walk
        finally:
            if functions:
                walk.stores[1].client.execute_command("FUNCTION", "DELETE", "mqkept")
            walk.close()


def message(dice: random.Random) -> tuple[bytes, bytes | None]:
    fields: dict[str, Any] = {"priority": dice.randrange(8)} if dice.random() < 0.1 else {}
    if dice.random() < 0.5:
        fields["correlation_id"] = "abc"
    body = dice.choice((b"x" * dice.randrange(90), b"\3cabc\0", b""))
    return codec.encode(Outgoing(body=body, **fields), "")


def lives(walk: Walk, most: int) -> None:
    """Sends and locks of up to so many messages in a call, mostly with the commit of what is locked. What several calls
    have locked at once is ended by one: that is left to our scripts."""
    dice, address = walk.dice, walk.address["q"]
    available = address.call.keys[3]
    held: list[list[tuple[str, str]]] = []
    for _ in range(60):
        there = walk.stores[1].client.zcard(available)
        many = dice.randrange(2, most) if most > 1 and dice.random() < 0.7 else 1
        if dice.random() < 0.5:
            walk.both(send.send(address, [message(dice) for _ in range(many)]), *walk.token())
        elif there >= min(many, 2):
            only = len(held) == 1 and (many > 1 or len(held[0]) == 1) and dice.random() < 0.9
            settled = held.pop() if only else []
            call = read.receive(
                address, "lock", many, grant="30000", settle=read.runs([("c", *lock) for lock in settled])
            )
            held.append(walk.locks(walk.both(call, *walk.token())))
        walk.same()
        if len(held) > 1 and dice.random() < 0.5:
            ends = [("c", *lock) for locks in held for lock in locks]
            assert walk.both(read.settle(address, ends, 1000), *walk.token())[0] == 0
            held.clear()
            walk.same()


def test_the_least_that_keeps_the_promises_leaves_what_our_scripts_leave(backend: Backend) -> None:
    for walk in walks(backend):
        lives(walk, 1)
        assert walk.stores[0].took["straight_send.one"] > 5
        assert walk.stores[0].took["straight.receive"] > 5


def test_of_many_messages_it_leaves_what_our_scripts_leave(backend: Backend) -> None:
    for walk in walks(backend):
        lives(walk, 40)
        assert walk.stores[0].took["straight_sends.all"] > 5
        assert walk.stores[0].took["straight_locks.all"] > 2


def test_whoever_settles_a_message_twice_is_refused_before_anything_is_written(backend: Backend) -> None:
    one = codec.encode(Outgoing(body=b"x"), "")
    for walk in walks(backend):
        address, flat = walk.address["q"], walk.stores[1]
        for _ in range(3):
            walk.both(send.send(address, [one, one]), *walk.token("1.1"))
        locks = walk.locks(walk.both(read.receive(address, "lock", 2, grant="30000"), *walk.token("1.1")))
        before = flat.bytes()
        for settled in (
            [*locks, locks[0]],
            [locks[0], ("1", locks[1][1])],
            [(locks[0][0], "0" * 16), locks[1]],
        ):
            call = read.receive(
                address, "lock", 2, grant="30000", settle=read.runs([("c", *lock) for lock in settled])
            )
            with pytest.raises(Exception, match="KEPT for plain calls only"):
                flat.call(call, *walk.token("1.1"))
            assert flat.bytes() == before


def test_whoever_commits_one_of_several_locks_is_refused_before_anything_is_written(
    backend: Backend,
) -> None:
    one = codec.encode(Outgoing(body=b"x"), "")
    for walk in walks(backend):
        address, flat = walk.address["q"], walk.stores[1]
        for _ in range(4):
            walk.both(send.send(address, [one, one]), *walk.token("1.1"))
        calls = [
            walk.locks(walk.both(read.receive(address, "lock", n, grant="30000"), *walk.token("1.1")))
            for n in (1, 1, 2, 2)
        ]
        walk.same()
        before = flat.bytes()
        for locks in calls:
            for many in (len(locks), 2):
                ends = read.runs([("c", *lock) for lock in locks])
                call = read.receive(address, "lock", many, grant="30000", settle=ends)
                with pytest.raises(Exception, match="KEPT for plain calls only"):
                    flat.call(call, *walk.token("1.1"))
                assert flat.bytes() == before
