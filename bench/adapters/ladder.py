"""The steps between the floor and mqredis: our scripts called by a client that is next to nothing, and our client
calling functions that decide nothing (bench/floor.py); and what keeps the promises at least. No products.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import redis

from bench import floor, kept
from bench.adapters.base import PLAIN
from bench.adapters.floor import FloorAsyncio
from bench.adapters.mqredis_asyncio import MqredisAsyncio
from bench.adapters.mqredis_sync import Mqredis, MqredisTransactions
from bench.adapters.raw import RawFloor
from bench.payload import check_packed, packed
from mqredis.client import Queue
from mqredis.drivers.wire import bulk
from mqredis.scripts import Form

SCRIPTS = "not a product: our scripts, called over a bare socket, each time with a new token"
PROMISES = (
    "not a product: the least that keeps the promises of plain messages (bench/kept.py), over a bare socket"
)
CLIENT = (
    "not a product: our client, calling functions that read and write what a call must, and decide nothing"
)


class Speaker:
    """What a task says to our scripts: keys packed ahead; of replies it reads the least."""

    def __init__(self, peer: Mqredis) -> None:
        driver = peer.qm._driver
        session = driver.core.session
        assert session is not None
        self._script = driver.core.script
        self._functions: Mapping[str, str] = {}
        self._manager = driver.core.keys
        #: Its slot, and the last number that it has used.
        self.slot = session.take()
        self._transactions = 0
        self._held: tuple[bytes, bytes] | None = None
        self._bench = peer.queue
        self._heads: dict[tuple[str, ...], tuple[int, bytes]] = {}
        self._plain: dict[tuple[str, int, bool], tuple[bytes, bytes]] = {}

    def call(self, functions: Mapping[str, str]) -> None:
        """Call these functions from now on in place of some of our scripts."""
        self._functions = functions
        self._heads.clear()
        self._plain.clear()

    @staticmethod
    def _generation(queue: Queue) -> bytes:
        return queue._handle.address.generation.encode()

    def _cut(
        self, script: str, paths: tuple[str, ...], arguments: Iterable[bytes], more: int = 0
    ) -> tuple[bytes, bytes]:
        """What stands before and behind the number of the token in a request with these arguments and so many more."""
        if (script, *paths) not in self._heads:
            plain = script == "send_plain"
            keys = (self._manager.plain(*paths) if plain else self._manager.call(*paths)).keys
            form = self._script(script)
            words = [form.verb, self._functions.get(script, form.name), str(len(keys)), *keys, self.slot.name]
            packed_words = b"".join(bulk(word.encode()) for word in words)
            self._heads[script, *paths] = len(words) + 1, packed_words
        count, head = self._heads[script, *paths]
        bulks = [bulk(argument) for argument in arguments]
        return b"*%d\r\n%b" % (count + len(bulks) + more, head), b"".join(bulks)

    def _number(self) -> bytes:
        self.slot.last += 1
        return bulk(b"%d" % self.slot.last)

    def _request(self, script: str, paths: tuple[str, ...], *arguments: bytes) -> bytes:
        before, behind = self._cut(script, paths, arguments)
        return before + self._number() + behind

    def sending(self, size: int = 1) -> tuple[bytes, bytes]:
        """A send of so many messages up to the number of its token, and from there to the messages."""
        key = "send", size, False
        if key not in self._plain:
            arguments: tuple[bytes, ...] = self._generation(self._bench), b"3"
            if size > 1:
                arguments = self._generation(self._bench), b"", b"", b"3" * size
            script = "send_plain" if size == 1 else "send"
            self._plain[key] = self._cut(script, ("bench",), arguments, size)
        return self._plain[key]

    def receiving(self, size: int = 1, settles: bool = True) -> tuple[bytes, bytes]:
        """A lock of so many up to the number of its token, and from there to what it settles: fence and ids."""
        key = "receive", size, settles
        if key not in self._plain:
            if settles and size == 1:
                arguments: tuple[bytes, ...] = b"next", b"30000"
            else:
                settled = (b"", b"", b"", b"", b"1", b"c") if settles else ()
                arguments = b"lock", b"%d" % size, b"", b"30000", *settled
            words = self._generation(self._bench), *arguments
            self._plain[key] = self._cut("receive", ("bench",), words, 2 if settles else 0)
        return self._plain[key]

    def settling(self) -> tuple[bytes, bytes]:
        """The same of a settlement."""
        return self._cut("settle", ("bench",), (self._generation(self._bench), b"30000", b"c"), 2)

    def send(self, number: int, size: int = 1) -> bytes:
        """Send so many messages."""
        if size == 1 and not self.slot.last:  # the first call of a slot is no plain send
            before, behind = self._cut("send", ("bench",), (self._generation(self._bench), b"3"), 1)
        else:
            before, behind = self.sending(size)
        messages = [bulk(packed(n)) for n in range(number, number + size)]
        return b"".join((before, self._number(), behind, *messages))

    def receive(self, size: int = 1) -> bytes:
        """Lock the next messages and settle the last."""
        before, behind = self.receiving(size, self._held is not None)
        return b"".join((before, self._number(), behind, *map(bulk, self._held or ())))

    def settle(self) -> bytes:
        """Settle the last."""
        assert self._held
        before, behind = self.settling()
        held, self._held = self._held, None
        return b"".join((before, self._number(), behind, *map(bulk, held)))

    def took(self, reply: Any) -> int:
        """What a receive has answered: how many messages."""
        self._held = reply[3], reply[7]
        for record in done(reply)[_RECORDS:]:
            check_packed(record)
        return len(reply) - _RECORDS

    def begin(self) -> tuple[bytes, bytes]:
        """Id of a new transaction, and the request that receives in it."""
        self._transactions += 1
        owner = f"t{self.slot.name}.{self._transactions}".encode()
        arguments = b"tx", b"1", owner, b"+30000"
        return owner, self._request("receive", ("bench",), self._generation(self._bench), *arguments)

    def forward(self, target: Queue, owner: bytes, fence: bytes, record: bytes) -> bytes:
        """Send what came in a transaction, without its time and the flag that tells its place there."""
        check_packed(record)
        arguments = self._generation(target), owner, fence, b"3", b"h" + record[14:]
        return self._request("send", ("target",), *arguments)

    def commit(self, owner: bytes, fence: bytes) -> bytes:
        """Commit it."""
        return self._request("commit", ("bench", "target"), owner, fence, b"commit")


def load(peer: Mqredis) -> None:
    """Load the scripts that a speaker calls: our client does so when it meets a server that has them not."""
    driver = peer.qm._driver
    for name in ("send", "send_plain", "receive", "settle", "commit"):
        driver.command(*driver.core.script(name).load)


def done(reply: Any) -> Any:
    """An answer that is no refusal."""
    if type(reply) is not list or reply[0] != 0:
        raise AssertionError(f"a script answered {reply!r:.80}")
    return reply


#: From which element on a read answers records.
_RECORDS = 9


class Scripts(Mqredis):
    """Our scripts with a bare client."""

    works: ClassVar[tuple[str, ...]] = PLAIN
    settings = SCRIPTS

    def open(self) -> None:
        super().open()
        self.wire = RawFloor(self.url)
        self.wire.open()
        load(self)
        self.speaker = Speaker(self)

    def close(self) -> None:
        self.wire.close()
        super().close()

    def ask(self, request: bytes) -> Any:
        """Send a request and read its reply."""
        self.wire.socket.sendall(request)
        return self.wire.hear()

    def send(self, first: int, count: int) -> None:
        self.send_batch(first, count, 1)

    def send_batch(self, first: int, count: int, size: int) -> None:
        for start in range(first, first + count, size):
            done(self.ask(self.speaker.send(start, min(size, first + count - start))))

    def receive_batch(self, count: int, size: int) -> None:
        while count > 0:
            count -= self.speaker.took(self.ask(self.speaker.receive(min(size, count))))
        done(self.ask(self.speaker.settle()))


class Promises(Scripts):
    """The least that keeps the promises, with a bare client."""

    settings = PROMISES

    def open(self) -> None:
        super().open()
        self.qm._driver.command(*kept.LOAD)
        Promises.send(self, 0, 1)  # the first call of a slot is not plain
        Promises.receive(self, 1)
        self.speaker.call(kept.FUNCTIONS)


class ScriptsTransactions(MqredisTransactions):
    """The same in transactions."""

    works = ("transact",)
    settings = SCRIPTS

    def fill(self, first: int, count: int) -> None:
        self.send_batch(first, count, 100)

    def open(self) -> None:
        super().open()
        load(self)
        self.speaker = Speaker(self)

    def transact(self, count: int) -> None:
        speaker, wire = self.speaker, RawFloor(self.url)
        wire.open()
        with self.qm.open("target") as target:
            for _ in range(count):
                owner, request = speaker.begin()
                wire.socket.sendall(request)
                reply = wire.hear()
                wire.socket.sendall(speaker.forward(target, owner, reply[3], done(reply)[-1]))
                fence = done(wire.hear())[4]
                wire.socket.sendall(speaker.commit(owner, fence))
                done(wire.hear())
        wire.close()


class ScriptsAsyncio(FloorAsyncio):
    """Our scripts from an event loop, by a protocol that writes and hands out replies."""

    settings = SCRIPTS

    def open(self) -> None:
        self.ours = Mqredis(self.url)
        self.ours.open()
        load(self.ours)
        self.speakers = [Speaker(self.ours) for _ in range(self.tasks)]
        self.wait(self.connect())

    def close(self) -> None:
        super().close()
        self.ours.close()

    def fill(self, first: int, count: int) -> None:
        self.send(first, count)

    def send(self, first: int, count: int) -> None:
        async def one(start: int, many: int) -> None:
            speaker = self.speakers.pop()
            for number in range(first + start, first + start + many):
                done(await self.line.put(speaker.send(number)))
            self.speakers.append(speaker)

        self.share(one, count)

    def receive(self, count: int) -> None:
        async def one(_: int, many: int) -> None:
            speaker = self.speakers.pop()
            for _ in range(many):
                speaker.took(await self.line.put(speaker.receive()))
            done(await self.line.put(speaker.settle()))
            self.speakers.append(speaker)

        self.share(one, count)


class ScriptsAsyncio20(ScriptsAsyncio):
    """20 tasks that share a connection."""

    settings = f"{SCRIPTS}; 20 tasks"
    tasks = 20


def undecide(url: str, core: Any, keys: tuple[str, ...]) -> None:
    """Let a client call the functions that decide nothing in place of our scripts."""
    client: Any = redis.Redis.from_url(url)
    client.execute_command(*floor.load_clients(core.incarnation))
    for command in floor.setting(keys):
        client.execute_command(*command)
    client.close()
    core.forms.update({script: Form("FCALL", name, ()) for script, name in floor.CLIENTS.items()})


class Client(Mqredis):
    """Our client, and nothing decided."""

    works = ("send", "receive")
    settings = CLIENT

    def open(self) -> None:
        super().open()
        undecide(self.url, self.qm._driver.core, self.queue._handle.address.call.keys)

    def close(self) -> None:
        self.qm._driver.backend.close()  # there is no queue manager left to say goodbye to

    def fill(self, first: int, count: int) -> None:
        self.send(first, count)


class ClientAsyncio(MqredisAsyncio):
    """The same in an event loop."""

    works = ("send", "receive")
    settings = CLIENT

    def open(self) -> None:
        super().open()
        undecide(self.url, self.qm._driver.core, self.queue._handle.address.call.keys)

    def close(self) -> None:
        self.wait(self.qm._driver.backend.close())

    def fill(self, first: int, count: int) -> None:
        self.send(first, count)


class ClientAsyncio20(ClientAsyncio):
    """20 tasks on one queue manager."""

    settings = f"{CLIENT}; 20 tasks"
    tasks = 20
