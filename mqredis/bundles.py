"""Join the Lua of a script into one text.

``mqredis.scripts`` calls it, when the wheel is built and in a checkout; ``mqredis.lua_files`` reads the files.

A script is one file of ``lua/`` with the modules it names by ``--- require "core/x"`` put in front of it, each once,
depth first; a cycle is an error. What a bundle does not need costs every call of it by ``EVALSHA``, which makes all its
tables and functions anew. So three things are done while joining: ``status.NAME`` becomes its number; functions that
nothing names are left out; a module required by ``--- require lazy "core/x"`` is wrapped in ``x.load()``, and its
functions exist only after that call.

A lazy module that needs only modules which are not lazy has a loader of its own. All others, and what only they need,
stand in one function: a call that needs none pays one closure. A script that needs queue, and lazily locks, which needs
queue, and expiry, which needs timers, is joined to this text::

    -- mqredis send
    local queue = { ... }
    local locks = { ... }
    local expiry = { ... }                  a lazy module that code outside of `lazily` names
    function queue.open() ... end
    function locks.load()
    if locks.loaded then return end locks.loaded = true
    function locks.add() ... end
    end
    local function lazily()
    local timers = { ... }
    function queue.expand() ... end         a function of an eager module that only code in here can call
    function timers.add() ... end
    function expiry.load()
    if expiry.loaded then return end expiry.loaded = true
    function expiry.arrive() ... end
    end
    end
    function expiry.load() lazily() return expiry.load() end
    ...                                     the script
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from mqredis.lua_files import (
    Line,
    LuaFiles,
    ScriptError,
    by_function,
    calls,
    dotted,
    function_names,
    table_name,
    without_unused,
    words,
)

_COMMENT = re.compile(r"^\s*(--.*)?$")


class _Modules(NamedTuple):
    """The modules that scripts need, each behind those that it needs itself."""

    eager: list[str]
    """They exist from the start."""
    lazy: list[str]
    """They exist after their ``load()``."""
    inner: list[str]
    """The others that lazy ones need: they exist after any ``load()``."""


def join(files: LuaFiles, *names: str) -> list[Line]:
    """The bundle of an entry script, or of several. Their lines follow the modules. Raises ScriptError."""
    return _Bundle(files, names).lines()


def _needed(files: LuaFiles, names: tuple[str, ...]) -> _Modules:
    """The modules that these scripts need together."""
    found: list[str] = []
    lazy: list[str] = []

    def follow(name: str, path: tuple[str, ...]) -> None:
        for is_lazy, module in files.requires(name, path[-1] if path else "no script"):
            if not is_lazy:
                add(module, (*path, name))
            elif module not in lazy:
                lazy.append(module)

    def add(module: str, path: tuple[str, ...]) -> None:
        if module in path:
            raise ScriptError("require cycle: " + " -> ".join([*path, module]))
        if module not in found:
            follow(module, path)
            found.append(module)

    for name in names:
        follow(name, ())
    eager = list(found)
    for module in lazy:  # it grows meanwhile
        follow(module, names[:1])
    inner = [module for module in found if module not in eager]
    return _Modules(eager, [module for module in lazy if module not in found], inner)


class _Bundle:
    """The parts of a bundle, found one after the other."""

    def __init__(self, files: LuaFiles, names: tuple[str, ...]) -> None:
        self._files = files
        self._names = names
        self._own = [line for name in names for line in files.lines(name)]
        self._modules = _needed(files, names)
        asked = dotted(self._own)
        # Lazy modules that need eager ones only. Each has a loader of its own, and what it calls exists from the start:
        # the plainest calls load some of these, and must not load all others with them.
        eager, _ = self._reached(self._modules.eager, asked)
        self._alone = [
            module for module in self._named_by([*eager, *self._own]) if self._needs_only_eager(module)
        ]
        asked |= dotted(line for module in self._alone for line in files.functions(module))
        # Functions of eager modules that can be called before `lazily` is, with all lines that are in no function; and
        # those that cannot.
        self._front, self._deferred = self._reached(self._modules.eager, asked)
        front = [*self._front, *self._own]
        self._near = [module for module in self._named_by(front) if module not in self._alone]
        # Modules that are required lazily here, and that another lazy module needs.
        self._called = calls(front)
        self._shared = [module for module in self._modules.inner if _load(module) in self._called]

    def lines(self) -> list[Line]:
        """All lines of the bundle."""
        first: Line = (f"lua/{self._names[0]}.lua", 0, f"-- mqredis {' '.join(self._names)}")
        lines = [first]
        # Every table is declared before any function that may name it. What only lazy modules need waits with them in
        # one function, for each function and table that exists from the start costs every call.
        for module in [*self._modules.eager, *self._alone, *self._near, *self._shared]:
            lines += self._files.table(module)
        lines += self._front
        lines += [_loads_nothing(module) for module in self._modules.eager if _load(module) in self._called]
        for module in self._alone:
            lines += self._loader(module)
        if self._near or self._shared:
            lines += self._lazily(lines)
        lines = without_unused([*lines, *self._own])
        # fakeredis parses a bundle for every call, so comments are left out, except the first line.
        return [first, *(line for line in lines[1:] if not _COMMENT.match(line[2]))]

    def _reached(self, modules: Iterable[str], asked: set[str]) -> tuple[list[Line], list[Line]]:
        """Split modules: the functions that the names ``asked`` can call, behind all lines that are in no function; and
        the functions that they cannot call."""
        kept: list[Line] = []
        bodies: dict[str, list[Line]] = {}
        for module in modules:
            for name, line in by_function(self._files.functions(module)):
                (bodies.setdefault(name, []) if name else kept).append(line)
        reached: set[str] = set()
        fresh = bodies.keys() & (asked | dotted(kept))
        while fresh:
            reached |= fresh
            fresh = bodies.keys() & dotted(line for name in fresh for line in bodies[name]) - reached
        front = [line for name, lines in bodies.items() if name in reached for line in lines]
        behind = [line for name, lines in bodies.items() if name not in reached for line in lines]
        return [*kept, *front], behind

    def _named_by(self, lines: list[Line]) -> list[str]:
        """The lazy modules that this code names."""
        found = words(lines)
        return [module for module in self._modules.lazy if table_name(module) in found]

    def _needs_only_eager(self, module: str) -> bool:
        needed = self._files.requires(module)
        return not any(is_lazy or other not in self._modules.eager for is_lazy, other in needed)

    def _loader(self, module: str) -> list[Line]:
        """A lazy module as a function that defines it."""
        file, table = f"lua/{module}.lua", table_name(module)
        return [
            (file, 0, f"function {table}.load()"),
            (file, 0, f"if {table}.loaded then return end {table}.loaded = true"),
            *self._files.functions(module),
            (file, 0, "end"),
        ]

    def _lazily(self, before: list[Line]) -> list[Line]:
        """The function that defines all lazy modules but those that stand alone, and what only they need; and the
        ``load()`` of those that code outside of it names. ``before``: the lines of the bundle so far."""
        lazy = [module for module in self._modules.lazy if module not in self._alone]
        lines: list[Line] = [("", 0, "local function lazily()")]
        for module in [*self._modules.inner, *lazy]:
            if module not in self._near and module not in self._shared:
                lines += self._files.table(module)
        lines += self._deferred
        for module in self._modules.inner:
            lines += self._files.functions(module)
        for module in lazy:
            lines += self._loader(module)
        known, called = function_names([*before, *lines]), calls([*before, *lines])
        for module in [*self._modules.eager, *self._modules.inner]:
            if _load(module) not in known and (_load(module) in called or module in self._shared):
                lines.append(_loads_nothing(module))
        lines.append(("", 0, "end"))
        for module in self._near:
            text = f"function {_load(module)}() lazily() return {_load(module)}() end"
            lines.append((f"lua/{module}.lua", 0, text))
        for module in self._shared:
            lines.append((f"lua/{module}.lua", 0, f"function {_load(module)}() lazily() end"))
        return lines


def _load(module: str) -> str:
    """The name of the function that loads a module."""
    return f"{table_name(module)}.load"


def _loads_nothing(module: str) -> Line:
    """The ``load()`` of a module that exists when it is called."""
    return "", 0, f"function {_load(module)}() end"
