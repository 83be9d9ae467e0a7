"""Find out which tests can notice which mutants, in one run of the tests.

A test can notice a mutant only if it runs the changed line in a state in which the change makes a difference. So each
line with mutants is joined with probes. Where its expression calls nothing but built-in functions, the changed one is
evaluated beside it, and a mutant is noted when the two differ; else it is noted when the line runs. The notes go to the
log of the server.

It reads Lua line by line, and relies on how the files of ``lua/`` are written, as ``mqredis.lua_files`` does.
"""

from __future__ import annotations

import re
import shutil
from collections import defaultdict
from contextlib import suppress

from mqredis import scripts
from tests.reliability.mutants import FILES, copy_of_lua, mutants, take_lua_from, text_of
from tests.support import server as server_module
from tests.support.server import RedisServer

# The module of Lua that probes call. Each call of a script notes a mutant once.
MODULE = """local probe = {
  noted = {},
}

function probe.note(number)
  if not probe.noted[number] then redis.log(redis.LOG_WARNING, "differs: " .. number) end
  probe.noted[number] = true
end

function probe.begin()
  probe.noted = {}
end

function probe.condition(number, changed, value)
  local ok, other = pcall(changed)
  if not ok or not other ~= not value then probe.note(number) end
  return value
end

function probe.list(...)
  return {n = select("#", ...), ...}
end

function probe.values(number, changed, ...)
  local ok, others = pcall(function() return probe.list(changed()) end)
  local values = probe.list(...)
  local same = ok and others.n == values.n
  for n = 1, same and values.n or 0 do same = same and others[n] == values[n] end
  if not same then probe.note(number) end
  return ...
end
"""
_NOTE = re.compile(rb"differs: (\d+)")

# A line with an expression: what is before it, the expression, what is behind it.
_CONDITION = re.compile(r"^(\s*(?:if|elseif|while) )(.+?)( (?:then|do)\b.*)$")
_FUNCTION = re.compile(r"^(function [\w.]*\([^()]*\) return )(.+)( end)$")
# Not of several variables: tests put other texts in place of some of these lines.
_VALUES = re.compile(r"^((?:.* (?:then|do|else) |\s*)(?:return|(?:local )?[\w.\[\]]+ =) )(.+?)((?: end)?)$")
# What makes a line the first one of a block, and the rest of the line.
_OPENS = re.compile(r"^(\s*(?:if|elseif|while) .+? (?:then|do) |(?:local )?function [\w.]*\([^()]*\) )(.+)$")
_BLANK = re.compile(r"^\s*(--|$)")
# An expression does not end like this, and a statement does not begin like that.
_UNFINISHED = re.compile(r"(?:[,({\[=+*/<>~]|\.\.|\band|\bor|\bnot| -)\s*$")
_CONTINUED = re.compile(r"^\s*(?:(?:and|or|end|else|elseif|until)\b|[\w.]+,?$|[+*/)}\]=<>~.\"'#\[\d]|- )")
_OPERATOR = re.compile(r"^\s*(?:(?:and|or)\b|[+*/=<>~.]|- )")
# Words that are in no expression that may be evaluated twice.
_STATEMENT = re.compile(r"--|\b(?:function|then|do|end|local|return)\b")
_CALLED = re.compile(r"([\w.]+)\(")
_BUILT_IN = re.compile(
    r"tonumber|tostring|type|select|unpack|next|ipairs|(?:string|math|bit|struct)\.\w+|table\.concat"
)

# The number of a mutant in the order of ``mutants()``, and its line.
_Change = tuple[int, str]


def _can_be_evaluated_twice(code: str) -> bool:
    """Is it a complete expression that calls only what computes?"""
    plain = re.sub(r'"(?:[^"\\]|\\.)*"', '""', code)
    if _STATEMENT.search(plain) or _UNFINISHED.search(plain):
        return False
    depth = 0
    for char in plain:
        depth += (char in "([{") - (char in ")]}")
        if depth < 0:
            return False
    return depth == 0 and all(_BUILT_IN.fullmatch(name) for name in _CALLED.findall(plain))


def _compare(line: str, following: str, changes: list[_Change], in_call: bool) -> tuple[str, list[_Change]]:
    """The line, its expression with a probe for each change of it; and the other changes. ``in_call``: the line runs
    in calls, not when its module is loaded, where there is no ``pcall``."""
    left = list(changes)
    kinds = [(_CONDITION, "condition"), (_FUNCTION, "values")]
    if in_call and not _OPERATOR.match(following):
        kinds.append((_VALUES, "values"))
    for pattern, kind in kinds:
        match = pattern.match(line)
        if match and _can_be_evaluated_twice(match[2]):
            head, code, tail = match.groups()
            for change in changes:
                number, after = change
                changed = after[len(head) : len(after) - len(tail)]
                if head + changed + tail == after and _can_be_evaluated_twice(changed):
                    code = f"probe.{kind}({number}, function() return {changed} end, {code})"
                    left.remove(change)
            return head + code + tail, left
    return line, left


