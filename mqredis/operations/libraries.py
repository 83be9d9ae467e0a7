"""Finds, and deletes, function libraries that other releases of mqredis have left on the server
(docs/decisions/scripts.md).

``doctor.run`` uses it; the deploy step (``drivers.deploy``) finds the libraries of other releases by the same names,
which ``mqredis.scripts.title`` makes.
"""

from __future__ import annotations

import re
from typing import Any

from mqredis import scripts
from mqredis.reports import Finding
from mqredis.steps import Command, Refused, Steps, procedure

# The name of a function library of any release.
OURS = re.compile(r"mqredis_[0-9a-f]{12}_[a-z_]+")


@procedure
def examine(repair: bool) -> Steps[list[Finding]]:
    """Report libraries of other releases; ``repair`` deletes them.

    A client of such a release then gets an error that the function is missing, so nothing ran, and loads it again. One
    that may not load scripts stops working.
    """
    reply = yield Command(("FUNCTION", "LIST", "LIBRARYNAME", "mqredis_*"))
    if isinstance(reply, Refused):
        return []  # a server without functions, or a user that may not list them
    there = sorted(name for name in map(library_name, reply) if OURS.fullmatch(name))
    if not there:
        return []
    known = {library.title for library in scripts.libraries()}
    old = [name for name in there if name not in known]
    if not old:
        return []
    left = []
    for name in old if repair else ():
        done = yield Command(("FUNCTION", "DELETE", name))
        if isinstance(done, Refused):
            left.append(name)
    repaired = repair and not left
    text = (
        f"function libraries of other releases: {len(old)}. A repair deletes them: run it when the clients of those "
        "releases have ended, or if they may load scripts"
    )
    return [
        Finding(code="server.libraries", severity="notice", where=old[0], text=text, repaired=repaired,
                repairable=not repaired)
    ]  # fmt: skip


def library_name(library: Any) -> str:
    """Name in an entry of FUNCTION LIST: a flat list of keys and values, or a mapping in RESP3."""
    pairs = library.items() if isinstance(library, dict) else zip(library[::2], library[1::2], strict=False)
    found = {_text(key): value for key, value in pairs}
    return _text(found.get("library_name", ""))


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
