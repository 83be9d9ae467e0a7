"""A packed call is what hiredis would send, byte for byte, whichever way it was packed."""

from __future__ import annotations

import random
import sys
from enum import IntEnum, StrEnum

import hiredis
import pytest

from mqredis.drivers.net.wire import JOINED, LARGE, bulk, digits, pack
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
TOKEN = bulk(b"5.0") + bulk(b"17")
KEYS = tuple(f"mq:{{m}}:{n}" for n in range(10))


def as_hiredis(args: list[Arg]) -> bytes:
    words = (FORM.verb, FORM.name, str(len(KEYS)), *KEYS, "5.0", "17", *digits(args))
    packed: bytes = hiredis.pack_command(words)  # type: ignore[arg-type]
    return packed


@pytest.mark.parametrize("count", [0, 1, 8, 9, 12, 64, 300])
@pytest.mark.parametrize("fixed", [0, 1, 3, 7])
def test_few_and_many_arguments(count: int, fixed: int) -> None:
    args: list[Arg] = [("é" * n, b"\0\r\n" * n, -n)[n % 3] for n in range(count)]
    keys = KeySet(KEYS)
    fixed = min(fixed, count)
    for _ in range(2):  # the second time what is the same is kept
        assert b"".join(pack(keys, FORM, TOKEN, args, fixed)) == as_hiredis(args)


def test_many_arguments_of_any_length() -> None:
    seed = random.randrange(sys.maxsize)
    print("seed", seed)
    chance = random.Random(seed)
    for _ in range(50):
        most = chance.choice([3, 200, 1023, 1025, LARGE + 1, JOINED + 1])
        args: list[Arg] = [chance.randbytes(chance.randint(0, most)) for _ in range(chance.randint(9, 40))]
        if chance.random() < 0.5:
            other: list[Arg] = ["é" * most, -most, Word.A]
            args[chance.randrange(len(args))] = chance.choice(other)
        fixed = chance.randint(0, 4)
        parts = pack(KeySet(KEYS), FORM, TOKEN, args, fixed)
        assert b"".join(parts) == as_hiredis([str(arg) if isinstance(arg, Word) else arg for arg in args])


def test_arguments_of_other_types() -> None:
    args: list[Arg] = [Word.A, Number.SEVEN, True, "", b""]
    plain: list[Arg] = ["a", 7, 1, "", b""]
    for fixed in (0, 1, 3):
        assert b"".join(pack(KeySet(KEYS), FORM, TOKEN, args, fixed)) == as_hiredis(plain)


@pytest.mark.parametrize("count", [3, 20])
@pytest.mark.parametrize("size", [1023, 1024, LARGE, JOINED])
def test_large_arguments(count: int, size: int) -> None:
    args: list[Arg] = ["g", *[b"x"] * count, b"b" * size, "end"]
    parts = pack(KeySet(KEYS), FORM, TOKEN, args, 1)
    assert b"".join(parts) == as_hiredis(args)
    assert (len(parts) > 1) == (size >= JOINED)


def test_what_is_kept_is_bounded() -> None:
    keys = KeySet(KEYS)
    for lease in range(1000):
        args: list[Arg] = ["g", "lock", str(lease)]
        assert b"".join(pack(keys, FORM, TOKEN, args, 3)) == as_hiredis(args)
    assert len(keys.packed) < 100
