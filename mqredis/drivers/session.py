"""The pure half of a driver: sessions and their slots, what is known of the store, and one call's tries.

The drivers do the input and output; every decision about an outcome is taken here, once for both.
"""

from __future__ import annotations

import itertools
import re
import secrets
import threading
from enum import Enum, auto
from typing import Any

from mqredis import scripts
from mqredis.drivers.urls import redact
from mqredis.drivers.wire import Fault, as_text, bulk, fault_of, pack
from mqredis.errors import (
    BrokerFull,
    BrokerRefused,
    BrokerUnavailable,
    HistoryRolledBack,
    InvariantBroken,
    ManagerNotFound,
    MqError,
    OutcomeUnknown,
    error_for,
)
from mqredis.keys import ManagerKeys
from mqredis.settings import Settings
from mqredis.status import Status
from mqredis.steps import Call, Payload

#: Format of the data that this client reads and writes.
SCHEMA = 1
#: Tokens of unknown outcome that are remembered at most.
MAX_UNKNOWN = 1000
#: How often one call may get a new session or slot before we give up.
MAX_RENEWALS = 3

_BAND = 0xA0010000
_EXPIRED = int(Status.SESSION_EXPIRED)
_REUSED = int(Status.TOKEN_REUSED)
_GONE = int(Status.MANAGER_NOT_FOUND)
_TOO_NEW = int(Status.SCHEMA_TOO_NEW)
_ROLLED_BACK = int(Status.HISTORY_ROLLED_BACK)
_NO_SEQUENCE = bulk(b"")
_NO_TOKEN = bulk(b"") + bulk(b"")


#: A script that only servers from 7.0 on can run.
SHEBANG_PROBE = "#!lua flags=allow-oom\nreturn 1"


def parse_run_id(info: Any) -> str:
    """run_id out of the text of ``INFO server``."""
    found = re.search(r"run_id:(\w+)", as_text(info))
    return found.group(1) if found else ""


class Slot:
    """One place of a session: at most one call at a time, numbered 1, 2, 3..."""

    __slots__ = ("last", "name", "packed", "session")

    def __init__(self, session: Session, index: int) -> None:
        self.session = session
        self.name = f"{session.number}.{index}"
        self.packed = bulk(self.name.encode())
        #: The last sequence number that the server is known to have taken.
        self.last = 0

    def token(self) -> str:
        """Token of the call that is under way or comes next."""
        return f"{self.name}:{self.last + 1}"


class Session:
    """A session and its slots. The slot used last is given out first: its bell is subscribed already."""

    __slots__ = ("_count", "_free", "number")

    def __init__(self, number: str) -> None:
        self.number = number
        self._free: list[Slot] = []
        self._count = itertools.count(1)

    def take(self) -> Slot:
        """A slot that nobody uses."""
        try:
            return self._free.pop()
        except IndexError:
            return Slot(self, next(self._count))

    def give(self, slot: Slot) -> None:
        """Put a slot back. One whose last outcome is unknown must not come back."""
        self._free.append(slot)


class Run:
    """One operation under way: it holds one slot from start to end."""

    __slots__ = ("listening", "mark", "slot")

    def __init__(self, slot: Slot) -> None:
        self.slot = slot
        self.listening = False
        #: Position in the journal of cancellations when the present look began.
        self.mark = 0


