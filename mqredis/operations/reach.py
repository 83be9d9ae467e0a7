"""Scripts that need more queues than they were given: journals, dead letters, administration queues, subscribers.

Such a script says so before it has changed anything (KEYS_CHANGED). The queues that the broker keeps by itself are
created then, all are added to what the handle names, and the script runs again. One that names none wants to be called
again with all keys of the queue: a plain send, or one that found more timers due than it serves at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from mqredis import keys
from mqredis.commands import queues
from mqredis.commands.common import Address, text
from mqredis.errors import error_for
from mqredis.keys import ManagerKeys
from mqredis.status import Status
from mqredis.steps import Answer, Call, Operation, perform, understand

R = TypeVar("R")
#: By itself: a look into an enumeration costs as much as a call.
_KEYS_CHANGED = int(Status.KEYS_CHANGED)
#: Each of these rounds names more queues, so a few are enough; more would be a circle.
ROUNDS = 16


def provide(manager: ManagerKeys, paths: Sequence[str]) -> Operation[None]:
    """Create those of these queues that the broker keeps by itself."""
    if any(keys.kept(path) for path in paths):
        yield from perform(queues.ensure(manager, paths))


def reach(address: Address, call: Call[R], answer: Answer | None = None) -> Operation[R]:
    """Run a script on the queues of ``address``, with as many others as it asks for. ``answer``: the first one, for
    who has asked before."""
    rounds = 0
    while rounds < ROUNDS:
        status, payload = (yield call) if answer is None else answer
        answer = None
        if status != _KEYS_CHANGED:
            return understand(call, status, payload)
        paths = [keys.decode(text(item)) for item in payload]
        if paths:
            rounds += 1
            yield from provide(address.manager, paths)
            address.bring(paths)
        call.keys = address.call
    raise error_for(Status.QUEUE_NOT_AVAILABLE, f"the queues beside {address.path!r} change too fast")
