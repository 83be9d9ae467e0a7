"""An operation whose permanent changes wait until they have reached a level of durability.

``drivers.calls`` and ``drivers.calls_aio`` wrap the operations of a client whose settings name a level, and the methods
of both interfaces with ``durability=`` do so. A driver sets the fields of ``Durable`` that are read here. An operation
may be wrapped twice, by its call and for the settings: the level of the call counts, since a ``Durable`` passes as it
is.

Change together with: ``worker.outcomes``, which reads ``__cause__`` of DurabilityNotReached, and
``drivers.coalescing``, which takes its ``result`` apart.
"""

from __future__ import annotations

from typing import Any, TypeVar

from mqredis.errors import DurabilityNotReached, InvalidArgument, IoTimeout, MqError
from mqredis.models import Durability
from mqredis.operations.durability.changes import permanent
from mqredis.operations.unit_of_work import UnitOfWork
from mqredis.steps import Call, Durable, Operation, Steps, Wait, procedure

R = TypeVar("R")


def _level_of(value: Any) -> Durability:
    """Check a level that a caller gave. Raises InvalidArgument."""
    try:
        return Durability(value)
    except ValueError:
        names = ", ".join(Durability)
        raise InvalidArgument(f"durability must be one of {names}, not {value!r:.40}") from None


def durably(operation: Operation[R], level: Durability | str, unit: UnitOfWork | None = None) -> Operation[R]:
    """Make the permanent changes of an operation wait for ``level``.

    The operation raises DurabilityNotReached, which holds the result, when everything is done but has not reached the
    level in time; and UnsafeServer, before anything is done, if the server does not offer the level.
    """
    chosen = _level_of(level)
    if unit is not None:
        raise InvalidArgument("in a transaction nothing is final before its commit: give durability to that")
    return _waiting(operation, chosen)


@procedure
def _waiting(operation: Operation[R], level: Durability) -> Steps[R]:
    """Pass on the steps of the operation, with a Durable in place of each permanent call."""
    short: Durable | None = None
    steps = iter(operation)
    answer: Any = None
    error: BaseException | None = None
    try:
        while True:
            step: Any = steps.send(answer) if error is None else steps.throw(error)
            answer = error = None
            if type(step) is Call and permanent(step):
                step = Durable(step, level)
            elif type(step) is Wait and step.call is not None and permanent(step.call):
                step.call = None  # the call follows as a Durable step, so no handoff may replace it
            try:
                answer = yield step
            except GeneratorExit:
                raise
            except BaseException as raised:  # noqa: BLE001 - handed to the operation
                error = raised
            if type(step) is Durable and step.fell_short_at is not None:
                short = step
    except StopIteration as stop:
        result: R = stop.value
    except IoTimeout as nothing:
        if short is None:
            raise
        # The read settled earlier locks, which did not reach the level: the caller has to know that first.
        raise _not_reached(short, None) from nothing
    except MqError as refused:
        if short is not None:
            refused.add_note(str(_not_reached(short, None)))
        raise
    finally:
        steps.close()
    if short is not None:
        raise _not_reached(short, result)
    return result


def _not_reached(short: Durable, result: object) -> DurabilityNotReached:
    have = f"; {short.replicas} replica(s) have it" if short.level != Durability.FSYNC else ""
    return DurabilityNotReached(
        f"{short.call.script} was carried out and is not to be repeated, but in the time for it it got no further than "
        f"{short.fell_short_at!s}, {short.level!s} was asked for{have}",
        result=result,
        wanted=str(short.level),
        reached=str(short.fell_short_at),
        replicas=short.replicas,
        token=short.token,
    )
