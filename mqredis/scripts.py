"""Find the Lua, join it into bundles, read its headers.

A script is one file of ``lua/`` with the modules it names by ``--- require "lib/x"`` put in front of it, each
once, depth first; a cycle is an error. Every ``status.NAME`` becomes its number while joining, so the table of
statuses costs a running script nothing. A line map leads an error in a bundle back to its file.
"""

from __future__ import annotations

import hashlib
import re
import sys
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from pathlib import Path

_REQUIRE = re.compile(r'^--- require "([a-z_]+(?:/[a-z_]+)*)"\s*$')
_STATUS_LINE = re.compile(r"^\s*([A-Z_]+) = (0x[0-9A-Fa-f]+),")
_STATUS_USE = re.compile(r"\bstatus\.([A-Z_]+)\b")
_HEADER = re.compile(r"^-- (KEYS|QUEUE\[\d+\+?\]|ARGV\[\d+\+?\]|RETURNS|FLAGS)\s*(.*)$")
_WHERE = re.compile(r'(?:user_script|\[string "[^"]*"\]|@user_script):(\d+):?')


class ScriptError(Exception):
    """The Lua sources are missing or do not join."""


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
    lines: list[tuple[str, int, str]] = [(f"lua/{name}.lua", 0, f"-- mqredis {name}")]
    _join(name, [], set(), lines)
    text = "\n".join(line for _, _, line in lines) + "\n"
    own = [line for file, _, line in lines if file == f"lua/{name}.lua"]
    return Script(name, text, _header(name, own), tuple((file, number) for file, number, _ in lines))


def bundle(name: str) -> str:
    """The text that ``SCRIPT LOAD`` receives."""
    return get(name).text


def _join(name: str, path: list[str], seen: set[str], out: list[tuple[str, int, str]]) -> None:
    if name in path:
        raise ScriptError("require cycle: " + " -> ".join([*path, name]))
    if name in seen:
        return
    seen.add(name)
    file = root() / f"{name}.lua"
    if not file.is_file():
        raise ScriptError(f"lua/{name}.lua is required by {path[-1] if path else 'nobody'} and missing")
    source = file.read_text().splitlines()
    for line in source:
        wanted = _REQUIRE.match(line)
        if wanted and wanted[1] != "lib/status":
            _join(wanted[1], [*path, name], seen, out)
    for number, line in enumerate(source, 1):
        if not _REQUIRE.match(line):
            out.append((f"lua/{name}.lua", number, _STATUS_USE.sub(_number, line)))


def _number(match: re.Match[str]) -> str:
    try:
        return str(statuses()[match[1]])
    except KeyError:
        raise ScriptError(f"status.{match[1]} is not in lua/lib/status.lua") from None


def _header(name: str, lines: list[str]) -> Header:
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
    spec = next((line for line in about if line.startswith("MS-") or line.startswith("IBM MQ")), "")
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
        if script.sha in error or script.variant(True)[1] in error:
            return _WHERE.sub(lambda m: _place(script, int(m[1])), error)
    return error


def _place(script: Script, line: int) -> str:
    if not 1 <= line <= len(script.lines):
        return f"{script.name}:{line}:"
    file, number = script.lines[line - 1]
    return f"{file}:{number}:"


def main(argv: list[str] | None = None) -> int:
    """``python -m mqredis.scripts --out DIR``: write the bundles for the linter."""
    arguments = sys.argv[1:] if argv is None else argv
    if len(arguments) != 2 or arguments[0] != "--out":
        print("usage: python -m mqredis.scripts --out DIR", file=sys.stderr)
        return 2
    out = Path(arguments[1])
    out.mkdir(parents=True, exist_ok=True)
    for name in names():
        (out / f"{name}.lua").write_text(bundle(name))
    print(f"{len(names())} bundles in {out}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
