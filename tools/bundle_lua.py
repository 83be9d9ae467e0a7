"""Write every script as the broker runs it, joined with its libraries, and compile it.

``python -m tools.bundle_lua build/lua``, in ``make lua``. luacheck reads the result: a source alone names its
libraries' tables, which only the bundle defines. Compiling needs no luacheck, so every machine finds a syntax error.
"""

from __future__ import annotations

import sys
from pathlib import Path

from lupa import lua51

from mqredis import scripts


def main(target: Path) -> int:
    """Fill ``target`` with one file per script; the number of scripts that do not compile."""
    target.mkdir(parents=True, exist_ok=True)
    for stale in target.glob("*.lua"):
        stale.unlink()
    compile_chunk = lua51.LuaRuntime().eval(
        "function(text, name) local ok, err = loadstring(text, name) return ok and '' or err end"
    )
    broken = 0
    names = scripts.names()
    for name in names:
        text = scripts.get(name).text
        (target / f"{name}.lua").write_text(text, encoding="utf-8")
        error = compile_chunk(text, f"@{target / name}.lua")
        if error:
            broken += 1
            print(error, file=sys.stderr)
    print(f"{len(names)} scripts joined into {target}, {broken} do not compile")
    return broken


if __name__ == "__main__":
    sys.exit(1 if main(Path(sys.argv[1])) else 0)
