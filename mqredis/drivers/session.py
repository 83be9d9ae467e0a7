"""The pure half of a driver: sessions and their slots, and what is known of the store.

The drivers do the input and output; what a reply means is decided here and in ``attempt``, once for both.
"""

from __future__ import annotations

import itertools
import secrets
import threading
from collections import deque
from collections.abc import Sequence
from time import monotonic
from typing import Any

from mqredis import scripts
from mqredis.codec import clients
from mqredis.commands.manager import session_arguments
from mqredis.commands.transactions import Doubt, doubt
from mqredis.drivers.net.wire import SIZES, as_text, bulk
from mqredis.errors import (
    AccessDenied,
    HistoryRolledBack,
    InvalidHandle,
    InvariantBroken,
    ManagerNotFound,
    error_for,
)
from mqredis.keys import KeySet, ManagerKeys
from mqredis.models import Durability
from mqredis.operations.context import ServerState
from mqredis.settings import Settings
from mqredis.status import Status
from mqredis.steps import Arg, Call, Payload, Reply

_READING = frozenset(("receive", "lookup"))
#: Tokens of unknown outcome that are remembered at most.
MAX_UNKNOWN = 1000
_BAND = 0xA0010000
_NO_SEQUENCE = bulk(b"")
EXPIRED = int(Status.SESSION_EXPIRED)
REUSED = int(Status.TOKEN_REUSED)
_GONE = int(Status.MANAGER_NOT_FOUND)
_TOO_NEW = int(Status.SCHEMA_TOO_NEW)


def raw(_status: int, payload: Payload) -> Payload:
    """Parser of the driver's own calls."""
    return payload


class Slot:
    """One place of a session: at most one call at a time, numbered 1, 2, 3..."""

    __slots__ = ("_packed", "last", "name", "session")

    def __init__(self, session: Session, index: int) -> None:
        self.session = session
        self.name = f"{session.number}.{index}"
        self._packed = bulk(self.name.encode())
        #: The last sequence number that the server is known to have taken.
        self.last = 0

    def token_of(self, changes: bool) -> bytes:
        """The packed token of the next call, which has a sequence number if it changes something."""
        if not changes:
            return self._packed + _NO_SEQUENCE
        number = b"%d\r\n" % (self.last + 1)
        return self._packed + SIZES[len(number) - 2] + number

    def token(self) -> str:
        """Token of the call that is under way or comes next."""
        return f"{self.name}:{self.last + 1}"

    def latest(self) -> str:
        """Token of the call that was answered last."""
        return f"{self.name}:{self.last}"


class Session:
    """A session and its slots. The slot used last is given out first: its wake channel is subscribed already."""

    __slots__ = ("_count", "free", "number")

    def __init__(self, number: str) -> None:
        self.number = number
        #: Slots that nobody uses.
        self.free: list[Slot] = []
        self._count = itertools.count()

    def take(self) -> Slot:
        """A slot that nobody uses."""
        try:
            return self.free.pop()
        except IndexError:
            return Slot(self, next(self._count))

    def give(self, slot: Slot) -> None:
        """Put a slot back. One whose last outcome is unknown must not come back."""
        self.free.append(slot)


class Run:
    """One operation under way: it holds one slot from start to end."""

    flag: Any = None
    """The flag that a notification raises; KEYS of the last call since it listens."""
    keys: KeySet | None = None
    polling = True
    """It cannot be notified, so it polls."""
    unknown = ""
    """Token of the last call whose outcome is unknown."""
    lost: Slot | None = None
    """The slot of that call."""
    wake: Any = None
    """The wake channel of its slot, unless it polls."""
    floor = 0
    """The history that was known when it began to listen. A lock may have been handed to it at any time since: then its
    look is answered with the history of that time, which is less than what others of this process know."""
    mark = 0
    """Position in the journal of cancellations when the present look began."""

    def __init__(self, slot: Slot, deadline: float | None = None) -> None:
        self.slot = slot
        #: When its calls are to be through, on the monotonic clock; None: the usual time from when each begins.
        self.deadline = deadline
        #: It has subscribed to the wake channel of its slot.
        self.listening = False

    def interrupted(self, error: BaseException) -> bool:
        """Note what ended a step of the operation. True: a call was under way, and its outcome is unknown."""
        if not isinstance(error, Exception):
            self.deadline = monotonic()  # what the operation still calls to clean up is tried once
        return bool(self.unknown)


