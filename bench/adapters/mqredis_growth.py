"""Every operation of mqredis against what may grow: backlog, queues, open transactions, size of a message."""

from __future__ import annotations

import itertools
import random
import time
from array import array
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import redis

import mqredis
from bench import floor
from bench.adapters import BARE
from bench.adapters.floor import prepare
from bench.adapters.mqredis_sync import Mqredis, message
from bench.adapters.raw import RawFloor
from bench.payload import correlation_id, packed
from bench.runner import room
from bench.server import Wire

Operation = Callable[[], object]
Row = dict[str, Any]
#: Messages in one call of a filling.
PART = 250
#: Work that only makes up for what another has taken or put: it is not shown.
FILLING = "filling"
#: In a round each size has so many turns at each kind of work, with a part of the calls, in an order drawn by lot: what
#: the machine does lasts longer than a turn, and what the work before has left for Lua to collect meets now this size,
#: now that. A round's turns are taken together. Between two askings fewer messages are sent than the shortest backlog
#: holds: so whoever asks brings as many into the index of each, and as many that stand in it are taken out. What a
#: round puts it takes again: the shortest stays as short.
LAPS = 4


class Line:
    """A queue of so many messages, and their lookup ids in the order of their numbers; 0 where one was taken from the
    middle."""

    def __init__(self, queue: mqredis.Queue, size: int) -> None:
        self.queue = queue
        self.ids = array("Q")
        self._first = 0
        self._random = random.Random(size)
        self._held: list[mqredis.LockedMessage] = []
        for start in range(0, size, PART):
            self._put(min(PART, size - start))

    def _put(self, count: int) -> None:
        first = len(self.ids)
        sent = self.queue.send_many([message(number) for number in range(first, first + count)])
        self.ids.extend(one.lookup_id for one in sent)

    def _taken(self, lookup_id: int) -> None:
        """All up to this one are gone."""
        while self.ids[self._first] != lookup_id:
            self._first += 1
        self._first += 1

    def choose(self) -> int:
        """Number of a message anywhere in the queue, but not at its very ends: one goes before it, one comes after."""
        while not self.ids[self._first]:
            self._first += 1
        while True:
            number = self._random.randrange(self._first + 1, len(self.ids) - 1)
            if self.ids[number]:
                return number

    def send(self) -> None:
        self.ids.append(self.queue.send(message(len(self.ids))).lookup_id)

    def send_many(self) -> None:
        self._put(100)

    def lock(self) -> None:
        self._held = self.queue.lock_many(1, 0, settle=self._held)
        self._taken(self._held[0].lookup_id)

    def settle(self) -> None:
        for one in self._held:
            one.commit()
        self._held = []

    def hold(self) -> None:
        self._held.append(self.queue.lock(0))
        self._taken(self._held[-1].lookup_id)

    def commit(self) -> None:
        self._held.pop().commit()

    def abort(self) -> None:
        self.queue.lock(0).abort()

    def receive(self, count: int) -> None:
        self._taken(self.queue.receive_many(count, 0)[-1].lookup_id)

    def take(self) -> None:
        """Takes one from the middle."""
        place = self.choose()
        self.queue.receive_by_lookup_id(self.ids[place])
        self.ids[place] = 0

    def send_and_find(self) -> None:
        self.send_many()
        self.find()

    def find(self) -> object:
        return self.queue.peek(0, match=mqredis.Match(correlation_id=correlation_id(self.choose())))


