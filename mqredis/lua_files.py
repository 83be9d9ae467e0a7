"""Read the Lua files: the modules that they require, and the functions and names in their lines.

``mqredis.bundles`` joins what it returns. ``tools/lua_callers.py`` reads the ``require`` lines, too.

A file is read line by line, which relies on how the files of ``lua/`` are written:

- a module declares one table, ``local x = {``, at the left margin; x is the last part of its name, which no other
  module has. The line that ends the table is the first one that ends with ``}``;
- its functions begin with ``function x.name(`` at the left margin, and end with the line ``end`` there, or with the
  word ``end`` on the same line. What stands between functions is kept if the module is;
- a function or table is needed if its name occurs in code anywhere else, in a string as well. So no name is put
  together at run time.

A file that breaks this does not join, or a call of it fails: ``tests/contract/test_headers.py`` calls every script.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import chain
from pathlib import Path

from mqredis.status import Status

_REQUIRE = re.compile(r'^--- require (lazy )?"([a-z_]+(?:/[a-z_]+)*)"\s*$', re.MULTILINE)
_FUNCTION = re.compile(r"^function ([a-z_]+\.[a-z_]+)\(")
_TABLE = re.compile(r"^local ([a-z_]+) = \{")
_STATUS_USE = re.compile(r"\bstatus\.([A-Z_]+)\b")

_WORD = re.compile(r"\w+")
_DOTTED = re.compile(r"\b(?=(\w+\.\w+))")


class ScriptError(Exception):
    """The Lua sources are missing or do not join."""


# File, line number in it (0: the line was made while joining), text.
Line = tuple[str, int, str]


class LuaFiles:
    """The Lua below one folder. What a file holds is read once, since bundles share most of their lines."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._texts: dict[str, str] = {}
        self._lines: dict[str, list[Line]] = {}
        self._parts: dict[str, tuple[list[Line], list[Line]]] = {}

    def requires(self, name: str, wanted_by: str = "no script") -> list[tuple[bool, str]]:
        """The modules that a file requires: whether as ``lazy``, and the name. ``wanted_by`` is named if the file is
        missing."""
        return [(bool(lazy), module) for lazy, module in _REQUIRE.findall(self._text(name, wanted_by))]

    def lines(self, name: str) -> list[Line]:
        """The lines of a file without its ``require`` lines."""
        lines = self._lines.get(name)
        if lines is None:
            texts = _STATUS_USE.sub(_status_number, self._text(name)).splitlines()
            numbered = enumerate(texts, 1)
            lines = [
                (f"lua/{name}.lua", number, line) for number, line in numbered if not _REQUIRE.match(line)
            ]
            self._lines[name] = lines
        return lines

    def table(self, module: str) -> list[Line]:
        """The lines of a module up to the end of its table."""
        return self._split(module)[0]

    def functions(self, module: str) -> list[Line]:
        """The lines of a module behind its table."""
        return self._split(module)[1]

    def _text(self, name: str, wanted_by: str = "no script") -> str:
        text = self._texts.get(name)
        if text is None:
            file = self._root / f"{name}.lua"
            if not file.is_file():
                raise ScriptError(f"lua/{name}.lua is required by {wanted_by} and missing")
            text = self._texts[name] = file.read_text()
        return text

    def _split(self, module: str) -> tuple[list[Line], list[Line]]:
        parts = self._parts.get(module)
        if parts is None:
            lines = self.lines(module)
            at = next((n for n, (_, _, line) in enumerate(lines) if _TABLE.match(line)), None)
            if at is None:
                raise ScriptError(f"lua/{module}.lua declares no table")
            behind = _table_end(lines, at) + 1
            parts = self._parts[module] = lines[:behind], lines[behind:]
        return parts


def _status_number(match: re.Match[str]) -> str:
    """The number of ``status.NAME`` (``mqredis.status``): scripts have no table of them."""
    try:
        return str(int(Status[match[1]]))
    except KeyError:
        raise ScriptError(f"status.{match[1]} is not in mqredis/status.py") from None


# ---- names ---------------------------------------------------------------------------------------------------------


def table_name(module: str) -> str:
    """The name of a module's table."""
    return module.rpartition("/")[2]


@cache
def _names(line: str) -> tuple[list[str], list[str]]:
    """The names in a line: each word, and each ``x.y``."""
    code = line.partition("--")[0]
    return _WORD.findall(code), _DOTTED.findall(code)


def dotted(lines: Iterable[Line]) -> set[str]:
    """Each ``x.y`` that the code of these lines names."""
    found: set[str] = set()
    for _, _, line in lines:
        found.update(_names(line)[1])
    return found


def words(lines: Iterable[Line]) -> set[str]:
    """Each word in the code of these lines."""
    return {word for _, _, line in lines for word in _names(line)[0]}


# ---- functions -----------------------------------------------------------------------------------------------------


def by_function(lines: list[Line]) -> Iterator[tuple[str, Line]]:
    """The lines of a module, each with the name of the function that it is part of, "" outside of any."""
    at = 0
    while at < len(lines):
        match = _FUNCTION.match(lines[at][2])
        stop = _function_end(lines, at) if match else at
        for line in lines[at : stop + 1]:
            yield match[1] if match else "", line
        at = stop + 1


def without_unused(lines: list[Line]) -> list[Line]:
    """Drop the functions and tables that nothing in these lines names. ``load`` functions stay."""
    bodies: dict[str, tuple[int, int]] = {}
    for start, (_, _, line) in enumerate(lines):
        match = _FUNCTION.match(line)
        if match and not match[1].endswith(".load"):
            bodies[match[1]] = (start, _function_end(lines, start))
        elif match := _TABLE.match(line):
            bodies[match[1]] = (start, _table_end(lines, start))
    named = Counter(_every_name(lines))
    unused: set[int] = set()
    while found := [name for name in bodies if named[name] == 1]:
        for name in found:
            start, stop = bodies.pop(name)
            gone = set(range(start, stop + 1)) - unused
            named.subtract(_every_name(lines[n] for n in gone))
            unused |= gone
    return [line for n, line in enumerate(lines) if n not in unused]


def _every_name(lines: Iterable[Line]) -> Iterator[str]:
    return chain.from_iterable(chain.from_iterable(_names(line)) for _, _, line in lines)


def _function_end(lines: list[Line], start: int) -> int:
    """The place of the line that ends the function which begins at ``start``."""
    if lines[start][2].rstrip().endswith(" end"):
        return start
    return next(n for n in range(start, len(lines)) if lines[n][2] == "end")


def _table_end(lines: list[Line], start: int) -> int:
    """The place of the line that ends the table which begins at ``start``: no line before it ends with a brace."""
    return next(n for n in range(start, len(lines)) if lines[n][2].partition("--")[0].rstrip().endswith("}"))
