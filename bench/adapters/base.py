"""The one interface behind which every peer is measured."""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, ClassVar

from bench.payload import check

#: The kinds of work that a peer may offer; each is a method of the same name. ``send(first, count)`` sends
#: messages ``first`` and following, one at a time; ``receive(count)`` receives and acknowledges so many, one
#: at a time; ``send_batch(first, count, size)`` and ``receive_batch(count, size)`` do the same with ``size``
#: messages in one call. ``transact(count)`` and ``transact_batch(count, size)`` receive, send
#: what came to a second queue, and acknowledge. ``drain(count)`` has the peer's own worker handle so many no-op tasks.
#: All check the bodies they receive.
WORKS = ("send", "receive", "send_batch", "receive_batch", "transact", "transact_batch", "drain")
#: What a peer with :data:`WORKS` need not have.
PLAIN = WORKS[:4]


class Peer(ABC):
    """One product, or one way to use it. A process holds one, and opens it anew for every measurement.

    The server is empty when ``open`` is called, or another process has opened the same peer just now. Methods
    are called with counts, not messages, so that each peer may loop in the way that is natural to it.

    A peer that can wait for messages has ``arrivals(count)``: receive and acknowledge so many, and return the clock
    (``time.monotonic``) at which each had come; with :attr:`many` it takes ``waiters``, too, the number of its readers
    that wait at once. Where that is the peer's worker, ``drain`` among its works tells so.
    """

    #: What it offers of :data:`WORKS`.
    works: ClassVar[tuple[str, ...]] = ("send", "receive")
    #: What a reader must know beside the figure: settings that are not the defaults.
    settings: ClassVar[str] = ""
    #: Does the death of a consumer between receive and acknowledgement leave the message there?
    acknowledges: ClassVar[bool] = True
    #: Can several of its readers wait at once?
    many: ClassVar[bool] = False

    def __init__(self, url: str) -> None:
        self.url = url

    @abstractmethod
    def open(self) -> None:
        """Connect, and make what must be there before the first message."""

    @abstractmethod
    def close(self) -> None:
        """Close all connections."""

    @abstractmethod
    def send(self, first: int, count: int) -> None:
        """Send messages ``first`` and following, one at a time."""

    def fill(self, first: int, count: int) -> None:
        """Put messages there, in the quickest way."""
        if "send_batch" in self.works:
            getattr(self, "send_batch")(first, count, 100)  # noqa: B009 (only some peers have it)
        else:
            self.send(first, count)


class AsyncPeer(Peer):
    """A peer that needs an event loop: the methods run its coroutines to their end, on the same loop."""

    #: How many tasks share the work.
    tasks: ClassVar[int] = 1

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.loop = asyncio.new_event_loop()

    def wait(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Run one coroutine to its end."""
        return self.loop.run_until_complete(coroutine)

    def share(self, one: Callable[[int, int], Awaitable[None]], count: int) -> None:
        """Run ``one(first, count)`` in each task, with its part of the messages."""

        async def everything() -> None:
            await asyncio.gather(*(one(start, many) for start, many in parts(count, self.tasks)))

        self.wait(everything())


class Tally:
    """Notes when each of so many messages came, and calls ``done`` with the last."""

    def __init__(self, count: int, done: Callable[[], object]) -> None:
        self.times: list[float] = []
        self._count = count
        self._done = done

    def __call__(self, body: object) -> None:
        """One came."""
        self.times.append(time.monotonic())
        check(body)
        if len(self.times) == self._count:
            self._done()


def parts(count: int, tasks: int) -> list[tuple[int, int]]:
    """Share ``count`` messages among tasks: (first, count) of each."""
    share, rest = divmod(count, tasks)
    found, first = [], 0
    for number in range(tasks):
        size = share + (number < rest)
        found.append((first, size))
        first += size
    return found
