"""Waiting readers: how a read registers, and cancel.lua and stop_waiting.lua, which remove it.

``operations.wait``, ``handle``, all reads that wait, and ``pipelines`` use it; ``drivers.waiting.mode`` knows
the letters of ``NOTIFY_MODES``. ``lua/waiting/waiter_text.lua`` describes the registration, ``lua/waiting/waiters.lua``
the ticket, and the doctor checks what is stored of them (``operations/doctor/checks/sessions.py``).
``tests/contract/test_constants.py`` compares the texts.
"""

from __future__ import annotations

from dataclasses import dataclass

from mqredis.commands.address import Address
from mqredis.commands.replies import check
from mqredis.keys import encode_tag
from mqredis.steps import Call

# What a waiting reader does: it takes a message, takes it at a cursor, or peeks.
TAKES, TAKES_AT_CURSOR, PEEKS = KINDS = ("D", "C", "P")
# How it is notified (``drivers.waiting.mode``): by a keyspace notification, or by PUBLISH on the same channel. In Lua
# ``notify.one`` does so, and ``waiter_text.parse_lock`` reads the letter.
KEYSPACE, PUBLISH = NOTIFY_MODES = ("k", "p")
# The ticket of a reader that does not wait, at a cursor: the end of the queue is an error then.
NO_WAIT = "nowait"
# How the ticket of a reader begins that looks for the last time, since its timeout has ended.
_LAST_LOOK = "leave"


@dataclass(slots=True)
class Waiter:
    """How a read wants to wait. It is registered if it finds nothing, and its reply has the ticket of its next look."""

    registration: str = ""
    """As :func:`register_as` makes it; "": the read registers nothing."""
    ticket: str = ""
    """What the last reply said; "" before the first one. With the last look begins :meth:`look_for_the_last_time`."""

    @property
    def registered(self) -> bool:
        """Is it in the list of waiters, and has to be removed when its wait ends?"""
        return bool(self.registration and self.ticket) and not self.looks_for_the_last_time

    @property
    def looks_for_the_last_time(self) -> bool:
        """Does the look with this ticket end the registration?"""
        return self.ticket.startswith(_LAST_LOOK)

    def look_for_the_last_time(self) -> None:
        """Let the next look end the registration. The part of the ticket behind the colon stays."""
        self.ticket = _LAST_LOOK + "".join(self.ticket.partition(":")[1:])


def register_as(kind: str, mode: str, database: int, tag: str | None = None, lease: str = "") -> str:
    """The text by which a reader is entered in the list of waiters; "" if it cannot be notified (``mode`` "").

    ``lease``: in ms, if the read locks any message, so that a sender may hand one over; "" otherwise.
    """
    if not mode:
        return ""
    text = f"{kind} {mode}{database} {encode_tag(tag)}"
    return f"{text},{lease}" if lease else text


def cancel(queue: Address, tag: str, status: int) -> Call[None]:
    """End the wait of a reader by its tag (3.1.7.1.17)."""
    return Call("cancel", queue.call, [queue.generation, tag, str(status)], lambda code, _: check(code))


def leave(queue: Address, registration: str, match: bytes = b"") -> Call[None]:
    """Give up waiting. ``match``: the filter of the read."""
    return Call("stop_waiting", queue.call, [registration, match], lambda code, _: check(code))
