"""Scripts as functions of the server: what is added to a bundle, and what a call leaves for the next one."""

from __future__ import annotations

import re

import pytest

from mqredis import scripts

LUA = scripts.root()
#: The modules that keep something in their tables: the state of a call, and results that depend on a text alone.
STATE = {"core/context", "core/cache"}
_MODULE = re.compile(r"^local ([a-z_]+) = \{", re.MULTILINE)
_ASSIGNED = re.compile(r"(?<![\w.])([a-z_]+)\.([a-z_]+)(?:\[[^\n\]]*\])?(?=(?: *, *[\w.\[\]]+)* *=(?!=))")
#: Fields of the context that are the same in every call.
_CONSTANT = {"patience", "store_after", "schema"}


@pytest.mark.parametrize("name", scripts.names())
def test_lines_stay_where_they_are(name: str) -> None:
    script = scripts.get(name)
    title, text = script.function().name, script.function().load[3]
    assert re.fullmatch(rf"mqredis_[0-9a-f]{{12}}_{name}", title)
    was, now = script.text.splitlines(), text.splitlines()
    for n in range(1, len(was)):
        assert now[n].endswith(was[n].replace("redis.call(", "call("))
    assert "redis.call(" not in "\n".join(now[: len(was)])


def code_of(path: str) -> str:
    return re.sub(r"--.*", "", (LUA / f"{path}.lua").read_text())


def modules() -> list[str]:
    return sorted(str(path.relative_to(LUA)).removesuffix(".lua") for path in LUA.rglob("*/*.lua"))


@pytest.mark.parametrize("module", modules())
def test_no_other_module_keeps_state(module: str) -> None:
    """A function library keeps the tables of its modules from call to call."""
    code = code_of(module)
    own = _MODULE.search(code)
    if own is None or module in STATE:
        return
    # What stands at the margin is run when the module is loaded; only functions run in a call.
    inside = "\n".join(line for line in code.splitlines() if line.startswith(" "))
    assert [match[0] for match in _ASSIGNED.finditer(inside) if match[1] == own[1]] == []


@pytest.mark.parametrize("module", modules())
def test_results_are_kept_by_their_text_alone(module: str) -> None:
    if module != "core/cache":
        assert not re.search(r"\bcache\.[a-z_]+(\[[^\n]*\])?\s*=(?!=)", code_of(module))


def fields(lines: str) -> set[str]:
    return set(re.findall(r"(?<![\w.])([a-z_]+) = ", lines))


def test_a_call_forgets_the_one_before() -> None:
    text = code_of("core/context")
    declared = fields(
        text[text.index("local context = {") : text.index("\n}")].replace("local context = {", "")
    )
    start = text.index("function context.reset()")
    reset = set(re.findall(r"\bc\.([a-z_]+)", text[start : text.index("\nend", start)]))
    assert reset == declared - _CONSTANT
    assert {match[2] for match in _ASSIGNED.finditer(text) if match[1] == "context"} <= declared


@pytest.mark.parametrize("name", scripts.names())
def test_every_script_begins_with_that(name: str) -> None:
    code = code_of(name)
    assert (
        "context.open(" in code
        or "context.observe(" in code
        or "context.reset()" in code
        or "core/context" not in (LUA / f"{name}.lua").read_text()
    )


@pytest.mark.parametrize("name", scripts.names())
def test_a_script_that_writes_nothing_says_so_to_the_context_and_to_the_server(name: str) -> None:
    code, reading = code_of(name), scripts.get(name).header.no_writes
    assert ("context.observe(" in code) == reading
    if reading:
        assert not re.search(r"context\.open\(|queue\.open\(|timers\.serve\(", code)


def test_no_field_of_the_context_is_set_elsewhere_unless_it_is_declared() -> None:
    text = code_of("core/context")
    declared = fields(
        text[text.index("local context = {") : text.index("\n}")].replace("local context = {", "")
    )
    names = [str(path.relative_to(LUA)).removesuffix(".lua") for path in LUA.rglob("*.lua")]
    found = {
        match[2] for name in names for match in _ASSIGNED.finditer(code_of(name)) if match[1] == "context"
    }
    assert found <= declared
