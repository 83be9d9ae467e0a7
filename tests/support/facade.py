"""One blocking interface for both interfaces, and for the model: a test is written once.

The calls of asyncio run on an event loop in a thread of its own, so a test may have several reads waiting at once
whatever the interface is.
"""

from __future__ import annotations

import asyncio
import inspect
import re
import threading
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from functools import cached_property, partial
from typing import Any

import pytest

import mqredis
import mqredis.asyncio
from mqredis import Settings
from mqredis.drivers.connect import forget_store
from tests.support.until import until

# No step of a test takes longer than this unless something hangs, in seconds.
PATIENCE = 30.0
# Modules whose objects have methods to be awaited: the interface and its drivers.
_ASYNCIO = re.compile(r"mqredis\.(asyncio|drivers\..*aio$)")


class LoopThread:
    """An event loop that runs in a thread; ``call`` runs something on it and waits for the result."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="test-loop", daemon=True)
        self._thread.start()

    def call(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        async def run() -> Any:
            result = function(*args, **kwargs)
            if inspect.isawaitable(result):
                return await result
            if hasattr(result, "__aiter__"):
                return [item async for item in result]
            return result

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE)
        self._loop.close()


class Wrapped:
    """Stands for its ``target``."""

    target: Any


class Proxy(Wrapped):
    """An object of the asyncio interface that behaves like that of the sync interface."""

    def __init__(self, target: Any, thread: LoopThread) -> None:
        self.__dict__.update(target=target, thread=thread)

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.target, name)
        return partial(self._call, value) if callable(value) else self._wrap(value)

    def _call(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        plain = {name: unwrap(value) for name, value in kwargs.items()}
        return self._wrap(self.thread.call(function, *map(unwrap, args), **plain))

    def _wrap(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._wrap(item) for item in value]
        is_asyncio = _ASYNCIO.match(type(value).__module__)
        return Proxy(value, self.thread) if is_asyncio else value

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


def connected(thread: LoopThread, *args: Any, **kwargs: Any) -> Proxy:
    """``mqredis.asyncio.connect``: a client with blocking methods."""
    return Proxy(thread.call(mqredis.asyncio.connect, *args, **kwargs), thread)


class Pending:
    """A call that runs in a thread."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self.future: Future[Any] = Future()
        threading.Thread(target=self._run, args=(function,), daemon=True).start()

    def _run(self, function: Callable[[], Any]) -> None:
        try:
            self.future.set_result(function())
        except BaseException as error:  # noqa: BLE001 - handed to whoever asks for the result
            self.future.set_exception(error)

    def result(self, timeout: float = PATIENCE) -> Any:
        return self.future.result(timeout)

    def error(self, timeout: float = PATIENCE) -> BaseException | None:
        """Return the exception of the call, or None if it returned."""
        return self.future.exception(timeout)

    def done(self) -> bool:
        return self.future.done()


class Broker:
    """A queue manager of its own for one test, with clients of one interface. ``settings``: of all its clients."""

    def __init__(self, connect: Callable[..., Any], manager: str, **settings: Any) -> None:
        self.manager = manager
        self._connect = connect
        self._settings = {"test_clock": True, "allow_volatile": True, **settings}
        self._clients: list[Any] = []
        self._pending: list[Pending] = []

    @cached_property
    def qm(self) -> Any:
        return self.client()

    def client(self, **settings: Any) -> Any:
        """Another client of the same queue manager."""
        chosen = Settings(**{**self._settings, **settings})
        self._clients.append(self._connect(manager=self.manager, settings=chosen))
        return self._clients[-1]

    def handle(self, name: str = "q", **settings: Any) -> Any:
        """A queue handle of a new client."""
        return self.client(**settings).open(name)

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

    def waiting(self, count: int, name: str = "q") -> None:
        """Return when exactly this number of readers wait on a queue."""
        until(lambda: self.qm.queue_info(name).waiters == count, f"{count} readers wait on {name}")

    def wait(self, function: Callable[[], Any], name: str = "q") -> Pending:
        """Start a read and return when it is registered as a waiter."""
        before = self.qm.queue_info(name).waiters
        pending = self.start(function)
        until(
            lambda: pending.done() or self.qm.queue_info(name).waiters > before, f"a reader waits on {name}"
        )
        assert not pending.done(), f"the read ended at once: {pending.error(0) or pending.result(0)}"
        return pending

    def findings(self) -> list[Any]:
        """Return the findings of the doctor, which the model does not have."""
        doctor = getattr(self.qm, "doctor", None)
        return [] if doctor is None else list(doctor().findings)

    def close(self) -> None:
        for client in reversed(self._clients):
            client.close()
        for pending in self._pending:
            pending.error()  # closing a client ends its waits
        forget_store(self.manager)


def make_broker(kind: str, request: pytest.FixtureRequest) -> Broker:
    """A queue manager on a server and of an interface: "real", "evalsha" or "fake", and "sync" or "async".

    "evalsha" is a real server whose scripts are called by EVALSHA, as Redis 6.2 is; on all others they are functions.
    """
    store, interface = kind.split("-")
    manager = f"m{uuid.uuid4().hex}"
    url = f"memory://{manager}" if store == "fake" else request.getfixturevalue("redis_server").url
    connect: Any = mqredis.connect
    if interface == "async":
        connect = partial(connected, request.getfixturevalue("loop_thread"))
    return Broker(partial(connect, url), manager, functions="off" if store == "evalsha" else "auto")


def bodies(messages: Any) -> list[bytes]:
    """Return the bodies, in order."""
    return [m.body for m in messages]


def drain(queue: Any) -> list[bytes]:
    """Receive until nothing is left."""
    out = []
    while True:
        try:
            out.append(queue.receive(0).body)
        except mqredis.IoTimeout:
            return out


def send(queue: Any, text: str, **fields: Any) -> list[Any]:
    """Send one message for each letter; return the result of each send."""
    return [queue.send(letter.encode(), **fields) for letter in text]


def send_in(qm: Any, queue: Any, text: str, **fields: Any) -> list[Any]:
    """Send in a transaction of its own."""
    with qm.transaction() as tx:
        return send(queue, text, transaction=tx, **fields)
