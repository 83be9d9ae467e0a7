"""A script as a function of the server (Redis 7, Valkey): one library for each bundle, named by its content.

``EVALSHA`` makes all closures and tables of a bundle anew in each call. A library makes them once, so two things are
added to the same text: KEYS and ARGV are locals that each call sets, and the state that modules keep in their tables
is set back before the next call, but for what they remember of texts. The name holds the hash of the text, so that
versions live side by side.
"""

from __future__ import annotations

import hashlib
import re

#: The line from which on the loader puts what only lazy modules need.
LAZILY = "local function lazily()"

#: The field of a module's table that a call leaves to the next: what was taken apart, by its text and by nothing else.
MEMO = "memo"

_MODULE = re.compile(r"^local ([a-z_]+) = \{")
_ASSIGNED = re.compile(r"(?<![\w.])([a-z_]+)\.([a-z_]+)(?=(?:\s*,\s*[\w.]+)*\s*=(?!=))")
_FILLED = re.compile(r"(?<![\w.])([a-z_]+)\.([a-z_]+)\[[^\n]*?\]\s*=(?!=)")


def library(name: str, lines: list[str], own: int, allow_oom: bool) -> tuple[str, str]:
    """Name and text of the library of a bundle.

    ``lines`` is the bundle, its first line spare; ``own`` the index of the entry script's first line. No line is added
    before the last one, so that the line map of the bundle holds here too.
    """
    body = [line.replace("redis.call(", "call(") for line in lines]
    body[own] = "local function main() " + body[own]
    shared = []
    for n in range(_lazily(lines), own):
        # What is made when it is first needed has to be in sight of what sets it back.
        if match := _MODULE.match(lines[n]):
            shared.append(match[1])
            body[n] = body[n].removeprefix("local ")
    body[1] = f"local {', '.join(['KEYS', 'ARGV', 'call', *shared])} {body[1]}"
    flags = "'allow-oom'" if allow_oom else ""
    body += [
        "end",
        "local function run(keys, args)",
        "KEYS, ARGV, call = keys, args, redis.call",
        *_opened(_state(lines), lines[own:]),
        "return main()",
        "end",
    ]
    text = "\n".join(body[1:])
    title = f"mqredis_{hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()[:12]}_{name}"
    end = f"redis.register_function{{function_name='{title}', callback=run, flags={{{flags}}}}}"
    return title, f"#!lua name={title}\n{text}\n{end}\n"


def _opened(state: list[str], entry: list[str]) -> list[str]:
    """Set back only after a call that came so far as to open the context: what goes a short way before that leaves
    nothing behind (lua/core/context)."""
    if not state or not any("context.open(" in line.partition("--")[0] for line in entry):
        return state
    return ["if context.opened then", *state, "end"]


def _lazily(lines: list[str]) -> int:
    """Index of the line where the modules begin that are made when needed."""
    return lines.index(LAZILY) if LAZILY in lines else len(lines)


def _state(lines: list[str]) -> list[str]:
    """Assignments that set back what a call leaves in the modules' tables; what no function assigns to is constant."""
    code = [line.partition("--")[0] for line in lines]
    modules = {match[1]: n for n, line in enumerate(code) if (match := _MODULE.match(line))}
    # Only functions run in a call, and their lines are indented; what stands at the margin is run once.
    inside = "\n".join(line for line in code if line.startswith((" ", "function ")))
    changed = {(match[1], match[2]) for match in _ASSIGNED.finditer(inside) if match[1] in modules}
    filled = {(match[1], match[2]) for match in _FILLED.finditer(inside) if match[1] in modules}
    out, lazily = [], _lazily(lines)
    for module, start in modules.items():
        there = f"if {module} then " if start > lazily else ""
        stop = next(n for n in range(start, len(lines)) if lines[n].endswith("}"))
        whole = " ".join(code[start : stop + 1])
        for key, value in _fields(whole[whole.index("{") + 1 : whole.rindex("}")]):
            if key == MEMO:
                filled.discard((module, key))
            elif value == "{}" or (module, key) in changed:
                out.append(f"{there}{module}.{key} = {value}{' end' if there else ''}")
                changed.discard((module, key))
                filled.discard((module, key))
    if filled:
        raise ValueError(f"state that nothing sets back: {sorted(filled)}; let it begin as {{}}")
    late = [(module, key) for module, key in sorted(changed) if key != "loaded"]
    return out + [f"if {module} then {module}.{key} = nil end" for module, key in late]


def _fields(inside: str) -> list[tuple[str, str]]:
    """The fields of a table constructor, each a name and an expression."""
    parts, depth = [""], 0
    for char in inside:
        depth += (char in "{(") - (char in "})")
        if char == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += char
    pairs = (part.partition("=") for part in parts if "=" in part)
    return [(key.strip(), value.strip()) for key, _, value in pairs if key.strip().isidentifier()]
