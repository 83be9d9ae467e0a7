"""The description of itself that a client gives when it opens a session: field ``client:<session>`` of ``meta``, JSON.

The drivers write it (``drivers.core``). ``commands.inspection`` reads those of its keys that are fields of
``ClientInfo``, and takes others for those of a later release.
"""

from __future__ import annotations

import json
import os
import platform
import sys
from pathlib import PurePath

# Longest name of a client or a host, and longest address, that is kept, in characters.
MAX_NAME = 64


def describe(name: str, address: str) -> str:
    """The description of this process. ``name``: "" for the name of the program. ``address``: of its end of the
    connection, "" if that is not known."""
    program = PurePath(sys.argv[0] if sys.argv else "")
    program = program.parent if program.name == "__main__.py" else program
    known = {
        "name": (name or program.name)[:MAX_NAME],
        "host": platform.node()[:MAX_NAME],
        "process": os.getpid(),
        "address": address[:MAX_NAME],
        # The package is imported by then. An import of it here would make every layer depend on the topmost one.
        "version": getattr(sys.modules.get("mqredis"), "__version__", ""),
    }
    return json.dumps(known, separators=(",", ":"))
