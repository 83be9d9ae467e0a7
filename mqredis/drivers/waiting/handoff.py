"""Direct handoff: a sender locks its message for a waiting reader (``lua/waiting/handoff.lua``, which makes the text).

``waiting.base`` calls it before a reader polls, and ``waiting.table`` recognises such notifications with it.

The notification on the wake channel then is the reply to the call that the reader makes next, so the reader makes no
call at all.

Change together with: ``lua/waiting/handoff.lua``, and the reply of ``lua/receive.lua`` (``message.found`` and
``message.add`` in ``lua/core/message.lua``), whose form :meth:`Handoff.reply` repeats. ``tests/client/test_handoff.py``
compares them.
"""

from __future__ import annotations

from time import monotonic
from typing import Any, NamedTuple

from mqredis.codec.states import LOCKED_ONCE
from mqredis.commands.replies import OK
from mqredis.drivers.core import Core
from mqredis.drivers.session import Run
from mqredis.keys import MESSAGE_SCRIPT_PARTS
from mqredis.steps import Call, Reply

# The first bytes of a notification that carries a locked message.
LOCK = b"lock "


class Handoff(NamedTuple):
    """The text of such a notification: these fields with spaces between them, a line feed, and the record."""

    slot: str
    sequence: int
    """That of the next call in the slot: the call which the sender has made for the reader."""
    incarnation: bytes
    fence: bytes
    deadline_ms: bytes
    now_ms: bytes
    """When the message was locked. Like the deadline on the server's clock."""
    lookup_id: bytes
    queue_key: str
    """The first key of the queue."""
    record: bytes

    @classmethod
    def parse(cls, text: bytes) -> Handoff:
        """Parse a notification. Raises ValueError if it was not published by a script of mqredis."""
        head, _, record = text.partition(b"\n")
        _, slot, sequence, incarnation, fence, deadline, now, lookup_id, queue = head.split(b" ")
        if not (deadline.isdigit() and now.isdigit()):
            raise ValueError("no times")
        return cls(
            slot.decode(), int(sequence), incarnation, fence, deadline, now, lookup_id, queue.decode(), record
        )

    def is_fresh(self, awake_at: float) -> bool:
        """Is more than half of the lease left, if the message was locked at ``awake_at`` on the monotonic clock?"""
        lease_ms = int(self.deadline_ms) - int(self.now_ms)
        return 2 * 1000 * (monotonic() - awake_at) < lease_ms

    def is_for(self, run: Run, call: Call[Any]) -> bool:
        """Is it the reply to this call? It may be meant for an earlier wait, or for an earlier use of the slot."""
        addressee = (self.slot, self.sequence, self.queue_key)
        return addressee == (run.slot.name, run.slot.last + 1, call.keys.keys[MESSAGE_SCRIPT_PARTS])

    def reply(self) -> list[Any]:
        """What lua/receive.lua answers to a lock of one message: no earlier lock was lost."""
        history, lost = self.fence, b"0"  # a fence is the history number of the call that locked
        return [
            OK, self.incarnation, history, self.fence, self.deadline_ms, self.now_ms, lost,
            self.lookup_id, LOCKED_ONCE, self.record,
        ]  # fmt: skip


def take_reply(core: Core, run: Run, call: Call[Any] | None, awake_at: float) -> Reply | None:
    """Return the reply to ``call``, the next call of ``run``, if a notification has carried it; forget it then.

    ``awake_at`` is when this process is known to have been awake and waiting, on the clock of ``time.monotonic()``. If
    more than half of the lease has passed since, the process may have been suspended: then the call is made, and its
    reply says how much of the lease is left.
    """
    wake = run.wake
    if wake is None or wake.handoff is None:
        return None
    # To drop it loses nothing: the slot keeps the reply for the next call.
    text, wake.handoff = wake.handoff, None
    try:
        handoff = Handoff.parse(text)
    except ValueError:
        return None
    if call is None or not handoff.is_fresh(awake_at) or not handoff.is_for(run, call):
        return None
    # The history was right when the notification came. It is not compared: other calls of this process may have been
    # answered since, and the nodes of a cluster pass notifications on.
    reply = core.accept(handoff.reply(), 0, remember=False)
    run.slot.last += 1
    return reply
