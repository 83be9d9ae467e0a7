"""What the tests of this folder share."""

from __future__ import annotations

from mqredis import Access
from mqredis.errors import IoTimeout


def make(qm, name="q", **properties):
    """Create a queue and open it."""
    qm.create_queue(name, **properties)
    return qm.open(name)


def drain(qm, name):
    """Receive everything that is available."""
    found = []
    with qm.open(name, Access.RECEIVE) as queue:
        while True:
            try:
                found.append(queue.receive(0))
            except IoTimeout:
                return found
