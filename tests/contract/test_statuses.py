"""The status numbers stand in Python and in Lua; both must say the same."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mqredis import errors
from mqredis.status import Status

LUA = Path(__file__).parents[2] / "lua"
LINE = re.compile(r"^\s*(\w+)\s*=\s*(0[xX][0-9a-fA-F]+|\d+)\s*,?\s*(?:--.*)?$", re.MULTILINE)


def lua_table() -> dict[str, int]:
    text = (LUA / "core" / "status.lua").read_text()
    return {name: int(number, 0) for name, number in LINE.findall(text)}


def test_every_python_status_is_in_lua():
    assert {s.name: int(s) for s in Status}.items() <= lua_table().items()


def test_every_lua_status_is_in_python():
    assert lua_table().items() <= {s.name: int(s) for s in Status}.items()


def test_no_line_of_the_table_was_missed():
    body = (LUA / "core" / "status.lua").read_text().split("{", 1)[1].split("}", 1)[0]
    entries = [line for line in body.splitlines() if "=" in line.split("--", 1)[0]]
    assert len(entries) == len(lua_table())


def test_numbers_are_unique_and_unsigned():
    numbers = [int(s) for s in Status]
    assert len(numbers) == len(set(numbers)) == len(Status.__members__)
    assert all(0 <= n <= 0xFFFFFFFF for n in numbers)


@pytest.mark.parametrize("path", sorted(LUA.rglob("*.lua")), ids=lambda p: p.stem)
def test_every_status_a_script_uses_exists(path):
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
def test_every_status_becomes_an_error_that_keeps_it(status):
    error = errors.error_for(int(status))
    assert isinstance(error, errors.MqError)
    assert error.status == status


def test_unknown_numbers_survive():
    assert errors.error_for(0xC00E0FFF).status == 0xC00E0FFF
