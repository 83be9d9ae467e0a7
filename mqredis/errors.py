"""The exception tree: one class per outcome a caller can act on.

All packages of mqredis raise these; callers import them from ``mqredis``. ``commands.replies`` makes the error of a
status (``error_for``), and so do ``drivers.core`` and some operations; ``cli.exits`` and the console have exit codes
and pages for classes of errors. ``worker.outcomes.BROKER_ERRORS`` has those that are no failed attempt of a message.

Every class carries ``status`` (a :class:`~mqredis.status.Status`) and is also a child of a builtin where one fits, so
that code which knows nothing of us can still catch ``TimeoutError`` or ``LookupError``. The docstring of a class is its
default message.

A new error: "a new refusal of a send" in CONTRIBUTING.md. Tests fail until it is public (``mqredis/__init__.py``) and
has a row in ``docs/errors.md``.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any, ClassVar

from mqredis.status import Status


class MqError(Exception):
    """The broker refused the operation."""

    status: ClassVar[Status | int] = Status.INVALID_PARAMETER
    mqrc: ClassVar[int | None] = None
    """The reason code (MQRC) with which IBM MQ says the same, where it does."""

    def __init__(self, message: str = "", **details: Any) -> None:
        text = message or (type(self).__doc__ or "").strip().splitlines()[0]
        super().__init__(text)
        self.details = details
        if "status" in details:
            self.status = details["status"]  # type: ignore[misc]  # of this error alone
        if "mqrc" in details:
            self.mqrc = details["mqrc"]  # type: ignore[misc]  # of this error alone


class InvalidArgument(MqError, ValueError):
    """An argument is outside its allowed range; nothing was changed."""

    status = Status.INVALID_PARAMETER


class InvalidName(InvalidArgument):
    """A queue, subqueue or manager name is not allowed."""

    status = Status.ILLEGAL_QUEUE_PATHNAME


class InvalidHandle(MqError, ValueError):
    """The handle, cursor or lock is closed or belongs to another queue."""

    status = Status.INVALID_HANDLE


class IoTimeout(MqError, TimeoutError):
    """No message became available in time."""

    status = Status.IO_TIMEOUT
    mqrc = 2033


class MessageNotFound(MqError, LookupError):
    """No such message is in the queue, or none matches."""

    status = Status.MESSAGE_NOT_FOUND
    mqrc = 2033


class MessageAlreadyReceived(MqError, LookupError):
    """The message under the cursor is no longer available: another reader took or locked it."""

    status = Status.MESSAGE_ALREADY_RECEIVED
    mqrc = 2034


class MessageLocked(MqError):
    """A reader or a transaction has locked the message, or it is delayed."""

    status = Status.MESSAGE_LOCKED_UNDER_TRANSACTION


class IllegalCursorAction(MqError):
    """The cursor is not in a state that allows this action: peek the current message first."""

    status = Status.ILLEGAL_CURSOR_ACTION


class TransactionUsage(MqError):
    """The operation may not be used in this way with a transaction."""

    status = Status.TRANSACTION_USAGE


class TransactionSequence(MqError):
    """The transaction is unknown, finished or was rolled back; or it was enlisted twice."""

    status = Status.TRANSACTION_SEQUENCE


class TransactionTooLarge(MqError):
    """The transaction holds as many operations as one unit of work may have."""

    status = Status.TRANSACTION_TOO_LARGE


class NotSupported(MqError):
    """The broker does not offer this."""

    status = Status.XACT_E_NOTSUPPORTED


class QueueNotAvailable(MqError, LookupError):
    """The queue behind this handle was deleted."""

    status = Status.QUEUE_NOT_AVAILABLE
    mqrc = 2052


class QueueNotFound(MqError, LookupError):
    """There is no queue of this name."""

    status = Status.QUEUE_NOT_FOUND


class QueueExists(MqError):
    """A queue of this name exists already."""

    status = Status.QUEUE_EXISTS


class OperationCancelled(MqError):
    """The wait was cancelled: by tag, or because its handle or cursor was closed."""

    status = Status.OPERATION_CANCELLED


class WaiterNotFound(MqError, LookupError):
    """No reader waits under this tag."""

    status = Status.STATUS_NOT_FOUND


class SharingViolation(MqError, PermissionError):
    """Another open handle does not allow this access or share mode."""

    status = Status.SHARING_VIOLATION
    mqrc = 2042


class AccessDenied(MqError, PermissionError):
    """The handle was not opened with the access this operation needs."""

    status = Status.ACCESS_DENIED


class UnsupportedAccess(MqError, ValueError):
    """This kind of name cannot be opened with this access or share mode."""

    status = Status.UNSUPPORTED_FORMATNAME_OPERATION


class EnqueueRefused(MqError):
    """Enqueue Message refused the message (MS-MQDMPR 3.1.7.1.9)."""

    status = Status.INSUFFICIENT_RESOURCES
    enqueue_status: ClassVar[int] = 0
    """The published number: 1 queue quota, 2 queue manager quota or throttle, 3 timed out on the way."""


class QueueQuotaExceeded(EnqueueRefused):
    """The message would exceed the quota of the queue."""

    status = Status.ENQUEUE_QUEUE_QUOTA
    mqrc = 2053
    enqueue_status = 1


class ManagerQuotaExceeded(EnqueueRefused):
    """The message would exceed the quota of the queue manager, or the manager is throttled."""

    status = Status.ENQUEUE_MANAGER_QUOTA
    enqueue_status = 2


class MessageTimedOut(EnqueueRefused, TimeoutError):
    """The message's time to reach the queue had passed before it arrived."""

    status = Status.ENQUEUE_TIMED_OUT
    enqueue_status = 3


