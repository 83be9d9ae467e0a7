"""Comments of Lua files name modules, functions, files and tests that exist: they lead to what else must change."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from mqredis import scripts

ROOT, LUA = Path(__file__).parents[2], scripts.root()
FOLDERS = "|".join(sorted(path.name for path in LUA.iterdir() if path.is_dir()))


@cache
def code() -> dict[str, str]:
    """The modules without their comments."""
    return {path.stem: re.sub(r"--.*", "", path.read_text("utf-8")) for path in LUA.rglob("*/*.lua")}


@cache
def names_of_files() -> set[str]:
    folders = ("docs", "lua", "mqredis", "tests")
    return {path.name for folder in folders for path in (ROOT / folder).rglob("*.*")} | {"CONTRIBUTING.md"}


def comments(text: str) -> str:
    """All comments of a file in one line; the lines with three dashes are of tools."""
    return " ".join(re.findall(r"(?<!-)--(?!-)(?: (.*))?$", text, re.MULTILINE))


def unknown(text: str) -> set[str]:
    """The names in these comments of which nothing has the name."""
    modules = re.findall(rf"(?<![\w/])((?:{FOLDERS})/[a-z_]+)", text)
    files = re.findall(r"(?<![\w/])((?:mqredis|tests|docs|lua)/[\w/.-]*\w)", text)
    members = re.findall(r"(?<![\w./])([a-z_]+)\.([a-z_]+)\b", text)
    return {
        *(name for name in modules if not (LUA / f"{name}.lua").exists()),
        *(name for name in files if not (ROOT / name).exists() and not (ROOT / f"{name}.py").exists()),
        *(name for name in re.findall(r"[\w-]+\.(?:py|lua|md)\b", text) if name not in names_of_files()),
        *(
            f"{module}.{name}"
            for module, name in members
            if name not in ("lua", "py")
            and module in code()
            and not re.search(rf"\b{name}\b", code()[module])
        ),
    }


@pytest.mark.parametrize("path", sorted(LUA.rglob("*.lua")), ids=lambda path: path.stem)
def test_names_in_comments_exist(path: Path) -> None:
    assert unknown(comments(path.read_text("utf-8"))) == set()


@pytest.mark.parametrize("path", sorted(LUA.rglob("*.lua")), ids=lambda path: path.stem)
def test_lines_have_at_most_132_columns(path: Path) -> None:
    """Of code luacheck allows 120 (.luacheckrc); it does not see the comments, which bundles leave out."""
    assert [line for line in path.read_text("utf-8").splitlines() if len(line) > 132] == []


def test_names_of_nothing_are_found() -> None:
    text = """-- See core/queues, queue.opened and queue.open (opened.lua, mqredis/queue.py;
-- tests/unit/test_nothing.py).
--- require "core/nothing"
"""
    assert unknown(comments(text)) == {
        "core/queues",
        "queue.opened",
        "mqredis/queue.py",
        "opened.lua",
        "tests/unit/test_nothing.py",
        "test_nothing.py",
    }
