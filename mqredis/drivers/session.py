"""The part of a driver that does no input or output: sessions and their slots, and what is known of the store.

Each driver has a ``Core``, and so do its parts: ``attempt``, ``greeting`` and the waits.

The blocking and the asyncio driver decide here, and in ``attempt``, what a reply means.
"""

from __future__ import annotations

import itertools
import math
import secrets
import threading
from collections import deque
from collections.abc import Sequence
from time import monotonic
from typing import TYPE_CHECKING, Any

from mqredis import scripts
from mqredis.codec import clients
from mqredis.commands.arguments import READS
from mqredis.commands.manager import session_arguments
from mqredis.commands.transactions import Doubt, doubt
from mqredis.drivers.net.wire import as_text
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

if TYPE_CHECKING:
    from mqredis.drivers.waiting.table import WakeChannel

# Tokens of unknown outcome that are remembered at most.
MAX_UNKNOWN = 1000
# The statuses of mqredis itself, with which a script refuses a call before it has read the manager, begin here.
_OWN = 0xA0010000
EXPIRED = int(Status.SESSION_EXPIRED)
REUSED = int(Status.TOKEN_REUSED)
_GONE = int(Status.MANAGER_NOT_FOUND)
_TOO_NEW = int(Status.SCHEMA_TOO_NEW)


def raw(_status: int, payload: Payload) -> Payload:
    """Parser of the driver's own calls."""
    return payload


class Slot:
    """One place of a session: at most one call at a time, numbered 1, 2, 3..."""

    __slots__ = ("last", "name", "session")

    def __init__(self, session: Session, index: int) -> None:
        self.session = session
        self.name = f"{session.number}.{index}"
        # The last sequence number that the server is known to have taken.
        self.last = 0

    def token_of(self, changes: bool) -> tuple[str, str]:
        """The token of the next call as two arguments. It has a sequence number if the call changes something."""
        return self.name, str(self.last + 1) if changes else ""

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
        # Slots that no operation uses.
        self.free: list[Slot] = []
        self._count = itertools.count()

    def take(self) -> Slot:
        """A slot that no operation uses."""
        try:
            return self.free.pop()
        except IndexError:
            return Slot(self, next(self._count))

    def give(self, slot: Slot) -> None:
        """Put a slot back. A slot whose last call has an unknown outcome must not be put back."""
        self.free.append(slot)


class Run:
    """One operation under way: it holds one slot from start to end."""

    # Most operations neither wait nor are interrupted, and set none of these. The registry of the waits
    # (``waiting.base``) sets flag, wake, polling, floor and mark; the driver sets keys, and ``Attempt.quarantine``
    # unknown and lost.
    flag: Any = None
    """The flag that a notification raises: a ``WakeFlag``, or an ``asyncio.Event``."""
    keys: KeySet | None = None
    """KEYS of the last call of an operation that listens: the queues that it waits on."""
    polling = True
    """Does the operation poll, since it cannot be notified?"""
    unknown = ""
    """Token of the last call whose outcome is unknown."""
    lost: Slot | None = None
    """The slot of the call with the token ``unknown``."""
    wake: WakeChannel[Any] | None = None
    """The wake channel of the operation's slot; None if it polls."""
    floor = 0
    """The history number that was known when the operation began to listen. A lock may have been handed to it at any
    time since. The reply with that lock has the history number of its time, which may be less than the client's
    now."""
    mark = 0
    """Position in the log of cancellations when the present fetch began."""

    def __init__(self, slot: Slot, deadline: float | None = None) -> None:
        self.slot = slot
        # Deadline of the operation's calls, on the monotonic clock; None: ``retry_seconds`` after each call began.
        self.deadline = deadline
        # Has the operation subscribed to the wake channel of its slot?
        self.listening = False

    def interrupted(self, error: BaseException) -> bool:
        """Note what ended a step of the operation. True: a call was under way, and its outcome is unknown."""
        if not isinstance(error, Exception):
            self.deadline = monotonic()  # the calls with which the operation cleans up are tried once
        return bool(self.unknown)


