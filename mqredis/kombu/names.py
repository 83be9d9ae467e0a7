"""Names of queues and exchanges: kombu allows characters that the broker does not.

``store``, ``bindings`` and ``channel`` translate them. The broker has queues under these names, so the form stays.
"""

from __future__ import annotations

import re

from mqredis.keys import RESERVED


def quote(name: str) -> str:
    """A queue name of kombu as one that the broker allows."""
    return "".join(f"%{ord(c):02X}" if c in f"%,{RESERVED}" or ord(c) < 33 else c for c in name)


def unquote(name: str) -> str:
    """The inverse of :func:`quote`."""
    return re.sub("%([0-9A-F]{2})", lambda match: chr(int(match[1], 16)), name)
