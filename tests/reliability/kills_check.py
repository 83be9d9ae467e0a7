"""Checks: ``kill -9`` of workers inside a unit of work, ``kill -9`` of Redis, and its file cut at any byte."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import warnings
from collections import Counter
from collections.abc import Callable
from time import monotonic

import mqredis
from mqredis import MqError, Settings
from mqredis.codec import encode
from mqredis.commands import read, send, transactions
from mqredis.models import Outgoing
from mqredis.models.lookup_ids import split_ids
from tests.reliability.check import Run, check
from tests.reliability.store import Reader, append_only_file
from tests.reliability.wire import Place, Shot, Wire, fire
from tests.support.server import RedisServer

WORKERS = 3
BATCH = 50
LEASE = 1.0


class Child:
    """A forked process that reports over a pipe, one byte or line at a time."""

    def __init__(self, work: Callable[[int], None]) -> None:
        reader, writer = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a fork beside other threads: the child uses none of theirs
            self.pid = os.fork()
        if self.pid == 0:
            try:
                os.close(reader)
                work(writer)
            finally:
                os._exit(0)
        os.close(writer)
        self.pipe = reader

    def end(self) -> None:
        """Kill the process and wait for it."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.pipe)


def _work(url: str, pipe: int) -> None:
    """Receive and send in one transaction until no message arrives for a while."""
    with mqredis.connect(url, settings=Settings(lease_seconds=LEASE)) as qm:
        source, target = qm.open("in"), qm.open("out")
        while True:
            try:
                with qm.transaction() as unit:
                    found = source.receive_many(BATCH, 5, transaction=unit)
                    target.send_many([Outgoing(body=message.body) for message in found], transaction=unit)
                os.write(pipe, b"." * len(found))
            except MqError:
                os.write(pipe, b"-")


