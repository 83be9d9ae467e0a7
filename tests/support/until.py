"""Wait for what no event tells, such as the state of another process."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable
from typing import Any

import redis

# Never set: what is polled for cannot set an event here.
_PAUSE = threading.Event()


def until(condition: Callable[[], Any], what: str = "it", seconds: float = 30.0) -> Any:
    """Wait until the condition holds, and return what it has returned. Errors of a server count as no."""
    end = time.monotonic() + seconds
    while True:
        with contextlib.suppress(redis.RedisError):
            if found := condition():
                return found
        assert time.monotonic() < end, f"never came true: {what}"
        _PAUSE.wait(0.002)


async def aio_until(condition: Callable[[], Any], seconds: float = 30.0) -> None:
    """Wait in asyncio until a condition holds; the loop runs between two checks."""
    pause = asyncio.Event()
    async with asyncio.timeout(seconds):
        while not condition():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0.002):
                    await pause.wait()
