"""A blocking wrapper for both interfaces, so that a case is written once and runs on each."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from typing import Any

import mqredis
import mqredis.asyncio as twin
from mqredis import Outgoing, Settings

# Timeout in seconds; a call that takes longer hangs.
PATIENCE = 30.0


class Loop:
    """An event loop in its own thread."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()

    def call(self, function: Callable[[], Any]) -> Any:
        async def run() -> Any:
            result = function()
            if hasattr(result, "__aiter__") and not hasattr(result, "__await__"):
                return [item async for item in result]
            return await result if inspect.isawaitable(result) else result

        return asyncio.run_coroutine_threadsafe(run(), self.loop).result(PATIENCE)

    def close(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(PATIENCE)
        self.loop.close()


class BlockingFacade:
    """An object of the asyncio interface with blocking methods."""

    def __init__(self, target: Any, loop: Loop) -> None:
        self._target, self._loop = target, loop

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._target, name)
        if not callable(value):
            return value

        def call(*args: Any, **named: Any) -> Any:
            plain = {key: getattr(item, "_target", item) for key, item in named.items()}
            rest = [getattr(item, "_target", item) for item in args]
            return self._wrap(self._loop.call(lambda: value(*rest, **plain)))

        return call

    def _wrap(self, value: Any) -> Any:
        handles = (twin.Queue, twin.Transaction, twin.LockedMessage)
        more = (twin.Browser, twin.Cursor, twin.GroupWriter)
        return BlockingFacade(value, self._loop) if isinstance(value, (*handles, *more)) else value

    def __iter__(self) -> Iterator[Any]:
        async def collect() -> list[Any]:
            return [item async for item in self._target]

        return iter(self._loop.call(collect))

    def __enter__(self) -> Any:
        self._loop.call(self._target.__aenter__)
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> Any:
        return self._loop.call(lambda: self._target.__aexit__(kind, error, trace))


class Pending:
    """A call that runs in another thread than the test."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self.future: Future[Any] = Future()
        self.thread = threading.Thread(target=self._run, args=(function,), daemon=True)
        self.thread.start()

    def _run(self, function: Callable[[], Any]) -> None:
        try:
            self.future.set_result(function())
        except BaseException as error:  # noqa: BLE001 - raised by result()
            self.future.set_exception(error)

    def result(self) -> Any:
        return self.future.result(PATIENCE)

    def error(self) -> BaseException | None:
        return self.future.exception(PATIENCE)


class Broker:
    """A queue manager for one test, with clients of one interface."""

    def __init__(self, url: str, manager: str, loop: Loop | None) -> None:
        self.url, self.manager, self.loop = url, manager, loop
        self.clients: list[Any] = []
        self.qm = self.client()

    def client(self, **settings: Any) -> Any:
        chosen = Settings(test_clock=True, allow_volatile=True, **settings)
        if self.loop is None:
            client: Any = mqredis.connect(self.url, manager=self.manager, settings=chosen)
        else:
            asynchronous = twin.connect
            client = BlockingFacade(
                self.loop.call(lambda: asynchronous(self.url, manager=self.manager, settings=chosen)),
                self.loop,
            )
        self.clients.append(client)
        return client

    def queue(self, name: str = "q", **properties: Any) -> Any:
        self.qm.create_queue(name, **properties)
        return self.qm.open(name)

    def handle(self, name: str = "q", **settings: Any) -> Any:
        """A queue handle of a new client."""
        return self.client(**settings).open(name)

    def beside(self, function: Callable[[], Any], name: str = "q") -> Pending:
        """Start a read in a thread; return once it is registered as a waiter."""
        before = self.qm.queue_info(name).waiters
        pending = Pending(function)
        pause = threading.Event()
        for _ in range(int(PATIENCE / 0.005)):
            if pending.future.done() or self.qm.queue_info(name).waiters > before:
                break
            pause.wait(0.005)
        assert not pending.future.done(), pending.error() or pending.result()
        return pending

    def close(self) -> None:
        for client in reversed(self.clients):
            client.close()


def bodies(messages: Iterable[Any]) -> list[str]:
    return [message.body.decode() for message in messages]


def drain(queue: Any, **wanted: Any) -> list[str]:
    """Receive until the queue is empty; return the bodies."""
    found: list[str] = []
    while True:
        try:
            found.append(queue.receive(0, **wanted).body.decode())
        except mqredis.IoTimeout:
            return found


def in_group(text: str) -> Outgoing:
    """``Y2/3``: group Y, sequence 2 of 3; without ``/n`` the message is not marked as the last."""
    name, _, size = text.partition("/")
    group, sequence = name[0].lower(), int(name[1:])
    return Outgoing(
        body=name.encode(), group_id=group, sequence=sequence, last_in_group=str(sequence) == size
    )


def put(queue: Any, *items: str, **how: Any) -> None:
    """Send ``A`` plain, ``A:c1`` with a correlation id, ``Y2/3`` in a group."""
    for item in items:
        if item[1:2].isdigit():
            queue.send(in_group(item), **how)
        else:
            body, _, correlation = item.partition(":")
            queue.send(body.encode(), correlation_id=correlation or None, **how)
