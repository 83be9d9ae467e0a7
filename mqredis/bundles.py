"""Join the Lua of scripts into one text.

``mqredis.scripts`` calls it, when the wheel is built and in a checkout; ``mqredis.lua_files`` reads the files.

A script is one file of ``lua/`` with the modules it names by ``--- require "core/x"`` put in front of it, each once,
depth first. While joining, ``status.NAME`` becomes its number, and functions that nothing names are left out.

A function library, which a server loads once, has all its modules from the start. Each call by ``EVALSHA`` makes all
tables and functions of its text anew, so there a module required by ``--- require lazy "core/x"`` is a table without
functions, with a metatable that defines them when one is called.

A lazy module that needs no other lazy ones but such as itself is defined alone. All others stand in one function, so
that a call which needs none of them makes one function. A script that needs queue, and lazily locks, which needs queue,
and expiry, which needs timers, is joined to this text for ``EVALSHA``::

    -- mqredis send
    local autoload = { ... }
    local queue = { ... }
    local locks = { ... }
    setmetatable(locks, autoload)
    local expiry = { ... }                  a lazy module that code outside of `lazily` names
    setmetatable(expiry, autoload)
    local function define()
    function queue.open() ... end
    function locks.load()
    function locks.add() ... end
    end
    local function lazily()
    local timers = { ... }
    setmetatable(timers, autoload)
    function queue.expand() ... end         a function of an eager module that only code in here can call
    function timers.load()
    function timers.add() ... end
    end
    function expiry.load()
    function expiry.arrive() ... end
    end
    end
    function expiry.load() lazily() expiry.load() end
    end define()
    ...                                     the script
"""

from __future__ import annotations

import re

from mqredis.lua_files import (
    Line,
    LuaFiles,
    by_function,
    dotted,
    table_name,
    without_unused,
    words,
)

_COMMENT = re.compile(r"^\s*(--.*)?$")

# Defines the functions of a lazy module when a field is read that its table does not have.
_AUTOLOAD = (
    "local autoload = { __index = function(module, name) "
    "setmetatable(module, nil) module.load() return module[name] end }"
)


def join_library(files: LuaFiles, *names: str) -> list[Line]:
    """The lines of a function library with these entry scripts, which follow the modules. Raises ScriptError."""
    modules = _required(files, names, lazy=True)
    lines = [line for module in modules for line in files.table(module)]
    lines += [line for module in modules for line in files.functions(module)]
    return _finished(files, names, lines)


def join(files: LuaFiles, name: str) -> list[Line]:
    """The lines of the text by which ``EVALSHA`` calls an entry script, which follows its modules. Raises
    ScriptError."""
    return _finished(files, (name,), _Modules(files, name).lines())


def _required(files: LuaFiles, names: tuple[str, ...], *, lazy: bool) -> list[str]:
    """The modules that these scripts and their modules require, each behind those that it requires itself. ``lazy``:
    also as lazy."""
    seen: set[str] = set()
    found: list[str] = []

    def add(name: str, wanted_by: str) -> None:
        for is_lazy, module in files.requires(name, wanted_by):
            if module not in seen and (lazy or not is_lazy):
                seen.add(module)
                add(module, name)
                found.append(module)

    for name in names:
        add(name, "no script")
    return found


def _finished(files: LuaFiles, names: tuple[str, ...], modules: list[Line]) -> list[Line]:
    """The lines of modules, with a first line that names the scripts, and with the scripts."""
    first: Line = (f"lua/{names[0]}.lua", 0, f"-- mqredis {' '.join(names)}")
    own = [line for name in names for line in files.lines(name)]
    # fakeredis parses the text for every call, so comments are left out.
    return [first, *(line for line in without_unused([*modules, *own]) if not _COMMENT.match(line[2]))]


class _Modules:
    """The modules of a script that ``EVALSHA`` calls."""

    def __init__(self, files: LuaFiles, name: str) -> None:
        self._files = files
        self._own = files.lines(name)
        self._eager = _required(files, (name,), lazy=False)
        self._lazy = [module for module in _required(files, (name,), lazy=True) if module not in self._eager]
        asked = dotted(self._own)
        # Lazy modules that need eager ones and each other only. What they call exists from the start: the plainest
        # calls need some of these, and must not define all others with them.
        front, _ = self._reached(asked)
        self._alone = self._named_by(front)
        while needy := [module for module in self._alone if not self._needs_no_other(module)]:
            self._alone = [module for module in self._alone if module not in needy]
        asked |= dotted(line for module in self._alone for line in files.functions(module))
        # Functions of eager modules that can be called before `lazily` is, with all lines that are in no function; and
        # those that cannot.
        self._front, self._deferred = self._reached(asked)
        self._near = [module for module in self._named_by(self._front) if module not in self._alone]

    def lines(self) -> list[Line]:
        """All their lines."""
        # Every table is declared before any function that may name it. What only lazy modules need waits with them in
        # one function, for each function and table that exists from the start costs every call.
        lines: list[Line] = [("", 0, _AUTOLOAD)]
        for module in self._eager:
            lines += self._files.table(module)
        for module in [*self._alone, *self._near]:
            lines += self._lazy_table(module)
        # A function made in another one finds a table there at once, but searches for a local that is still in use.
        lines.append(("", 0, "local function define()"))
        lines += self._front
        for module in self._alone:
            lines += self._loader(module)
        if self._near:
            lines += self._lazily()
        return [*lines, ("", 0, "end define()")]

    def _reached(self, asked: set[str]) -> tuple[list[Line], list[Line]]:
        """Split the eager modules: the functions that the names ``asked`` can call, behind all lines that are in no
        function; and the functions that they cannot call."""
        kept: list[Line] = []
        bodies: dict[str, list[Line]] = {}
        for module in self._eager:
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
        """The lazy modules that this code or a script names."""
        found = words([*lines, *self._own])
        return [module for module in self._lazy if table_name(module) in found]

    def _needs_no_other(self, module: str) -> bool:
        return all(other in {*self._eager, *self._alone} for _, other in self._files.requires(module))

    def _lazy_table(self, module: str) -> list[Line]:
        """The table of a lazy module, which loads the module when it is used."""
        file = f"lua/{module}.lua"
        return [*self._files.table(module), (file, 0, f"setmetatable({table_name(module)}, autoload)")]

    def _loader(self, module: str) -> list[Line]:
        """A lazy module as a function that defines it."""
        file = f"lua/{module}.lua"
        return [
            (file, 0, f"function {table_name(module)}.load()"),
            *self._files.functions(module),
            (file, 0, "end"),
        ]

    def _lazily(self) -> list[Line]:
        """The function that defines all lazy modules but those that stand alone, and what only they need; and what
        calls it when code outside of it uses one of them."""
        modules = [module for module in self._lazy if module not in self._alone]
        lines: list[Line] = [("", 0, "local function lazily()")]
        for module in modules:
            if module not in self._near:
                lines += self._lazy_table(module)
        lines += self._deferred
        for module in modules:
            lines += self._loader(module)
        lines.append(("", 0, "end"))
        for module in self._near:
            name = table_name(module)
            lines.append((f"lua/{module}.lua", 0, f"function {name}.load() lazily() {name}.load() end"))
        return lines