@check(
    "killed workers", "receive and send in one transaction: output equals input, whichever process is killed"
)
def killed_workers(run: Run) -> None:
    """Kill a random worker after a random number of messages, again and again.

    The input comes in portions, no more than a few ahead of the kills: so each of them meets workers that work, and
    there are as many as planned, however fast the machine is.
    """
    messages, kills = run.size(1_000_000, 1500), run.size(2000, 4)
    portion, rng = -(-messages // kills), run.rng("workers")
    with RedisServer() as server, server.client() as raw:
        with mqredis.connect(server.url) as qm:
            for name in ("in", "out"):
                qm.create_queue(name, transactional=True)
            source, fed, killed, out, moved = qm.open("in"), 0, 0, 0, monotonic()
            until = rng.randrange(portion)
            workers = [Child(lambda pipe: _work(server.url, pipe)) for _ in range(WORKERS)]
            try:
                while out < messages:
                    room = messages if killed == kills else messages - portion
                    while fed < min(room, (killed + 4) * portion):
                        bodies = [b"%d" % n for n in range(fed, min(fed + portion, room))]
                        with qm.transaction() as unit:
                            source.send_many(bodies, transaction=unit)
                        fed += len(bodies)
                    for pipe in select.select([worker.pipe for worker in workers], [], [], 30)[0]:
                        os.read(pipe, 65536)
                    # A worker that was killed after its commit has not reported it: the queue tells.
                    before, out = out, int(raw.zcard("mq:{default}:q:out:a"))
                    if out > before:
                        moved = monotonic()
                    elif monotonic() - moved > 60:
                        raise AssertionError(f"nothing moves any more: {out} of {messages} messages")
                    if killed < kills and out >= until:
                        victim = rng.randrange(WORKERS)
                        workers[victim].end()
                        workers[victim] = Child(lambda pipe: _work(server.url, pipe))
                        killed += 1
                        until = min(killed * portion + rng.randrange(portion), messages - portion)
            finally:
                for worker in workers:
                    worker.end()
        run.counts.update({"messages": messages, "kills": killed})
        assert killed == kills, f"only {killed} of {kills} kills"
        _same(server, messages)


def _same(server: RedisServer, messages: int) -> None:
    with mqredis.connect(server.url) as qm:
        out, found = qm.open("out"), Counter[bytes]()
        while True:
            try:
                with qm.transaction() as unit:
                    found.update(message.body for message in out.receive_many(256, 0, transaction=unit))
            except mqredis.IoTimeout:
                break
        if found != Counter(b"%d" % n for n in range(messages)):
            lost = sum(b"%d" % n not in found for n in range(messages))
            raise AssertionError(f"{lost} messages lost, {sum(c - 1 for c in found.values())} doubled")
        report = qm.doctor()
        assert report.healthy, report.findings[:3]


# ---- the server ----------------------------------------------------------------------------------

SENDS, TAKES = 6, 3


def _round(reader: Reader, session: str, number: int) -> list[Shot]:
    """The calls of one round: each has a slot of its own, so the round's number is the sequence of all."""
    item = encode(Outgoing(body=b"%d" % number), "")
    calls = [send.send(reader.address("q"), [item]) for _ in range(SENDS)]
    calls += [read.receive(reader.address("q"), "take", count=1) for _ in range(TAKES)]  # type: ignore[misc]
    return [fire(call, Place(f"{session}.{slot}", number - 1)) for slot, call in enumerate(calls)]


def _load(reader: Reader, session: str, first: int, pipe: int) -> None:
    wire, number = Wire(reader.server), first
    while True:
        wire.volley(_round(reader, session, number))
        os.write(pipe, b".")
        number += 1


def _settle_round(reader: Reader, session: str, number: int, present: set[str]) -> None:
    """Repeat the calls of a round: their replies tell what it did."""
    for answer in reader.wire.volley(_round(reader, session, number)):
        if answer.refused:
            raise AssertionError(f"a repeated call was refused: {answer.value}")
        if isinstance(answer.value, send.Accepted):
            present.update(split_ids(answer.value.ids))
        else:
            present.difference_update(raw[0].decode() for raw in answer.value.messages)


@check("killed server", "kill -9 under appendfsync always: nothing acknowledged is lost, nothing is torn")
def killed_server(run: Run) -> None:
    """Kill the server under load: acknowledged units are there, the others completely or not at all."""
    kills, rng = run.size(200, 3), run.rng("server")
    with RedisServer(aof=True, options={"appendfsync": "always"}) as server:
        reader = Reader(server)
        [session] = reader.wire.open_session([reader.keys])
        reader.create("q")
        number, present = 1, set[str]()
        for _ in range(kills):
            first = number
            child = Child(lambda pipe, first=first: _load(reader, session, first, pipe))  # type: ignore[misc]
            rounds, wanted = 0, rng.randint(1, 60)
            while rounds < wanted:
                rounds += len(os.read(child.pipe, 65536))
            server.kill()
            while data := os.read(child.pipe, 65536):
                rounds += len(data)
            child.end()
            server.start()
            reader.connect()
            # Only each slot's last call can be asked for again; of the rounds before, the ids are known to be one of
            # a kind: the store must hold what they left.
            run.add("acknowledged calls", rounds * (SENDS + TAKES))
            faults = reader.faults()
            assert not faults, faults
            seen = reader.counter("seq")
            expected = SENDS * (number - 1 + rounds)
            if not expected <= seen <= expected + SENDS:
                raise AssertionError(f"{expected} sends were acknowledged, the server has done {seen}")
            number += rounds
            _settle_round(reader, session, number, present)
            number += 1
            held, wanted_held = reader.ids("q"), (SENDS - TAKES) * (number - 1)
            if len(held) != wanted_held:
                raise AssertionError(f"{len(held)} messages, must be {wanted_held}")
        run.counts["kills"] = kills


@check(
    "cut file", "the append-only file cut at any byte of a unit of work: it is there as a whole or not at all"
)
def cut_file(run: Run) -> None:
    """Cut the file inside the last commit, start the server on the rest."""
    with RedisServer(aof=True, options={"appendfsync": "always"}) as server:
        reader = Reader(server)
        [session] = reader.wire.open_session([reader.keys])
        for name in ("t", "u"):
            reader.create(name, transactional=True)
        place = Place(f"{session}.0")
        item = encode(Outgoing(body=b"x" * 50), "x")
        t, u = reader.address("t"), reader.address("u")
        reader.call(send.send(t, [item] * 3, "s", "+60000"), place)
        reader.call(transactions.end(reader.keys, "s", reader.fence, "commit", ("t",)), place)
        reader.call(read.receive(t, "tx", 2, owner="x", grant="+60000"), place)
        reader.call(send.send(u, [item] * 3, "x", reader.fence), place)
        file = append_only_file(server)
        before, first = reader.digest(), file.stat().st_size
        reader.call(transactions.end(reader.keys, "x", reader.fence, "commit", ("t", "u")), place)
        after = reader.digest()
        reader.close()
        server.kill()
        data = file.read_bytes()
        cuts = list(range(first, len(data) + 1))
        wanted = run.size(len(cuts), 12)
        chosen = sorted({*run.rng("cut").sample(cuts, wanted), cuts[0], cuts[-1]})
        for cut in chosen:
            file.write_bytes(data[:cut])
            server.start()
            reader.connect()
            found = reader.digest()
            if found != (after if cut == len(data) else before):
                raise AssertionError(f"cut {cut - first} bytes into the unit of work: it is torn")
            reader.close()
            server.kill()
        run.counts.update({"cuts": len(chosen), "bytes of the unit of work": len(data) - first})
