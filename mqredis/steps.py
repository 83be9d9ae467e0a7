"""The protocol between operations and drivers: operations, and the steps that they yield.

All operations, commands and drivers use it. Workers, Spark and the console make single calls and commands with
``perform``, ``procedure`` and ``Command``, and ``prometheus.meter`` wraps operations.

An operation never touches a socket, a thread or an event loop: it makes requests and reads replies. The blocking and
the asyncio driver run every operation in the same way, and know nothing about the kinds of operations.

What takes several steps is a generator (:data:`Steps`). It yields a step; the driver carries that out and sends the
answer, which is the value of the ``yield``; or it throws the error of the step there::

    step             answer
    Call             its Reply: status and payload, not parsed
    Durable          the Reply of its call
    Listen           how a script notifies this operation: "k", "p" or ""
    Wait             a Woken, or the Reply of its call if a lock was handed over
    Command          what the server has answered, or a Refused
    Interrupted      the token of the interrupted call, or ""
    OutcomeKnown     None
    TimeLimit        None

Operations yield few calls themselves: ``found = yield from perform(call)`` makes a call and is its parsed result,
``yield from QueueCall(address, call)`` does so for a call on a queue (``operations.queue_call``), ``plain_command`` for
a command that must not be refused, and ``yield from other_operation`` runs another operation as a part of this one. A
generator that gets GeneratorExit was dropped and must not yield any more: a clean-up of several steps is left out then.

Change together with: ``AsyncCalls._step`` in ``drivers/calls_aio.py``, which has a branch for each kind of step, and
``docs/extending.md``, which describes operations to users.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import wraps
from typing import Any, Final, Generic, ParamSpec, TypeVar

from mqredis.errors import BrokerRefused, InvariantBroken, MqError
from mqredis.keys import KeySet
from mqredis.models import Durability

# Errors that reading a reply of the wrong types, shape or length may end in.
_UNREADABLE = (ArithmeticError, AttributeError, LookupError, StopIteration, TypeError, ValueError)

T = TypeVar("T")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
P = ParamSpec("P")

# One argument of a script. Numbers are given as texts, since hiredis (3.5) crashes when a signal handler raises while
# it packs a number.
Arg = str | bytes
# The payload of a script's reply: everything behind status, incarnation and history.
Payload = list[bytes]
# Status and payload of a reply.
Reply = tuple[int, Payload]


@dataclass(slots=True)
class Call(Generic[T]):
    """One run of one script.

    The driver adds the operation token in front of ``args`` (ARGV[1] slot, ARGV[2] sequence), sends ``EVALSHA`` or
    ``FCALL``, checks the reply's incarnation and history number, and returns ``(status, payload)``. ``changes`` tells
    whether the script changes state: then the driver repeats it with the same token.
    """

    script: str
    keys: KeySet
    args: Sequence[Arg]
    parse: Callable[[int, Payload], T]
    changes: bool = True


@dataclass(slots=True)
class Durable:
    """Run a call, then wait until its change has reached ``level``; the answer is the reply of the call.

    The wait is on the same connection, directly behind the script. The driver fills in the other fields.
    """

    call: Call[Any]
    level: Durability
    fell_short_at: Durability | None = None
    """The lower level that the change has reached in the time for it. None: it has reached ``level``, or there was no
    change."""
    replicas: int = 0
    """How many replicas have the change, as far as that was asked."""
    token: str = ""
    """The operation token of the call."""


class Woken(Enum):
    """Why a wait ended."""

    NOTIFIED = "notified"  # the wake channel was notified, or something may have been missed: fetch again
    TIMED_OUT = "timed out"  # the time is over
    CANCELLED = "cancelled"  # the scope was closed in this process


@dataclass(slots=True)
class Listen:
    """Subscribe to the wake channel of this operation's slot, before the call that registers the waiter.

    The answer is the mode that a notifier must use: ``"k"`` keyspace notification, ``"p"`` publish on the same
    channel, ``""`` notifications are not possible: the driver then sleeps for a short poll period instead.
    """


@dataclass(slots=True)
class Wait:
    """Sleep until the wake channel is notified, at most ``seconds`` seconds (None: the re-check period decides).

    ``scopes`` name what may be closed during the wait (a handle, a cursor); that ends it with CANCELLED.
    ``call``: the call that the operation makes next, where it is known before the wait. A sender may hand a lock to
    this waiter directly, and then the answer is the reply of that call. Otherwise the answer is a :class:`Woken`.
    """

    seconds: float | None
    scopes: tuple[object, ...] = ()
    call: Call[Any] | None = None


@dataclass(slots=True)
class Command:
    """A plain command of the server that may be repeated, for probes and reports; never one that changes messages.

    The answer is its reply, or a :class:`Refused` if the server does not know or allow it.
    """

    args: tuple[Arg | int, ...]


@dataclass(slots=True)
class Refused:
    """Why a :class:`Command` was not carried out; ``forbidden``: a permission is missing."""

    text: str
    forbidden: bool


@dataclass(slots=True)
class Interrupted:
    """The caller was cancelled or interrupted; the answer is the token of the call that was under way, or ""."""


@dataclass(slots=True)
class OutcomeKnown:
    """The outcome of the interrupted call with this token is known: the operation continues in the slot of that
    call."""

    token: str


@dataclass(slots=True)
class TimeLimit:
    """From now on all calls of the operation together may be tried for so many seconds and the time of one reply, in
    which it ends its wait, or for ``retry_seconds`` if that is more. Each call may be tried for ``retry_seconds``, with
    or without it."""

    seconds: float


Step = Call[Any] | Durable | Listen | Wait | Command | Interrupted | OutcomeKnown | TimeLimit
# The part of an operation that takes several steps. The answers are of different types, which is why they are Any.
Steps = Generator[Step, Any, R]


class More(Enum):
    """The type of :data:`MORE`."""

    MORE = "more"


# ``accept`` returns it if a reply is not the result yet, and ``resume`` has to go on.
MORE: Final = More.MORE


class Operation(Generic[R_co]):
    """What a caller wants done, in four parts.

    Most operations are one call, and its reply is their result: ``request`` and ``accept`` are all that runs then. None
    of the parts is abstract, since an operation has only those that it uses: one without a first call accepts nothing,
    and a base class may have ``accept`` alone.
    ``yield from operation`` runs an operation as a part of another one.
    """

    __slots__ = ()

    @property
    def name(self) -> str:
        """What is done, for logs and metrics."""
        return type(self).__name__.lower()

    @property
    def shareable(self) -> Shareable[R_co] | None:
        """This operation, if the asyncio driver may carry it out in one call with others of its class."""
        return None

    def request(self) -> Call[Any] | None:
        """The first call. None: ``resume`` has something to do before it, such as listening to the wake channel."""
        raise NotImplementedError

    def accept(self, reply: Reply) -> R_co | More:
        """The result, read from the reply of the first call, or MORE. Changes nothing before it has decided.

        Raises the error that a refusal stands for.
        """
        raise NotImplementedError

    def resume(self, reply: Reply | None) -> Steps[R_co]:
        """The rest after MORE; with None everything, after ``request`` returned None."""
        raise NotImplementedError

    def interrupted(self, call: Call[Any], token: str) -> Steps[None]:  # noqa: ARG002
        """Clean up after the caller was cancelled or interrupted while ``call``, with this token, was under way."""
        yield from ()

    def make(self, call: Call[Any]) -> Steps[Reply]:
        """Make one call of this operation; clean up if the caller is interrupted meanwhile."""
        try:
            reply: Reply = yield call
        except (GeneratorExit, MqError):
            raise
        except BaseException:
            token: str = yield Interrupted()
            if token:
                yield from self.interrupted(call, token)
            raise
        return reply

    def __iter__(self) -> Steps[R_co]:
        call = self.request()
        if call is None:
            return (yield from self.resume(None))
        reply = yield from self.make(call)
        result = self.accept(reply)
        return (yield from self.resume(reply)) if result is MORE else result


class Shareable(Operation[R_co], ABC):
    """An operation that the asyncio driver may carry out in one call with those of other tasks."""

    __slots__ = ()

    @property
    @abstractmethod
    def batchers(self) -> dict[type, Any]:
        """What the driver keeps for the queue of this operation, by class of operation."""

    @classmethod
    @abstractmethod
    def fitting(cls, operations: Sequence[Any]) -> int:
        """How many of these operations, from the first on, one call takes: one at least."""

    @classmethod
    @abstractmethod
    def joined(cls, operations: Sequence[Any]) -> Operation[Sequence[R_co | Exception]]:
        """One operation for all of these: a result or an error for each."""


class SingleCall(Operation[T]):
    """One run of one script, whose reply is the result."""

    __slots__ = ("call",)

    def __init__(self, call: Call[T]) -> None:
        self.call = call

    def request(self) -> Call[T]:
        """The call."""
        return self.call

    def accept(self, reply: Reply) -> T:
        """The parsed reply."""
        return understand(self.call, reply)


# What generators call it: ``found = yield from perform(call)``.
perform = SingleCall


def plain_command(*args: Arg | int) -> Steps[Any]:
    """The reply to a plain command. Raises BrokerRefused if the server does not know or allow it."""
    reply = yield Command(args)
    if isinstance(reply, Refused):
        raise BrokerRefused(f"the server refused {args[0]!s}: {reply.text}")
    return reply


class Procedure(Operation[R]):
    """An operation of several steps, written as a generator."""

    __slots__ = ("_steps",)

    def __init__(self, steps: Steps[R]) -> None:
        self._steps = steps

    @property
    def name(self) -> str:
        """The name of the function that wrote the steps."""
        return str(getattr(self._steps, "__name__", "procedure"))

    def request(self) -> None:
        """Its calls are among its steps."""

    def resume(self, _reply: Reply | None) -> Steps[R]:
        """The steps."""
        return self._steps

    def __iter__(self) -> Steps[R]:
        return self._steps


def procedure(function: Callable[P, Steps[R]]) -> Callable[P, Operation[R]]:
    """Make an operation of each generator that a function returns."""

    @wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> Operation[R]:
        return Procedure(function(*args, **kwargs))

    return wrapper


def understand(call: Call[T], reply: Reply) -> T:
    """Parse a reply. Raises the error of a refusal; InvariantBroken if the reply cannot be parsed."""
    try:
        return call.parse(reply[0], reply[1])
    except MqError:
        raise
    except _UNREADABLE as error:
        text = f"{call.script} answered {str(reply[1])[:80]}: {error!r:.200}"
        raise InvariantBroken(text) from error
