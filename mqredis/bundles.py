"""Join the Lua of a script into one text.

``mqredis.scripts`` calls it, when the wheel is built and in a checkout.

A script is one file of ``lua/`` with the modules it names by ``--- require "core/x"`` put in front of it, each once,
depth first; a cycle is an error. What a bundle does not need costs every call of it, so three things are done while
joining: ``status.NAME`` becomes its number; functions that nothing names are left out; a module required by ``---
require lazy "core/x"`` is wrapped in ``x.load()``, and its functions exist only after that call. All lazy modules of a
bundle, and what only they need, stand in one function: a call that needs none pays one closure.

It reads Lua line by line, and relies on how the files of ``lua/`` are written:

- a module declares one table, ``local x = {``, at the left margin; x is the last part of its name, which no other
  module has. The line that ends the table is the first one that ends with ``}``;
- its functions begin with ``function x.name(`` at the left margin, and end with the line ``end`` there, or with the
  word ``end`` on the same line. What stands between functions is kept if the module is;
- a function or table is needed if its name occurs in code anywhere else, in a string as well. So no name is put
  together at run time, and ``x.load()`` is written out.

A file that breaks this does not join, or a call of it fails: ``tests/contract/test_headers.py`` calls every script.
``tools/lua_callers.py`` reads the ``require`` lines, too.

Every process joins what it calls before it calls it first, and bundles share most of their lines: so what a file holds,
and what a line names, is found once.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from mqredis.status import Status

_REQUIRE = re.compile(r'^--- require (lazy )?"([a-z_]+(?:/[a-z_]+)*)"\s*$', re.MULTILINE)
_FUNCTION = re.compile(r"^function ([a-z_]+\.[a-z_]+)\(")
_COMMENT = re.compile(r"^\s*(--.*)?$")
_MODULE = re.compile(r"^local ([a-z_]+) = \{")
_STATUS_USE = re.compile(r"\bstatus\.([A-Z_]+)\b")

_WORD = re.compile(r"\w+")
_DOTTED = re.compile(r"\b(?=(\w+\.\w+))")
_CALLED = re.compile(r"\b(?=(\w+\.\w+)\()")


class ScriptError(Exception):
    """The Lua sources are missing or do not join."""


# File, line number in it (0: made by the loader), text.
Line = tuple[str, int, str]


@cache
def _names(line: str) -> tuple[list[str], list[str]]:
    """The names in a line: each word, and each ``x.y``."""
    code = line.partition("--")[0]
    return _WORD.findall(code), _DOTTED.findall(code)


def _closes(line: str) -> bool:
    """Does a line end a table that begins at the left margin? No line before it ends with a brace."""
    return line.partition("--")[0].rstrip().endswith("}")


def _dotted(lines: Iterable[Line]) -> set[str]:
    """Each ``x.y`` that the code of these lines names."""
    found: set[str] = set()
    for _, _, line in lines:
        found.update(_names(line)[1])
    return found


def _every_name(lines: Iterable[str]) -> Iterator[str]:
    return chain.from_iterable(chain.from_iterable(map(_names, lines)))


def _calls(lines: Iterable[Line]) -> Iterator[str]:
    """Each ``x.y`` that the code of these lines calls."""
    return (name for _, _, line in lines for name in _CALLED.findall(line.partition("--")[0]))


def _word(module: str) -> str:
    """The name of a module's table."""
    return module.rpartition("/")[2]


def _status_number(match: re.Match[str]) -> str:
    """The number of ``status.NAME`` (``mqredis.status``): scripts have no table of them."""
    try:
        return str(int(Status[match[1]]))
    except KeyError:
        raise ScriptError(f"status.{match[1]} is not in mqredis/status.py") from None


class _Modules(NamedTuple):
    """The modules that scripts need, each behind those that it needs itself."""

    eager: list[str]
    """They exist from the start."""
    lazy: list[str]
    """They exist after their ``load()``."""
    inner: list[str]
    """The others that lazy ones need: they exist after any ``load()``."""


