"""Find the Lua, join it into bundles, read its headers.

A script is one file of ``lua/`` with the modules it names by ``--- require "lib/x"`` put in front of it, each
once, depth first; a cycle is an error. What a bundle does not need costs every call of it, so three things are done
while joining: ``status.NAME`` becomes its number; functions that nothing names are left out; a module required by
``--- require lazy "lib/x"`` is wrapped in ``x.load()``, and its functions exist only once somebody called that. All
lazy modules of a bundle, and what only they need, stand in one function: a call that needs none pays one closure.
A line map leads an error in a bundle back to its file.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache, partial
from importlib import resources
from pathlib import Path

from mqredis import functions

_REQUIRE = re.compile(r'^--- require (lazy )?"([a-z_]+(?:/[a-z_]+)*)"\s*$')
_FUNCTION = re.compile(r"^function ([a-z_]+\.[a-z_]+)\(")
_COMMENT = re.compile(r"^\s*(--.*)?$")
_MODULE = re.compile(r"^local ([a-z_]+) = \{")
_STATUS_LINE = re.compile(r"^\s*([A-Z_]+) = (0x[0-9A-Fa-f]+),")
_STATUS_USE = re.compile(r"\bstatus\.([A-Z_]+)\b")
_HEADER = re.compile(r"^-- (KEYS|QUEUE\[\d+\+?\]|ARGV\[\d+\+?\]|RETURNS|FLAGS)\s*(.*)$")
_WHERE = re.compile(r'(?:@?user_(?:script|function)|\[string "[^"]*"\]):(\d+):?')

_WORD = re.compile(r"\w+")
_DOTTED = re.compile(r"\b(?=(\w+\.\w+))")


class ScriptError(Exception):
    """The Lua sources are missing or do not join."""


#: File, line number in it (0: made by the loader), text.
Line = tuple[str, int, str]


@dataclass(frozen=True)
class Header:
    """What the first comment of an entry script declares."""

    about: str
    spec: str
    keys: str  # "message" or "admin": which of the manager's keys come first
    queues: tuple[str, ...]  # one description per queue group; the last may end in "+" for any number
    argv: tuple[tuple[str, str], ...]  # name, description: from ARGV[3] on
    returns: tuple[str, ...]  # status names
    allow_oom: bool


@dataclass(frozen=True)
class Form:
    """How one server runs a script: the command and the name it is called by, and the command that loads it."""

    verb: str
    name: str
    load: tuple[str, ...]


@dataclass(frozen=True)
class Script:
    """One bundle: its text, its hash and where its lines come from."""

    name: str
    text: str
    header: Header
    lines: tuple[tuple[str, int], ...]
    sha: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "sha", _sha(self.text))

    @property
    def shebang(self) -> str:
        """The first line for servers that know flags: the draining side may run on a full server."""
        return "#!lua flags=allow-oom\n" if self.header.allow_oom else "#!lua\n"

    def variant(self, shebang: bool) -> tuple[str, str]:
        """Text and SHA1, with or without the flags line."""
        if not shebang:
            return self.text, self.sha
        # One line more in front would shift every number in an error: the bundle's first line is spare.
        text = self.shebang + self.text.split("\n", 1)[1]
        return text, _sha(text)

    def form(self, shebang: bool) -> Form:
        """For ``EVALSHA``, with or without the flags line."""
        text, sha = self.variant(shebang)
        return Form("EVALSHA", sha, ("SCRIPT", "LOAD", text))

    def draining(self) -> Form | None:
        """For ``EVALSHA`` on a full server that knows no flags (Redis 6); None: it may not run there.

        Such a server refuses the first write of a script if it may need memory, so the first is one that needs none.
        """
        if not self.header.allow_oom:
            return None
        text = 'redis.call("UNLINK", KEYS[1] .. ":none")\n' + self.text.split("\n", 1)[1]
        return Form("EVALSHA", _sha(text), ("SCRIPT", "LOAD", text))

    def function(self) -> Form:
        """For ``FCALL``."""
        name, text = _library(self.name)
        return Form("FCALL", name, ("FUNCTION", "LOAD", "REPLACE", text))


@cache
def _library(name: str) -> tuple[str, str]:
    script = get(name)
    own = next(n for n, (file, line) in enumerate(script.lines) if line and file == f"lua/{name}.lua")
    return functions.library(name, script.text.splitlines(), own, script.header.allow_oom)


def _sha(text: str) -> str:
    return hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()


@cache
def root() -> Path:
    """The folder that holds the Lua: inside the installed package, else beside it in a checkout."""
    inside = resources.files("mqredis") / "lua"
    for candidate in (Path(str(inside)), Path(__file__).resolve().parent.parent / "lua"):
        if (candidate / "lib" / "status.lua").is_file():
            return candidate
    raise ScriptError("the Lua scripts of mqredis are missing: neither mqredis/lua nor ../lua holds them")


@cache
def statuses() -> dict[str, int]:
    """The numbers of ``lua/lib/status.lua``."""
    text = (root() / "lib" / "status.lua").read_text()
    return {m[1]: int(m[2], 16) for line in text.splitlines() if (m := _STATUS_LINE.match(line))}


def names() -> list[str]:
    """Names of all entry scripts."""
    return sorted(path.stem for path in root().glob("*.lua"))


@cache
def get(name: str) -> Script:
    """The bundle of one entry script."""
    eager, lazy, inner = _modules(name)
    own = _source(name)
    front, behind = _reached(eager, own)
    # Every table is declared before any function that may name it. What only lazy modules need waits with them in one
    # function, for each function and table that exists from the start costs every call.
    text = "\n".join(line for _, _, line in [*front, *own])
    near = [module for module in lazy if re.search(rf"\b{_word(module)}\b", text)]
    # One that needs nothing but what is there from the start stands alone: it brings no others with it.
    later = {match[1] for _, _, line in behind if (match := _FUNCTION.match(line))}
    alone = [module for module in near if _stands(module, eager, later, _code([*front, *behind, *own]), lazy)]
    lines: list[Line] = [(f"lua/{name}.lua", 0, f"-- mqredis {name}")]
    for module in [*eager, *near]:
        lines += _parts(module)[0]
    lines += front
    lines += [("", 0, f"function {_word(m)}.load() end") for m in eager if f"{_word(m)}.load()" in text]
    lines += [line for module in alone for line in _loader(module)]
    near = [module for module in near if module not in alone]
    if near:
        lines += _lazily(
            near, [module for module in lazy if module not in alone], inner, behind, lines, eager
        )
    lines = _shake([*lines, *own])
    # fakeredis reads a bundle anew for every call, so what is not code stays behind, but for the first line.
    lines = [lines[0], *(line for line in lines[1:] if not _COMMENT.match(line[2]))]
    text = "\n".join(line for _, _, line in lines) + "\n"
    header = _header([line for _, _, line in own])
    return Script(name, text, header, tuple((file, number) for file, number, _ in lines))


def _lazily(
    near: list[str],
    lazy: list[str],
    inner: list[str],
    behind: list[Line],
    before: list[Line],
    eager: list[str],
) -> list[Line]:
    """The function that makes all lazy modules with what they rest on, and the loaders of those named at the start."""
    lines: list[Line] = [("", 0, functions.LAZILY)]
    for module in [*inner, *(m for m in lazy if m not in near)]:
        lines += _parts(module)[0]
    lines += behind
    for module in inner:
        lines += _parts(module)[1]
    lines += [line for module in lazy for line in _loader(module)]
    asked = _code([*before, *lines])
    for word in map(_word, [*eager, *inner]):
        if f"{word}.load()" in asked and f"function {word}.load()" not in asked:
            lines.append(("", 0, f"function {word}.load() end"))
    lines.append(("", 0, "end"))
    for module in near:
        word = _word(module)
        lines.append((f"lua/{module}.lua", 0, f"function {word}.load() lazily() return {word}.load() end"))
    return lines


def _stands(module: str, eager: list[str], later: set[str], text: str, lazy: list[str]) -> bool:
    """Does what is asked of a lazy module need only what exists from the start of a script? ``text``: all that may ask
    beside the lazy modules."""
    if any(is_lazy or other not in eager for is_lazy, other in _requires(module, ())):
        return False
    text += "".join(_code(_parts(other)[1]) for other in lazy if other != module)
    text = _code(_reached([module], [("", 0, text)])[0])
    return not any(re.search(rf"\b{re.escape(name)}\(", text) for name in later)


def _word(module: str) -> str:
    return module.rpartition("/")[2]


def _loader(module: str) -> list[Line]:
    """A lazy module as the function that makes it."""
    file, word = f"lua/{module}.lua", _word(module)
    guard = f"if {word}.loaded then return end {word}.loaded = true"
    return [(file, 0, f"function {word}.load()"), (file, 0, guard), *_parts(module)[1], (file, 0, "end")]


def _reached(eager: list[str], own: list[Line]) -> tuple[list[Line], list[Line]]:
    """The functions of eager modules that the script itself can come to, with all other lines, and those it cannot."""
    kept: list[Line] = []
    functions: dict[str, list[Line]] = {}
    for module in eager:
        for name, line in _by_function(_parts(module)[1]):
            (functions.setdefault(name, []) if name else kept).append(line)
    reached: list[str] = []
    new = _DOTTED.findall(_code([*own, *kept]))
    while new:
        fresh = [name for name in dict.fromkeys(new) if name in functions and name not in reached]
        reached += fresh
        new = _DOTTED.findall(_code([line for name in fresh for line in functions[name]]))
    front = [line for name, lines in functions.items() if name in reached for line in lines]
    behind = [line for name, lines in functions.items() if name not in reached for line in lines]
    return [*kept, *front], behind


def _by_function(lines: list[Line]) -> Iterator[tuple[str, Line]]:
    """The lines of a module, each with the name of the function that it is part of, "" outside of any."""
    at = 0
    while at < len(lines):
        match = _FUNCTION.match(lines[at][2])
        stop = at if not match or lines[at][2].rstrip().endswith(" end") else _end(lines, at)
        for line in lines[at : stop + 1]:
            yield match[1] if match else "", line
        at = stop + 1


def _code(lines: list[Line]) -> str:
    return "\n".join(line.partition("--")[0] for _, _, line in lines)


def bundle(name: str) -> str:
    """The text that ``SCRIPT LOAD`` receives."""
    return get(name).text


def _modules(name: str) -> tuple[list[str], list[str], list[str]]:
    """Modules a script needs: those that exist from its start, those loaded when needed, and what these rest on."""
    found: list[str] = []
    lazy: list[str] = []
    later: list[str] = []

    def visit(module: str, path: tuple[str, ...]) -> None:
        if module in path:
            raise ScriptError("require cycle: " + " -> ".join([*path, module]))
        for is_lazy, wanted in _requires(module, path):
            if not is_lazy:
                visit(wanted, (*path, module))
            elif wanted not in lazy:
                lazy.append(wanted)
                later.append(wanted)
        if module not in found and module != name:
            found.append(module)

    visit(name, ())
    eager = list(found)
    while later:
        module = later.pop(0)
        for is_lazy, wanted in _requires(module, (name,)):
            if not is_lazy:
                visit(wanted, (module,))
            elif wanted not in lazy:
                lazy.append(wanted)
                later.append(wanted)
    inner = [module for module in found if module not in eager]
    return eager, [module for module in lazy if module not in found], inner


def _requires(name: str, path: tuple[str, ...]) -> list[tuple[bool, str]]:
    file = root() / f"{name}.lua"
    if not file.is_file():
        raise ScriptError(f"lua/{name}.lua is required by {path[-1] if path else 'nobody'} and missing")
    found = [_REQUIRE.match(line) for line in file.read_text().splitlines()]
    return [(bool(m[1]), m[2]) for m in found if m and m[2] != "lib/status"]


def _source(name: str) -> list[Line]:
    source = (root() / f"{name}.lua").read_text().splitlines()
    return [
        (f"lua/{name}.lua", number, _STATUS_USE.sub(_number, line))
        for number, line in enumerate(source, 1)
        if not _REQUIRE.match(line)
    ]


def _parts(name: str) -> tuple[list[Line], list[Line]]:
    """A module's table with the comment above it, and the rest."""
    lines = _source(name)
    at = next((n for n, (_, _, line) in enumerate(lines) if _MODULE.match(line)), None)
    if at is None:
        raise ScriptError(f"lua/{name}.lua declares no table")
    while not lines[at][2].endswith("}"):
        at += 1
    return lines[: at + 1], lines[at + 1 :]