class Core:
    """What a driver knows about the queue manager. Shared by all threads or tasks of one driver."""

    def __init__(self, settings: Settings, keys: ManagerKeys, memory: bool, where: str) -> None:
        self.settings = settings
        # The address without secrets, for errors.
        self.where = where
        # Seconds that a call may take with all its repetitions.
        self.patience = settings.retry_seconds
        self.keys = keys
        self.admin = keys.admin()
        self.session: Session | None = None
        self.incarnation = ""
        # The same as replies have it, so that no reply has to be decoded.
        self._incarnation = b""
        # The highest history number that a reply had: the number of the last change that the server had made.
        self.history = 0
        # The last term (lua/core/session) that the server knew when the session was last opened; "" if none.
        self.term = ""
        # Can the address lead to another server (Sentinel, a cluster)?
        self.movable = False
        # May the data have been at another server since the session was last opened? Then the next call opens it
        # again, to learn of terms before it learns of later changes.
        self.away = False
        # When, on the monotonic clock, a call that only reads has to renew the session, which ends without calls that
        # change something.
        self.renewal_due = math.inf
        # The server's run_id as of the last opening; "" where INFO is not available.
        self.run_id = ""
        # Has any connection ever worked? Until then a dead address fails at once.
        self.reached = False
        # Was the last call given up because of lost connections, with none that worked since?
        self.unreachable = False
        # Tokens of calls of unknown outcome, one for each caller; the calls among them that read messages.
        self.unknown: list[str] = []
        self.unread: dict[str, Call[Any]] = {}
        # Slots of these calls that can be used again when their tokens are forgotten, oldest first.
        self._spent: deque[tuple[str, Slot]] = deque()
        # The calls among them in a transaction, including calls whose outcome is known by now.
        self.doubts: deque[Doubt] = deque(maxlen=MAX_UNKNOWN)
        # How the server runs scripts (``greeting``): does it understand the flags line (None: it was not asked), and
        # are scripts called as functions?
        self.shebang: bool | None = None
        self.functions = False
        # What the present server keeps on disk. Each server process is asked once, unless the settings allow any.
        self.server_state = ServerState()
        # A fake never keeps anything, and a read-only client stores nothing.
        self.wary = not (memory or settings.allow_volatile or settings.read_only)
        # run_id of the server that was asked last; None: none was.
        self._vetted: str | None = None
        # The command by which a server (by its run_id) waits for a level (operations/durability/levels).
        self.wait_commands: dict[tuple[str, Durability], str] = {}
        # Scripts by name, in the form that this server takes. A script is added at its first use.
        self.forms: dict[str, scripts.Form] = {}
        # Why this client has stopped for good; "" if it has not.
        self._gone: str = ""
        # The driver was closed: waits end, nothing new begins.
        self.closed = False
        self._lock = threading.Lock()

    def after_fork(self) -> None:
        """In a child: the parent's session stays the parent's."""
        self._lock = threading.Lock()
        self.session = None
        self.unknown, self.unread = [], {}
        self.doubts.clear()
        self._spent.clear()

    # ---- scripts ---------------------------------------------------------------------------------

    def script(self, name: str) -> scripts.Form:
        """A script in the form this server takes. Raises AccessDenied if only the client is read-only."""
        found = self.forms.get(name)
        if found is None:
            script, reading = scripts.get(name), self.settings.read_only
            if reading and not script.header.no_writes:
                raise AccessDenied(
                    "this client is read-only (Settings.read_only), so the call was refused and nothing was done: use "
                    "another client for calls that change something, open a queue or wait"
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
        """Note that the server cannot load or call this script as a function. False: it was not called as a
        function."""
        if not self.script(name).verb.startswith("FCALL"):
            return False
        self.forms[name] = scripts.get(name).form(bool(self.shebang), self.settings.read_only)
        return True

    def no_room(self, name: str) -> bool:
        """Note that the server is full, so the script did not run. False: no other form of it runs on a full server."""
        form = None if self.shebang else scripts.get(name).draining()
        if form is None or form == self.forms.get(name):
            return False
        self.forms[name] = form
        return True

    # ---- what the server keeps -------------------------------------------------------------------

    def unknown_server(self, run_id: str) -> bool:
        """Does the driver have to ask the server process ``run_id`` whether it keeps anything on disk?"""
        return self.wary and run_id != self._vetted

    def vetted(self, run_id: str, volatile: bool) -> None:
        """Note the answer of the server process ``run_id``: ``volatile`` if it keeps nothing on disk."""
        self.server_state.volatile = volatile
        self._vetted = run_id

    # ---- session ---------------------------------------------------------------------------------

    def open_args(self, run_id: str, address: str) -> Sequence[Arg]:
        """Arguments of ``session_open`` over a connection from this address. With the number of the present session it
        only renews that session."""
        settings = self.settings
        return session_arguments(
            int(settings.session_ttl_seconds * 1000),
            run_id,
            settings.test_clock,
            # A client that knows an incarnation must not create another one: it has to report that the data are gone.
            "" if self.incarnation else secrets.token_hex(8),
            self.session.number if self.session else "",
            clients.describe(settings.client_name, address),
        )

    def adopt(self, reply: Any, run_id: str) -> bool:
        """Take over the reply of ``session_open``. False: the server does not know the session that was to be renewed.

        Raises:
            ManagerNotFound: the manager has another incarnation than before.
            HistoryRolledBack: the server has forgotten changes; the session is open on the data that are left.
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
            self.run_id, self.away = run_id, False
            self.renewal_due = monotonic() + self.settings.session_ttl_seconds / 2
            if self.session is None or self.session.number != number or began < floor:
                # After a rollback the server may know the old slots with older sequence numbers.
                self.session = Session(number)
        if began < floor:
            raise self._rolled_back(floor, began)
        return True

    def observe(self, reply: Any, run_id: str) -> None:
        """Take over the reply of ``manager_info``, which a read-only client calls instead of ``session_open``.

        Raises:
            ManagerNotFound: there is no such manager, or it has another incarnation than before.
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
            self.history, self.run_id, self.away = history, run_id, False
            self.session = Session("")
        if history < floor:
            raise self._rolled_back(floor, history)

    def _began(self, terms: list[str], history: int) -> int:
        """The least history number with which a server process began since the last opening; ``history`` if none
        did."""
        if self.term and self.term not in terms:  # the server dropped it, since a later term began with less
            later = terms[-1:]
        else:
            later = terms[terms.index(self.term) + 1 :] if self.term else terms
        return min([history, *(int(term.partition(":")[0]) for term in later)])

    def gone(self) -> ManagerNotFound:
        """Stop this client for good, since its manager is gone. Creating a new one would hide the loss."""
        self._gone = (
            f"queue manager {self.keys.manager!r} has changed its incarnation: its data were flushed or replaced, or "
            "this is another database. This client stops; connect again to work with the present data"
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

    def remember(self, token: str, call: Call[Any] | None = None, slot: Slot | None = None) -> None:
        """Keep a token of unknown outcome for ``resolve``, and its call if ``resolve`` needs it.

        ``slot``: its slot, if it may be used again when the token is forgotten.
        """
        with self._lock:
            self.unknown.append(token)
            if slot is not None:
                self._spent.append((token, slot))
            if call is not None:
                if call.script in READS:
                    self.unread[token] = call
                if found := doubt(token, call):
                    self.doubts.append(found)
            for old in self.unknown[:-MAX_UNKNOWN]:
                self.unread.pop(old, None)
            del self.unknown[:-MAX_UNKNOWN]
            self._reuse()

    def _reuse(self) -> None:
        """Give the slots of forgotten tokens back. Otherwise the server would keep a reply for each cancelled call."""
        doubted = {each.token for each in self.doubts} if len(self._spent) > MAX_UNKNOWN else set()
        for _ in range(len(self._spent) - MAX_UNKNOWN):
            token, slot = self._spent.popleft()
            if token in doubted:  # the end of its transaction asks for it
                self._spent.append((token, slot))
            elif slot.session is self.session:
                slot.last = int(token.rpartition(":")[2])
                slot.session.give(slot)

    def resolved(self, token: str) -> None:
        """The outcome of this token is known now."""
        with self._lock:
            self.unread.pop(token, None)
            for each in self.doubts:
                each.unseen = each.unseen and each.token != token
            if token in self.unknown:
                self.unknown.remove(token)

    def outcome_known(self, run: Run, token: str) -> None:
        """The outcome of the interrupted call of this run is known. Its slot can be used again, since the server has
        taken its sequence number in either case."""
        self.resolved(token)
        if token == run.unknown and run.lost is not None:
            with self._lock:
                self._spent = deque(each for each in self._spent if each[0] != token)
            if run.lost.session is self.session:
                run.slot.session.give(run.slot)
                run.slot = run.lost
                run.slot.last += 1
            run.unknown, run.lost = "", None

    # ---- replies ---------------------------------------------------------------------------------

    def floor(self, run: Run) -> int:
        """The least history number that the reply to the next call of this listening run may have."""
        return min(self.history, run.floor)

    def accept(self, reply: Any, floor: int, remember: bool = True) -> Reply:
        """Check a reply, whose history number must be at least ``floor``. Returns its status and payload.

        ``remember`` False: the reply may be from a server that the session was not shown to, so its history number is
        not remembered. A term that this client has not heard of may have begun with less.
        """
        try:
            # By index, since unpacking costs half as much again.
            status, incarnation, history, payload = reply[0], reply[1], reply[2], reply[3:]
            if type(status) is not int or type(history) is not int:
                status, history = int(status), int(history)
        except (TypeError, ValueError, LookupError):
            raise InvariantBroken(f"a script answered {str(reply)[:80]!r}") from None
        if incarnation == self._incarnation and history >= floor:
            if history > self.history and remember:
                self.history = history
            return status, payload
        if status >= _OWN:
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
    except (TypeError, ValueError, LookupError):
        raise InvariantBroken(f"a script answered {str(reply)[:80]!r}") from None
