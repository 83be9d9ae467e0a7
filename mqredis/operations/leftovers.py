"""What calls without a result have left at the server: open handles, and temporary reply queues.

``handle`` and ``request`` note in ``Context.leftovers`` how to remove it, and do that before the client next opens a
queue or makes a request. When the client is closed that is only done if it has made requests
(``shutdown.holds_anything``), since handles end with the session. ``wait``, ``pipelines``, ``several`` and ``shutdown``
ask which errors are UNREACHABLE.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from mqredis.commands import manager
from mqredis.errors import BrokerUnavailable, MqError, OutcomeUnknown, QueueNotFound, SessionExpired
from mqredis.operations.context import Context
from mqredis.steps import Call, Interrupted, Operation, OutcomeKnown, Steps, perform, procedure

T = TypeVar("T")

# Makes the operation that removes what was left.
Removal = Callable[[], Operation[Any]]

# Errors of a server that does not answer: another call now would wait for it again.
UNREACHABLE = (BrokerUnavailable, OutcomeUnknown)


@procedure
def undone_unless_returned(context: Context, call: Call[T], undo: Removal) -> Steps[T]:
    """Make a call. If its reply is lost, ask later whether it was made, and undo it if so."""
    try:
        return (yield from perform(call))
    except OutcomeUnknown as error:
        context.leftovers.append((error.token, undo))
        raise
    except (GeneratorExit, MqError):
        raise
    except BaseException:
        token = yield Interrupted()
        if token:
            context.leftovers.append((token, undo))
        raise


@contextmanager
def removed_later(context: Context, removal: Removal) -> Iterator[None]:
    """If the block is interrupted, or the server does not answer, the removal is carried out later."""
    try:
        yield
    except BaseException as error:
        if not isinstance(error, MqError) or isinstance(error, UNREACHABLE):
            context.leftovers.append(("", removal))
        raise


@procedure
def remove(context: Context) -> Steps[None]:
    """Carry out the removals that were noted. One that the broker refuses is dropped, and its error raised."""
    while True:
        try:
            token, removal = context.leftovers.popleft()
        except IndexError:
            return  # another thread may have taken the last one
        try:
            made = True
            if token:
                made = (yield from perform(manager.resolve(context.keys, token))).outcome != "never"
                yield OutcomeKnown(token)
            if made:
                yield from removal()
        except (QueueNotFound, SessionExpired):
            continue  # it has gone already
        except BaseException as error:
            if not isinstance(error, MqError) or isinstance(error, UNREACHABLE):
                context.leftovers.append((token, removal))
            raise
