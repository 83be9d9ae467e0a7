"""What a worker tells the broker about a message that it does not commit.

``failed_attempts`` calls it, and ``run`` names the worker with it.

The queue's retry policy decides what becomes of the message; the texts are those of
:mod:`mqredis.operations.giveback`. A new property of the report needs its name in ``failure.names`` of
lua/features/failure.lua, so that it is removed when the message is put back; a test in tests/contract compares them.
"""

from __future__ import annotations

import os
import socket
import traceback
from collections.abc import Callable
from typing import Any

from mqredis.errors import SealBroken
from mqredis.operations import giveback
from mqredis.worker.outcomes import NotValid, Reject, RetryLater

# The longest text of an error, and of the end of a traceback, in characters.
MAX_ERROR, MAX_TRACEBACK = 1000, 4000


def worker_name() -> str:
    """Host and process id of this process, for the properties of failed messages."""
    return f"{socket.gethostname()}:{os.getpid()}"


def from_handler(error: Exception, handler: Callable[..., Any]) -> Exception:
    """The error, with a traceback that begins in the handler: without the frames of the worker that called it."""
    code, frames = getattr(handler, "__code__", None), error.__traceback__
    while frames is not None and frames.tb_frame.f_code is not code:
        frames = frames.tb_next
    return error if frames is None else error.with_traceback(frames)


class Reporter:
    """Describes the failures of one handler. ``sealed``: bodies are secret, so texts that may quote one are left
    out."""

    def __init__(self, worker: str, handler: str, *, sealed: bool = False) -> None:
        self._worker = worker
        self._handler = handler
        self._sealed = sealed

    def return_instruction(self, error: BaseException, retry_delay: float) -> str:
        """How a message is given back after its handler has raised this."""
        if isinstance(error, RetryLater):
            return giveback.orderly(retry_delay if error.seconds is None else error.seconds)
        if isinstance(error, Reject):
            reason = error.kind if self._sealed and isinstance(error, NotValid) else str(error)
            return giveback.ended(reason, self._about())
        about = self._about(error=self.text(error))
        if not self._sealed:
            about["traceback"] = "".join(traceback.format_exception(error))[-MAX_TRACEBACK:]
        return giveback.failed(self.text(error), about)

    def text(self, error: BaseException) -> str:
        """The type and the text of an error; of sealed bodies the type alone, unless a body could not be opened."""
        kind = type(error).__name__
        secret = self._sealed and not isinstance(error, SealBroken)
        return kind if secret else f"{kind}: {error}"[:MAX_ERROR]

    def _about(self, **more: str) -> dict[str, Any]:
        return {"worker": self._worker, "handler": self._handler, **more}
