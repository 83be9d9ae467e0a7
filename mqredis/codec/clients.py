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

from mqredis.settings import LONGEST_CLIENT_NAME


def describe(name: str, address: str) -> str:
    """The description of this process. ``name``: "" for the name of the program. ``address``: of its end of the
    connection, "" if that is not known."""
    program = PurePath(sys.argv[0] if sys.argv else "")
    program = program.parent if program.name == "__main__.py" else program
    known = {
        "name": (name or program.name)[:LONGEST_CLIENT_NAME],
        "host": platform.node()[:LONGEST_CLIENT_NAME],
        "process": os.getpid(),
        "address": address[:LONGEST_CLIENT_NAME],
        # The package is imported by then. An import of it here would make every layer depend on the topmost one.
        "version": getattr(sys.modules.get("mqredis"), "__version__", ""),
    }
    return json.dumps(known, separators=(",", ":"))