def _first_line(lines: list[str], at: int) -> int:
    """The index of the line on which the statement of this line begins; -1 if it is not found."""
    while at >= 0:
        line = lines[at]
        if line.lstrip().startswith("elseif "):
            begin = line[: len(line) - len(line.lstrip())] + "if "
            at = next(n for n in range(at, -1, -1) if lines[n].startswith(begin))
            continue
        before = next((_code(each) for each in reversed(lines[:at]) if not _BLANK.match(each)), "")
        if not (_BLANK.match(line) or _CONTINUED.match(line) or _UNFINISHED.search(before)):
            return at
        at -= 1
    return at


def _code(line: str) -> str:
    return line.partition(" -- ")[0].rstrip()


def _insert(line: str, at: int, text: str) -> str:
    return line[:at] + text + line[at:]


class ProbedLua:
    """A copy of the Lua with probes for all mutants, and what its probes have noted."""

    def __init__(self) -> None:
        self.unprobed: set[int] = set()
        """Mutants without a probe, in tables of modules: any test may notice them."""
        self.folder = copy_of_lua()
        self._read_up_to: dict[RedisServer, int] = {}
        self._noted: set[int] = set()
        (self.folder / "core" / "probe.lua").write_text(MODULE)
        changes: dict[str, dict[int, list[_Change]]] = defaultdict(lambda: defaultdict(list))
        for number, mutant in enumerate(mutants()):
            changes[mutant.file][mutant.number - 1].append((number, _code(mutant.after)))
        for file in FILES:
            text = "\n".join(self._probed(file, changes[file]))
            (self.folder / f"{file}.lua").write_text(f'--- require "core/probe"\n{text}\n')

    def _probed(self, file: str, changes: dict[int, list[_Change]]) -> list[str]:
        source, is_script = text_of(file), "/" not in file
        lines = list(source)
        notes: dict[tuple[int, bool], str] = defaultdict(str)
        for at, here in changes.items():
            following = next((line for line in source[at + 1 :] if not _BLANK.match(line)), "")
            in_call = is_script or source[at].startswith(" ")
            lines[at], left = _compare(_code(source[at]), following, here, in_call)
            opens = _OPENS.match(source[at])
            for number, after in left:
                if opens and after.startswith(opens[1]):
                    notes[at, True] += f"probe.note({number}) "
                elif (first := _first_line(source, at)) >= 0 and (is_script or source[first].startswith(" ")):
                    notes[first, False] += f"probe.note({number}) "
                else:
                    self.unprobed.add(number)
        for (at, behind), text in sorted(notes.items(), reverse=True):  # what is behind "then" first
            opens = _OPENS.match(lines[at])
            line = lines[at]
            lines[at] = _insert(
                line, opens.end(1) if opens and behind else len(line) - len(line.lstrip()), text
            )
        if is_script:
            first = next(n for n, line in enumerate(lines) if not _BLANK.match(line))
            lines[first] = f"probe.begin() {lines[first]}"
        return lines

    def use(self) -> None:
        """Let this process take its Lua from here, and keep what its servers log."""
        take_lua_from(self.folder)
        server_module.LIBRARIES = frozenset(library.title for library in scripts.libraries())
        start, close = RedisServer.start, RedisServer.close

        def start_and_read(server: RedisServer) -> RedisServer:
            self._read_up_to.setdefault(server, 0)
            return start(server)

        def read_and_close(server: RedisServer) -> None:
            self._read(server)
            self._read_up_to.pop(server, None)
            close(server)

        RedisServer.start, RedisServer.close = start_and_read, read_and_close  # type: ignore[method-assign,assignment]

    def remove(self) -> None:
        """Remove the copy."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def noted(self) -> set[int]:
        """The numbers of the mutants that made a difference since this was asked last."""
        for server in list(self._read_up_to):
            self._read(server)
        noted, self._noted = self._noted, set()
        return noted

    def _read(self, server: RedisServer) -> None:
        with suppress(FileNotFoundError), server.log_path.open("rb") as log:
            log.seek(self._read_up_to.get(server, 0))
            self._noted.update(map(int, _NOTE.findall(log.read())))
            self._read_up_to[server] = log.tell()
