"""Each Lua file names its callers, which tools/lua_callers finds, and each entry script its tests."""

from __future__ import annotations

import ast
import re

import pytest

from mqredis import scripts
from tools import lua_callers

_TEST = re.compile(r"^-- .*\btests/\w+/test_\w+\.py", re.MULTILINE)


def test_lua_files_name_their_callers():
    stale = [path.name for path, text in lua_callers.rewrite().items() if path.read_text("utf-8") != text]
    assert not stale, "run `make format`"


def test_entry_scripts_name_their_tests():
    assert not [
        path.name for path in scripts.root().glob("*.lua") if not _TEST.search(path.read_text("utf-8"))
    ]


def test_modules_that_a_file_requires_are_used_in_it():
    unused = []
    for path in scripts.root().rglob("*.lua"):
        text = path.read_text("utf-8")
        code = re.sub("--.*", "", text)
        modules = re.findall(r'^--- require (?:lazy )?"(?:\w+/)*(\w+)"', text, re.MULTILINE)
        unused += [f"{path.name}: {name}" for name in modules if not re.search(rf"\b{name}\b", code)]
    assert not unused


@pytest.mark.parametrize(
    "body",
    ['return Call("send", q)', 'return Call("send" if x else "y", q)', 'name = "send"; return Call(name, q)'],
)
def test_script_named_in_a_call_is_found(body):
    function = ast.parse(f"def f(q, x):\n    {body}").body[0]
    assert isinstance(function, ast.FunctionDef)
    assert lua_callers.called(function) == ["send"]


def test_script_named_elsewhere_is_not_found():
    function = ast.parse('def f(q):\n    other("send"); return Call(q)').body[0]
    assert isinstance(function, ast.FunctionDef)
    assert lua_callers.called(function) == []


def test_names_stand_on_several_lines():
    names = [f"core/{'x' * 30}{n}" for n in range(9)]
    lines = lua_callers.listed("--- used by ", names)
    assert max(map(len, lines.splitlines())) <= lua_callers.WIDTH
    assert " ".join(lines.split()).replace(" ---", "") == f"--- used by {', '.join(names)}"
    assert lua_callers._WRITTEN.fullmatch(lines)


def test_names_that_do_not_fit_are_counted_by_folder():
    names = [*(f"script{n}" for n in range(90)), "core/a", "core/b", "waiting/c"]
    assert (
        lua_callers.listed("--- used by ", names)
        == "--- used by 93 files: 90 scripts, 2 in core, waiting/c\n"
    )
