"""What the benchmark calls the least that keeps the promises (bench/kept.py) leaves and answers what our scripts do."""

from __future__ import annotations

import random

from bench import kept
from mqredis import codec
from mqredis.commands import read, send
from mqredis.models import Outgoing
from tests.property.test_straight import Walk
from tests.support.backend import Backend

_CLOCK = 'call("HMGET", k[1], "stands", "zero")'


def text_of(function: str) -> str:
    """One of the functions as a script whose clock stands still."""
    head, _, body = kept.LIBRARY.partition("\n")
    assert head.startswith("#!lua")
    body = body.replace('call("TIME")', _CLOCK).partition("redis.register_function")[0]
    assert _CLOCK in body
    return f"{body}return {function}(KEYS, ARGV)"


def test_the_least_that_keeps_the_promises_leaves_what_our_scripts_leave(backend: Backend) -> None:
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    walk = Walk(backend, seed)
    dice, address = walk.dice, walk.address["q"]
    other = walk.stores[1]
    other._texts |= {script: text_of(name.removeprefix("kept_")) for script, name in kept.FUNCTIONS.items()}
    held: list[tuple[str, str]] = []
    for _ in range(60):
        if dice.random() < 0.6:
            name = dice.choice((None, "abc"))
            message = codec.encode(Outgoing(body=b"x" * dice.randrange(90), correlation_id=name), "")
            walk.both(send.send(address, [message]), *walk.token())
        elif len(other.client.hkeys(address.call.keys[5])) > len(held):
            settled = [("c", *held.pop())] if held else ()
            call = read.receive(address, "lock", 1, grant="30000", settle=settled)
            held += walk.locks(walk.both(call, *walk.token()))
        one, two = [store.bytes() for store in walk.stores]
        assert one == two, walk.step
    assert walk.stores[0].took["straight_send.one"] > 5
    assert walk.stores[0].took["straight.receive"] > 5
    walk.close()
