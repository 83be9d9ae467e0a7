# Generated from mqredis/asyncio/group.py by tools/generate_blocking.py. Do not edit: run `make format`.
"""A group that is sent message by message.

``Queue.group`` makes it, and applications call its methods; ``operations.groups`` has its state and its rules.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self, Unpack

from mqredis.models import Identifier, Sent
from mqredis.models.header import MemberFields
from mqredis.operations import groups as operations
from mqredis.operations.groups import Writing
from mqredis.operations.unit_of_work import unit_of

if TYPE_CHECKING:
    from types import TracebackType

    from mqredis.client.queue import Queue
    from mqredis.client.transaction import Transaction


class GroupWriter:
    """Sends the messages of one group in logical order (IBM MQ: MQPMO_LOGICAL_ORDER).

    Sequence numbers, offsets and flags are set here. As a context manager it raises GroupIncomplete when the block
    ends well without the last message (2241), or inside a segmented one (2242), unless nothing was sent.
    """

    def __init__(self, queue: Queue, writing: Writing) -> None:
        self._queue = queue
        self._writing = writing

    @property
    def queue(self) -> Queue:
        """The open queue that it belongs to."""
        return self._queue

    @property
    def group_id(self) -> Identifier:
        """Id of the group."""
        return self._writing.group_id

    def send(
        self,
        body: bytes | str = b"",
        *,
        last: bool = False,
        segment: bool = False,
        transaction: Transaction | None = None,
        **fields: Unpack[MemberFields],
    ) -> Sent:
        """Send the next message; ``last`` ends the group. ``segment``: a part of a message, and more parts follow.

        Raises GroupInconsistent when the group has ended, or when its messages are not all sent in a unit of work
        or all outside one (2245), or not all recoverable or all not (2185), or while another one is being sent; and as
        ``Queue.send``.
        """
        unit = unit_of(transaction)
        return self._queue.manager.run(operations.write(self._writing, body, fields, last, segment, unit))

    def close(self) -> None:
        """Raises GroupIncomplete if messages were sent and the last one was not; what was sent stays."""
        self._writing.check_end()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
