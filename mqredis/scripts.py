"""Find the Lua, and have it joined into bundles.

The drivers (``drivers.forms``, ``drivers.attempt``) and the deploy step (``drivers.deploy``) send what it returns to
servers; ``operations.libraries`` tells these libraries from those of other releases. ``tools/script_heads.py`` reads
the heads of the scripts; only their flag is needed here.

The function libraries that servers from Redis 7 on are sent are joined when the wheel is built
(``tools/build_hook.py``); a checkout joins them when they are first called, as does every installation the texts that
older servers are sent. A line map leads an error in a bundle back to its file.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import cache, cached_property, partial
from pathlib import Path
from typing import NamedTuple

from mqredis import bundles
from mqredis.lua_files import Line, LuaFiles, ScriptError

# Folder of the wheel's ``lua`` that holds the joined function libraries.
BUILT = "built"

# The library of the calls that programs make all the time. In one library they share their modules, and a call uses
# again what the last one knew of its queue. Every other script has a library of its own, with its name. The text of the
# library has a limit (``tests/unit/test_functions.py``), since a server keeps it in memory.
MESSAGES = "messages"
_TOGETHER = ("send", "receive", "settle", "commit", "reject", "begin", "peek", "stop_waiting")

_FLAG = re.compile(r"^-- FLAGS (\S+)$", re.MULTILINE)
_WHERE = re.compile(r'(?:@?user_(?:script|function)|\[string "[^"]*"\]):(\d+):?')


@dataclass(frozen=True)
class Form:
    """How one server runs a script: the command and the name it is called by, and the command that loads it."""

    verb: str
    """"FCALL" or "EVALSHA", each perhaps with "_RO"."""
    name: str
    """The name of the function, or the SHA1 of the text."""
    load: tuple[str, ...]


class Script:
    """One entry script. Each form of it is made when it is asked for, since a server is sent only one of them."""

    def __init__(self, name: str) -> None:
        self.name = name

    @cached_property
    def flag(self) -> str:
        """Where else it may run. "allow-oom": on a server at its memory limit; "no-writes": there, and for a read-only
        client, since it writes nothing. Else ""."""
        found = _FLAG.search((root() / f"{self.name}.lua").read_text())
        return found[1] if found else ""

    @cached_property
    def joined(self) -> list[Line]:
        """The lines of its bundle, each with its file and its number there."""
        return bundles.join(_files(root()), self.name)

    @cached_property
    def text(self) -> str:
        """The text that ``SCRIPT LOAD`` receives."""
        return "\n".join(line for _, _, line in self.joined) + "\n"

    @cached_property
    def sha(self) -> str:
        """The SHA1 of the text, by which ``EVALSHA`` calls it."""
        return _sha(self.text)

    @property
    def shebang(self) -> str:
        """The first line for servers that know flags: the draining side may run on a full server."""
        return f"#!lua flags={self.flag}\n" if self.flag else "#!lua\n"

    def variant(self, shebang: bool) -> tuple[str, str]:
        """Text and SHA1, with or without the flags line."""
        if not shebang:
            return self.text, self.sha
        # One line more in front would shift every number in an error: the bundle's first line is spare.
        text = self.shebang + self.text.split("\n", 1)[1]
        return text, _sha(text)

    def form(self, shebang: bool, reading: bool = False) -> Form:
        """For ``EVALSHA``, with or without the flags line; ``reading``: for ``EVALSHA_RO``, as old as that line."""
        text, sha = self.variant(shebang)
        return Form("EVALSHA_RO" if reading and shebang else "EVALSHA", sha, ("SCRIPT", "LOAD", text))

    def draining(self) -> Form | None:
        """For ``EVALSHA`` on a full server that knows no flags (Redis 6); None: it may not run there.

        Such a server refuses the first write of a script if it may need memory, so the first is one that needs none.
        """
        if self.flag != "allow-oom":
            return None
        text = 'redis.call("UNLINK", KEYS[1] .. ":none")\n' + self.text.split("\n", 1)[1]
        return Form("EVALSHA", _sha(text), ("SCRIPT", "LOAD", text))

    @property
    def library(self) -> Library:
        """The function library that it is a part of."""
        return library(MESSAGES if self.name in _TOGETHER else self.name)

    def function(self, reading: bool = False) -> Form:
        """For ``FCALL``; ``reading``: for ``FCALL_RO``."""
        return self.library.function(self.name, reading)


class Library:
    """The function library of one or more entry scripts, on Redis 7 and Valkey.

    A library is loaded once into a server and shared by all clients of this release. ``EVALSHA`` makes all closures
    and tables of a bundle anew in each call. A library makes them once, so KEYS and ARGV are locals that each call
    sets. The state of a call is kept in lua/core/context.lua, which resets it when the next call begins.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.scripts = _TOGETHER if name == MESSAGES else (name,)

    @cached_property
    def joined(self) -> list[Line]:
        """The lines of its bundle, each with its file and its number there."""
        return bundles.join_library(_files(root()), *self.scripts)

    @cached_property
    def text(self) -> str:
        """The text for ``FUNCTION LOAD``: from the wheel, or else joined now."""
        built = root() / BUILT / f"{self.name}.lua"
        return built.read_text() if built.is_file() else self.join()

    def join(self) -> str:
        """The text, joined from the sources."""
        entries: list[Entry] = []
        for name in self.scripts:
            own = [
                n for n, (file, number, _) in enumerate(self.joined) if number and file == f"lua/{name}.lua"
            ]
            entries.append(Entry(name, own[0], own[-1], get(name).flag))
        return library_text(self.name, [line for _, _, line in self.joined], entries)

    @cached_property
    def title(self) -> str:
        """The name that the server knows it by."""
        return self.text.partition("\n")[0].partition("name=")[2]

    def function(self, script: str, reading: bool = False) -> Form:
        """How one of its scripts is called. ``reading``: by a user that may not write."""
        digest = self.title.split("_")[1]
        return Form(
            "FCALL_RO" if reading else "FCALL",
            title(digest, script),
            ("FUNCTION", "LOAD", "REPLACE", self.text),
        )


