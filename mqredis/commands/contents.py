"""purge.lua, move.lua and unmark.lua: change messages of a queue without reading them (MS-MQDMPR 3.1.7.1.7, .16).

``mqredis.operations.handle`` and ``browser`` call it. All need an open handle; operators move and delete with
``commands.bulk``.
"""

from __future__ import annotations

from mqredis.commands.address import Address
from mqredis.commands.replies import check, number, text
from mqredis.status import Status
from mqredis.steps import Arg, Call, Payload


def purge(queue: Address, limit: str = "", match: bytes = b"") -> Call[tuple[int, str]]:
    """Remove available messages; answers how many, and the limit for the next call or ""."""

    def parse(status: int, payload: Payload) -> tuple[int, str]:
        if status != Status.CONTINUE:
            check(status)
        return number(payload[0]), text(payload[1]) if status == Status.CONTINUE else ""

    return Call("purge", queue.call, [queue.generation, limit, match], parse)


def move(
    source: Address, target: Address, lookup_id: str, transaction: str = "", fence: str = ""
) -> Call[str]:
    """Move a message inside a family; answers the fence of the transaction."""
    args: list[Arg] = [source.generation, target.generation, lookup_id, transaction, fence]

    def parse(status: int, payload: Payload) -> str:
        check(status)
        return text(payload[0])

    return Call("move", between(source, target).call, args, parse)


def forget_marks(queue: Address, browser: str) -> Call[bool]:
    """Remove a few hundred marks of a closed browser. True if there may be more."""

    def parse(status: int, payload: Payload) -> bool:
        if status == Status.QUEUE_NOT_AVAILABLE:
            return False
        check(status)
        return number(payload[0]) > 0

    return Call("unmark", queue.call, [queue.generation, browser], parse)


def between(source: Address, target: Address) -> Address:
    """Source, target and their families as one address, for a move."""
    first = tuple(dict.fromkeys((source.path, target.path, *source.family[1:], *target.family[1:])))
    beside = tuple(path for path in source.beside if path not in first)
    return Address(source.manager, source.path, source.generation, beside=beside, first=first)