class Files:
    """The Lua below one folder."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._texts: dict[str, str] = {}
        self._sources: dict[str, list[Line]] = {}
        self._halves: dict[str, tuple[list[Line], list[Line]]] = {}

    def _text(self, name: str, wanted_by: str = "") -> str:
        text = self._texts.get(name)
        if text is None:
            file = self._root / f"{name}.lua"
            if not file.is_file():
                raise ScriptError(f"lua/{name}.lua is required by {wanted_by or 'no script'} and missing")
            text = self._texts[name] = file.read_text()
        return text

    def source(self, name: str) -> list[Line]:
        """The lines of a file without its ``require`` lines."""
        lines = self._sources.get(name)
        if lines is None:
            texts = _STATUS_USE.sub(_status_number, self._text(name)).splitlines()
            numbered = enumerate(texts, 1)
            lines = [
                (f"lua/{name}.lua", number, line) for number, line in numbered if not _REQUIRE.match(line)
            ]
            self._sources[name] = lines
        return lines

    def parts(self, name: str) -> tuple[list[Line], list[Line]]:
        """A module's table with the comment above it, and the rest."""
        halves = self._halves.get(name)
        if halves is None:
            lines = self.source(name)
            at = next((n for n, (_, _, line) in enumerate(lines) if _MODULE.match(line)), None)
            if at is None:
                raise ScriptError(f"lua/{name}.lua declares no table")
            while not _closes(lines[at][2]):
                at += 1
            halves = self._halves[name] = lines[: at + 1], lines[at + 1 :]
        return halves

    def _requires(self, name: str, path: tuple[str, ...] = ()) -> list[tuple[bool, str]]:
        """The modules that a file names: is it lazy, and its name. ``path``: of files that led here, for errors."""
        found = _REQUIRE.findall(self._text(name, path[-1] if path else ""))
        return [(bool(lazy), module) for lazy, module in found]

    def _modules(self, names: tuple[str, ...]) -> _Modules:
        """The modules that these scripts need together."""
        found: list[str] = []
        lazy: list[str] = []
        later: list[str] = []

        def visit(module: str, path: tuple[str, ...]) -> None:
            if module in path:
                raise ScriptError("require cycle: " + " -> ".join([*path, module]))
            for is_lazy, wanted in self._requires(module, path):
                if not is_lazy:
                    visit(wanted, (*path, module))
                elif wanted not in lazy:
                    lazy.append(wanted)
                    later.append(wanted)
            if module not in found and module not in names:
                found.append(module)

        for name in names:
            visit(name, ())
        eager = list(found)
        while later:
            module = later.pop(0)
            for is_lazy, wanted in self._requires(module, names[:1]):
                if not is_lazy:
                    visit(wanted, (module,))
                elif wanted not in lazy:
                    lazy.append(wanted)
                    later.append(wanted)
        inner = [module for module in found if module not in eager]
        return _Modules(eager, [module for module in lazy if module not in found], inner)

    def join(self, *names: str) -> list[Line]:
        """The bundle of an entry script, or of several. Their lines follow the modules."""
        modules = self._modules(names)
        eager, lazy, inner = modules
        own = [line for name in names for line in self.source(name)]
        front, behind = self._reached(eager, _dotted(own))
        # Every table is declared before any function that may name it. What only lazy modules need waits with them in
        # one function, for each function and table that exists from the start costs every call.
        text = "\n".join(line for _, _, line in [*front, *own])
        words = set(_WORD.findall(text))
        # Lazy modules that eager code names; the others are named by lazy ones alone.
        near = [module for module in lazy if _word(module) in words]
        # A lazy module that needs only eager functions has a loader of its own, which loads no other module.
        later = {match[1] for _, _, line in behind if (match := _FUNCTION.match(line))}
        asked = _dotted(chain(front, behind, own))
        alone = [module for module in near if self._stands(module, eager, later, asked, lazy)]
        lines: list[Line] = [(f"lua/{names[0]}.lua", 0, f"-- mqredis {' '.join(names)}")]
        # Lazy here, but another lazy module needs it: it exists after any of them was loaded.
        shared = [module for module in inner if f"{_word(module)}.load()" in text]
        for module in [*eager, *near, *shared]:
            lines += self.parts(module)[0]
        lines += front
        lines += [("", 0, f"function {_word(m)}.load() end") for m in eager if f"{_word(m)}.load()" in text]
        lines += [line for module in alone for line in self._loader(module)]
        near = [module for module in near if module not in alone]
        if near or shared:
            rest = [module for module in lazy if module not in alone]
            lines += self._lazily(modules._replace(lazy=rest), near, shared, behind, lines)
        lines = _shake([*lines, *own])
        # fakeredis parses a bundle for every call, so comments are left out, except the first line.
        return [lines[0], *(line for line in lines[1:] if not _COMMENT.match(line[2]))]

    def _reached(self, eager: list[str], asked: set[str]) -> tuple[list[Line], list[Line]]:
        """Split the eager modules: the functions that the needed names can call, with all other lines, and the
        functions that they cannot call."""
        kept: list[Line] = []
        bodies: dict[str, list[Line]] = {}
        for module in eager:
            for name, line in _by_function(self.parts(module)[1]):
                (bodies.setdefault(name, []) if name else kept).append(line)
        reached: set[str] = set()
        fresh = bodies.keys() & (asked | _dotted(kept))
        while fresh:
            reached |= fresh
            fresh = bodies.keys() & _dotted(line for name in fresh for line in bodies[name]) - reached
        front = [line for name, lines in bodies.items() if name in reached for line in lines]
        behind = [line for name, lines in bodies.items() if name not in reached for line in lines]
        return [*kept, *front], behind

    def _stands(
        self, module: str, eager: list[str], later: set[str], asked: set[str], lazy: list[str]
    ) -> bool:
        """Does what is asked of a lazy module need only what exists from the start of a script? ``asked``: what all
        but the lazy modules ask for."""
        if any(is_lazy or other not in eager for is_lazy, other in self._requires(module)):
            return False
        others = (self.parts(other)[1] for other in lazy if other != module)
        return later.isdisjoint(_calls(self._reached([module], asked | _dotted(chain(*others)))[0]))

    def _loader(self, module: str) -> list[Line]:
        """A lazy module as a function that defines it."""
        file, word = f"lua/{module}.lua", _word(module)
        guard = f"if {word}.loaded then return end {word}.loaded = true"
        return [
            (file, 0, f"function {word}.load()"),
            (file, 0, guard),
            *self.parts(module)[1],
            (file, 0, "end"),
        ]

    def _lazily(
        self,
        modules: _Modules,
        near: list[str],
        shared: list[str],
        behind: list[Line],
        before: list[Line],
    ) -> list[Line]:
        """The function that defines all lazy modules with the modules that they need, and the loaders of those that
        eager code names: ``near`` and ``shared``. ``behind``: functions of eager modules that only lazy code can call;
        ``before``: the lines of the bundle so far."""
        lines: list[Line] = [("", 0, "local function lazily()")]
        for module in [*modules.inner, *(m for m in modules.lazy if m not in near)]:
            lines += self.parts(module)[0] if module not in shared else []
        lines += behind
        for module in modules.inner:
            lines += self.parts(module)[1]
        lines += [line for module in modules.lazy for line in self._loader(module)]
        asked = "\n".join(line.partition("--")[0] for _, _, line in [*before, *lines])
        for word in map(_word, [*modules.eager, *modules.inner]):
            known = f"function {word}.load()" in asked
            if not known and (f"{word}.load()" in asked or word in map(_word, shared)):
                lines.append(("", 0, f"function {word}.load() end"))
        lines.append(("", 0, "end"))
        for module in near:
            word = _word(module)
            lines.append(
                (f"lua/{module}.lua", 0, f"function {word}.load() lazily() return {word}.load() end")
            )
        lines += [(f"lua/{m}.lua", 0, f"function {_word(m)}.load() lazily() end") for m in shared]
        return lines