class Stored:
    """The look-ups of a line's operations, by functions that decide nothing, on the same keys."""

    def __init__(self, url: str, line: Line) -> None:
        self.line, self.keys = line, list(line.queue._handle.address.call.keys)
        self._stored: list[bytes] = []
        self._indexed: list[bytes] = []
        self._bare = RawFloor(url)
        self._bare.open()

    def take(self) -> None:
        """Takes one from the middle."""
        place = self.line.choose()
        reply = self._bare._ask(*floor.words("lookup", self.keys, f"{self.line.ids[place]:016x}"))
        assert reply[1] == 2, f"not all was found: {reply!r:.200}"
        self.line.ids[place] = 0

    def find(self) -> None:
        """Looks for one by its correlation id."""
        place = self.line.choose()
        reply = self._bare._ask(*floor.words("find", self.keys, f"cs{correlation_id(place)}"))
        assert int(reply[2], 16) == self.line.ids[place], f"another was found: {reply!r:.200}"

    def send(self, count: int) -> None:
        """Puts so many at its end. Nothing comes into the index: whoever asks next would do that."""
        records = [packed(number) for number in range(count)]
        self._stored += self._bare._ask(*floor.words("store", self.keys, *records))[1]

    def send_and_find(self) -> None:
        """The same of 100, which come into the index then, and a look for one."""
        before = len(self._stored)
        self.send(100)
        first = len(self.line.ids)
        names = [
            f"cs{correlation_id(first + n)}\0".encode() + lid for n, lid in enumerate(self._stored[before:])
        ]
        self._bare._ask("ZADD", self.keys[9], *[part for name in names for part in ("0", name)])
        self._indexed += names
        self.find()

    def clean(self) -> None:
        """What they put is taken out again."""
        while part := self._indexed[-PART:]:
            self._bare._ask("ZREM", self.keys[9], *part)
            del self._indexed[-PART:]
        while part := self._stored[-PART:]:
            asked = [("ZREM", self.keys[3], *part), ("HDEL", self.keys[5], *part)]
            removed = [self._bare._ask(*request) for request in asked]
            assert removed == [len(part)] * len(asked), f"not all was found: {removed}"
            del self._stored[-PART:]


