"""A proxy between a client and Redis that breaks the connection exactly where a test wants it broken.

It knows the frames of the protocol, so it can cut before a request, inside it, between request and reply or
inside the reply, hold and duplicate requests, answer in the server's place, and lose published messages.
It runs an event loop in a thread of its own; tests, sync or asyncio, only see an address::

    with Proxy(("127.0.0.1", 6379), seed=7) as proxy:
        client = redis.Redis.from_url(proxy.url())
        rule = proxy.add(CutReply(after=3), command="EVALSHA", skip=1)
        ...
        assert rule.hits == 1
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import threading
from collections import Counter, deque
from collections.abc import Callable, Coroutine
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from tests.support.faults import (
    BlackHole,
    CutReply,
    CutRequest,
    DropPush,
    Duplicate,
    Fault,
    Hold,
    Refuse,
    Request,
    Rule,
    SlowReply,
)
from tests.support.resp import SUBSCRIBERS, is_message, is_push, read_frame, strings

T = TypeVar("T")
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]

# Commands that make a connection what it is; a duplicate's connection is prepared with them.
HANDSHAKE = frozenset({"AUTH", "HELLO", "SELECT"})
_LIMIT = 1 << 26  # bytes a stream reader buffers
_GRACE = 1.0  # seconds for the answer to a request that was released after its client had gone


class Proxy:
    """Stands between clients and one server; faults are committed by rules, the first that strikes counts."""

    def __init__(self, upstream: tuple[str, int] | str | Path, *, listen: Path | None = None, seed: int = 0):
        """``upstream``: (host, port) or the path of a Unix socket. ``listen``: a Unix socket; None: TCP."""
        self.upstream = upstream
        self.listen = listen
        self.seed = seed
        self.port = 0
        # True: new connections are closed at once, as by a server that is down.
        self.down = False
        # The last requests, the refused and the lost ones included.
        self.log: deque[Request] = deque(maxlen=100_000)
        # Length of the last answers in bytes.
        self.answers: deque[int] = deque(maxlen=1000)
        self.rules: tuple[Rule, ...] = ()
        self.links: set[_Link] = set()
        self.connections = 0
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="proxy", daemon=True)

    def __enter__(self) -> Proxy:
        self._thread.start()
        self._ready.wait(30)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for rule in self.rules:
            rule.release()
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(30)

    def url(self, database: int = 0) -> str:
        """What a client connects to."""
        if self.listen is not None:
            return f"unix://{self.listen}?db={database}"
        return f"redis://127.0.0.1:{self.port}/{database}"

    def add(
        self,
        fault: Fault,
        command: str | None = None,
        *,
        where: Callable[[Request], bool] | None = None,
        skip: int = 0,
        times: int | None = 1,
        chance: float = 1.0,
    ) -> Rule:
        """Commit this fault whenever the rule says so; see :class:`Rule`."""
        rule = Rule(fault, command, where, skip, times, chance)
        self.rules = (*self.rules, rule)
        return rule

    def clear(self) -> None:
        """Forget all rules and release what they hold."""
        rules, self.rules = self.rules, ()
        for rule in rules:
            rule.release()

    def cut_all(self) -> int:
        """Cut every connection now; how many there were."""
        return self._call(self._cut_all())

    def freeze(self) -> None:
        """From now on nothing passes on the connections that are open, without an error on either side."""
        for link in list(self.links):
            link.hole = True

    def commands(self) -> Counter[str]:
        """How often each command was seen."""
        return Counter(request.command for request in list(self.log))

    def _call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(30)

    async def _cut_all(self) -> int:
        links = list(self.links)
        for link in links:
            link.cut()
        return len(links)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._main())
        finally:
            self._loop.close()

    async def _main(self) -> None:
        if self.listen is not None:
            server = await asyncio.start_unix_server(self._accept, str(self.listen), limit=_LIMIT)
        else:
            server = await asyncio.start_server(self._accept, "127.0.0.1", 0, limit=_LIMIT)
            self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._stop.wait()
        server.close()
        await self._cut_all()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def connect(self) -> Streams:
        """A connection to the server."""
        if isinstance(self.upstream, tuple):
            return await asyncio.open_connection(*self.upstream, limit=_LIMIT)
        return await asyncio.open_unix_connection(str(self.upstream), limit=_LIMIT)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.down:
            shut(writer)
            return
        self.connections += 1
        number = self.connections
        try:
            server = await self.connect()
        except OSError:
            shut(writer)
            return
        link = _Link(self, number, (reader, writer), server)
        self.links.add(link)
        with contextlib.suppress(asyncio.CancelledError):  # the proxy ends; asyncio would log it as an error
            await link.run()
        self.links.discard(link)

    def strike(self, request: Request, rng: random.Random, pushed: bool) -> Rule | None:
        """The first rule that strikes this request, or this pushed message."""
        for rule in self.rules:
            if isinstance(rule.fault, DropPush) == pushed and rule.strikes(request, rng):
                return rule
        return None


class _Link:
    """One client's connection and its twin to the server. Lives in the proxy's thread."""

    def __init__(self, proxy: Proxy, number: int, client: Streams, server: Streams) -> None:
        self.proxy = proxy
        self.number = number
        self.from_client, self.to_client = client
        self.from_server, self.to_server = server
        for writer in (self.to_client, self.to_server):
            writer.transport.set_write_buffer_limits(0)  # drain() then means: handed to the kernel
        self.rng = random.Random(f"{proxy.seed}/{number}")
        self.requests = 0
        self.subscriber = False
        self.hole = False
        self.released_late = False
        # One entry per answer to come, in order: the rule that strikes it, or an answer of our own.
        self.due: deque[Rule | bytes | None] = deque()
        # Rules that strike the confirmation of a subscription.
        self.confirmations: deque[Rule] = deque()
        self.settled = asyncio.Event()
        self.handshake: list[bytes] = []

    async def run(self) -> None:
        """Pass frames both ways until one side ends."""
        pumps = [asyncio.create_task(self._requests()), asyncio.create_task(self._replies())]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self.cut()
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)

    def cut(self) -> None:
        """Cut both sides at once."""
        shut(self.to_client)
        shut(self.to_server)

    async def _requests(self) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, OSError):
            while True:
                frame = await read_frame(self.from_client)
                if not self.hole:
                    await self._request(frame)
        if self.released_late and self.due:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.settled.wait(), _GRACE)

    async def _request(self, frame: bytes) -> None:
        self.requests += 1
        request = Request(self.number, self.requests, len(self.proxy.log) + 1, strings(frame), frame)
        self.proxy.log.append(request)
        if request.command in HANDSHAKE:
            self.handshake.append(frame)
        rule = self.proxy.strike(request, self.rng, pushed=False)
        match rule.fault if rule else None:
            case CutRequest(after):
                await send(self.to_server, frame[:after])
                self.cut()
            case BlackHole(forward):
                self.hole = True
                if forward:
                    await send(self.to_server, frame)
            case Refuse(error):
                self.due.append(f"-{error}\r\n".encode())
                await self._answer_ourselves()
            case Duplicate(first=True):
                await self._copy(frame)
                await self._forward(request, None)
            case Hold(reply=False, cut=cut):
                assert rule is not None
                if cut:
                    shut(self.to_client)
                rule.struck()
                await self._released(rule)
                self.released_late = True
                await self._forward(request, None)
            case None:
                await self._forward(request, None)
            case _:
                await self._forward(request, rule)
                return  # the answer is what this rule strikes
        if rule is not None:
            rule.struck()

    async def _forward(self, request: Request, rule: Rule | None) -> None:
        if request.command.encode() in SUBSCRIBERS:
            self.subscriber = True
            if rule is not None:
                self.confirmations.append(rule)
        else:
            self.settled.clear()
            self.due.append(rule)
        await send(self.to_server, request.frame)

    async def _replies(self) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, OSError):
            while True:
                frame = await read_frame(self.from_server)
                if self.hole:
                    continue
                if is_push(frame, self.subscriber):
                    await self._pushed(frame)
                    continue
                rule = self.due[0] if self.due else None
                await self._reply(frame, rule if isinstance(rule, Rule) else None)
                if self.due:  # only now, so that no answer of our own gets into the middle of this one
                    self.due.popleft()
                await self._answer_ourselves()
                if not self.due:
                    self.settled.set()

    async def _pushed(self, frame: bytes) -> None:
        if not is_message(frame):
            await self._reply(frame, self.confirmations.popleft() if self.confirmations else None)
            return
        request = Request(self.number, self.requests, len(self.proxy.log), strings(frame), frame)
        rule = self.proxy.strike(request, self.rng, pushed=True)
        if rule is None:
            await send(self.to_client, frame)
        else:
            rule.struck()

    async def _reply(self, frame: bytes, rule: Rule | None) -> None:
        self.proxy.answers.append(len(frame))
        try:
            await self._give(frame, rule)
        finally:  # the client may leave in the middle
            if rule is not None:
                rule.struck()

    async def _give(self, frame: bytes, rule: Rule | None) -> None:
        match rule.fault if rule else None:
            case CutReply(after):
                await send(self.to_client, frame[:after])
                self.cut()
            case SlowReply(size, pause):
                for at in range(0, len(frame), size):
                    await send(self.to_client, frame[at : at + size])
                    await asyncio.sleep(pause)  # noqa: TID251 (being slow is the fault)
            case Duplicate(first=False):
                assert rule is not None
                await self._copy(rule.seen[-1].frame)
                await send(self.to_client, frame)
            case Hold(cut=cut):
                assert rule is not None
                if cut:
                    shut(self.to_client)
                rule.struck()
                await self._released(rule)
                await send(self.to_client, frame)
            case _:
                await send(self.to_client, frame)

    async def _answer_ourselves(self) -> None:
        while self.due and isinstance(self.due[0], bytes):
            await send(self.to_client, self.due.popleft())  # type: ignore[arg-type]

    async def _copy(self, frame: bytes) -> None:
        """Send the frame on a second connection, prepared as this one was, and wait for its answer."""
        reader, writer = await self.proxy.connect()
        for part in (*self.handshake, frame):
            await send(writer, part)
            while is_push(await read_frame(reader), subscriber=False):
                continue
        shut(writer)

    async def _released(self, rule: Rule) -> None:
        released = asyncio.Event()
        loop = asyncio.get_running_loop()

        def call() -> None:
            with contextlib.suppress(RuntimeError):  # the proxy has ended meanwhile
                loop.call_soon_threadsafe(released.set)

        rule.when_released(call)
        await released.wait()


async def send(writer: asyncio.StreamWriter, data: bytes) -> None:
    """Write and wait until the kernel has it; nothing happens on a side that was cut."""
    if data and not writer.is_closing():
        writer.write(data)
        await writer.drain()


def shut(writer: asyncio.StreamWriter) -> None:
    """Shut the socket down, then close it: after a bare close a peer in ``recv`` might never be told."""
    if not writer.is_closing():
        with contextlib.suppress(OSError):
            writer.get_extra_info("socket").shutdown(socket.SHUT_RDWR)
        writer.close()
