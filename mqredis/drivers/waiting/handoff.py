"""Direct handoff: a sender locks its message for a waiting reader (lua/waiting/handoff).

``waiting.base`` calls it before a reader polls, and ``waiting.table`` recognises such notifications with it.

The notification on the wake channel then is the reply to the call that the reader makes next, so the reader makes no
call at all.
"""

from __future__ import annotations

from time import monotonic
from typing import Any

from mqredis.commands.replies import OK
from mqredis.drivers.session import Core, Run
from mqredis.keys import MESSAGE_SCRIPT_PARTS
from mqredis.steps import Call, Reply

# The first bytes of a notification that carries a locked message.
LOCK = b"lock "


def take_reply(core: Core, run: Run, call: Call[Any] | None, awake_at: float) -> Reply | None:
    """Return the reply to ``call``, the next call of ``run``, if a notification has carried it; forget it then.

    ``awake_at`` is when this process is known to have been awake and waiting, on the clock of ``time.monotonic()``. If
    more than half of the lease has passed since, the process may have been suspended: then the call is made, and its
    reply says how much of the lease is left.
    """
    wake = run.wake
    if wake is None or wake.handoff is None:
        return None
    text, wake.handoff = wake.handoff, None
    # As lua/waiting/handoff.lua publishes it. To drop it loses nothing: the slot keeps the reply for the next call.
    head, _, record = text.partition(b"\n")
    try:
        _, slot, sequence, incarnation, fence, deadline, now, lookup_id, queue = head.split(b" ")
        addressee = slot.decode(), int(sequence), queue.decode()
        fresh = 2 * 1000 * (monotonic() - awake_at) < int(deadline) - int(now)  # half of the lease is left
    except ValueError:
        return None  # not published by a script of mqredis
    if not fresh or call is None:
        return None
    # The notification may be meant for an earlier wait, or for an earlier use of this slot.
    if addressee != (run.slot.name, run.slot.last + 1, call.keys.keys[MESSAGE_SCRIPT_PARTS]):
        return None
    # As lua/receive.lua answers a lock of one message: the fence is the history number, no earlier lock was lost, and
    # the state is that of a first delivery.
    history, lost, state = fence, b"0", b"1 0 0 0"
    made = [OK, incarnation, history, fence, deadline, now, lost, lookup_id, state, record]
    # The history was right when the notification came. It is not compared: other calls of this process may have been
    # answered since, and the nodes of a cluster pass notifications on.
    reply = core.accept(made, 0, remember=False)
    run.slot.last += 1
    return reply