class MqredisGrowth(Mqredis):
    """Takes one operation after the other, each at all sizes in turn, so that the machine's moods meet all alike."""

    works = ("send", "receive")

    def grow(
        self, wire: Wire, *, axis: str, sizes: list[int], rounds: int, count: int, seconds: float
    ) -> list[Row]:
        """Seconds for one operation, and what the server's scripts took of them, in each round."""
        rows: list[Row] = []
        prepare: Callable[[int], dict[str, Operation]] = getattr(self, f"_{axis}")
        begun = time.monotonic()
        works = {size: prepare(size) for size in sizes}
        seconds, begun = seconds - (time.monotonic() - begun), time.monotonic()
        lot = random.Random(rounds)
        for number in range(rounds + 1):
            if number > 1 and not room(time.monotonic() - begun, number, seconds):
                break
            taken: dict[tuple[str, int], list[tuple[int, float, float]]] = defaultdict(list)
            for _, work in itertools.product(range(LAPS), works[sizes[0]]):
                times = count // (20 * LAPS if work.endswith(" 100") else LAPS)
                for size in lot.sample(sizes, len(sizes)):
                    taken[work, size].append((times, *self._timed(wire, works[size][work], times)))
            for (work, size), turns in taken.items():
                calls, passed, server = map(sum, zip(*turns, strict=True))
                row = {"axis": axis, "size": size, "work": work, "round": number}
                rows.append({**row, "seconds": passed / calls, "server": server / calls})
        return [
            row for row in rows if row["round"] and not row["work"].startswith(FILLING)
        ]  # the first round warms up

    def _timed(self, wire: Wire, operation: Operation, times: int) -> tuple[float, float]:
        """Seconds that so many take, and those of the server's scripts."""
        wire.ask("CONFIG", "RESETSTAT")
        start = time.perf_counter()
        for _ in range(times):
            operation()
        return time.perf_counter() - start, wire.script_seconds()

    def _queue(self, name: str, **properties: Any) -> mqredis.Queue:
        self.qm.create_queue(name, **properties)
        return self.qm.open(name)

    def _backlog(self, size: int) -> dict[str, Operation]:
        """A queue that holds so many messages, each with a correlation id; and one that was asked for these before."""
        line, asked = Line(self._queue(f"backlog-{size}"), size), Line(self._queue(f"asked-{size}"), size)
        queue, bare, known = line.queue, Stored(self.url, line), Stored(self.url, asked)
        prepare(self.url)
        cursor = queue.cursor()
        cursor.peek(0)
        asked.find()

        def seek(where: mqredis.Seek) -> Operation:
            return lambda: queue.peek_by_lookup_id(line.ids[line.choose()], seek=where)

        def walk() -> object:
            try:
                return cursor.peek_next(0)
            except mqredis.MqError:
                cursor.reset()
                return cursor.peek(0)

        return {
            "send": line.send,
            "lock and settle": line.lock,
            f"{FILLING}, the last settled": line.settle,
            "send, to hold": line.send,
            "lock": line.hold,
            "commit": line.commit,
            "lock and abort": line.abort,
            "send 100": line.send_many,
            "receive 100": lambda: line.receive(100),
            "send, to receive": line.send,
            "receive": lambda: line.receive(1),
            "peek": lambda: queue.peek(0),
            "peek by lookup id": seek(mqredis.Seek.CURRENT),
            "seek next": seek(mqredis.Seek.NEXT),
            "seek previous": seek(mqredis.Seek.PREVIOUS),
            "seek first": lambda: queue.peek_by_lookup_id(0, seek=mqredis.Seek.FIRST),
            "seek last": lambda: queue.peek_by_lookup_id(0, seek=mqredis.Seek.LAST),
            "cursor, next": walk,
            "information": lambda: self.qm.queue_info(queue.name),
            "send, to take": line.send,
            "receive by lookup id": line.take,
            FILLING: line.send,
            f"{BARE}receive by lookup id": bare.take,
            f"{BARE}send": lambda: bare.send(1),
            f"{BARE}send 100": lambda: bare.send(100),
            f"{FILLING}, taken back": bare.clean,
            f"{FILLING}, found": asked.find,  # what came since the last question enters the index
            "asked: peek by correlation id": asked.find,
            f"{BARE}asked: peek by correlation id": known.find,
            "asked: send": asked.send,
            "asked: lock and settle": asked.lock,
            f"{FILLING}, the last settled there": asked.settle,
            "asked: send 100": asked.send_many,
            "asked: receive 100": lambda: asked.receive(100),
            f"{BARE}asked: send": lambda: known.send(1),
            f"{BARE}asked: send 100": lambda: known.send(100),
            f"{FILLING}, taken back there": known.clean,
            f"{FILLING}, all found": asked.find,
            "asked: question behind 100": asked.send_and_find,
            f"{FILLING}, taken 100": lambda: asked.receive(100),
            f"{BARE}asked: question behind 100": known.send_and_find,
            f"{FILLING}, taken back there as well": known.clean,
        }

    def _queues(self, size: int) -> dict[str, Operation]:
        """So many queues with one message each."""
        queues = [self._queue(f"q{size}-{number}") for number in range(size)]
        for queue in queues:
            queue.send(b"")
        turn = itertools.cycle(queues)
        other = itertools.cycle(queues)
        return {"send": lambda: next(turn).send(b"x"), "receive": lambda: next(other).receive(0)}

    def _transactions(self, size: int) -> dict[str, Operation]:
        """So many open transactions, each with a message that it has sent."""
        source = self._queue(f"source-{size}", transactional=True)
        target = self._queue(f"target-{size}", transactional=True)
        self._open = getattr(self, "_open", [])
        for _ in range(size):
            transaction = self.qm.transaction(lease=600)
            source.send(b"x", transaction=transaction)
            self._open.append(transaction)

        def fill() -> None:
            with self.qm.transaction() as unit:
                source.send(b"x", transaction=unit)

        def transact() -> None:
            with self.qm.transaction() as unit:
                target.send(source.receive(0, transaction=unit).body, transaction=unit)

        return {"send, commit": fill, "receive, send, commit": transact}

    def _bytes(self, size: int) -> dict[str, Operation]:
        """Bodies of so many bytes; the raw list beside it."""
        queue = self._queue(f"bytes-{size}")
        body = b"x" * size
        client: Any = redis.Redis.from_url(self.url)

        def acknowledge() -> None:
            client.lrem(f"busy-{size}", 1, client.lmove(f"raw-{size}", f"busy-{size}", "RIGHT", "LEFT"))

        return {
            "send": lambda: queue.send(body),
            "receive": lambda: queue.receive(0),
            "raw list: send": lambda: client.lpush(f"raw-{size}", body),
            "raw list: receive and acknowledge": acknowledge,
        }