def _shake(lines: list[Line]) -> list[Line]:
    """Drop the functions and tables that nothing in the bundle names."""
    while True:
        bodies: dict[str, tuple[int, int]] = {}
        for start, (_, _, line) in enumerate(lines):
            match = _FUNCTION.match(line)
            if match and not match[1].endswith(".load"):
                stop = start if line.rstrip().endswith(" end") else _end(lines, start)
                bodies[match[1]] = (start, stop)
        for start, (_, _, line) in enumerate(lines):
            match = _MODULE.match(line)
            if match:
                stop = next(n for n in range(start, len(lines)) if lines[n][2].endswith("}"))
                bodies[match[1]] = (start, stop)
        text = _code(lines)
        # One pass over the text for all names: this runs when a process makes its first calls.
        named = Counter(_WORD.findall(text)) + Counter(_DOTTED.findall(text))
        unused = [name for name in bodies if named[name] == 1]
        if not unused:
            return lines
        dead = {n for name in unused for n in range(bodies[name][0], bodies[name][1] + 1)}
        lines = [line for n, line in enumerate(lines) if n not in dead]


def _end(lines: list[Line], start: int) -> int:
    return next(n for n in range(start, len(lines)) if lines[n][2] == "end")


def _number(match: re.Match[str]) -> str:
    try:
        return str(statuses()[match[1]])
    except KeyError:
        raise ScriptError(f"status.{match[1]} is not in lua/lib/status.lua") from None


