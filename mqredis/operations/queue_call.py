"""Calls that may need more queues than they name: journals, dead letters, administration queues, subscribers.

Most operations on messages and most actions of operators are a ``QueueCall``. ``send``, ``receive`` and ``settle`` call
``complete`` themselves; ``transaction``, ``pipelines`` and the deletion of a queue repeat their calls by themselves and
use ``provide``.

Such a script answers KEYS_CHANGED and names these queues before it has changed anything (``context.require`` in
lua/core/context.lua). Those that the broker keeps by itself are created then, all are added to what the handle names,
and the script runs again. A script that names none wants to be called again with all keys of the queue: it found more
timers due than it serves at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from mqredis.commands import queues
from mqredis.commands.address import Address
from mqredis.commands.replies import OK, names_in
from mqredis.errors import error_for
from mqredis.keys import ManagerKeys
from mqredis.operations import refusals
from mqredis.status import Status
from mqredis.steps import MORE, Call, More, Operation, Reply, Steps, perform, understand

R = TypeVar("R")
# A name of its own, since reading a member of an enumeration costs as much as a function call.
KEYS_CHANGED = int(Status.KEYS_CHANGED)
# Repetitions that name queues: each names more, so a few are enough. Those that name none are not counted: each serves
# some of the due timers, and the script asks for no other one when none is left.
ROUNDS = 16


def provide(manager: ManagerKeys, paths: Sequence[str], subqueues: bool = False) -> Steps[None]:
    """Create those of these queues that the broker maintains (:func:`mqredis.keys.kept_by_broker`); with ``subqueues``
    all subqueues."""
    call = queues.ensure(manager, paths, subqueues)
    if call.args:
        yield from perform(call)


def complete(
    operation: Operation[Any],
    address: Address,
    call: Call[R],
    reply: Reply,
    key: str | None = None,
    subqueues: bool = False,
) -> Steps[R]:
    """Repeat the call of ``operation`` with more queues for as long as its reply asks for them. Returns the result.

    It also takes a ``reply`` that asks for nothing, and raises the error that a refusal stands for, which names the
    queue and what to do. ``key``: dedup key of the message that the call sends; ``subqueues``: as of :func:`provide`.
    """
    rounds = 0
    while reply[0] == KEYS_CHANGED:
        paths = names_in(reply[1])
        if paths:
            rounds += 1
            yield from provide(address.manager, paths, subqueues)
            address.bring(paths, forget=rounds == 1)
        if rounds == ROUNDS:
            raise error_for(Status.QUEUE_NOT_AVAILABLE, f"the queues beside {address.path!r} change too fast")
        call.keys = address.call
        reply = yield from operation.make(call)
    try:
        return understand(call, reply)
    except refusals.EXPLAINED as error:
        raise refusals.explained(error, call, address, key) from None


class QueueCall(Operation[R]):
    """One call on the queues of an address. ``subqueues``: as of :func:`provide`."""

    __slots__ = ("address", "call", "subqueues")

    def __init__(self, address: Address, call: Call[R], subqueues: bool = False) -> None:
        self.address = address
        self.call = call
        self.subqueues = subqueues

    def request(self) -> Call[R]:
        """The call with the queues that are known so far."""
        return self.call

    def accept(self, reply: Reply) -> R | More:
        """The parsed reply; MORE if the script needs more queues or has refused the call."""
        return understand(self.call, reply) if reply[0] == OK else MORE

    def resume(self, reply: Reply | None) -> Steps[R]:
        """Add the queues that the script needs, and repeat the call. Raises the error of a refusal."""
        completed = complete(self, self.address, self.call, reply, subqueues=self.subqueues)  # type: ignore[arg-type]  # `request` returns a call
        return (yield from completed)
