"""The interface behind which every Python peer is measured.

``child`` calls a peer by the orders of ``runner`` and ``waiting``; bench/peers/__init__.py lists the peers and what
each is asked for. peers/bullmq.mjs answers the same orders without this class.
"""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, ClassVar

from bench.messages import SHAPES, body


class Peer(ABC):
    """One product, or one way to use it.

    Methods are called with numbers and counts, not with messages, so that each peer may loop in its own way:
    ``send(first, count)`` and ``receive(count)`` one at a time, acknowledged; ``send_batch(first, count, size)``
    and ``receive_batch(count, size)`` with ``size`` messages in one call; ``transact(count)`` receives, sends to a
    second queue and acknowledges; ``drain(count)`` lets the peer's own worker handle messages with an empty handler and
    returns the clock (``time.monotonic``) at the end of each. All check what they receive.
    """

    def __init__(self, url: str, shape: str, size: int) -> None:
        self.url = url
        self.shape = SHAPES[shape]
        self.text = body(size)

    @abstractmethod
    def open(self) -> None:
        """Connect, and create what must exist before the first message."""

    @abstractmethod
    def close(self) -> None:
        """Close all connections."""

    @abstractmethod
    def send(self, first: int, count: int) -> None:
        """Send messages ``first`` and following, one at a time."""

    def fill(self, first: int, count: int) -> None:
        """Put messages into the queue in the fastest way."""
        if batch := getattr(self, "send_batch", None):
            batch(first, count, 100)
        else:
            self.send(first, count)

    def fill_source(self, first: int, count: int) -> None:
        """Put messages into the queue that ``transact`` receives from."""
        self.fill(first, count)


class AsyncPeer(Peer):
    """A peer that needs an event loop: its methods run coroutines on one loop."""

    tasks: ClassVar[int] = 1

    def __init__(self, url: str, shape: str, size: int) -> None:
        super().__init__(url, shape, size)
        self.loop = asyncio.new_event_loop()

    def wait(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Run a coroutine to its end."""
        return self.loop.run_until_complete(coroutine)

    def share(self, one: Callable[[int, int], Awaitable[None]], count: int) -> None:
        """Run ``one(first, count)`` in each task with its part of the messages."""

        async def everything() -> None:
            part, rest = divmod(count, self.tasks)
            sizes = [part + (number < rest) for number in range(self.tasks)]
            await asyncio.gather(*(one(sum(sizes[:n]), size) for n, size in enumerate(sizes)))

        self.wait(everything())


class Tally:
    """Notes when each of ``count`` messages was handled, and calls ``done`` after the last."""

    def __init__(self, count: int, done: Callable[[], object]) -> None:
        self.times: list[float] = []
        self._count = count
        self._done = done

    def __call__(self) -> None:
        """One message was handled."""
        self.times.append(time.monotonic())
        if len(self.times) == self._count:
            self._done()
