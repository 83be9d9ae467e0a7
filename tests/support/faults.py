"""The faults that the proxy can commit, and the rules that say when."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Request:
    """One request on its way to the server."""

    connection: int
    index: int
    """Which request of its connection, and of the whole proxy, counted from 1."""
    number: int
    args: tuple[bytes, ...]
    frame: bytes

    @property
    def command(self) -> str:
        """The command, upper case."""
        return self.args[0].decode("ascii", "replace").upper() if self.args else ""


@dataclass(frozen=True)
class CutRequest:
    """Forward the first ``after`` bytes of the request, then cut both sides. 0: the server sees nothing."""

    after: int = 0


@dataclass(frozen=True)
class CutReply:
    """Let the server answer, give the client the first ``after`` bytes of the answer, then cut both sides."""

    after: int = 0


@dataclass(frozen=True)
class Hold:
    """Keep the request back until ``Rule.release()``, which forwards it even if the client has gone.

    ``reply=True`` forwards the request at once and keeps the answer back.
    ``cut=True`` cuts the client as soon as the request is held: it may come back on another connection,
    and the old request still reaches the server when released.
    """

    reply: bool = False
    cut: bool = False


@dataclass(frozen=True)
class SlowReply:
    """Give the client the answer ``size`` bytes at a time, with ``pause`` seconds in between."""

    size: int = 1
    pause: float = 0.001


@dataclass(frozen=True)
class BlackHole:
    """From now on nothing passes on this connection in either direction, without an error on either side.

    ``forward=True`` still lets this very request reach the server.
    """

    forward: bool = False


@dataclass(frozen=True)
class Duplicate:
    """Send the request to the server a second time, on another connection, and drop the second answer.

    ``first=True`` sends the copy before the request itself; each waits for the other's answer.
    """

    first: bool = False


@dataclass(frozen=True)
class Refuse:
    """Answer with this error (without the leading dash) instead of asking the server."""

    error: str = "LOADING Redis is loading the dataset in memory"


@dataclass(frozen=True)
class DropPush:
    """Drop messages that are published to this connection.

    Confirmations of subscriptions pass. The rule is matched against what the server pushes: ``Request.args``
    are its strings (``message``, channel, payload), so ``Request.command`` is ``MESSAGE`` or ``PMESSAGE``.
    """


def is_script(request: Request) -> bool:
    """Is it a call of a script?"""
    return request.command in ("FCALL", "EVALSHA")


Fault = CutRequest | CutReply | Hold | SlowReply | BlackHole | Duplicate | Refuse | DropPush


@dataclass(eq=False)
class Rule:
    """When to commit a fault: for the requests of ``command`` that ``where`` accepts, after ``skip`` of them,
    ``times`` times (None: always), each with probability ``chance``."""

    fault: Fault
    command: str | None = None
    where: Callable[[Request], bool] | None = None
    skip: int = 0
    times: int | None = 1
    chance: float = 1.0
    hits: int = 0
    seen: list[Request] = field(default_factory=list)
    """The requests to which the fault was applied."""
    _struck: threading.Event = field(default_factory=threading.Event)
    _released: threading.Event = field(default_factory=threading.Event)
    _on_release: list[Callable[[], None]] = field(default_factory=list)

    def strikes(self, request: Request, rng: random.Random) -> bool:
        """Return whether the fault applies to this request, and count it. Called only by the thread of the proxy."""
        if self.command is not None and request.command != self.command.upper():
            return False
        if self.where is not None and not self.where(request):
            return False
        if self.skip > 0:
            self.skip -= 1
            return False
        if self.times is not None and self.hits >= self.times:
            return False
        if self.chance < 1.0 and rng.random() >= self.chance:
            return False
        self.hits += 1
        self.seen.append(request)
        return True

    def struck(self) -> None:
        """Notify waiting threads that the fault was committed (for a hold: that the request is held)."""
        self._struck.set()

    def wait(self, timeout: float = 10.0) -> bool:
        """Wait until the fault was committed; False after ``timeout`` seconds without it."""
        return self._struck.wait(timeout)

    def release(self) -> None:
        """Let go what is held, now and from now on."""
        self._released.set()
        for call in self._on_release:
            call()

    def when_released(self, call: Callable[[], None]) -> None:
        """Call this once released, at once if it was already (from any thread)."""
        self._on_release.append(call)
        if self._released.is_set():
            call()