class MessageTooLarge(EnqueueRefused, ValueError):
    """The message is larger than the queue takes."""

    status = Status.MESSAGE_TOO_LARGE
    mqrc = 2030


class PutInhibited(EnqueueRefused):
    """Sending to this queue is switched off."""

    status = Status.PUT_INHIBITED
    mqrc = 2051


class GetInhibited(MqError):
    """Reading from this queue is switched off."""

    status = Status.GET_INHIBITED
    mqrc = 2016


class DuplicateMessage(EnqueueRefused):
    """A message with this dedup key was accepted within the window."""

    status = Status.DUPLICATE


class LockLost(TransactionSequence):
    """The lock or transaction was granted to another client or lapsed; the call had no effect."""

    status = Status.LOCK_LOST


class ClaimLost(LockLost):
    """A data pipeline may not use this claim or sink (any more); ``details["why"]`` names the reason."""


class OutcomeUnknown(MqError, ConnectionError):
    """The reply was lost and the call may or may not have been carried out; ``resolve(token)`` tells."""

    status = Status.OUTCOME_UNKNOWN

    def __init__(self, message: str = "", *, token: str = "", **details: Any) -> None:
        super().__init__(message, **details)
        self.token = token


class SessionExpired(MqError):
    """The session of this client was not used for too long; the call was refused and had no effect."""

    status = Status.SESSION_EXPIRED


class HistoryRolledBack(MqError):
    """The server has forgotten changes that it had acknowledged (restart or failover without its log)."""

    status = Status.HISTORY_ROLLED_BACK


class ManagerNotFound(MqError, LookupError):
    """The queue manager's data are gone from the server (flushed, or another database)."""

    status = Status.MANAGER_NOT_FOUND


class SchemaTooNew(MqError):
    """The data were written by a newer mqredis: upgrade this client."""

    status = Status.SCHEMA_TOO_NEW


class SchemaTooOld(MqError):
    """The data were written by an older mqredis, and this one cannot read them: export each queue with that release
    (``mqredis export``), and import the files into a new queue manager with this one (``mqredis import``)."""

    status = Status.SCHEMA_TOO_OLD


class BrokerUnavailable(MqError, ConnectionError):
    """The Redis server cannot be reached or is not ready; nothing was changed by this call."""

    status = Status.BROKER_UNAVAILABLE


class BrokerFull(MqError):
    """The Redis server is at its memory limit; reading still works."""

    status = Status.BROKER_FULL


class BrokerRefused(MqError, PermissionError):
    """The Redis server refused the credentials or the command."""

    status = Status.BROKER_REFUSED


class ScriptsNotLoaded(BrokerRefused):
    """The server lacks a script of this release, and this user may not load it; nothing was done.

    ``mqredis scripts load`` loads all scripts: before the first start of a new release, and on a server before Redis 7
    after each of its restarts.
    """


class UnsafeServer(MqError):
    """The Redis server is too old, or set up in a way that would lose messages."""

    status = Status.UNSAFE_SERVER


class DurabilityNotReached(MqError):
    """The call was carried out, but within the time for it its change did not get as far as was asked."""

    status = Status.DURABILITY_NOT_REACHED

    def __init__(
        self,
        message: str = "",
        *,
        result: Any = None,
        wanted: str = "",
        reached: str = "",
        replicas: int = 0,
        token: str = "",
        **details: Any,
    ) -> None:
        super().__init__(message, **details)
        self.result = result
        """What the call would have returned; for a receive the list of its messages. The change is done: a repeated
        call would do it twice."""
        self.wanted = wanted
        """The level that was asked for."""
        self.reached = reached
        """The level that is certain."""
        self.replicas = replicas
        """Number of replicas that have confirmed the change."""
        self.token = token
        """Token of the last call that did not reach the level."""


