"""One synchronous interface for the sync client, the asyncio client and the model.

A conformance test is written once against :class:`Broker`. For asyncio the calls run on a private event loop
in a thread of its own, so a test may have several reads waiting at once whatever the interface is.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from enum import Enum
from typing import Any

from pydantic import BaseModel

from mqredis.errors import IoTimeout
from mqredis.models.base import Fields
from mqredis.settings import Settings

# No step of a conformance test takes longer than this unless something hangs, in seconds.
PATIENCE = 30.0


class LoopThread:
    """An event loop that runs in a thread; ``call`` runs something on it and waits for the result."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self._run, name="conformance-loop", daemon=True)
        self.thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()

    def call(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        async def run() -> Any:
            result = function(*args, **kwargs)
            if inspect.isawaitable(result):
                return await result
            if hasattr(result, "__aiter__"):
                return [item async for item in result]
            return result

        return asyncio.run_coroutine_threadsafe(run(), self.loop).result()

    def close(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(PATIENCE)
        self.loop.close()


class Wrapped:
    """Stands for its ``target``."""

    target: Any


class Proxy(Wrapped):
    """An object of the asyncio interface that behaves like that of the sync interface."""

    def __init__(self, target: Any, thread: LoopThread) -> None:
        self.__dict__.update(target=target, thread=thread)

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.target, name)
        if not callable(value):
            return self._wrap(value)
        return lambda *args, **kwargs: self._call(value, *args, **kwargs)

    def _call(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        plain = [unwrap(a) for a in args]
        named = {k: unwrap(v) for k, v in kwargs.items()}
        return self._wrap(self.thread.call(function, *plain, **named))

    def _wrap(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._wrap(item) for item in value]
        if isinstance(value, BaseModel | Enum | Fields) or not type(value).__module__.startswith("mqredis"):
            return value
        return Proxy(value, self.thread)

    def __enter__(self) -> Any:
        return self._call(self.target.__aenter__)

    def __exit__(self, kind: Any, error: Any, trace: Any) -> Any:
        return self._call(self.target.__aexit__, kind, error, trace)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._call(lambda: self.target))


def unwrap(value: Any) -> Any:
    """Return the object behind its wrappers, also inside a list."""
    if isinstance(value, list):
        return [unwrap(item) for item in value]
    return unwrap(value.target) if isinstance(value, Wrapped) else value


class Pending:
    """A call that runs in a thread."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self._future: Future[Any] = Future()
        self._thread = threading.Thread(target=self._run, args=(function,), daemon=True)
        self._thread.start()

    def _run(self, function: Callable[[], Any]) -> None:
        try:
            self._future.set_result(function())
        except BaseException as error:  # noqa: BLE001 - handed to whoever asks for the result
            self._future.set_exception(error)

    def result(self, timeout: float = PATIENCE) -> Any:
        return self._future.result(timeout)

    def error(self, timeout: float = PATIENCE) -> BaseException | None:
        """Return the exception of the call, or None if it returned."""
        return self._future.exception(timeout)

    def done(self) -> bool:
        return self._future.done()


class Broker:
    """A queue manager of its own for one test, on one store, with one interface."""

    def __init__(
        self, kind: str, connect: Callable[..., Any], manager: str, thread: LoopThread | None
    ) -> None:
        self.kind = kind
        self.manager = manager
        self._connect = connect
        self._thread = thread
        self._clients: list[Any] = []
        self._pending: list[Pending] = []
        self.qm = self.client()

    def client(self, **settings: Any) -> Any:
        """Another client of the same queue manager."""
        chosen = Settings(**{"test_clock": True, "allow_volatile": True, **settings})
        if self._thread is None:
            client = self._connect(manager=self.manager, settings=chosen)
        else:
            client = Proxy(
                self._thread.call(self._connect, manager=self.manager, settings=chosen), self._thread
            )
        self._clients.append(client)
        return client

    def queue(self, name: str = "q", **properties: Any) -> Any:
        """Create a queue and open it for sending and receiving."""
        self.qm.create_queue(name, **properties)
        return self.qm.open(name)

    def transactional(self, name: str = "t", **properties: Any) -> Any:
        """Create a transactional queue, and open it."""
        return self.queue(name, transactional=True, **properties)

    def start(self, function: Callable[[], Any]) -> Pending:
        """Run a call that may block in a thread of its own."""
        self._pending.append(Pending(function))
        return self._pending[-1]

    def until(self, condition: Callable[[], Any], what: str = "") -> None:
        """Poll until a condition holds. Only this helper of these tests waits for time to pass."""
        deadline = time.monotonic() + PATIENCE
        pause = threading.Event()
        while not condition():
            if time.monotonic() > deadline:
                raise AssertionError(f"never came true: {what or inspect.getsource(condition).strip()}")
            pause.wait(0.005)

    def waiting(self, count: int, name: str = "q") -> None:
        """Return when exactly this number of readers wait on a queue."""
        self.until(lambda: self.qm.queue_info(name).waiters == count, f"{count} readers wait on {name}")

    def wait(self, function: Callable[[], Any], name: str = "q") -> Pending:
        """Start a read and return when it is registered as a waiter."""
        before = self.qm.queue_info(name).waiters
        pending = self.start(function)
        self.until(
            lambda: pending.done() or self.qm.queue_info(name).waiters > before, f"a reader waits on {name}"
        )
        assert not pending.done(), f"the read ended at once: {pending.error(0) or pending.result(0)}"
        return pending

    def findings(self) -> list[Any]:
        """Return the findings of the doctor."""
        doctor = getattr(self.qm, "doctor", None)
        return [] if self.kind.startswith("model") or doctor is None else list(doctor().findings)

    def close(self) -> None:
        for client in reversed(self._clients):
            client.close()
        for pending in self._pending:
            pending.error()  # closing a client ends its waits


def bodies(messages: Any) -> list[bytes]:
    """Return the bodies, in order."""
    return [m.body for m in messages]


def drain(queue: Any) -> list[bytes]:
    """Receive until nothing is left."""
    out = []
    while True:
        try:
            out.append(queue.receive(0).body)
        except IoTimeout:
            return out


def send(queue: Any, text: str, **fields: Any) -> list[Any]:
    """Send one message for each letter; return the result of each send."""
    return [queue.send(letter.encode(), **fields) for letter in text]


def send_in(qm: Any, queue: Any, text: str, **fields: Any) -> list[Any]:
    """Send in a transaction of its own."""
    with qm.transaction() as tx:
        return send(queue, text, transaction=tx, **fields)
