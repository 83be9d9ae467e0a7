"""Small changes of the Lua that tests must notice: conditions flipped, writes dropped, keys swapped, off by one."""

from __future__ import annotations

import hashlib
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from mqredis import scripts
from mqredis.status import Status

# All scripts and modules, so that a new or renamed one is never left out.
FILES = tuple(
    sorted(
        path.relative_to(scripts.root()).with_suffix("").as_posix() for path in scripts.root().rglob("*.lua")
    )
)

_CONDITIONS = (
    (r" == ", " ~= "), (r" ~= ", " == "), (r" <= ", " < "), (r" >= ", " > "), (r"(?<![-<>=~]) < ", " <= "),
    (r"(?<![-<>=~]) > (?!0\b)", " >= "), (r"(?<![-<>=~]) > 0\b", " == 0"), (r" and ", " or "), (r" or ", " and "),
    (r"\bnot ", ""), (r"\btrue\b", "false"), (r"\bfalse\b", "true"), (r" \+ 1\b", " + 2"), (r" - 1\b", " - 2"),
    (r"(?<=[\w)\]]) \+ (?=[a-z])", " - "), (r"(?<=[\w)\]]) - (?=[a-z])", " + "),
)  # fmt: skip
_KEYS = (
    (r"\bq\.available\b", "q.locked"), (r"\bq\.locked\b", "q.available"), (r"\bq\.records\b", "q.states"),
    (r"\bq\.states\b", "q.records"), (r"\bq\.timers\b", "q.index"), (r"\bq\.index\b", "q.timers"),
    (r"KEYS\[2\]", "KEYS[3]"), (r"KEYS\[3\]", "KEYS[2]"),
)  # fmt: skip
PATTERNS = (*_CONDITIONS, *_KEYS)
_WRITE = re.compile(r'^\s*redis\.call\("(HSET|HDEL|ZADD|ZREM|UNLINK|HINCRBY)".*\)$')
# A call whose result is not used. Caches save time and change no result.
_CALL = re.compile(r"^\s*(?!cache\.|string\.|table\.)[a-z_]+\.\w+\(.*\)$")
# In front of the argument that asks for a plain search. What is searched for has no magic characters, so without it
# the same is found: no change that a caller could notice.
_PLAIN = re.compile(r"string\.find\((?:[^()]|\([^()]*\))*, $")
_NOT_CODE = re.compile(r"^\s*(--|local [a-z_]+ = \{\}|$)")


@dataclass(frozen=True)
class Mutant:
    """One change of one line."""

    file: str
    number: int
    before: str
    after: str
    which: int = 1
    """Which one of those that change such a line of the file in this way."""

    @property
    def name(self) -> str:
        """An identity that does not depend on the line number, for the sample and the ledger."""
        return f"{self.file}|{self.before.strip()}|{self.after.strip()}|{self.which}"

    @property
    def key(self) -> str:
        """What it does, for readers: explanations are kept by it."""
        return f"{self.file}: {self.before.strip()}  =>  {self.after.strip() or '(nothing)'}"

    def __str__(self) -> str:
        return f"lua/{self.file}.lua:{self.number}: {self.before.strip()}  =>  {self.after.strip() or '(nothing)'}"


@cache
def text_of(file: str) -> list[str]:
    return (scripts.root() / f"{file}.lua").read_text().splitlines()


def mutants() -> Iterator[Mutant]:
    """All of them, in the order of the files."""
    seen: Counter[str] = Counter()
    for file in FILES:
        for number, line in enumerate(text_of(file), 1):
            if not _NOT_CODE.match(line):
                for after in _changes(line):
                    mutant = Mutant(file, number, line, after)
                    seen[mutant.key] += 1
                    yield replace(mutant, which=seen[mutant.key])


def sample(size: int, seed: int) -> list[Mutant]:
    """So many of them, spread over all files: the same ones for a seed, and those of a smaller sample first."""
    order = sorted(mutants(), key=lambda mutant: hashlib.sha256(f"{seed}|{mutant.name}".encode()).hexdigest())
    return order[:size]


def _changes(line: str) -> Iterator[str]:
    code = line.partition(" --")[0]
    if _WRITE.match(code) or _CALL.match(code):
        yield ""
    for pattern, new in PATTERNS:
        for found in re.finditer(pattern, code):
            before = code[: found.start()]
            if before.count('"') % 2 == 0 and not (found[0] == "true" and _PLAIN.search(before)):
                yield before + new + code[found.end() :]


def copy_of_lua() -> Path:
    """A folder of its own with all Lua."""
    copy = Path(tempfile.mkdtemp(prefix="lua-"))
    shutil.copytree(scripts.root(), copy, dirs_exist_ok=True)
    return copy


def take_lua_from(folder: Path) -> None:
    """Let this process join its scripts from this folder, and forget those that it has joined."""
    for value in list(vars(scripts).values()):
        if hasattr(value, "cache_clear"):
            value.cache_clear()
    scripts.root = lambda: folder  # type: ignore[assignment]


class Bundles(dict[str, str]):
    """The bundles of all scripts with one mutant in them, made when asked for."""

    def __init__(self, mutant: Mutant) -> None:
        super().__init__()
        self.mutant = mutant

    def get(self, name: str, default: str | None = None) -> str | None:  # type: ignore[override]
        """The bundle, or nothing if the mutant is not part of it."""
        file, script = f"lua/{self.mutant.file}.lua", scripts.get(name)
        lines = script.text.split("\n")
        changed = False
        for at, (where, number, _) in enumerate(script.joined):
            if where == file and number == self.mutant.number:
                lines[at] = _inlined(self.mutant.after)
                changed = True
        return "\n".join(lines) if changed else default


def _inlined(line: str) -> str:
    return re.sub(r"\bstatus\.([A-Z_]+)\b", lambda m: str(int(Status[m[1]])), line)
