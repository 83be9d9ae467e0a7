"""Helpers for the tests of this folder."""

from __future__ import annotations

from typing import Any

import pytest

from mqredis import Access, Acknowledge
from mqredis.errors import IoTimeout


def make(qm, name="q", **properties):
    """Create a queue and open it."""
    qm.create_queue(name, **properties)
    return qm.open(name)


def drain(qm, name):
    """Receive all available messages."""
    found = []
    with qm.open(name, Access.RECEIVE) as queue:
        while True:
            try:
                found.append(queue.receive(0))
            except IoTimeout:
                return found


FULL_RECEIVE: dict[str, Any] = {"acknowledge": Acknowledge.FULL_RECEIVE, "administration_queue": "admin"}
NACK_RECEIVE: dict[str, Any] = {"acknowledge": Acknowledge.NACK_RECEIVE, "administration_queue": "admin"}
POS_ARRIVAL: dict[str, Any] = {"acknowledge": Acknowledge.POSITIVE_ARRIVAL, "administration_queue": "admin"}
POS_RECEIVE: dict[str, Any] = {"acknowledge": Acknowledge.POSITIVE_RECEIVE, "administration_queue": "admin"}


def read(queue):
    """The letters of all available messages."""
    return b"".join(m.body for m in queue.browse()).decode()


def classes(qm, name="admin"):
    """Receive all messages; return their classes."""
    return [m.message_class for m in drain(qm, name)]


def gone(queue):
    """Check that no message is available."""
    with pytest.raises(IoTimeout):
        queue.receive(0)