class Core:
    """What a driver knows about the queue manager. Shared by all threads or tasks of one driver."""

    def __init__(self, settings: Settings, keys: ManagerKeys) -> None:
        self.settings = settings
        self.keys = keys
        self.admin = keys.admin()
        self.session: Session | None = None
        self.incarnation = ""
        self._incarnation = b""
        self.history = 0
        #: The server's run_id as of the last opening; "" where INFO is not available.
        self.run_id = ""
        #: Has any connection ever worked? Until then a dead address fails at once.
        self.reached = False
        self.unknown: list[str] = []
        self.proposal = secrets.token_hex(8)
        self.shebang: bool | None = None
        self._variants: dict[str, tuple[str, str]] = {}
        self._gone: str = ""
        self._lock = threading.Lock()

    def after_fork(self) -> None:
        """In a child: the parent's session stays the parent's."""
        self._lock = threading.Lock()
        self.session = None
        self.unknown = []

    # ---- scripts ---------------------------------------------------------------------------------

    def script(self, name: str) -> tuple[str, str]:
        """Text and sha of a script, in the form this server takes."""
        found = self._variants.get(name)
        if found is None:
            found = self._variants[name] = scripts.get(name).variant(bool(self.shebang))
        return found

    def use_shebang(self, works: bool) -> None:
        """Remember whether the server understands ``#!lua``."""
        if works != self.shebang:
            self.shebang = works
            self._variants = {}

    # ---- session ---------------------------------------------------------------------------------

    def open_args(self, run_id: str) -> list[str]:
        """Arguments of ``session_open``: the present session number makes it a touch."""
        settings = self.settings
        return [
            str(SCHEMA),
            str(int(settings.session_ttl_seconds * 1000)),
            run_id,
            "1" if settings.test_clock else "0",
            # Once we know a manager, a missing one is a loss and must not be made anew in silence.
            "" if self.incarnation else self.proposal,
            self.session.number if self.session else "",
        ]

    def adopt(self, reply: Any, run_id: str) -> None:
        """Take over the answer of ``session_open``.

        Raises:
            ManagerNotFound: another incarnation than the one we knew.
            HistoryRolledBack: the server has forgotten changes; the session is open on what is left.
        """
        status, incarnation, history, payload = _parts(reply)
        if status != Status.OK:
            self._refuse(status, payload)
        if self.incarnation and incarnation != self._incarnation:
            raise self.gone()
        number = as_text(payload[0]) if payload else ""
        if not number:
            raise InvariantBroken("session_open answered without a session number")
        floor = self.history
        with self._lock:
            self.incarnation, self._incarnation = as_text(incarnation), incarnation
            self.history = history
            self.run_id = run_id
            if self.session is None or self.session.number != number or history < floor:
                # After a rollback the server may know our slots with older sequence numbers.
                self.session = Session(number)
        if history < floor:
            raise self._rolled_back(floor, history)

    def gone(self) -> ManagerNotFound:
        """The manager is lost for this client, for good: it must never be made anew in silence."""
        self._gone = (
            f"queue manager {self.keys.manager!r} is not what it was: its data were flushed, replaced, or this is "
            "another database. This client stops; connect again to work with what is there now"
        )
        return ManagerNotFound(self._gone)

    def check(self) -> None:
        """Raise what ended this driver for good, if anything has."""
        if self._gone:
            raise ManagerNotFound(self._gone)

    def drop_session(self, session: Session) -> None:
        """Forget a session that the server no longer knows."""
        with self._lock:
            if self.session is session:
                self.session = None

    def remember(self, token: str) -> None:
        """Keep a token of unknown outcome for ``resolve``."""
        with self._lock:
            self.unknown.append(token)
            del self.unknown[:-MAX_UNKNOWN]

    def resolved(self, token: str) -> None:
        """The outcome of this token is known now."""
        with self._lock:
            if token in self.unknown:
                self.unknown.remove(token)

    # ---- replies ---------------------------------------------------------------------------------

    def accept(self, reply: Any, floor: int) -> tuple[int, Payload]:
        """Check a reply against what was known when its call was sent; status and payload."""
        try:
            status = int(reply[0])
            if reply[1] == self._incarnation:
                history = int(reply[2])
                if history >= floor:
                    self.history = max(self.history, history)
                    return status, reply[3:]
        except (TypeError, ValueError, IndexError):
            raise InvariantBroken(f"a script answered {str(reply)[:80]!r}") from None
        if status >= _BAND:
            # A refusal that is sent before the manager was read carries no incarnation.
            if status in (_EXPIRED, _REUSED) and not reply[1]:
                return status, reply[3:]
            if reply[1] in (b"", self._incarnation):
                self._refuse(status, reply[3:])
        if reply[1] != self._incarnation:
            raise self.gone()
        with self._lock:
            self.history = history
            self.session = None
        raise self._rolled_back(floor, history)

    def _refuse(self, status: int, payload: Payload) -> None:
        if status == _GONE:
            raise self.gone()
        raise error_for(status, as_text(payload[0]) if payload and status == _TOO_NEW else "")

    @staticmethod
    def _rolled_back(floor: int, history: int) -> HistoryRolledBack:
        return HistoryRolledBack(
            f"the server has forgotten {floor - history} acknowledged change(s) (history {history}, known {floor}): "
            "it restarted or failed over without its log. Calls go on with what is left",
            known=floor,
            found=history,
        )


