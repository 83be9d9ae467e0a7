"""An open queue as its client knows it: what its handle may do, which locks it has, and how far it has read a group.

``operations.handle`` opens and closes handles. The queues of ``asyncio`` have one each, and all operations on messages
take one. ``Context`` has all of a client.

``__del__`` runs in the thread that drops the last reference, whatever it is doing, so it only appends to a deque.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from mqredis.commands.address import Address
from mqredis.commands.filters import Member
from mqredis.commands.queues import FLAGS
from mqredis.errors import AccessDenied, InvalidArgument, InvalidHandle
from mqredis.models import Access, Share

if TYPE_CHECKING:
    from mqredis.operations.context import Context
    from mqredis.selector import Selector


@dataclass(slots=True, eq=False)
class GroupPosition:
    """The position of a handle in a group: the next member, and whether the group is read in a unit of work."""

    member: Member | None = None
    in_unit: bool = False
    log: list[tuple[object, Member | None, bool]] = field(default_factory=list)
    """Reads whose messages may be returned, oldest first: the lock or unit of work, and the position before it."""

    def advance(self, reader: object, member: Member | None, in_unit: bool) -> None:
        """A read succeeded. ``reader``: the lock or unit of work that may return the message; None: it cannot be
        returned."""
        if reader is not None:
            self.log.append((reader, self.member, self.in_unit))
        self.member, self.in_unit = member, in_unit

    def back(self, reader: object) -> None:
        """The messages of this lock or unit of work were returned: go back to the position before it, unless an
        earlier one was returned already."""
        for at, (each, member, in_unit) in enumerate(self.log):
            if each == reader:
                self.member, self.in_unit = member, in_unit
                del self.log[at:]
                return

    def settle(self, reader: object) -> None:
        """The messages of this lock or unit of work will not be returned."""
        if self.log:
            self.log = [entry for entry in self.log if entry[0] != reader]


_ALL = Access.ALL
# As handle.receives in lua/core/handle.lua, which compares share modes.
_RECEIVES = (Access.RECEIVE, Access.ADMIN, Access.ALL)
_ALLOWED: dict[str, tuple[Access, ...]] = {
    "send": (Access.SEND, Access.ADMIN, Access.ALL),
    "receive": _RECEIVES,
    "peek": (*_RECEIVES, Access.PEEK),
}
# IBM MQ's reason codes of a use that the access of a handle does not allow.
_MQRC = {"send": 2039, "receive": 2037, "peek": 2036}


@dataclass(slots=True, eq=False, weakref_slot=True)
class Handle:
    """An open queue (OpenQueueDescriptor, MS-MQDMPR 3.1.1.16)."""

    context: Context
    address: Address
    number: str
    """Names the handle within the session (lua/core/handle.lua); "" of a multiple-element name, which the broker does
    not know."""
    access: Access
    share: Share
    flags: str
    """The letters of the queue's properties that are set (``FLAGS``), when it was opened."""
    max_message_bytes: int
    """Largest message that may be sent through the handle, in bytes, by queue and settings."""
    closed: bool = False
    waited: bool = False
    """Did the last read have to wait? Then the next one registers its waiter with its first call."""
    locks: dict[str, str] = field(default_factory=dict)  # lookup id -> fence, of locks not settled yet
    selector: Selector | None = None
    """The selector that was given when the handle was opened; each read returns only messages that it selects."""
    group_position: GroupPosition = field(default_factory=GroupPosition)
    """The position of reads in logical order."""
    parts: dict[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)
    """The lookup ids of locked messages that were joined from segments, by the fence and the id of the first one. The
    fence tells them from a later lock of the first segment alone."""
    elements: tuple[Handle, ...] = ()  # of a multiple-element name
    batchers: dict[type, Any] = field(default_factory=dict)
    """The batchers of this handle, by class of operation (``drivers/coalescing``)."""
    topic: bool = field(init=False)
    """Is it a topic?"""
    transactional: bool = field(init=False)
    """Does the queue hold transactional messages?"""
    group_exclusive: bool = field(init=False)
    """Do groups take turns?"""

    def __post_init__(self) -> None:
        self.topic, self.transactional, self.group_exclusive = (
            FLAGS[name] in self.flags for name in ("topic", "transactional", "group_exclusive")
        )

    @property
    def path(self) -> str:
        """Name of the queue, with its subqueue."""
        return self.address.path

    def __del__(self) -> None:
        """Keep a handle that holds locks until its client is closed, which gives them back."""
        if self.locks and not self.closed:
            self.context.dropped.append(self)

    def close(self) -> None:
        """Close the handle: ``need`` raises from now on."""
        self.closed = True

    def need(self, use: str) -> None:
        """Raise unless the handle is open and was opened for this use: "send", "receive" or "peek"."""
        if self.access is _ALL and not self.closed and (use == "receive" or ";" not in self.address.path):
            return  # the most frequent case: Access.ALL allows each use
        if self.closed:
            raise InvalidHandle(f"this handle of queue {self.path!r} is closed")
        if use == "send" and ";" in self.path and not self.elements:
            raise AccessDenied(f"messages cannot be sent to {self.path!r}: they are moved or copied there")
        if self.access not in _ALLOWED[use]:
            raise AccessDenied(
                f"the handle of queue {self.path!r} was opened with access {self.access.value!r}, "
                f"which does not allow to {use}",
                mqrc=_MQRC[use],
            )


def handle_of(queue: object) -> Handle:
    """The handle behind what a caller gave as a queue, a Queue of either interface."""
    handle = getattr(queue, "handle", None)
    if not isinstance(handle, Handle):
        raise InvalidArgument(f"an open mqredis Queue is needed, not {type(queue).__name__}")
    return handle
