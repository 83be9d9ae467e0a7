"""What a driver knows about its queue manager: the session, the incarnation and the history number.

``drivers.base`` makes the ``Core`` of a driver; ``calls``, ``attempt``, ``coalescing``, ``greeting``,
``durable_calls`` and the waits (with ``waiting.handoff``) read and set what they learn of the server, and both
interfaces read ``server_state``. It does no input or output: it says what the reply of an opening means, and whether a
reply comes from the data that this client knows. A lost history is found by history numbers and by terms
(``session.term`` in lua/core/session.lua); a read-only client is told no terms.
"""

from __future__ import annotations

import math
import secrets
import threading
from collections.abc import Sequence
from time import monotonic
from typing import Any

from mqredis.codec import clients
from mqredis.commands.manager import session_arguments
from mqredis.drivers.forms import ScriptForms
from mqredis.drivers.net.wire import as_text
from mqredis.drivers.outcomes import UnknownOutcomes
from mqredis.drivers.session import Run, Session
from mqredis.errors import HistoryRolledBack, InvalidHandle, InvariantBroken, ManagerNotFound, error_for
from mqredis.keys import ManagerKeys
from mqredis.models import Durability
from mqredis.operations.context import ServerState
from mqredis.settings import Settings
from mqredis.status import Status
from mqredis.steps import Arg, Payload, Reply

# The statuses of mqredis itself, with which a script refuses a call before it has read the manager, begin here.
_OWN = 0xA0010000
_EXPIRED = int(Status.SESSION_EXPIRED)
# The session is over, or the slot has been used by another.
ENDED = frozenset((_EXPIRED, int(Status.TOKEN_REUSED)))
_GONE = int(Status.MANAGER_NOT_FOUND)
_TOO_NEW = int(Status.SCHEMA_TOO_NEW)


class Core:
    """What a driver knows about the queue manager. Shared by all threads or tasks of one driver."""

    def __init__(self, settings: Settings, keys: ManagerKeys, memory: bool, where: str) -> None:
        self.settings = settings
        # The address without secrets, for errors.
        self.where = where
        self.keys = keys
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
        self.outcomes = UnknownOutcomes()
        self.forms = ScriptForms(settings.read_only)
        # What the present server keeps on disk. Each server process is asked once, unless the settings allow any.
        self.server_state = ServerState()
        # A fake never keeps anything, and a read-only client stores nothing.
        self.wary = not (memory or settings.allow_volatile or settings.read_only)
        # run_id of the server that was asked last; None: none was.
        self._vetted: str | None = None
        # The command by which a server (by its run_id) waits for a level (operations/durability/levels).
        self.wait_commands: dict[tuple[str, Durability], str] = {}
        # Why this client has stopped for good; "" if it has not.
        self._gone: str = ""
        # The driver was closed: waits end, nothing new begins.
        self.closed = False
        # Guards what an opening changes together. ``accept`` raises the history without it: of two replies at a time
        # the lower number may stay until the next one. Re-entrant, since a signal handler may make a call.
        self._lock = threading.RLock()

    def after_fork(self) -> None:
        """In a child: the parent's session stays the parent's."""
        self._lock = threading.RLock()
        self.session = None
        self.outcomes.after_fork()

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

        The payload is: number of the session, terms (lua/session_open.lua).

        Raises:
            ManagerNotFound: the manager has another incarnation than before.
            HistoryRolledBack: the server has forgotten changes; the session is open on the data that are left.
        """
        status, incarnation, history, payload = _parts(reply)
        if status == _EXPIRED and self.session is not None:
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
        terms = as_text(payload[1]).split() if len(payload) > 1 else []
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

        It has no terms, so a loss is seen only while the server's history number is lower than the known one.

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
        if self.term and self.term not in terms:  # the server has lost it, or keeps only later ones
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

    @property
    def stopped(self) -> bool:
        """Has this driver ended for good?"""
        return self.closed or bool(self._gone)

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
            if status in ENDED and not incarnation:
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
