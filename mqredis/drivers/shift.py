"""Whose turn it is to read the subscription: one of the threads that sleep on it reads for all.

A thread of its own that reads would have to be waked for every bell, and then wake the thread that it rang for. So the
first that sleeps reads, rings the others, and when its own bell rings hands the reading over to one who still sleeps.
Where nobody sleeps nobody reads: what comes then is found by the next, or by ``glean`` now and then.
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

#: The system's poll takes no more than some weeks, in seconds.
_LONGEST = 86_400.0


class Alarm:
    """A flag that one thread at a time may sleep on. It may be raised from anywhere, a signal's handler included."""

    __slots__ = ("_asleep", "_shift", "_up", "reader")

    def __init__(self, shift: Shift) -> None:
        self._shift = shift
        self._up = False
        self._asleep = threading.Lock()
        self._asleep.acquire()
        #: The thread that reads while it sleeps on this; 0: none does.
        self.reader = 0

    def set(self) -> None:
        """Raise it."""
        self._up = True
        reader = self.reader
        if reader:
            # What the reader itself hears needs no nudge.
            if reader != self._shift.hearing or reader != threading.get_ident():
                self._shift.nudge()
        else:
            self.wake()

    def clear(self) -> None:
        """Lower it."""
        self._up = False

    def is_set(self) -> bool:
        """Is it up?"""
        return self._up

    def wake(self) -> None:
        """Let the one who dozes look again, or the next one."""
        with suppress(RuntimeError):  # nobody dozes, and the next one will not
            self._asleep.release()

    def doze(self, seconds: float) -> None:
        """Sleep until somebody wakes."""
        self._asleep.acquire(timeout=seconds)


class Shift:
    """Passes the reading of one subscription around."""

    #: Takes each message that is read.
    heard: Callable[[Any], None]

    def __init__(self, lost: Callable[[], None]) -> None:
        self._lost = lost
        self._lock = threading.Lock()
        self._ear: SocketConnection | None = None
        self._reader: Alarm | None = None
        self._sleepers: dict[Alarm, None] = {}
        #: The thread that is at it just now.
        self.hearing = 0
        #: How much has been heard, and how much of it when that was last asked.
        self.news = 0
        self._known = 0
        self._nudging = threading.RLock()  # a signal's handler may come in between
        self._pipe: tuple[int, int] | None = None

    def alarm(self) -> Alarm:
        """A new one."""
        return Alarm(self)

    # ---- those who sleep -------------------------------------------------------------------------

    def sleep(self, alarm: Alarm, seconds: float, woken: Callable[[], object] | None = None) -> bool:
        """Sleep until the alarm is raised, reading for all where nobody else does. False: it was not in time.

        ``woken``: done at once when it was raised, before the reading is handed over.
        """
        end = time.monotonic() + seconds
        try:
            while not alarm._up:
                left = end - time.monotonic()
                if left <= 0:
                    return False
                ear = self._turn(alarm)
                if ear is None:
                    alarm.doze(left)
                else:
                    self._read(ear, alarm, end)
            if woken is not None:
                woken()
            return True
        finally:
            self._leave(alarm)

    def _turn(self, alarm: Alarm) -> SocketConnection | None:
        """What to read from, if it is for this one to read."""
        with self._lock:
            if self._ear is not None and self._reader in (None, alarm):
                self._reader = alarm
                self._sleepers.pop(alarm, None)
                return self._ear
            self._sleepers[alarm] = None
            return None

    def _leave(self, alarm: Alarm) -> None:
        with self._lock:
            self._sleepers.pop(alarm, None)
            if self._reader is alarm:
                self._reader = None
                if self._sleepers:
                    self._appoint()

    def _appoint(self) -> None:
        """Wake one who still sleeps, to read. Under the lock."""
        if self._reader is None and self._ear is not None and self._sleepers:
            self._reader = next(iter(self._sleepers))
            self._reader.wake()

    def _read(self, ear: SocketConnection, alarm: Alarm, end: float) -> None:
        """Read until the alarm is raised, the time is over, or the connection is gone."""
        alarm.reader = threading.get_ident()  # before the look at the flag: whoever raises it later nudges
        try:
            poll = select.poll()
            poll.register(ear.number, select.POLLIN)
            if self._pipe is not None:
                poll.register(self._pipe[0], select.POLLIN)
            while not alarm._up and self._ear is ear:
                left = end - time.monotonic()
                if left <= 0:
                    return
                for number, _ in poll.poll(min(left, _LONGEST) * 1000):
                    if number == ear.number:
                        self._hear(ear)
                    else:
                        self._rub()
        finally:
            alarm.reader = 0

    def _hear(self, ear: SocketConnection) -> None:
        self.hearing = threading.get_ident()
        try:
            for message in ear.take():
                self.news += 1
                self.heard(message)
        except BaseException as error:
            # Whatever a connection says that another thread closes meanwhile; or the thread was interrupted, perhaps
            # between two halves of a message.
            if self.detach(ear):
                self._lost()
            if not isinstance(error, Exception):
                raise
        finally:
            self.hearing = 0

    # ---- those who disturb them ------------------------------------------------------------------

    def nudge(self) -> None:
        """Let the reader look at its alarm."""
        with self._nudging:
            if self._pipe is not None:
                with suppress(BlockingIOError):  # full: it will look
                    os.write(self._pipe[1], b"!")

    def _rub(self) -> None:
        with self._nudging, suppress(BlockingIOError):
            if self._pipe is not None:
                os.read(self._pipe[0], 4096)

    # ---- the one who keeps the connection --------------------------------------------------------

    def attach(self, ear: SocketConnection) -> None:
        """There is a connection to read from."""
        with self._nudging:
            if self._pipe is None:
                self._pipe = os.pipe()
                for end in self._pipe:
                    os.set_blocking(end, False)
        with self._lock:
            self._ear = ear
            self._appoint()

    def detach(self, ear: SocketConnection | None = None) -> bool:
        """This connection, or any, is of no use any more. False: it was not in use."""
        with self._lock:
            if self._ear is None or (ear is not None and ear is not self._ear):
                return False
            self._ear = None
            if self._reader is not None:  # if it still sleeps it says so again
                self._sleepers.pop(self._reader, None)
                self._reader = None
        self.nudge()
        return True

    def glean(self) -> None:
        """Hear what has come while nobody slept."""
        mine = Alarm(self)
        ear = self._turn(mine)
        if ear is not None:
            self._hear(ear)
        self._leave(mine)

    def fresh(self) -> bool:
        """Was anything heard since this was asked last?"""
        known, self._known = self._known, self.news
        return known != self._known

    def close(self) -> None:
        """Nobody reads any more."""
        self.detach()
        with self._nudging:
            self.forget()

    def forget(self) -> None:
        """Close what belongs to this process; in a child the locks may be held by threads that are not there."""
        pipe, self._pipe = self._pipe, None
        for end in pipe or ():
            os.close(end)

    __del__ = forget
