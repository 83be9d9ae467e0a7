"""A lock that was handed to a reader that waits (lua/waiting/handoff): its bell says the reply of its look."""

from __future__ import annotations

from time import monotonic
from typing import Any

from mqredis.drivers.session import Core, Run
from mqredis.keys import MESSAGE_SCRIPT_PARTS
from mqredis.steps import Call, Reply

#: How such a message begins.
LOCK = b"lock "


def answer(core: Core, run: Run, look: Call[Any] | None, alive: float) -> Reply | None:
    """The answer to this look, which the run makes next, if its bell has said it; it is used up then.

    ``alive``: when this process is known to have been awake and waiting (time.monotonic()). If that is long ago it may
    have slept since, and then nobody knows how much of the lease is left: the look will tell.
    """
    bell = run.bell
    if bell is None or bell.said is None:
        return None
    said, bell.said = bell.said, None
    head, _, record = said.partition(b"\n")
    try:
        _, slot, sequence, incarnation, fence, deadline, now, lookup_id, queue = head.split(b" ")
        named = slot.decode(), int(sequence), queue.decode()
        fresh = (monotonic() - alive) * 2000 < int(deadline) - int(now)
    except ValueError:
        return None  # somebody else's words
    # It may be for a wait that is over, or a slot that was used for something else since.
    if not fresh or look is None:
        return None
    if named != (run.slot.name, run.slot.last + 1, look.keys.keys[MESSAGE_SCRIPT_PARTS]):
        return None
    # The history was this one when the message came; other calls of this process may have been answered since.
    found = core.accept([0, incarnation, fence, fence, deadline, now, b"0", lookup_id, b"1 0 0 0", record], 0)
    run.slot.last += 1
    return found
