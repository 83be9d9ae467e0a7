"""Scripts as functions of the server: how bundles become libraries, and which state outlives a call."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mqredis import scripts
from mqredis.scripts import Library

LUA = scripts.root()
# The modules that keep something in their tables: the state of a call, and results that depend on a text alone.
STATE = {"core/context", "core/cache"}
_MODULE = re.compile(r"^local ([a-z_]+) = \{", re.MULTILINE)
# What stands behind "= " is a value, also in front of ", name =" in a table.
_ASSIGNED = re.compile(
    r"(?<![\w.])(?<!= )([a-z_]+)\.([a-z_]+)(?:\[[^\n\]]*\])?(?=(?: *, *[\w.\[\]]+)* *=(?!=))"
)
# Fields of the context that are the same in every call.
_CONSTANT = {"patience", "store_after", "lengths"}
# Fields that count only with another one: what lies behind ``written``, and where ``places`` begin.
_DEPENDENT = {"fields", "first_place"}


@pytest.mark.parametrize("library", scripts.libraries(), ids=lambda library: library.name)
def test_libraries_keep_the_line_numbers_of_bundles(library: Library) -> None:
    assert re.fullmatch(rf"mqredis_[0-9a-f]{{12}}_{library.name}", library.title)
    was, now = [line for _, _, line in library.joined], library.text.splitlines()
    for n in range(1, len(was)):
        assert was[n].lstrip().replace("redis.call(", "call(") in now[n]
    assert "redis.call(" not in "\n".join(now[: len(was)])


def test_each_script_is_a_function_of_one_library() -> None:
    found = [name for library in scripts.libraries() for name in library.scripts]
    assert sorted(found) == scripts.names()
    for name in found:
        form = scripts.get(name).function()
        assert re.fullmatch(rf"mqredis_[0-9a-f]{{12}}_{name}", form.name)
        assert f"register('{form.name}', call_{name}, " in form.load[3]


def test_library_of_frequent_calls_stays_below_the_size_budget() -> None:
    """Send, receive, settle and transactions: design budget 250 KB (docs/decisions/scripts.md)."""
    assert len(scripts.library(scripts.MESSAGES).text) < 250_000


def code_of(path: str) -> str:
    return re.sub(r"--.*", "", (LUA / f"{path}.lua").read_text())


def modules() -> list[str]:
    return sorted(str(path.relative_to(LUA)).removesuffix(".lua") for path in LUA.rglob("*/*.lua"))


def fields_behind_table(module: str, code: str) -> set[str]:
    """The fields that a module assigns behind its table when it is loaded."""
    word = module.rpartition("/")[2]
    return set(re.findall(rf"^{word}\.([a-z_]+) = ", code, re.MULTILINE))


def fields_in_table(module: str, code: str) -> set[str]:
    """The fields that the table of a module declares, without those of the tables inside it."""
    word = module.rpartition("/")[2]
    table = re.search(rf"^local {word} = \{{(.*?\}})$", code, re.MULTILINE | re.DOTALL)
    if table is None:
        return set()
    text = re.sub(r'"[^"]*"', "", table[1])
    while (flat := re.sub(r"\{[^{}]*\}", "", text)) != text:
        text = flat
    return set(re.findall(r"\b([a-z_]+) = ", text))


def fields_of(module: str, code: str) -> set[str]:
    """The fields that a module has when it is loaded."""
    return fields_in_table(module, code) | fields_behind_table(module, code)


@pytest.mark.parametrize("module", modules())
def test_no_function_replaces_a_field_of_its_module(module: str) -> None:
    code = code_of(module)
    names = sorted(fields_of(module, code)) + re.findall(
        r"^function [a-z_]+\.([a-z_]+)\(", code, re.MULTILINE
    )
    assert [name for name in names if names.count(name) > 1] == []


@pytest.mark.parametrize("module", modules())
def test_no_field_in_the_table_of_a_module_is_assigned_behind_it(module: str) -> None:
    """By ``EVALSHA``, a lazy module is loaded when a field is read that its table does not have."""
    code = code_of(module)
    assert not fields_in_table(module, code) & fields_behind_table(module, code)


@pytest.mark.parametrize("path", sorted(LUA.rglob("*.lua")), ids=lambda path: path.stem)
def test_no_local_hides_the_names_of_a_library(path: Path) -> None:
    """In a function library ``call``, KEYS and ARGV are locals around the scripts (mqredis/scripts.py)."""
    code = re.sub(r"--[^\n]*", "", path.read_text("utf-8"))
    declared = re.findall(r"\blocal ([\w, ]+)", code) + re.findall(r"\bfunction[ \w.]*\(([\w, ]*)\)", code)
    declared += re.findall(r"\bfor ([\w, ]+) (?:=|in)", code)
    names = {name.strip() for names in declared for name in names.split(",")}
    assert not names & {"call", "register", "KEYS", "ARGV"}


@pytest.mark.parametrize("module", modules())
def test_only_listed_modules_keep_state(module: str) -> None:
    """A function library keeps the tables of its modules from call to call."""
    code = code_of(module)
    own = _MODULE.search(code)
    if own is None or module in STATE:
        return
    # Unindented lines run when the module is loaded; only indented ones run in a call.
    inside = "\n".join(line for line in code.splitlines() if line.startswith(" "))
    assert [match[0] for match in _ASSIGNED.finditer(inside) if match[1] == own[1]] == []


@pytest.mark.parametrize("module", modules())
def test_cache_fields_are_assigned_only_in_the_cache_module(module: str) -> None:
    if module != "core/cache":
        assert not re.search(r"\bcache\.[a-z_]+(\[[^\n]*\])?\s*=(?!=)", code_of(module))


def fields(lines: str) -> set[str]:
    return set(re.findall(r"(?<![\w.])([a-z_]+) = ", lines))


def body(text: str, function: str) -> str:
    start = text.index(f"function {function}(")
    return text[start : text.index("\nend", start)]


def test_context_fields_are_reset_at_the_begin_of_a_call() -> None:
    """Every field of the context is set when a call begins: by ``reset``, or by what ``open`` always runs."""
    text = code_of("core/context")
    declared = fields(
        text[text.index("local context = {") : text.index("\n}")].replace("local context = {", "")
    )
    reset = set(re.findall(r"\bc\.([a-z_]+)", body(text, "context.reset")))
    begin = body(text, "context.open") + body(text, "context.set_time") + body(text, "context.parse_counters")
    opened = set(re.findall(r"\bcontext\.([a-z_]+)(?=[^\n(]*[^=<>~]=[^=])", begin))
    assert declared - _CONSTANT - _DEPENDENT <= reset | opened
    assert {match[2] for match in _ASSIGNED.finditer(text) if match[1] == "context"} <= declared


def test_queue_fields_are_declared() -> None:
    """A table of a queue that outlives its call has no fields but those of ``parse`` and ``begin_call``."""
    text = code_of("core/queue")
    each_call = set(re.findall(r"\bq\.([a-z_]+)", body(text, "queue.begin_call")))
    declared = fields(body(text, "queue.parse")) | each_call
    for path in sorted(LUA.rglob("*.lua")):
        code = re.sub(r"--.*", "", path.read_text())
        lines = [
            line
            for line in code.splitlines()
            if re.match(r"\s*(q|to|home|parent|target)\.[a-z_]+\b[^=]*=[^=]", line)
        ]
        for line in lines:
            targets = line.partition("=")[0]
            given = set(re.findall(r"\b(?:q|to|home|parent|target)\.([a-z_]+)", targets)) - {"parent"}
            assert given <= declared or "single_use" in code, f"{path.name}: {line}"
            assert not re.search(r"(?<![={]) nil", line.partition("=")[2]), f"{path.name}: {line}"


@pytest.mark.parametrize("name", scripts.names())
def test_script_using_the_context_opens_observes_or_resets_it(name: str) -> None:
    code = code_of(name)
    assert (
        "context.open(" in code
        or "context.observe(" in code
        or "context.reset()" in code
        or "core/context" not in (LUA / f"{name}.lua").read_text()
    )


@pytest.mark.parametrize("name", scripts.names())
def test_read_only_script_observes_the_context_and_has_the_no_writes_flag(name: str) -> None:
    code, reading = code_of(name), scripts.get(name).flag == "no-writes"
    assert ("context.observe(" in code) == reading
    if reading:
        assert not re.search(r"context\.open\(|queue\.open\(|timers\.serve\(", code)


def test_assigned_context_fields_are_declared() -> None:
    text = code_of("core/context")
    declared = fields(
        text[text.index("local context = {") : text.index("\n}")].replace("local context = {", "")
    )
    names = [str(path.relative_to(LUA)).removesuffix(".lua") for path in LUA.rglob("*.lua")]
    found = {
        match[2] for name in names for match in _ASSIGNED.finditer(code_of(name)) if match[1] == "context"
    }
    assert found <= declared