def _parts(reply: Any) -> tuple[int, bytes, int, Payload]:
    try:
        return int(reply[0]), reply[1], int(reply[2] or 0), reply[3:]
    except (TypeError, ValueError, IndexError):
        raise InvariantBroken(f"a script answered {str(reply)[:80]!r}") from None


class Next(Enum):
    """What a driver does after one try."""

    DONE = auto()  # attempt.result holds status and payload
    AGAIN = auto()  # try again at once
    LOAD = auto()  # load the script, then try again
    PAUSE = auto()  # wait attempt.pause seconds, then try again
    RENEW = auto()  # open a new session unless there is one, take a slot of it, then try again
    TOUCH = auto()  # the server was restarted or replaced: show it the session, then try again


class Attempt:
    """All tries of one call, from the first to a known outcome."""

    __slots__ = (
        "asking", "call", "core", "deadline", "floor", "lost", "maybe", "pause", "rediscover", "renewals",
        "result", "run", "sent", "server", "where",
    )  # fmt: skip

    def __init__(self, core: Core, call: Call[Any], run: Run | None, now: float, where: str) -> None:
        self.core = core
        self.call = call
        self.run = run
        self.where = where
        self.deadline = now + core.settings.retry_seconds
        self.pause = core.settings.retry_pause_seconds
        self.floor = 0
        self.renewals = 0
        #: The request of the present try may have left this process.
        self.sent = False
        #: An earlier try may have been carried out.
        self.maybe = False
        #: The last try lost its connection: other idle connections are suspect.
        self.lost = False
        #: The node must be looked up again before the next try.
        self.rediscover = False
        self.asking: str | None = None
        #: run_id of the server that took the call; only for opening a session.
        self.server = ""
        self.result: tuple[int, Payload] = (0, [])

    def ready(self, run_id: str) -> Next:
        """Before sending over a connection to the server ``run_id``: DONE, or what must be done first."""
        self.server = run_id
        if self.run is None:
            return Next.DONE
        if run_id != self.core.run_id:
            self._count_renewal()
            return Next.TOUCH
        return Next.DONE if self.run.slot.session is self.core.session else Next.RENEW

    def _count_renewal(self) -> None:
        self.renewals += 1
        if self.renewals > MAX_RENEWALS:
            raise self.unavailable("the session does not last: do two servers answer under this address?")

    def renew(self) -> bool:
        """Go on with a slot of the present session; True: the operation had subscribed and must do so again."""
        run, session = self.run, self.core.session
        if run is None or session is None or run.slot.session is session:
            return False
        if self.maybe and self.call.changes:
            raise self._unknown("the session ended before the lost reply could be asked for again")
        run.slot = session.take()
        return run.listening

    def packed(self) -> list[bytes]:
        """The request. To be called for each try, immediately before it is sent."""
        core, call, run = self.core, self.call, self.run
        sha = core.script(call.script)[1]
        if run is None:
            token = _NO_TOKEN
            if call.script == "session_open":
                call.args = core.open_args(self.server)
        elif call.changes:
            sequence = b"%d" % (run.slot.last + 1)
            token = b"%b$%d\r\n%b\r\n" % (run.slot.packed, len(sequence), sequence)
        else:
            token = run.slot.packed + _NO_SEQUENCE
        self.floor = core.history
        return pack(call.keys, sha, token, call.args)

    def answered(self, reply: Any) -> Next:
        """A reply came."""
        core, call, run = self.core, self.call, self.run
        if run is None:
            self.result = (0, reply)
            return Next.DONE
        status, payload = core.accept(reply, self.floor)
        if status in (_EXPIRED, _REUSED):
            return self._expired(run)
        if call.changes:
            run.slot.last += 1
        self.result = (status, payload)
        return Next.DONE

    def _expired(self, run: Run) -> Next:
        self.core.drop_session(run.slot.session)
        if self.maybe and self.call.changes:
            raise self._unknown("the session expired before the lost reply could be asked for again")
        self._count_renewal()
        return Next.RENEW

    def failed(self, error: BaseException, now: float) -> Next:
        """The try failed."""
        fault = fault_of(error)
        self.lost = fault is Fault.LOST
        self.rediscover = fault in (Fault.LOST, Fault.MOVED)
        self.asking = str(error) if fault is Fault.ASK else None
        if fault is Fault.NOSCRIPT:
            self._in_time(error, now)
            return Next.LOAD
        if fault is Fault.ASK:
            self._in_time(error, now)
            return Next.AGAIN
        if fault is Fault.LOST and self.sent:
            self.maybe = True
        if fault in (Fault.LOST, Fault.BUSY, Fault.MOVED):
            if not self.core.reached and not self.sent and fault is Fault.LOST:
                raise self.unavailable(error)
            self._in_time(error, now)
            return Next.PAUSE
        self.core.reached = True
        text = redact(error)
        if self.maybe and self.call.changes:
            raise self._unknown(text)
        if fault is Fault.FULL:
            raise BrokerFull(
                f"{self.where} is at its memory limit: {text}. Receiving still works and makes room"
            )
        if fault is Fault.REFUSED:
            raise BrokerRefused(
                f"{self.where} refused: {text}. Check the user name and password of the URL and the user's ACL"
            )
        if fault is Fault.NOT_READY:
            raise BrokerUnavailable(f"{self.where} takes no writes: {text}")
        raise InvariantBroken(f"script {self.call.script} failed: {scripts.explain(text)}")

    def failed_load(self, error: BaseException, now: float) -> None:
        """SCRIPT LOAD failed: nothing ran in this try."""
        if fault_of(error) is Fault.BUG and self.core.shebang:
            self.core.use_shebang(False)  # this server is older than the one that was probed
            return
        self.sent = False
        self.failed(error, now)

    def _in_time(self, error: BaseException, now: float) -> None:
        if now + self.pause < self.deadline:
            return
        if self.maybe and self.call.changes:
            raise self._unknown(redact(error))
        raise self.unavailable(error)

    def next_pause(self) -> float:
        """Seconds to wait now; the next pause is twice as long."""
        pause = self.pause
        self.pause = min(pause * 2, self.core.settings.retry_pause_max_seconds)
        return pause

    def unavailable(self, error: object) -> BrokerUnavailable:
        """Certainly not carried out."""
        return BrokerUnavailable(
            f"{self.where} cannot be used: {redact(error)}. Is the server running, and is the URL right?"
        )

    def final(self, error: BrokerUnavailable) -> MqError:
        """What to raise when no further try could be made."""
        return self._unknown(str(error)) if self.maybe and self.call.changes else error

    def _unknown(self, why: str) -> MqError:
        return OutcomeUnknown(
            f"call {self.call.script} on {self.where} has an unknown outcome: {why}; ask resolve(token)",
            token=self.quarantine(),
        )

    def quarantine(self) -> str:
        """Take the slot out of use; its token."""
        run = self.run
        if run is None:
            return ""
        token = run.slot.token()
        self.core.remember(token)
        run.slot = (self.core.session or run.slot.session).take()
        return token

    def abandon(self) -> None:
        """The caller was cancelled or interrupted in the middle of a try."""
        if self.call.changes and (self.sent or self.maybe):
            self.quarantine()