class Core:
    """What a driver knows about the queue manager. Shared by all threads or tasks of one driver."""

    def __init__(self, settings: Settings, keys: ManagerKeys, memory: bool, where: str) -> None:
        self.settings = settings
        #: The address without secrets, for errors.
        self.where = where
        #: Seconds that a call may take with all its repetitions.
        self.patience = settings.retry_seconds
        self.keys = keys
        self.admin = keys.admin()
        self.session: Session | None = None
        self.incarnation = ""
        self._incarnation = b""
        self.history = 0
        #: The last term (lua/core/session) that was there at the last opening; "" none.
        self.term = ""
        #: The server's run_id as of the last opening; "" where INFO is not available.
        self.run_id = ""
        #: Has any connection ever worked? Until then a dead address fails at once.
        self.reached = False
        #: The last call was given up after its connections were lost, and none has worked since.
        self.unreachable = False
        #: Tokens of calls of unknown outcome, one for each caller; the calls among them that read messages.
        self.unknown: list[str] = []
        self.unread: dict[str, Call[Any]] = {}
        #: The calls among them in a transaction, also those whose outcome was asked for.
        self.doubts: deque[Doubt] = deque(maxlen=MAX_UNKNOWN)
        self.shebang: bool | None = None
        self.functions = False
        #: What the server that answers now keeps: asked of each that is met (by its run_id), unless nobody minds.
        self.server_state = ServerState()
        # A fake keeps nothing anyway, and a read-only client has nothing kept.
        self.wary = not (memory or settings.allow_volatile or settings.read_only)
        self._vetted: str | None = None
        #: The command by which a server (by its run_id) waits for a level (operations/durability/levels).
        self.wait_commands: dict[tuple[str, Durability], str] = {}
        #: Scripts by name, in the form this server takes, as far as they were asked for.
        self.forms: dict[str, scripts.Form] = {}
        self._gone: str = ""
        #: The driver was closed: waits end, nothing new begins.
        self.closed = False
        self._lock = threading.Lock()

    def after_fork(self) -> None:
        """In a child: the parent's session stays the parent's."""
        self._lock = threading.Lock()
        self.session = None
        self.unknown, self.unread = [], {}
        self.doubts.clear()

    # ---- scripts ---------------------------------------------------------------------------------

    def script(self, name: str) -> scripts.Form:
        """A script in the form this server takes. Raises AccessDenied if only the client is read-only."""
        found = self.forms.get(name)
        if found is None:
            script, reading = scripts.get(name), self.settings.read_only
            if reading and not script.header.no_writes:
                raise AccessDenied(
                    f"this client is read-only (Settings.read_only), so it does not run the script {name}; nothing was "
                    "done. Use another client for calls that change something, open a queue or wait"
                )
            found = script.function(reading) if self.functions else script.form(bool(self.shebang), reading)
            self.forms[name] = found
        return found

    def use_shebang(self, works: bool, functions: bool = False) -> None:
        """Remember whether the server understands ``#!lua``, and whether we may call functions."""
        if works != self.shebang or functions != self.functions:
            self.shebang = works
            self.functions = functions
            self.forms = {}

    def no_function(self, name: str) -> bool:
        """The server does not load or call this one as a function; False: it was none."""
        if not self.script(name).verb.startswith("FCALL"):
            return False
        self.forms[name] = scripts.get(name).form(bool(self.shebang), self.settings.read_only)
        return True

    def no_room(self, name: str) -> bool:
        """The server is full, and the script did not run; False: there is no other form of it for such a server."""
        form = None if self.shebang else scripts.get(name).draining()
        if form is None or form == self.forms.get(name):
            return False
        self.forms[name] = form
        return True

    # ---- what it keeps ---------------------------------------------------------------------------

    def unknown_server(self, run_id: str) -> bool:
        """Is it to be asked whether it keeps what it takes?"""
        return self.wary and run_id != self._vetted

    def vetted(self, run_id: str, volatile: bool) -> None:
        """It was asked."""
        self.server_state.volatile = volatile
        self._vetted = run_id

    # ---- session ---------------------------------------------------------------------------------

    def open_args(self, run_id: str) -> Sequence[Arg]:
        """Arguments of ``session_open``: the present session number makes it a touch."""
        settings = self.settings
        return session_arguments(
            int(settings.session_ttl_seconds * 1000),
            run_id,
            settings.test_clock,
            # Who knows an incarnation must never make another one: the data are gone, and that is to be said.
            "" if self.incarnation else secrets.token_hex(8),
            self.session.number if self.session else "",
            clients.describe(settings.client_name),
        )

    def adopt(self, reply: Any, run_id: str) -> bool:
        """Take over the answer of ``session_open``; False: the session we showed is unknown there.

        Raises:
            ManagerNotFound: another incarnation than the one we knew.
            HistoryRolledBack: the server has forgotten changes; the session is open on what is left.
        """
        status, incarnation, history, payload = _parts(reply)
        if status == EXPIRED and self.session is not None:
            self.session = None
            return False
        if status != Status.OK:
            self._refuse(status, payload)
        if self.incarnation and incarnation != self._incarnation:
            raise self.gone()
        number = as_text(payload[0]) if payload else ""
        if not number:
            raise InvariantBroken("session_open answered without a session number")
        floor = self.history
        terms = as_text(payload[3]).split() if len(payload) > 3 else []
        began = self._began(terms, history) if self.incarnation else history
        with self._lock:
            self.term = terms[-1] if terms else ""
            self.incarnation, self._incarnation = as_text(incarnation), incarnation
            self.history = history
            self.run_id = run_id
            if self.session is None or self.session.number != number or began < floor:
                # After a rollback the server may know our slots with older sequence numbers.
                self.session = Session(number)
        if began < floor:
            raise self._rolled_back(floor, began)
        return True

    def observe(self, reply: Any, run_id: str) -> None:
        """Take over the answer of ``manager_info``: what a read-only client has in place of a session.

        Raises:
            ManagerNotFound: there is no such manager, or another incarnation than the one we knew.
            HistoryRolledBack: the server has forgotten changes.
        """
        status, incarnation, history, payload = _parts(reply)
        if status == _GONE and not self.incarnation:
            raise ManagerNotFound(
                f"there is no queue manager {self.keys.manager!r} on this server, and a read-only client creates none"
            )
        if status != Status.OK:
            self._refuse(status, payload)
        if self.incarnation and incarnation != self._incarnation:
            raise self.gone()
        floor = self.history
        with self._lock:
            self.incarnation, self._incarnation = as_text(incarnation), incarnation
            self.history, self.run_id = history, run_id
            self.session = Session("")
        if history < floor:
            raise self._rolled_back(floor, history)

    def _began(self, terms: list[str], history: int) -> int:
        """The least history with which a server process has begun since our last opening; ``history`` if none has."""
        if self.term and self.term not in terms:  # forgotten, because a later one began with less
            later = terms[-1:]
        else:
            later = terms[terms.index(self.term) + 1 :] if self.term else terms
        return min([history, *(int(term.partition(":")[0]) for term in later)])

    def gone(self) -> ManagerNotFound:
        """The manager is lost for this client, for good: it must never be made anew in silence."""
        self._gone = (
            f"queue manager {self.keys.manager!r} is not what it was: its data were flushed or replaced, or "
            "this is another database. This client stops; connect again to work with what is there now"
        )
        self.session = None
        return ManagerNotFound(self._gone)

    def check(self) -> None:
        """Raise what ended this driver for good, if anything has."""
        if self._gone:
            raise ManagerNotFound(self._gone)
        if self.closed:
            raise InvalidHandle(f"this connection to queue manager {self.keys.manager!r} is closed")

    def drop_session(self, session: Session) -> None:
        """Forget a session that the server no longer knows."""
        with self._lock:
            if self.session is session:
                self.session = None

    def remember(self, token: str, call: Call[Any] | None = None) -> None:
        """Keep a token of unknown outcome for ``resolve``, and what is to be known of its call."""
        with self._lock:
            self.unknown.append(token)
            if call is not None:
                if call.script in _READING:
                    self.unread[token] = call
                if found := doubt(token, call):
                    self.doubts.append(found)
            for old in self.unknown[:-MAX_UNKNOWN]:
                self.unread.pop(old, None)
            del self.unknown[:-MAX_UNKNOWN]

    def resolved(self, token: str) -> None:
        """The outcome of this token is known now."""
        with self._lock:
            self.unread.pop(token, None)
            for each in self.doubts:
                each.unseen = each.unseen and each.token != token
            if token in self.unknown:
                self.unknown.remove(token)

    def outcome_known(self, run: Run, token: str) -> None:
        """The outcome of the interrupted call of this run is known: its slot can be used again, since the server has
        taken its number either way."""
        self.resolved(token)
        if token == run.unknown and run.lost is not None:
            if run.lost.session is self.session:
                run.slot.session.give(run.slot)
                run.slot = run.lost
                run.slot.last += 1
            run.unknown, run.lost = "", None

    # ---- replies ---------------------------------------------------------------------------------

    def floor(self, run: Run) -> int:
        """The least history that the reply to a call may have which this run, that listens, makes now."""
        return min(self.history, run.floor)

    def accept(self, reply: Any, floor: int) -> Reply:
        """Check a reply against what was known when its call was sent; status and payload."""
        try:
            # By place: to unpack them costs half as much again.
            status, incarnation, known = reply[0], reply[1], reply[2]
            if (
                incarnation == self._incarnation
                and type(known) is int
                and known >= floor
                and type(status) is int
            ):  # as mostly
                if known > self.history:
                    self.history = known
                return status, reply[3:]
            payload = reply[3:]
            if type(status) is not int:
                status = int(status)
            if incarnation == self._incarnation:
                history = known if type(known) is int else int(known)
                if history >= floor:
                    if history > self.history:
                        self.history = history
                    return status, payload
        except (TypeError, ValueError, LookupError):
            raise InvariantBroken(f"a script answered {str(reply)[:80]!r}") from None
        if status >= _BAND:
            # A refusal that is sent before the manager was read carries no incarnation.
            if status in (EXPIRED, REUSED) and not incarnation:
                return status, payload
            if incarnation in (b"", self._incarnation):
                self._refuse(status, payload)
        if incarnation != self._incarnation:
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
            f"the server has forgotten {floor - history} acknowledged change(s) (history {history}, known "
            f"{floor}): it restarted or failed over without its log. Calls go on with what is left",
            known=floor,
            found=history,
        )


def _parts(reply: Any) -> tuple[int, bytes, int, Payload]:
    try:
        return int(reply[0]), reply[1], int(reply[2] or 0), reply[3:]
    except (TypeError, ValueError, IndexError):
        raise InvariantBroken(f"a script answered {str(reply)[:80]!r}") from None
