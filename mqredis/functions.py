"""Scripts as functions of the server (Redis 7, Valkey), in libraries that are named by their content.

``bundles`` marks with it what only lazy modules need, and ``scripts`` makes libraries with it. A library is loaded once
into a server and shared by all clients of this release; ``operations.libraries`` knows the form of its name.

``EVALSHA`` makes all closures and tables of a bundle anew in each call. A library makes them once, so KEYS and ARGV are
locals that each call sets. The state of a call is kept in lua/core/context.lua, which resets it when the next call
begins. The name holds the hash of the text, so that versions live side by side.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

# The line from which on the loader puts what only lazy modules need.
LAZILY = "local function lazily()"


@dataclass(frozen=True)
class Entry:
    """A script in a bundle."""

    name: str
    first: int
    """Index of its first line among the lines of the bundle."""
    last: int
    """Index of its last line, which may have no comment."""
    flag: str
    """The flag of the function, such as ``no-writes``; "" if it has none."""


def library(name: str, lines: list[str], entries: list[Entry]) -> tuple[str, str]:
    """Hash and text of the library of a bundle, with a function ``mqredis_<hash>_<script>`` for each entry.

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
    content = text + "".join(f"\n{entry.name} {entry.flag}" for entry in entries)
    digest = hashlib.sha1(content.encode(), usedforsecurity=False).hexdigest()[:12]
    for entry in entries:
        flags = f"'{entry.flag}'" if entry.flag else ""
        text += f"\nregister('{title(digest, entry.name)}', call_{entry.name}, {{{flags}}})"
    return digest, f"#!lua name={title(digest, name)}\n{text}\n"


def title(digest: str, name: str) -> str:
    """The name of a library, or of a function in it."""
    return f"mqredis_{digest}_{name}"
