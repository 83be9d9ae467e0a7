"""The numbers of statuses, and the names by which scripts and errors refer to them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mqredis import errors
from mqredis.status import Status

LUA = Path(__file__).parents[2] / "lua"


def test_status_numbers_are_unique_and_unsigned():
    numbers = [int(s) for s in Status]
    assert len(numbers) == len(set(numbers)) == len(Status.__members__)
    assert all(0 <= n <= 0xFFFFFFFF for n in numbers)


@pytest.mark.parametrize("path", sorted(LUA.rglob("*.lua")), ids=lambda p: p.stem)
def test_every_status_used_by_a_script_exists(path):
    code = re.sub(r"--.*", "", path.read_text())
    used = set(re.findall(r"\bstatus\.([A-Z_]+)\b", code))
    assert used <= set(Status.__members__)


def every_error() -> list[type[errors.MqError]]:
    found, stack = [], [errors.MqError]
    while stack:
        cls = stack.pop()
        found.append(cls)
        stack.extend(cls.__subclasses__())
    return sorted(found, key=lambda c: c.__name__)


@pytest.mark.parametrize("cls", every_error(), ids=lambda c: c.__name__)
def test_every_error_has_a_status_and_a_default_message(cls):
    assert cls.status in set(Status)
    assert str(cls()) == (cls.__doc__ or "").strip().splitlines()[0]


@pytest.mark.parametrize("status", list(Status), ids=lambda s: s.name)
def test_error_for_each_status_has_that_status(status):
    error = errors.error_for(int(status))
    assert isinstance(error, errors.MqError)
    assert error.status == status


def test_error_for_an_unknown_number_keeps_the_number():
    assert errors.error_for(0xC00E0FFF).status == 0xC00E0FFF