class SelectorSyntaxError(InvalidArgument):
    """The selector is not valid."""

    status = Status.SELECTOR_SYNTAX
    mqrc = 2459

    def __init__(self, message: str = "", *, reason: str = "", position: int = 0, **details: Any) -> None:
        super().__init__(message, **details)
        self.reason = reason or str(self)
        """What is wrong."""
        self.position = position
        """Where it is wrong, in characters from the start of the selector, from 0."""


class MatchOptionsError(InvalidArgument):
    """The match options contradict each other."""

    status = Status.MATCH_OPTIONS
    mqrc = 2247


class GroupIncomplete(MqError):
    """The message group or logical message is not complete."""

    status = Status.GROUP_INCOMPLETE
    mqrc = 2241


class GroupInconsistent(MqError):
    """The operation does not fit the group that is open on this handle."""

    status = Status.GROUP_INCONSISTENT
    mqrc = 2245


class ScheduleNotFound(MqError, LookupError):
    """There is no schedule of this name."""

    status = Status.SCHEDULE_NOT_FOUND


class ScheduleExists(MqError):
    """A schedule of this name exists already."""

    status = Status.SCHEDULE_EXISTS


class ScheduleDeclared(MqError):
    """A worker that runs declares this schedule in its code: pause it, or take it out of the code first."""

    status = Status.SCHEDULE_DECLARED


class ScheduleDamaged(MqError):
    """The stored message of a schedule is missing or damaged: remove the schedule, and create it again."""

    status = Status.SCHEDULE_DAMAGED


class SealBroken(MqError):
    """A body cannot be opened: it is not sealed, with an unknown key, or was changed."""

    status = Status.SEAL_BROKEN

    def __init__(self, message: str = "", *, messages: Any = (), **details: Any) -> None:
        super().__init__(message, **details)
        self.messages = messages
        """What the call has read. Bodies that could not be opened are as they are stored. A receive has taken all of
        these messages, and a lock holds them until its lease lapses."""


class MissingDependency(MqError, ImportError):
    """A part of mqredis needs a package that is not installed, or a newer one."""

    @classmethod
    def of(cls, part: str, extra: str, error: ImportError) -> ImportError:
        """The error to raise after an import for ``part`` of mqredis has raised ``error``.

        ``extra`` brings the packages. If a module of mqredis itself is missing, the result is ``error`` unchanged.
        """
        if (error.name or "").partition(".")[0] == "mqredis":
            return error
        return cls(f"{part} needs more packages: pip install 'mqredis[{extra}]' ({error})")


class InvariantBroken(MqError):
    """The store breaks one of its invariants; run ``mqredis doctor``."""

    status = Status.INVARIANT_BROKEN


def lacks_right(error: object) -> bool:
    """Whether the server refused a command or a key of its user, and not the credentials."""
    return isinstance(error, BrokerRefused) and "NOPERM" in str(error)


def complaint(error: Any, fields: Iterable[str] = ()) -> str:
    """The first fault that a ``pydantic.ValidationError`` names: where it is, and what is wrong. Repeats no value.

    ``fields``: the names that the model has, of which one may have been meant.
    """
    first = error.errors(include_url=False, include_input=False)[0]
    where = ".".join(map(str, first["loc"]))
    if first["type"] == "extra_forbidden":
        return f"{where!r:.60} does not exist{did_you_mean(where, fields)}"
    text = str(first["msg"]).removeprefix("Value error, ")  # which pydantic puts before errors of validators
    return f"{where}: {text}" if where else text


def did_you_mean(name: str, fields: Iterable[str]) -> str:
    """The end of an error about a name that does not exist: the one of ``fields`` that may have been meant."""
    known = list(fields)
    meant = get_close_matches(name, known, 1) or [field for field in known if name and field.startswith(name)]
    return f": did you mean {meant[0]!r}?" if meant else ""


def _by_status() -> dict[int, type[MqError]]:
    """The class of each status. Of a class and its subclasses with one status it is the class."""
    table: dict[int, type[MqError]] = {}
    stack: list[type[MqError]] = [MqError]
    while stack:
        cls = stack.pop()
        stack.extend(cls.__subclasses__())
        if "status" in cls.__dict__:
            table.setdefault(int(cls.status), cls)
    # Statuses of several classes, or of none.
    table[int(Status.INVALID_PARAMETER)] = InvalidArgument
    table[int(Status.STATUS_INVALID_PARAMETER)] = InvalidArgument
    table[int(Status.UNSUPPORTED_ACCESS_MODE)] = UnsupportedAccess
    table[int(Status.TOKEN_REUSED)] = SessionExpired
    return table


_TABLE = _by_status()


def error_for(status: int, message: str = "", **details: Any) -> MqError:
    """The exception for ``status``."""
    cls = _TABLE.get(status, MqError)
    if int(cls.status) != status:
        details["status"] = Status(status) if status in Status._value2member_map_ else status
    return cls(message, **details)
