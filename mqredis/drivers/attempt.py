"""All tries of one call: what is sent, what each outcome of a try means, and when to stop.

``drivers.calls`` and its asyncio twin make one for each call, and do what each ``Next`` says; ``durable_calls`` tells
it of a script that has run. It does no input or output: what an error of the server means for a call is decided here
(``wire.Fault``), and the same for both drivers. One thread or task uses an attempt.
"""

from __future__ import annotations

import re
from enum import Enum, auto
from time import monotonic
from typing import Any

from mqredis import scripts
from mqredis.commands.arguments import READS
from mqredis.drivers.core import ENDED, Core
from mqredis.drivers.durability import DurabilityWait
from mqredis.drivers.net.redaction import redact
from mqredis.drivers.net.wire import Fault, fault_of, forbidden, pack, redirect
from mqredis.drivers.session import Run, Slot
from mqredis.errors import (
    BrokerFull,
    BrokerRefused,
    BrokerUnavailable,
    HistoryRolledBack,
    InvariantBroken,
    ManagerNotFound,
    MqError,
    OutcomeUnknown,
    ScriptsNotLoaded,
)
from mqredis.steps import Call, Payload, Reply

# How often one call may get a new session or slot before we give up.
MAX_RENEWALS = 3

# "ERR unknown command 'FCALL'", "NOPERM ... to run the 'fcall' command": nothing ran.
_FCALL = re.compile("'fcall(_ro)?'", re.IGNORECASE)
# How connections fail that begin TLS with a port that does not use it, and the reverse: the port waits, or closes them.
_NO_TLS = re.compile("SSL|closed|reset|timed out|timeout", re.IGNORECASE)
_TLS = re.compile("closed|reset", re.IGNORECASE)

# Faults after which a call is tried again until its time is over.
_RETRIED = frozenset((Fault.LOST, Fault.BUSY, Fault.MOVED, Fault.NOT_READY))

# Faults of a server that perhaps does not hold the data, or did not for a time.
_AWAY = frozenset((Fault.LOST, Fault.MOVED, Fault.ASK))

# What an error of the last try says if there was no other one (``Attempt.final``).
_NOTHING_DONE = "; nothing was done"

# What to do about the refusal of a replica, which ends in "can't write against a read only replica".
_REPLICA = ". Give the URL of its primary, or of its Sentinels (redis+sentinel://)"


class Next(Enum):
    """What a driver does after one try of a call."""

    DONE = auto()  # attempt.result holds status and payload
    AGAIN = auto()  # try again at once
    LOAD = auto()  # load the script, then try again
    PAUSE = auto()  # wait attempt.pause seconds, then try again
    RENEW = auto()  # open a new session unless there is one, take a slot of it, then try again
    TOUCH = auto()  # the server was restarted or replaced: show it the session, then try again


# A name of its own, since reading a member of an enumeration costs as much as a function call.
DONE = Next.DONE


