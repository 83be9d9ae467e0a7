"""The look of a reader that waits, sent as soon as its bell is heard.

What is left to do until its reply can be read is done while the server works on it.
"""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, Any

from mqredis.drivers.attempt import Attempt
from mqredis.drivers.session import Core, Run
from mqredis.drivers.wire import REDIS_ERRORS
from mqredis.steps import Call

if TYPE_CHECKING:
    from mqredis.drivers.links import Backend, Link


class Early:
    """The first try of a call, packed before its bell rings. If it cannot be sent at once, that call is made as any."""

    __slots__ = ("_backend", "_error", "_request", "attempt", "link")

    def __init__(self, core: Core, backend: Backend, call: Call[Any], run: Run) -> None:
        self._backend = backend
        self._error: BaseException | None = None
        self.attempt = Attempt(core, call, run, 0.0, backend.address)
        self._request = self.attempt.packed()
        #: The connection that it was sent over; None: it was not.
        self.link: Any = None

    def send(self) -> None:
        """Send it, if a connection is free now and nothing has to be done before."""
        attempt = self.attempt
        link = self._backend.take()
        if link is None:
            return
        if not attempt.begun(link.run_id, monotonic()):
            self._backend.release(link)
            return
        # First, so that whoever is interrupted from here on knows that it may have left this process.
        attempt.sent, self.link = True, link
        try:
            for part in self._request:
                link.send(part)
        except REDIS_ERRORS as error:
            self._error = error

    def take(self) -> Any:
        """Hand the connection over to who reads the reply."""
        link, self.link = self.link, None
        return link

    def reply(self, link: Link) -> Any:
        """Read the reply. Raises as any exchange does."""
        if self._error is not None:
            raise self._error
        return link.exchange(())

    def drop(self) -> None:
        """Nobody will read its reply: its connection is closed, and what it did is not known."""
        if self.link is not None:
            self._backend.discard(self.take())
            self.attempt.abandon()


def begun(run: Run, call: Call[Any]) -> Early | None:
    """What the operation that waited has sent of this call; what it sent of another one is dropped."""
    early: Early = run.early
    if early.link is not None and early.attempt.call is call:
        return early
    early.drop()
    run.early = None
    return None
