"""The event loop on which all handlers of a worker run that are coroutines; it has a thread of its own.

``run`` makes and closes it, and ``attempts`` runs handlers on it. ``AsyncUnit.send`` and ``asyncio.to_thread`` of a
handler run in threads of its default executor.
"""

from __future__ import annotations

import asyncio
import threading


class EventLoop:
    """Begins with the first handler that is a coroutine."""

    def __init__(self) -> None:
        # Both are made together under the lock. ``close`` reads them when no handler begins any more.
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def get(self) -> tuple[asyncio.AbstractEventLoop, threading.Thread]:
        """The loop, and the thread that runs it."""
        with self._lock:
            if self._loop is None or self._thread is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=self._loop.run_forever, name="mqredis-asyncio", daemon=True
                )
                self._thread.start()
            return self._loop, self._thread

    def close(self) -> None:
        """End the thread, and close the loop unless a handler keeps its thread busy. The calls of the executor that run
        still are not waited for: nothing can end them, and the worker has given back their messages."""
        if self._loop is None or self._thread is None:
            return
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)
        if not self._thread.is_alive():
            self._loop.close()