def _header(lines: list[str]) -> Header:
    about: list[str] = []
    rows: list[tuple[str, str]] = []
    for line in lines[1:]:
        if not line.startswith("--"):
            break
        match = _HEADER.match(line)
        if match:
            rows.append((match[1], match[2].strip()))
        elif not rows:
            about.append(line[2:].strip())
    spec = next((line for line in about if line.startswith(("MS-", "IBM MQ"))), "")
    argv = []
    for key, value in rows:
        if key.startswith("ARGV"):
            word, _, rest = value.partition(" ")
            argv.append((word + ("+" if "+" in key else ""), rest.strip()))
    flags = " ".join(value for key, value in rows if key == "FLAGS")
    return Header(
        about=" ".join(about),
        spec=spec,
        keys=next((value.split()[0] for key, value in rows if key == "KEYS"), ""),
        queues=tuple(value + ("+" if "+" in key else "") for key, value in rows if key.startswith("QUEUE")),
        argv=tuple(argv),
        returns=tuple(value.split()[0] for key, value in rows if key == "RETURNS"),
        allow_oom="allow-oom" in flags,
    )


def explain(error: str) -> str:
    """Rewrite ``user_script:41:`` in an error of ours to the file and line it came from."""
    for script_name in names():
        script = get(script_name)
        if script.sha in error or script.variant(True)[1] in error or _library(script_name)[0] in error:
            return _WHERE.sub(partial(_place, script), error)
    return error


def _place(script: Script, match: re.Match[str]) -> str:
    line = int(match[1])
    if not 1 <= line <= len(script.lines):
        return f"{script.name}:{line}:"
    file, number = script.lines[line - 1]
    return f"{file}:{number}:"