def _by_function(lines: list[Line]) -> Iterator[tuple[str, Line]]:
    """The lines of a module, each with the name of the function that it is part of, "" outside of any."""
    at = 0
    while at < len(lines):
        match = _FUNCTION.match(lines[at][2])
        stop = at if not match or lines[at][2].rstrip().endswith(" end") else _end(lines, at)
        for line in lines[at : stop + 1]:
            yield match[1] if match else "", line
        at = stop + 1


def _shake(lines: list[Line]) -> list[Line]:
    """Drop the functions and tables that nothing in the bundle names."""
    bodies: dict[str, tuple[int, int]] = {}
    for start, (_, _, line) in enumerate(lines):
        match = _FUNCTION.match(line)
        if match and not match[1].endswith(".load"):
            stop = start if line.rstrip().endswith(" end") else _end(lines, start)
            bodies[match[1]] = (start, stop)
        elif match := _MODULE.match(line):
            stop = next(n for n in range(start, len(lines)) if _closes(lines[n][2]))
            bodies[match[1]] = (start, stop)
    named = Counter(_every_name(line for _, _, line in lines))
    dead: set[int] = set()
    while unused := [name for name in bodies if named[name] == 1]:
        for name in unused:
            start, stop = bodies.pop(name)
            gone = set(range(start, stop + 1)) - dead
            named.subtract(_every_name(lines[n][2] for n in gone))
            dead |= gone
    return [line for n, line in enumerate(lines) if n not in dead]


def _end(lines: list[Line], start: int) -> int:
    """The place of the line that ends the function which begins at ``start``."""
    return next(n for n in range(start, len(lines)) if lines[n][2] == "end")
