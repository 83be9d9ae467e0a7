"""settle.lua: commit, abort, reject or renew locks (MS-MQDMPR 3.1.7.1.12). receive.lua takes settlements, too.

``mqredis.operations.settle`` calls it, and ``earlier_locks`` sends the same settlements with a read. The actions are
those of ``LockedMessage`` (``asyncio.locked``), of operators (``operations.force``), and of workers and kombu, which
add instructions (``operations.giveback``). ``tests/contract/test_constants.py`` compares the letters with those of the
scripts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter

from mqredis.commands.address import Address
from mqredis.commands.replies import check, number, text
from mqredis.steps import Arg, Call, Payload

# What is to become of a locked message (lua/core/settle.lua, lua/core/release.lua). ABORT: an attempt has failed;
# RETURN: it was not attempted; FAIL: it has failed for good. A reason may follow (``operations.giveback``).
COMMIT, ABORT, RETURN, FAIL, REJECT, RENEW = "cabejx"
# Where a message is whose lock was lost: available again, locked by another client, or in the queue no more.
AVAILABLE, LOCKED, GONE = "afg"

# One of the actions above, the fence of the lock, and the lookup id of the message.
Settlement = tuple[str, str, str]
# The lookup id of a message whose lock was lost, and where it is now.
Lost = tuple[str, str]


def runs(settlements: Sequence[Settlement]) -> list[str]:
    """Settlements as the scripts take them: action, fence and the ids, put together, of each run of the same two."""
    if len(settlements) == 1:
        return [*settlements[0]]
    found: list[str] = []
    if settlements:
        actions, fences, ids = zip(*settlements, strict=True)
        # As of a batch: half of what it takes to look for runs.
        if actions.count(actions[0]) == fences.count(fences[0]) == len(ids):
            return [actions[0], fences[0], "".join(ids)]
    for (action, fence), run in groupby(settlements, key=itemgetter(0, 1)):
        found += action, fence, "".join(map(itemgetter(2), run))
    return found


def lost_in(elements: Payload) -> list[Lost]:
    """The lost locks in a reply: id and letter of each."""
    return [(text(each), text(why)) for each, why in zip(elements[::2], elements[1::2], strict=True)]


@dataclass(slots=True)
class Settled:
    """What became of settlements."""

    now_ms: int
    lost: list[Lost]


def _parse(status: int, payload: Payload) -> Settled:
    check(status)
    return Settled(number(payload[0]), lost_in(payload[1:]))


def settle(queue: Address, settlements: Sequence[Settlement], lease_ms: int = 0) -> Call[Settled]:
    """End two-phase reads (3.1.7.1.12)."""
    args: list[Arg] = [queue.generation, str(lease_ms), *runs(settlements)]

    return Call("settle", queue.call, args, _parse)
