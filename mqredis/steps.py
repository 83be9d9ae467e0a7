"""What an operation may ask of a driver.

An operation is a generator: it yields one of these steps and is sent the answer. It never touches a clock,
a socket or a thread; the two drivers (sync, asyncio) do. So the logic of look, sleep, look exists once.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic, TypeVar

from mqredis.errors import InvariantBroken, MqError
from mqredis.keys import KeySet
from mqredis.models import Durability

#: What reading an answer of other types, shape or length than its script gives may end in.
_SENSELESS = (ArithmeticError, AttributeError, LookupError, StopIteration, TypeError, ValueError)

T = TypeVar("T")
R = TypeVar("R")

#: One argument of a script.
Arg = str | bytes | int
#: The payload of a script's reply: everything behind status, incarnation and history.
Payload = list[bytes]
#: Status and payload of a reply.
Answer = tuple[int, Payload]


@dataclass(slots=True)
class Call(Generic[T]):
    """One run of one script.

    The driver adds the operation token in front of ``args`` (ARGV[1] slot, ARGV[2] sequence), sends
    ``EVALSHA``, checks the reply's incarnation and history number, and answers with ``(status, payload)``.
    ``changes`` tells whether the script changes state: then the driver retries with the same token.
    """

    script: str
    keys: KeySet
    args: Sequence[Arg]
    parse: Callable[[int, Payload], T]
    changes: bool = True
    #: So many of ``args`` are the same in most calls, at the beginning and at the end: a driver may keep them packed.
    fixed: int = 0
    ending: int = 0


class Way(Generic[T]):
    """What the calls of a kind on a queue have in common: all arguments but ``count``, from the place ``at`` on.

    Made from one of them, whatever it has there. A driver keeps it packed (docs/decisions/0041).
    """

    __slots__ = ("count", "few", "form", "keys", "left", "packed", "parse", "rings", "script", "words")

    def __init__(self, call: Call[T], at: int, count: int) -> None:
        self.script = call.script
        self.keys = call.keys
        self.parse = call.parse
        self.count = count
        #: What comes before the arguments that differ, and what comes behind them.
        self.words = tuple(call.args[:at]), tuple(call.args[at + count :])
        #: The form of the script that it is packed for, and the request with places for all that differs.
        self.form: object = None
        self.packed = b""
        #: May it wake a reader?
        self.rings = call.script == "send"
        #: Does it name only a few keys, and may be answered that this is not enough?
        self.few = call.script == "send_plain"
        #: So many more calls go this way; 0: any number.
        self.left = 0

    def call(self, differing: Sequence[bytes]) -> Call[T]:
        """The whole call. It changes something: those that do not need no short way."""
        before, after = self.words
        return Call(
            self.script, self.keys, (*before, *differing, *after), self.parse, True, len(before), len(after)
        )


#: A call that somebody has made, and what was answered: an operation that is given it does not make it again, and
#: checks nothing again either, since it is done.
Asked = tuple[Call[Any], Answer]


@dataclass(slots=True)
class Durable:
    """Run a call, then wait until what it changed has got as far as ``level``; answered as the call is.

    The wait is on the same connection, directly behind the script. The driver fills in the rest.
    """

    call: Call[Any]
    level: Durability
    #: It did not get so far in time: the level that is certain, the replicas that have it, the call's token.
    reached: Durability | None = None
    replicas: int = 0
    token: str = ""


class Woken(Enum):
    """Why a wait ended."""

    RUNG = "rung"  # the doorbell rang, or something may have been missed: look again
    TIMED_OUT = "timed out"  # the nap is over
    CANCELLED = "cancelled"  # the scope was closed in this process


@dataclass(slots=True)
class Listen:
    """Subscribe to the doorbell of this operation's slot, before the look that registers the waiter.

    Answered with the mode the ringer must use: ``"k"`` keyspace notification, ``"p"`` publish on the very
    same channel, ``""`` nobody can ring: the driver naps for a short poll period instead.
    """


@dataclass(slots=True)
class Wait:
    """Sleep until the doorbell rings, at most ``nap`` seconds (None: the re-check period decides).

    ``scopes`` name what may be closed under the wait (a handle, a cursor); that ends it with CANCELLED.
    ``look``: the call that the operation makes next if the bell rings, where that is known before the wait. A driver
    may send it as soon as it hears the bell, and go on with the operation while the server works on it.
    Answered with a :class:`Woken`, or with what that call is answered with, if whoever rang has made it.
    """

    nap: float | None
    scopes: tuple[object, ...] = ()
    look: Call[Any] | None = None


@dataclass(slots=True)
class Now:
    """Answered with the driver's monotonic clock in seconds. Only differences mean anything."""


#: One for all, since there is nothing to say.
NOW = Now()


@dataclass(slots=True)
class Command:
    """A plain command of the server that may be repeated, for probes and reports; never one that changes messages.

    Answered with its reply, or with :class:`Refused` if the server does not know or allow it.
    """

    args: tuple[Arg, ...]


@dataclass(slots=True)
class Refused:
    """Why a :class:`Command` was not carried out; ``forbidden``: for want of permission."""

    text: str
    forbidden: bool


@dataclass(slots=True)
class Interrupted:
    """Answered with the token of the call that was under way when the caller was cancelled; "" if none was.

    ``known``: that token, once it is known what became of the call: the operation goes on in the slot of the call.
    """

    known: str = ""


#: Where the exception that has interrupted a call without an operation has the token of that call.
CUT_OFF = "mqredis_call"

Step = Call[Any] | Durable | Listen | Wait | Now | Command | Interrupted
Operation = Generator[Step, Any, R]


def perform(call: Call[T]) -> Operation[T]:
    """Run one script and parse what it answered."""
    status, payload = yield call
    return understand(call, status, payload)


def understand(call: Call[T] | Way[T], status: int, payload: Payload) -> T:
    """What an answer means: raises the error that a refusal stands for, InvariantBroken if it makes no sense."""
    try:
        return call.parse(status, payload)
    except MqError:
        raise
    except _SENSELESS as error:
        raise InvariantBroken(f"{call.script} answered {str(payload)[:80]}: {error!r:.200}") from error
