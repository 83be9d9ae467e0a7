"""Reads of one particular message by its lookup id, or of its neighbour (MS-MQDMPR 3.1.7.1.13). They never wait.

``Queue`` makes them.
"""

from __future__ import annotations

from mqredis.commands import read
from mqredis.commands.arguments import Mode
from mqredis.commands.read import Found
from mqredis.errors import InvalidArgument
from mqredis.models import Message, Seek
from mqredis.operations import checks
from mqredis.operations.context import lease_of
from mqredis.operations.interruption import ReadCall
from mqredis.operations.matching import filter_text
from mqredis.operations.open_queue import Handle
from mqredis.operations.queue_call import QueueCall
from mqredis.operations.receive import Locks, record_locks
from mqredis.operations.unit_of_work import UnitOfWork, owner_of
from mqredis.steps import Steps, procedure


def _find(
    handle: Handle,
    mode: Mode,
    seek: object,
    lookup_id: object,
    *,
    owner: str = "",
    grant: str = "",
    allow_peek: bool = False,
) -> Steps[Found]:
    """Read the message; arguments as of ``commands.read.lookup``. A search that takes more than one call goes on behind
    ``place`` of the reply, or before it if it looks backwards.

    Raises InvalidArgument, MessageNotFound.
    """
    if not isinstance(seek, Seek):
        raise InvalidArgument(f"seek must be a mqredis.Seek, not {seek!r:.40}")
    word, place, match = seek.value, checks.lookup_id(lookup_id), filter_text(handle, None, None, 0)
    onward = "before" if seek in (Seek.PREVIOUS, Seek.LAST) else "behind"
    while True:
        call = read.lookup(
            handle.address,
            mode,
            word,
            place,
            owner=owner,
            grant=grant,
            allow_peek=allow_peek,
            match=match,
        )
        operation = ReadCall(handle, call, locks=True) if mode == "lock" else QueueCall(handle.address, call)
        found = yield from operation
        if found.messages:
            return found
        word, place = onward, found.place


@procedure
def peek_by_lookup_id(handle: Handle, lookup_id: int, seek: Seek) -> Steps[Message]:
    """Peek at one particular message. Raises MessageNotFound, TransactionUsage (it is locked)."""
    handle.need("peek")
    found = yield from _find(handle, "peek", seek, lookup_id)
    return handle.context.messages(handle.path, found.messages)[0]


@procedure
def receive_by_lookup_id(
    handle: Handle, lookup_id: int, seek: Seek, unit: UnitOfWork | None, allow_peek: bool
) -> Steps[Message]:
    """Receive one particular message. In a transaction it may stay visible to peeks until the end.

    Raises MessageNotFound.
    """
    handle.need("receive")
    checks.flag(allow_peek, "allow_peek")
    mode: Mode = "tx" if unit else "take"
    owner, fence = owner_of(handle, unit)
    found = yield from _find(handle, mode, seek, lookup_id, owner=owner, grant=fence, allow_peek=allow_peek)
    if unit:
        unit.touched(found.fence, handle)
    return handle.context.messages(handle.path, found.messages, taken=unit is None)[0]


@procedure
def lock_by_lookup_id(
    handle: Handle, lookup_id: int, seek: Seek, lease: float | None, allow_peek: bool
) -> Steps[Locks]:
    """Lock one particular message, which may stay visible to peeks. Raises MessageNotFound."""
    handle.need("receive")
    checks.flag(allow_peek, "allow_peek")
    lease_ms = str(lease_of(handle.context, lease))
    found = yield from _find(handle, "lock", seek, lookup_id, grant=lease_ms, allow_peek=allow_peek)
    return record_locks(handle, found, lease_ms)
