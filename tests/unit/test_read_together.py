"""Batch decoding of messages, damaged ones included, and grouping of settlements equal the single operations."""

from __future__ import annotations

import random
import sys
from collections.abc import Sequence
from itertools import pairwise

from mqredis import InvariantBroken, Message, codec
from mqredis.codec import Raw
from mqredis.commands.settlement import Settlement, runs
from tests.unit.test_messages import COPY, FULL, PLAIN

_USUAL = (
    b"1795414150135h\x01region\x02sEU\x01customer\x02i5\x01amount\x02d129.95\x01urgent\x02f\x03csc-05\0body"
)
_RECORDS = (PLAIN, FULL, COPY, _USUAL, PLAIN + b"\0\0\xff")
_STATES = (b"", b"1 0 0 0", b"2 1 3 1763676000002", b"3 1 3 1763676000002 1")
# Replacements for a byte of a record or its end, among them half a character.
_BROKEN = (b"", b"\0", b"\x01", b"\x02", b"\x03", b"\x04", b"-", b"7", b"\xc3", b"\xa9", "é".encode())


def _raw(rng: random.Random, damage: float) -> list[Raw]:
    """Random messages in the form of a script's reply, some of them damaged."""
    found: list[Raw] = []
    alike = rng.choice(_STATES)
    for _ in range(rng.randint(1, 12)):
        record = rng.choice(_RECORDS)
        state = rng.choice(_STATES) if rng.random() < 0.2 else alike
        if rng.random() < damage:
            at = rng.randrange(len(record))
            record = record[:at] + rng.choice(_BROKEN) + record[at + rng.choice((0, 1, 99)) :]
        if rng.random() < damage / 10:
            state += rng.choice((b"x", b" 1", b" 1 1", b"9" * 20))
        found.append((b"%016x" % rng.getrandbits(64), state, record))
    return found


def _observed(message: Message) -> object:
    properties = message.properties
    count = message.delivery_count
    return repr(message), message.to_dict(), properties, count


def _decode_singly(raw: list[Raw], taken: bool) -> object:
    try:
        return [_observed(*codec.decode_each("q", "life", [one], taken)) for one in raw]
    except InvariantBroken as error:
        return str(error)


def _decode_batch(raw: Sequence[Raw], taken: bool) -> object:
    try:
        return [_observed(message) for message in codec.decode_each("q", "life", raw, taken)]
    except InvariantBroken as error:
        return str(error)


def test_batch_decoding_equals_single_decoding() -> None:
    seed = random.randrange(sys.maxsize)
    print(f"{seed=}")
    rng = random.Random(seed)
    refused = 0
    for _ in range(1500):
        raw, taken = _raw(rng, rng.choice((0, 0.3))), rng.random() < 0.5
        found = _decode_batch(raw, taken)
        assert found == _decode_singly(raw, taken), raw
        ids, states, records = zip(*raw, strict=True)
        rows = codec.Rows(b"".join(ids), states, records)
        assert [*rows] == raw == [rows[n] for n in range(len(rows))]
        assert _decode_batch(rows, taken) == found
        refused += isinstance(found, str)
    assert 50 < refused < 1450


def test_unknown_field_may_hold_any_separator_but_that_of_properties() -> None:
    """Properties after such a field are decoded from their own separator on."""
    record = b"1763676000000" + b"1\x01a\x02si\x03f\x02f\x01i\x02i-12\x01d\x02d1.5\x03p6\0body"
    message = codec.decode("q", "life", b"04000000000000a0", b"", record)
    assert message.properties == {"a": "i", "i": -12, "d": 1.5}
    assert (message.priority, message.body) == (6, b"body")


def test_settlements_are_grouped_in_order() -> None:
    seed = random.randrange(sys.maxsize)
    print(f"{seed=}")
    rng = random.Random(seed)
    for _ in range(500):
        actions, fences = (
            rng.choice(("c", "ca", "caj x")).split(" ")[0],
            rng.choice((["7"], ["7", "8"])),
        )
        settlements: list[Settlement] = [
            (rng.choice(actions), rng.choice(fences), f"{rng.getrandbits(64):016x}")
            for _ in range(rng.randint(0, 9))
        ]
        texts = runs(settlements)
        found = [*zip(texts[::3], texts[1::3], texts[2::3], strict=True)]
        parts = [(a, f, ids[at : at + 16]) for a, f, ids in found for at in range(0, len(ids), 16)]
        assert parts == settlements
        assert all(one[:2] != other[:2] for one, other in pairwise(found))
