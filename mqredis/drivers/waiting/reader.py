"""The threads that sleep on one subscription take turns reading it: one of them reads for all.

``waiting.registry``, that of the blocking driver, uses it.

A thread that only reads would have to be scheduled for every notification, and then schedule the thread that the
notification is for. So the first thread that sleeps reads and wakes the others. When its own flag goes up it passes the
reading on to a thread that still sleeps. While no thread sleeps no thread reads: the next sleeper, or ``drain_pending``
now and then, finds what has arrived meanwhile.
"""

from __future__ import annotations

import os
import select
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from mqredis.drivers.net.blocking import SocketConnection

# ``poll`` of the system takes no more than some weeks, in seconds.
_LONGEST = 86_400.0


class WakeFlag:
    """A flag that one thread at a time may sleep on. Any thread may raise it, a signal handler as well."""

    __slots__ = ("_asleep", "_owner", "reading_thread", "up")

    def __init__(self, owner: SubscriptionReader) -> None:
        self._owner = owner
        self.up = False
        self._asleep = threading.Lock()
        self._asleep.acquire()
        # The identity of the thread that reads while it sleeps on this flag; 0 if none does.
        self.reading_thread = 0

    def set(self) -> None:
        """Raise the flag."""
        self.up = True
        thread = self.reading_thread
        if thread:
            # The reading thread looks at its flag after each message, so it is interrupted only if another thread
            # raises the flag.
            if thread != self._owner.receiving_thread or thread != threading.get_ident():
                self._owner.interrupt()
        else:
            self.wake()

    def clear(self) -> None:
        """Lower the flag."""
        self.up = False

    def is_set(self) -> bool:
        """Is the flag up?"""
        return self.up

    def wake(self) -> None:
        """End the present ``sleep``, or the next one."""
        with suppress(RuntimeError):  # the lock is free already: the next sleep returns at once
            self._asleep.release()

    def sleep(self, seconds: float) -> None:
        """Sleep until ``wake`` is called, at most so many seconds."""
        self._asleep.acquire(timeout=seconds)


class SubscriptionReader:
    """Lets threads sleep on flags, and gives one of them at a time the subscription to read."""

    received: Callable[[Any], None]
    """Called with each message that is read. Set once by the registry, whose table handles messages."""

    def __init__(self, lost: Callable[[], None]) -> None:
        self._lost = lost
        # Both locks are re-entrant, since a signal handler may close the client, or raise a flag.
        self._lock = threading.RLock()
        self._conn: SocketConnection | None = None
        # The flag of the thread that reads.
        self._reader: WakeFlag | None = None
        self._sleepers: dict[WakeFlag, None] = {}
        # The identity of the thread that handles a message just now.
        self.receiving_thread = 0
        self._count = 0
        self._last_count = 0
        self._pipe_lock = threading.RLock()
        self._pipe: tuple[int, int] | None = None

    def flag(self) -> WakeFlag:
        """Make a flag to sleep on."""
        return WakeFlag(self)

    # ---- sleeping threads ------------------------------------------------------------------------

    def sleep(self, flag: WakeFlag, seconds: float) -> bool:
        """Sleep until the flag is up, and read meanwhile if no other thread does. False: the time is over."""
        end = time.monotonic() + seconds
        try:
            while not flag.up:
                left = end - time.monotonic()
                if left <= 0:
                    return False
                conn = self._claim_reading(flag)
                if conn is None:
                    flag.sleep(left)
                else:
                    self._read(conn, flag, end)
            return True
        finally:
            self._leave(flag)

    def _claim_reading(self, flag: WakeFlag) -> SocketConnection | None:
        """Return the connection if the thread of this flag is to read it; else note the thread as a sleeper."""
        with self._lock:
            if self._conn is not None and self._reader in (None, flag):
                self._reader = flag
                self._sleepers.pop(flag, None)
                return self._conn
            self._sleepers[flag] = None
            return None

    def _leave(self, flag: WakeFlag) -> None:
        with self._lock:
            self._sleepers.pop(flag, None)
            if self._reader is flag:
                self._reader = None
                if self._sleepers:
                    self._appoint_reader()

    def _appoint_reader(self) -> None:
        """Wake a sleeping thread, so that it reads. Called under the lock."""
        if self._reader is None and self._conn is not None and self._sleepers:
            self._reader = next(iter(self._sleepers))
            self._reader.wake()

    def _read(self, conn: SocketConnection, flag: WakeFlag, end: float) -> None:
        """Read until the flag is up, the time is over, or the connection is lost."""
        # Before the flag is looked at: a later ``set`` interrupts.
        flag.reading_thread = threading.get_ident()
        try:
            poll = select.poll()
            poll.register(conn.number, select.POLLIN)
            if self._pipe is not None:
                poll.register(self._pipe[0], select.POLLIN)
            while not flag.up and self._conn is conn:
                left = end - time.monotonic()
                if left <= 0:
                    return
                for number, _ in poll.poll(min(left, _LONGEST) * 1000):
                    if number == conn.number:
                        self._receive(conn)
                    else:
                        self._drain_pipe()
        finally:
            flag.reading_thread = 0

    def _receive(self, conn: SocketConnection) -> None:
        self.receiving_thread = threading.get_ident()
        try:
            for message in conn.take():
                self._count += 1
                self.received(message)
        except BaseException as error:
            # Another thread has closed the connection, or this thread was interrupted, perhaps in the middle of a
            # message: the connection cannot be read any more.
            if self.detach(conn):
                self._lost()
            if not isinstance(error, Exception):
                raise
        finally:
            self.receiving_thread = 0

    # ---- the pipe that interrupts the reading thread ---------------------------------------------

    def interrupt(self) -> None:
        """Let the reading thread look at its flag."""
        with self._pipe_lock:
            if self._pipe is not None:
                with suppress(BlockingIOError):  # the pipe is full, so the thread will look
                    os.write(self._pipe[1], b"!")

    def _drain_pipe(self) -> None:
        with self._pipe_lock, suppress(BlockingIOError):
            if self._pipe is not None:
                os.read(self._pipe[0], 4096)

    # ---- the thread that keeps the connection ----------------------------------------------------

    def attach(self, conn: SocketConnection) -> None:
        """Give the sleeping threads a connection to read."""
        with self._pipe_lock:
            if self._pipe is None:
                self._pipe = os.pipe()
                for end in self._pipe:
                    os.set_blocking(end, False)
        with self._lock:
            self._conn = conn
            self._appoint_reader()

    def detach(self, conn: SocketConnection | None = None) -> bool:
        """Take this connection, or whichever is attached, away from the threads. False: it was not attached."""
        with self._lock:
            if self._conn is None or (conn is not None and conn is not self._conn):
                return False
            self._conn = None
            if self._reader is not None:  # it notes itself as a sleeper again
                self._sleepers.pop(self._reader, None)
                self._reader = None
        self.interrupt()
        return True

    def drain_pending(self) -> None:
        """Handle what has arrived while no thread slept."""
        mine = WakeFlag(self)
        conn = self._claim_reading(mine)
        if conn is not None:
            self._receive(conn)
        self._leave(mine)

    def received_any(self) -> bool:
        """Has a message arrived since the last call of this method?"""
        last, self._last_count = self._last_count, self._count
        return last != self._last_count

    def close(self) -> None:
        """End all reading."""
        self.detach()
        with self._pipe_lock:
            self.close_pipe()

    def close_pipe(self) -> None:
        """Close the pipe, without locks: in a child process a thread that does not exist there may hold them."""
        pipe, self._pipe = self._pipe, None
        for end in pipe or ():
            os.close(end)

    __del__ = close_pipe
