"""Find the Lua, have it joined into bundles, read its headers.

A line map leads an error in a bundle back to its file.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from functools import cache, partial
from importlib import resources
from pathlib import Path

from mqredis import functions
from mqredis.bundles import Files, ScriptError

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
        if (candidate / "core" / "status.lua").is_file():
            return candidate
    raise ScriptError("the Lua scripts of mqredis are missing: neither mqredis/lua nor ../lua holds them")


@cache
def _files(folder: Path) -> Files:
    return Files(folder)


def statuses() -> dict[str, int]:
    """The numbers of ``lua/core/status.lua``."""
    return _files(root()).statuses


def names() -> list[str]:
    """Names of all entry scripts."""
    return sorted(path.stem for path in root().glob("*.lua"))


@cache
def get(name: str) -> Script:
    """The bundle of one entry script."""
    files = _files(root())
    lines = files.join(name)
    text = "\n".join(line for _, _, line in lines) + "\n"
    header = _header([line for _, _, line in files.source(name)])
    return Script(name, text, header, tuple((file, number) for file, number, _ in lines))


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
