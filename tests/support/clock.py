"""A server whose wall clock can be set, forward and back, while it runs.

A small library that is preloaded into the server (``clock.c``) adds a shift to its wall clock and leaves the monotonic
clock alone, as a machine does whose time is set.
"""

from __future__ import annotations

import mmap
from typing import Self

from tests.support.preload import library
from tests.support.server import RedisServer


class ClockServer(RedisServer):
    """A server with an append-only file and a clock that tests set. It listens on TCP, for replicas.

    :param seconds: how far its clock is ahead (positive) or behind when it starts.
    """

    def __init__(self, seconds: float = 0.0) -> None:
        super().__init__(aof=True, tcp=True)
        path = self.directory / "clock"
        path.write_bytes(bytes(8))
        with path.open("r+b") as file:
            self._shift = mmap.mmap(file.fileno(), 8)
        self.environment = {"LD_PRELOAD": str(library("clock.c")), "MQREDIS_CLOCK": str(path)}
        self.shift(seconds)

    def shift(self, seconds: float) -> None:
        """Set the clock so many seconds ahead of the machine's (negative: behind)."""
        self._shift[:] = round(seconds * 1000).to_bytes(8, "little", signed=True)

    def start(self) -> Self:
        """Start the server. Raises AssertionError if its clock does not follow the clock that the test sets."""
        super().start()
        with self.client() as raw:
            before = int(raw.time()[0])
            place = int.from_bytes(self._shift[:], "little", signed=True)
            self._shift[:] = (place + 1_000_000).to_bytes(8, "little", signed=True)
            after = int(raw.time()[0])
            self._shift[:] = place.to_bytes(8, "little", signed=True)
        assert after - before >= 1000, "the clock of this server cannot be set"
        return self

    def close(self) -> None:
        """Stop it and remove its folder."""
        super().close()
        self._shift.close()