class Entry(NamedTuple):
    """A script in a bundle."""

    name: str
    first: int
    """Index of its first line among the lines of the bundle."""
    last: int
    """Index of its last line, which may have no comment."""
    flag: str
    """The flag of the function, such as ``no-writes``; "" if it has none."""


def library_text(name: str, lines: list[str], entries: list[Entry]) -> str:
    """The library of a bundle, with a function ``mqredis_<hash>_<script>`` for each entry. The hash is that of the
    text, so that versions live side by side.

    ``lines`` is the bundle: its first line is a comment, then come the modules, then the scripts. For a script ``send``
    with the flag ``allow-oom`` the text is::

        #!lua name=mqredis_0123456789ab_messages
        local KEYS, ARGV, call ...            (the modules)
        local function call_send() ... end    (the script)
        local function register(name, main, flags) ... end
        register('mqredis_0123456789ab_send', call_send, {'allow-oom'})

    No line is added before the last one, so that the line map of the bundle holds here, too, and errors name the right
    lines. "redis.call(" may not stand in a text of the Lua.
    """
    # Indentation is a sixteenth of the text; a local function is called faster than a field of ``redis``.
    body = [line.lstrip().replace("redis.call(", "call(") for line in lines]
    for entry in entries:
        body[entry.first] = f"local function call_{entry.name}() {body[entry.first]}"
        body[entry.last] += " end"
    body[1] = f"local KEYS, ARGV, call {body[1]}"
    # Each call of a function sets the locals that the modules and the script read.
    body += [
        "local function register(name, main, flags)",
        "redis.register_function{function_name=name, flags=flags, callback=function(keys, args)",
        "KEYS, ARGV, call = keys, args, redis.call",
        "return main()",
        "end}",
        "end",
    ]
    text = "\n".join(body[1:])
    digest = _sha(text + "".join(f"\n{entry.name} {entry.flag}" for entry in entries))[:12]
    for entry in entries:
        flags = f"'{entry.flag}'" if entry.flag else ""
        text += f"\nregister('{title(digest, entry.name)}', call_{entry.name}, {{{flags}}})"
    return f"#!lua name={title(digest, name)}\n{text}\n"


def title(digest: str, name: str) -> str:
    """The name of a library, or of a function in it (``operations.libraries`` knows its form)."""
    return f"mqredis_{digest}_{name}"


def _sha(text: str) -> str:
    return hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()


@cache
def root() -> Path:
    """The folder that holds the Lua: inside the installed package, else beside it in a checkout."""
    package = Path(__file__).resolve().parent
    for candidate in (package / "lua", package.parent / "lua"):
        if (candidate / "core" / "store.lua").is_file():
            return candidate
    raise ScriptError("the Lua scripts of mqredis are missing: neither mqredis/lua nor ../lua holds them")


@cache
def _files(folder: Path) -> LuaFiles:
    return LuaFiles(folder)


def names() -> list[str]:
    """Names of all entry scripts."""
    return sorted(path.stem for path in root().glob("*.lua"))


@cache
def get(name: str) -> Script:
    """An entry script. Raises ScriptError where a form of it is asked for and it does not join."""
    return Script(name)


@cache
def library(name: str) -> Library:
    """A function library: ``MESSAGES``, or that of a script outside it."""
    return Library(name)


def libraries() -> list[Library]:
    """All function libraries, one after the other."""
    return [library(name) for name in sorted({get(name).library.name for name in names()})]


def explain(name: str, error: str) -> str:
    """Rewrite ``user_script:41:`` in an error of this script to the file and line it came from."""
    script = get(name)
    if script.function().name in error:
        return _WHERE.sub(partial(_place, script.library.joined), error)
    if script.sha in error or script.variant(True)[1] in error:
        return _WHERE.sub(partial(_place, script.joined), error)
    return error


def _place(lines: list[Line], match: re.Match[str]) -> str:
    line = int(match[1])
    if not 1 <= line <= len(lines):
        return f"line {line} of the script:"
    file, number, _ = lines[line - 1]
    return f"{file}:{number}:"
