"""Write into the head of each Lua file who calls it.

``python -m tools.lua_callers`` writes the lines; with ``--check`` it writes nothing and names the files whose line
differs from what it would write. The line of an entry script, above its keys, names the functions of
mqredis that call it. The line of a module, below its own ``require`` lines, names the files that require it, or counts
them by folder if they are many.
"""

from __future__ import annotations

import ast
import re
import sys
import textwrap
from collections import defaultdict
from pathlib import Path

from tools.written_files import ROOT, write

LUA = ROOT / "lua"
WIDTH, LINES = 132, 3
_REQUIRE = re.compile(r'^--- require (?:lazy )?"([a-z_/]+)"$', re.MULTILINE)
_WRITTEN = re.compile(r"^(?:-- CALLERS|--- used by) .*\n(?:---   .*\n)*", re.MULTILINE)


def commands() -> dict[str, list[str]]:
    """Name the functions of mqredis that make a ``Call`` of each script."""
    found: dict[str, list[str]] = defaultdict(list)
    for folder in ("commands", "drivers"):
        for path in sorted((ROOT / "mqredis" / folder).glob("*.py")):
            for function in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(function, ast.FunctionDef):
                    for script in called(function):
                        found[script].append(f"{function.name} in mqredis/{folder}/{path.name}")
    return found


def called(function: ast.FunctionDef) -> list[str]:
    """Name the scripts that stand as first argument of a ``Call`` in this function, or in a variable that does."""
    scripts = {path.stem for path in LUA.glob("*.lua")}
    values = [
        call.args[0]
        for call in ast.walk(function)
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "Call"
    ]
    variables = {value.id for value in values if isinstance(value, ast.Name)}
    values += [
        node.value
        for node in ast.walk(function)
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and node.targets[0].id in variables
    ]
    constants = (node.value for value in values for node in ast.walk(value) if isinstance(node, ast.Constant))
    return sorted({constant for constant in constants if constant in scripts})


def users() -> dict[str, list[str]]:
    """Name the Lua files that require each module."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted(LUA.rglob("*.lua")):
        name = path.relative_to(LUA).with_suffix("").as_posix()
        for module in _REQUIRE.findall(path.read_text(encoding="utf-8")):
            found[module].append(name)
    return found


def listed(start: str, names: list[str]) -> str:
    """Return the lines that name these files; if they are more than fit, lines that count them by folder."""
    if not names:
        raise ValueError(f"no file is known behind {start!r}")
    lines = wrapped(start, names)
    return lines if lines.count("\n") <= LINES else wrapped(f"{start}{len(names)} files: ", counted(names))


def wrapped(start: str, items: list[str]) -> str:
    """Return these items, with commas between them, in lines that are not too long."""
    lines = textwrap.wrap(start + ", ".join(items), WIDTH, subsequent_indent="---   ", break_on_hyphens=False)
    return "\n".join(lines) + "\n"


def counted(names: list[str]) -> list[str]:
    """Return how many of these files each folder has; the one file of a folder by its name."""
    folders: dict[str, list[str]] = defaultdict(list)
    for name in names:
        folders[name.rpartition("/")[0]].append(name)
    scripts = folders.pop("", [])
    found = [f"{len(scripts)} scripts"] if scripts else []
    return found + [own[0] if len(own) == 1 else f"{len(own)} in {folder}" for folder, own in folders.items()]


def rewrite() -> dict[Path, str]:
    """Return the text of each Lua file with its line."""
    scripts, modules = commands(), users()
    texts = {}
    for path in sorted(LUA.rglob("*.lua")):
        name = path.relative_to(LUA).with_suffix("").as_posix()
        text = _WRITTEN.sub("", path.read_text(encoding="utf-8"))
        if path.parent == LUA:
            line, at = listed("-- CALLERS ", scripts[name]), text.index("-- KEYS ")
        else:
            line = listed("--- used by ", modules[name])
            at = max((match.end() + 1 for match in _REQUIRE.finditer(text)), default=0)
        texts[path] = text[:at] + line + text[at:]
    return texts


if __name__ == "__main__":
    sys.exit(write(rewrite(), sys.argv[1:]))
