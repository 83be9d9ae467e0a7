"""A packed call has the bytes of the Redis protocol."""

from __future__ import annotations

import random
import sys
from enum import IntEnum, StrEnum

import pytest

from mqredis.drivers.net.wire import pack, packed_command
from mqredis.keys import KeySet
from mqredis.scripts import Form
from mqredis.steps import Arg


class Word(StrEnum):
    """A subclass of str."""

    A = "a"


class Number(IntEnum):
    """A subclass of int."""

    SEVEN = 7


FORM = Form("FCALL", "mqredis_send", ())
TOKEN = ("5.0", "17")
KEYS = tuple(f"mq:{{m}}:{n}" for n in range(10))


def expected(args: list[Arg]) -> bytes:
    """The request as the protocol describes it."""
    return protocol([FORM.verb, FORM.name, str(len(KEYS)), *KEYS, "5.0", "17", *args])


def protocol(words: list[Arg]) -> bytes:
    """A command as the protocol describes it."""
    octets = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    return b"*%d\r\n" % len(octets) + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in octets)


@pytest.mark.parametrize("count", [0, 1, 8, 9, 10, 12, 64, 300])
def test_any_number_of_arguments_is_packed(count: int) -> None:
    args: list[Arg] = [("é" * n, b"\0\r\n" * n, str(-n))[n % 3] for n in range(count)]
    keys = KeySet(KEYS)
    for _ in range(2):  # the second call uses the cached header
        assert pack(keys, FORM, *TOKEN, args) == expected(args)


def test_arguments_of_any_length_are_packed() -> None:
    seed = random.randrange(sys.maxsize)
    print("seed", seed)
    chance = random.Random(seed)
    for _ in range(50):
        most = chance.choice([3, 200, 1023, 1025, 16_385, 262_145])
        args: list[Arg] = [chance.randbytes(chance.randint(0, most)) for _ in range(chance.randint(9, 40))]
        if chance.random() < 0.5:
            other: list[Arg] = ["é" * most, str(-most), Word.A]
            args[chance.randrange(len(args))] = chance.choice(other)
        assert pack(KeySet(KEYS), FORM, *TOKEN, args) == expected(args)


def test_enum_and_empty_arguments_are_packed_as_their_values() -> None:
    assert pack(KeySet(KEYS), FORM, *TOKEN, [Word.A, "", b""]) == expected(["a", "", b""])


def test_numbers_of_a_plain_command_are_packed_as_texts() -> None:
    assert packed_command(["A", Word.A, Number.SEVEN, True, -3, ""]) == protocol(
        ["A", "a", "7", "1", "-3", ""]
    )


def test_one_packed_header_is_cached_per_script() -> None:
    keys = KeySet(KEYS)
    for lease in range(1000):
        args: list[Arg] = ["g", "lock", str(lease)]
        assert pack(keys, FORM, *TOKEN, args) == expected(args)
    assert list(keys.packed) == [FORM.name]