class Attempt:
    """All tries of one call, from the first to a known outcome."""

    # Most calls need one try only, and set none of these.
    renewals = 0
    loads = 0
    """How often the server did not have the script. The first time is not a failure, so it takes no retry time."""
    unloaded: BaseException | None = None
    """The error of the last attempt to load the script."""
    pause = 0.0
    """How long to wait before the next try; 0.0: as the settings say."""
    sent = False
    """Has the request of the present try perhaps left this process? ``calls`` sets it."""
    may_have_run = False
    """Has an earlier try perhaps been carried out?"""
    lost = False
    """Did the last try lose its connection?"""
    rediscover = False
    """Must the node be looked up again before the next try?"""
    detour: tuple[str, int] | None = None
    """The node to which the slot is moving now (ASK); the next try goes there."""
    server = ""
    """run_id of the server that took the call. Only calls that open a session use it."""
    floor = 0
    """The least history number that the reply may have; a smaller one shows that the server forgot changes."""
    result: Reply = (0, [])

    def __init__(
        self, core: Core, call: Call[Any], run: Run | None, wait: DurabilityWait | None = None
    ) -> None:
        self.core = core
        self.call = call
        self.run = run
        # The wait for durability that follows the script on the same connection.
        self.wait = wait
        self.deadline = monotonic() + core.settings.retry_seconds
        if run is not None and run.deadline is not None:
            self.deadline = min(self.deadline, run.deadline)

    def packed(self) -> bytes:
        """Pack the request with the next token of the run's slot. Empty for a call without a session (:meth:`bare`).

        Called for each try. If the request cannot be packed, nothing was sent.
        """
        core, call, run = self.core, self.call, self.run
        if run is None:
            return b""
        if not self.may_have_run:
            # A repeated call may get its stored reply, with the history number of the first try.
            self.floor = core.floor(run) if run.listening else core.history
        form = core.forms.get(call.script)
        slot = run.slot
        packed = pack(call.keys, form, slot.name, str(slot.last + 1) if call.changes else "", call.args)
        if self.wait is not None and self.wait.sent_with_call:
            packed += self.wait.first_request()
        return packed

    def bare(self, address: str) -> bytes:
        """Pack the request of a call without a session, for the server that :meth:`ready` was given.

        ``address``: of this end of the connection, "" if that is not known.
        """
        call = self.call
        if call.script == "session_open":
            # A node to which the slot is moving was not greeted, so `server` is not its run_id.
            call.args = self.core.open_args("" if self.detour else self.server, address)
        return pack(call.keys, self.core.forms.get(call.script), "", "", call.args)

    def ready(self, run_id: str) -> Next:
        """Called before sending over a connection to the server ``run_id``. Returns DONE, or what must be done
        first."""
        core, run = self.core, self.run
        if run is None:
            self.server = run_id
            return DONE
        if not self.call.changes and monotonic() > core.renewal_due:
            core.away = True
        # A detour is one request; the session is shown to its node when the slot has moved.
        if run_id == core.run_id and (not core.away or self.detour is not None):
            if run.slot.session is not core.session:
                return Next.RENEW
            if self.wait is None or self.wait.run_id == run_id:
                return DONE
        self.server = run_id
        if run_id != core.run_id:
            self._count_renewal()
        return Next.TOUCH

    def _count_renewal(self) -> None:
        self.renewals += 1
        if self.renewals > MAX_RENEWALS:
            raise self.unavailable("the session does not last, as if two servers answered under this address")

    def renew(self) -> Slot | None:
        """Continue with a slot of the present session. Returns the old slot if the operation listens to its channel."""
        run, session = self.run, self.core.session
        if run is None or session is None or run.slot.session is session:
            return None
        if self.may_have_run and self.call.changes:
            raise self._unknown("the session ended before the lost reply could be asked for again")
        old, run.slot = run.slot, session.take()
        return old if run.listening else None

    def answered(self, reply: Any) -> Next:
        """Handle a reply."""
        call, run = self.call, self.run
        if run is None:
            self.result = (0, reply)
            return DONE
        self.result = found = self.core.accept(reply, self.floor, self.detour is None)
        if found[0] in ENDED:
            return self._expired(run)
        if call.changes:
            run.slot.last += 1
        return DONE

    def _expired(self, run: Run) -> Next:
        self.core.drop_session(run.slot.session)
        if self.may_have_run and self.call.changes:
            raise self._unknown("the session expired before the lost reply could be asked for again")
        self._count_renewal()
        return Next.RENEW

    def failed(self, error: BaseException) -> Next:
        """Handle a failed try. Returns what to do next. Raises the error of the call if no further try is made.

        The first branch that applies decides: a refusal that another form of the script avoids comes before the
        errors that end the call. tests/drivers/test_faults.py has the faults.
        """
        fault = fault_of(error)
        self.lost = fault is Fault.LOST
        self.rediscover = fault in (Fault.LOST, Fault.MOVED)
        self.detour = None
        if self.core.movable and fault in _AWAY:
            self.core.away = True
        node = redirect(error)
        if node is not None and "+cluster:" not in self.core.where:
            raise BrokerRefused(
                f"{self.core.where} is a node of a cluster and does not hold this manager; use redis+cluster://"
            )
        if fault is Fault.NOSCRIPT:
            self.loads += 1
            if self.loads > 1:
                self._in_time(self.unloaded or error)
            return Next.LOAD
        if fault in (Fault.REFUSED, Fault.BUG) and _FCALL.search(str(error)) and self._no_function():
            return Next.AGAIN
        if fault is Fault.FULL and self.core.forms.no_room(self.call.script):
            self.loads = 0  # the other form of the script has to be loaded once, too
            return Next.AGAIN
        if fault is Fault.ASK:
            self._in_time(error)
            self.detour = node
            return Next.AGAIN
        if fault is Fault.LOST and self.sent:
            self.may_have_run = True
        if fault in _RETRIED:
            if not self.core.reached and not self.sent and fault is Fault.LOST:
                raise self.unavailable(error)
            self._in_time(error)
            return Next.PAUSE
        self.core.reached = True
        text = redact(error).rstrip(".")
        if fault is Fault.FULL:
            raise BrokerFull(
                f"{self.core.where} is at its memory limit: {text}. Receiving still works and makes room"
            )
        connecting = not self.sent and error is not self.unloaded
        if fault is Fault.REFUSED or connecting:
            raise BrokerRefused(
                f"{self.core.where} refused: {text}. Check user, password, database and options of the URL, "
                "the name of the queue manager, and the user's ACL"
            ) from None  # it says what the server said
        what = f"script {self.call.script} failed: {scripts.explain(self.call.script, text)}"
        raise InvariantBroken(f"{what}. `mqredis doctor` shows whether stored data are damaged")

    def failed_load(self, error: BaseException) -> Next:
        """Handle a script that could not be loaded: nothing ran in this try."""
        fault = fault_of(error)
        # A replica takes no functions, but scripts: those who only read need no primary.
        replica = fault is Fault.MOVED and self.core.settings.read_only
        if (fault not in _RETRIED or replica) and self._no_function():
            self.loads = 0  # the other form of the script has to be loaded once, too
            return Next.AGAIN  # EVALSHA needs no room for functions and no permission to call them
        if fault is Fault.BUG and self.core.forms.shebang:
            self.core.forms.no_shebang()  # this server is older than the one that was probed
            return Next.AGAIN
        if forbidden(error):
            # The next call tries the function again, which the deploy step may have loaded by then.
            self.core.forms.known.pop(self.call.script, None)
            raise ScriptsNotLoaded(
                f"{self.core.where} does not have the script {self.call.script} of this release of mqredis, and this "
                f"user may not load scripts{_NOTHING_DONE}. `mqredis scripts load`, run as a user of the role "
                "deploy, loads them: before a new release starts, and after each restart of a server before Redis 7"
            )
        self.sent = False
        self.unloaded = error
        return self.failed(error)

    def _no_function(self) -> bool:
        return self.core.forms.no_function(self.call.script)

    def _in_time(self, error: BaseException) -> None:
        if monotonic() + self._pause() < self.deadline:
            return
        self.core.unreachable = self.lost
        raise self.unavailable(error)

    def _pause(self) -> float:
        return self.pause or self.core.settings.retry_pause_seconds

    def next_pause(self) -> float:
        """Seconds to wait now; the next pause is twice as long."""
        pause = self._pause()
        self.pause = min(pause * 2, self.core.settings.retry_pause_max_seconds)
        return pause

    def unavailable(self, error: object) -> BrokerUnavailable:
        """The error of a call for which the server cannot be used."""
        text = redact(error).rstrip(".")
        if isinstance(error, Exception) and fault_of(error) is not Fault.LOST:
            advice = _REPLICA if "read only replica" in text else ""
            return BrokerUnavailable(
                f"{self.core.where} refused the call until its time was over: {text}{advice}"
            )
        return BrokerUnavailable(f"{self.core.where} cannot be used: {text}. {self._advice(text)}")

    def _advice(self, text: str) -> str:
        """What to do about a connection that ended, or was never made, with this error."""
        if "CERTIFICATE_VERIFY_FAILED" in text:
            return (
                "The URL must name the host as its certificate does; ?ssl_ca_certs=/path/ca.pem in the URL adds an "
                "authority of your own"
            )
        advice = "Is the server running, and is the URL right?"
        if self.core.run_id:  # a server has answered before
            return advice
        if self.core.where.startswith("rediss") and _NO_TLS.search(text):
            return f"{advice} If this port does not use TLS, the URL begins with redis instead of rediss"
        if self.core.where.startswith(("redis:", "redis+")) and _TLS.search(text):
            return f"{advice} If this port uses TLS, the URL begins with rediss instead of redis"
        return advice

    def final(self, error: MqError) -> MqError:
        """The error of the call, after ``error`` has ended its tries. Nearly all errors say that nothing was done, so
        one that comes after a try that was perhaps carried out becomes OutcomeUnknown, whatever it is about."""
        if isinstance(error, OutcomeUnknown) or not (self.may_have_run and self.call.changes):
            return error
        if isinstance(error, (HistoryRolledBack, ManagerNotFound)):
            self.quarantine()  # the error tells of the loss of data, this call among them
            return error
        return self._unknown(str(error).replace(_NOTHING_DONE, ""))

    def _unknown(self, why: str) -> MqError:
        return OutcomeUnknown(
            f"call {self.call.script} on {self.core.where} has an unknown outcome; ask resolve(token): {why}",
            token=self.quarantine(),
        )

    def quarantine(self) -> str:
        """Take the slot out of use, since the outcome of its call is unknown. Returns the token of the call."""
        run = self.run
        if run is None:
            return ""
        token, slot = run.slot.token(), run.slot
        # A waiter of a read may still be registered with its slot, and be handed a lock as the reply of its next call.
        reads = run.listening or self.call.script in READS
        self.core.outcomes.add(token, self.call, None if reads else slot)
        run.unknown, run.lost = token, slot
        run.slot = (self.core.session or run.slot.session).take()
        return token

    def abandon(self) -> None:
        """Called when the caller was cancelled or interrupted during a try."""
        if self.call.changes and (self.sent or self.may_have_run):
            self.quarantine()
            self.sent = self.may_have_run = False


def _raw(_status: int, payload: Payload) -> Payload:
    """Parser of the calls that open and close a session: ``Core`` reads their replies."""
    return payload


def opening_call(core: Core, deadline: float) -> Attempt:
    """The call that opens a session, or renews the present one at a restarted server.

    A read-only client has no session; it calls ``manager_info`` instead.
    """
    script = "manager_info" if core.settings.read_only else "session_open"
    call: Call[Payload] = Call(script, core.keys.admin(), (), _raw, False)
    attempt = Attempt(core, call, None)
    attempt.deadline = deadline
    return attempt


def closing_call(core: Core) -> Attempt | None:
    """Forget the session. Returns the call that closes it at the server.

    None if there is no session, or if the server did not answer the last call: then the session expires by itself.
    """
    session, core.session = core.session, None
    if session is None or core.unreachable or core.settings.read_only:
        return None
    call: Call[Payload] = Call("session_close", core.keys.admin(), (session.number,), _raw, False)
    attempt = Attempt(core, call, None)
    attempt.deadline = monotonic() + 1.0  # the session expires anyway, so one second is enough
    return attempt
