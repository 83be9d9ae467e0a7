"""A script as a function of the server (Redis 7, Valkey): one library for each bundle, named by its content.

``EVALSHA`` makes all closures and tables of a bundle anew in each call. A library makes them once, so KEYS and ARGV are
locals that each call sets. The state of a call is kept in lua/core/context.lua alone, which resets it when the next
call begins. The name holds the hash of the text, so that versions live side by side.
"""

from __future__ import annotations

import hashlib

#: The line from which on the loader puts what only lazy modules need.
LAZILY = "local function lazily()"


def library(name: str, lines: list[str], own: int, flags: str) -> tuple[str, str]:
    """Name and text of the library of a bundle.

    ``lines`` is the bundle, its first line spare; ``own`` the index of the entry script's first line; ``flags`` its
    flag. No line is added
    before the last one, so that the line map of the bundle holds here too.
    """
    body = [line.replace("redis.call(", "call(") for line in lines]
    body[own] = "local function main() " + body[own]
    body[1] = f"local KEYS, ARGV, call {body[1]}"
    quoted = f"'{flags}'" if flags else ""
    body += [
        "end",
        "local function run(keys, args)",
        "KEYS, ARGV, call = keys, args, redis.call",
        "return main()",
        "end",
    ]
    text = "\n".join(body[1:])
    title = f"mqredis_{hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()[:12]}_{name}"
    end = f"redis.register_function{{function_name='{title}', callback=run, flags={{{quoted}}}}}"
    return title, f"#!lua name={title}\n{text}\n{end}\n"
