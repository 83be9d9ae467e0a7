"""Helpers for the tests of this folder."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable
from enum import Enum
from typing import Any

import pytest
from pydantic import BaseModel

from mqredis import Access, Acknowledge
from mqredis.errors import IoTimeout
from mqredis.models.base import Fields
from mqredis.models.inspection import QueueHistory


def make(qm, name="q", **properties):
    """Create a queue and open it."""
    qm.create_queue(name, **properties)
    return qm.open(name)


def drain(qm, name):
    """Receive all available messages."""
    found = []
    with qm.open(name, Access.RECEIVE) as queue:
        while True:
            try:
                found.append(queue.receive(0))
            except IoTimeout:
                return found


FULL_RECEIVE: dict[str, Any] = {"acknowledge": Acknowledge.FULL_RECEIVE, "administration_queue": "admin"}
NACK_RECEIVE: dict[str, Any] = {"acknowledge": Acknowledge.NACK_RECEIVE, "administration_queue": "admin"}
POS_ARRIVAL: dict[str, Any] = {"acknowledge": Acknowledge.POSITIVE_ARRIVAL, "administration_queue": "admin"}
POS_RECEIVE: dict[str, Any] = {"acknowledge": Acknowledge.POSITIVE_RECEIVE, "administration_queue": "admin"}


def send(queue, text, **fields):
    """Send one message for each letter."""
    return [queue.send(letter.encode(), **fields) for letter in text]


def send_in(qm, queue, text, **fields):
    """Send in a new transaction and commit it."""
    with qm.transaction() as tx:
        return send(queue, text, transaction=tx, **fields)


def read(queue):
    """The letters of all available messages."""
    return b"".join(m.body for m in queue.browse()).decode()


def classes(qm, name="admin"):
    """Receive all messages; return their classes."""
    return [m.message_class for m in drain(qm, name)]


def gone(queue):
    """Check that no message is available."""
    with pytest.raises(IoTimeout):
        queue.receive(0)


class Loop:
    """An event loop in its own thread, so that several calls can wait at once."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="msmq-loop", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    def call(self, function: Callable[..., Any], *args: Any, **named: Any) -> Any:
        """Call a function on the loop, await the result if it is awaitable, and return it."""

        async def run() -> Any:
            result = function(*args, **named)
            if inspect.isawaitable(result):
                return await result
            if hasattr(result, "__aiter__"):
                return [item async for item in result]
            return result

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(30)
        self._loop.close()


class Proxy:
    """An object of the asyncio interface with the blocking methods."""

    def __init__(self, target: Any, loop: Loop) -> None:
        self.__dict__.update(target=target, loop=loop)

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.target, name)
        if not callable(value):
            return self._wrap(value)
        return lambda *args, **named: self._call(value, *args, **named)

    def _call(self, function: Callable[..., Any], *args: Any, **named: Any) -> Any:
        plain = [unwrap(value) for value in args]
        return self._wrap(self.loop.call(function, *plain, **{k: unwrap(v) for k, v in named.items()}))

    def _wrap(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._wrap(item) for item in value]
        if isinstance(value, BaseModel | Enum | Fields | QueueHistory) or not type(
            value
        ).__module__.startswith("mqredis"):
            return value
        return Proxy(value, self.loop)

    def __enter__(self) -> Any:
        return self._call(self.target.__aenter__)

    def __exit__(self, kind: Any, error: Any, trace: Any) -> Any:
        return self._call(self.target.__aexit__, kind, error, trace)


def unwrap(value: Any) -> Any:
    """The object wrapped by a proxy, also within a list."""
    if isinstance(value, list):
        return [unwrap(item) for item in value]
    return value.target if isinstance(value, Proxy) else value
