"""The end of a worker by SIGTERM and SIGINT.

``Worker.run`` uses it. In a thread other than the main one it does nothing, since Python allows no handlers there. A
supervisor has handlers of its own (``processes``).
"""

from __future__ import annotations

import signal
import threading
from queue import SimpleQueue
from typing import Any

from mqredis.worker.ending import Ending


class Signals:
    """SIGTERM and SIGINT end a run; the old handlers come back at the end.

    A handler interrupts the main thread wherever it is, perhaps with the lock of the very event that ``stop`` sets: so
    it only leaves a note, which a thread takes up.
    """

    def __init__(self, ending: Ending) -> None:
        self._ending = ending
        self._old: dict[int, Any] = {}
        self._notes: SimpleQueue[bool] = SimpleQueue()

    def __enter__(self) -> None:
        if threading.current_thread() is threading.main_thread():
            threading.Thread(target=self._serve, name="mqredis-signals", daemon=True).start()
            for number in (signal.SIGTERM, signal.SIGINT):
                self._old[number] = signal.signal(number, lambda *_: self._notes.put(True))

    def __exit__(self, *_: object) -> None:
        for number, old in self._old.items():
            signal.signal(number, old)
        self._notes.put(False)

    def _serve(self) -> None:
        while self._notes.get():
            self._ending.stop()
