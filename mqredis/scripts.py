"""Find the Lua, have it joined into bundles, read its headers.

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

from mqredis import functions
from mqredis.bundles import Files, Line, ScriptError

#: Folder of the wheel's ``lua`` that holds the joined function libraries.
BUILT = "built"

_HEADER = re.compile(r"^-- (KEYS|QUEUE\[\d+\+?\]|ARGV\[\d+[+?]?\]|RETURNS|FLAGS)\s*(.*)$")
_WHERE = re.compile(r'(?:@?user_(?:script|function)|\[string "[^"]*"\]):(\d+):?')


@dataclass(frozen=True)
class Header:
    """What the first comment of an entry script declares."""

    about: str
    spec: str
    keys: str  # "message" or "admin": which of the manager's keys come first
    queues: tuple[str, ...]  # one description per queue group; the last may end in "+" for any number
    argv: tuple[
        tuple[str, str], ...
    ]  # name, description: from ARGV[3] on; "+": any number, "?": may end before it
    returns: tuple[str, ...]  # status names
    #: "allow-oom": it also runs on a server at its memory limit. "no-writes": it does too, and writes nothing. Else "".
    flag: str

    @property
    def no_writes(self) -> bool:
        """Does it write nothing, so that a read-only client may run it?"""
        return self.flag == "no-writes"


@dataclass(frozen=True)
class Form:
    """How one server runs a script: the command and the name it is called by, and the command that loads it."""

    verb: str
    name: str
    load: tuple[str, ...]


class Script:
    """One entry script. Each form of it is made when it is asked for, since a server is sent only one of them."""

    def __init__(self, name: str, joined: list[Line] | None = None) -> None:
        """``joined``: the lines of the bundle; None: they are joined from the sources when they are asked for."""
        self.name = name
        if joined is not None:
            self._joined = joined

    @cached_property
    def header(self) -> Header:
        """What its first comment declares."""
        return _header((root() / f"{self.name}.lua").read_text().splitlines())

    @cached_property
    def _joined(self) -> list[Line]:
        return _files(root()).join(self.name)

    @cached_property
    def text(self) -> str:
        """The text that ``SCRIPT LOAD`` receives."""
        return "\n".join(line for _, _, line in self._joined) + "\n"

    @property
    def lines(self) -> tuple[tuple[str, int], ...]:
        """File and number of each line of the text."""
        return tuple((file, number) for file, number, _ in self._joined)

    @cached_property
    def sha(self) -> str:
        """The SHA1 of the text, by which ``EVALSHA`` calls it."""
        return _sha(self.text)

    @property
    def shebang(self) -> str:
        """The first line for servers that know flags: the draining side may run on a full server."""
        flag = self.header.flag
        return f"#!lua flags={flag}\n" if flag else "#!lua\n"

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
        if self.header.flag != "allow-oom":
            return None
        text = 'redis.call("UNLINK", KEYS[1] .. ":none")\n' + self.text.split("\n", 1)[1]
        return Form("EVALSHA", _sha(text), ("SCRIPT", "LOAD", text))

    @cached_property
    def library(self) -> tuple[str, str]:
        """Name and text of the function library: as they were joined when the wheel was built, else joined now."""
        built = root() / BUILT / f"{self.name}.lua"
        if built.is_file():
            text = built.read_text()
            return text.partition("\n")[0].partition("name=")[2], text
        return self.join_library()

    def join_library(self) -> tuple[str, str]:
        """Name and text of the function library, joined from the sources."""
        own = next(n for n, (file, line) in enumerate(self.lines) if line and file == f"lua/{self.name}.lua")
        return functions.library(self.name, self.text.splitlines(), own, self.header.flag)

    def function(self, reading: bool = False) -> Form:
        """For ``FCALL``; ``reading``: for ``FCALL_RO``."""
        name, text = self.library
        return Form("FCALL_RO" if reading else "FCALL", name, ("FUNCTION", "LOAD", "REPLACE", text))


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
def _files(folder: Path) -> Files:
    return Files(folder)


def names() -> list[str]:
    """Names of all entry scripts."""
    return sorted(path.stem for path in root().glob("*.lua"))


@cache
def get(name: str) -> Script:
    """An entry script. Raises ScriptError where a form of it is asked for and it does not join."""
    return Script(name)


def bundle(name: str) -> str:
    """The text that ``SCRIPT LOAD`` receives."""
    return get(name).text


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
            argv.append((word + key[-2] if key[-2] in "+?" else word, rest.strip()))
    flags = " ".join(value for key, value in rows if key == "FLAGS")
    return Header(
        about=" ".join(about),
        spec=spec,
        keys=next((value.split()[0] for key, value in rows if key == "KEYS"), ""),
        queues=tuple(value + ("+" if "+" in key else "") for key, value in rows if key.startswith("QUEUE")),
        argv=tuple(argv),
        returns=tuple(value.split()[0] for key, value in rows if key == "RETURNS"),
        flag=flags,
    )


def explain(error: str) -> str:
    """Rewrite ``user_script:41:`` in an error of ours to the file and line it came from."""
    for script_name in names():
        script = get(script_name)
        if script.sha in error or script.variant(True)[1] in error or script.library[0] in error:
            return _WHERE.sub(partial(_place, script), error)
    return error


def _place(script: Script, match: re.Match[str]) -> str:
    line = int(match[1])
    if not 1 <= line <= len(script.lines):
        return f"{script.name}:{line}:"
    file, number = script.lines[line - 1]
    return f"{file}:{number}:"
