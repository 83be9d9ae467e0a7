"""Reads of one particular message by its lookup id, or of its neighbour (MS-MQDMPR 3.1.7.1.13). They never wait.

``Queue`` makes them. Handles, bulk actions, browsers and inspection convert lookup ids with ``hex_id``.
"""

from __future__ import annotations

from mqredis.commands import read
from mqredis.errors import InvalidArgument
from mqredis.models import Message, Seek
from mqredis.models.lookup_ids import format_id
from mqredis.operations import checks
from mqredis.operations.context import Handle, UnitOfWork, lease_of, owner_of
from mqredis.operations.interruption import ReadCall
from mqredis.operations.queue_call import QueueCall
from mqredis.operations.receive import Locks, noted
from mqredis.steps import Steps, procedure


def hex_id(lookup_id: object) -> str:
    """Check a caller's lookup id. Returns it in 16 hex digits, as it is stored. Raises InvalidArgument."""
    if isinstance(lookup_id, bool) or not isinstance(lookup_id, int):
        raise InvalidArgument(f"lookup_id must be an int, not {type(lookup_id).__name__}")
    if not 0 <= lookup_id < 1 << 64:
        raise InvalidArgument(f"lookup_id {lookup_id} is outside 0..2^64-1")
    return format_id(lookup_id)


def _checked_seek(seek: object) -> str:
    """The word for the script: first, previous, current, next or last. Raises InvalidArgument."""
    if not isinstance(seek, Seek):
        raise InvalidArgument(f"seek must be a mqredis.Seek, not {seek!r:.40}")
    return seek.value


@procedure
def peek_by_lookup_id(handle: Handle, lookup_id: int, seek: Seek) -> Steps[Message]:
    """Peek at one particular message. Raises MessageNotFound, TransactionUsage (it is locked)."""
    handle.need("peek")
    call = read.lookup(handle.address, "peek", _checked_seek(seek), hex_id(lookup_id))
    found = yield from QueueCall(handle.address, call)
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
    mode = "tx" if unit else "take"
    transaction, fence = owner_of(handle, unit)
    call = read.lookup(
        handle.address,
        mode,
        _checked_seek(seek),
        hex_id(lookup_id),
        owner=transaction,
        grant=fence,
        allow_peek=allow_peek,
    )
    found = yield from QueueCall(handle.address, call)
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
    call = read.lookup(
        handle.address,
        "lock",
        _checked_seek(seek),
        hex_id(lookup_id),
        grant=lease_ms,
        allow_peek=allow_peek,
    )
    found = yield from ReadCall(handle, call, locks=True)
    return noted(handle, found)
