"""Check: the doctor finds each planted corruption, repairs without losing a message, and reports no healthy store."""

from __future__ import annotations

import contextlib
import random
from collections import Counter
from typing import Any

import mqredis
from mqredis import Access, IoTimeout, Journal, Mark, MqError, Outgoing, RetryPolicy, Settings
from mqredis.keys import ManagerKeys
from mqredis.operations import doctor
from mqredis.operations.doctor import snapshot
from mqredis.operations.doctor.fault import Fault
from mqredis.steps import Command, Refused
from tests.reliability.check import Run, check
from tests.reliability.corruptions import Corruption, corruptions
from tests.reliability.wire import Shot, Wire
from tests.support.server import RedisServer

SETTINGS = Settings(test_clock=True, allow_volatile=True, wake="poll")
# Random steps, and states checked, per store.
STEPS_PER_STORE = 100


class RandomUser:
    """A manager whose features are used in random steps."""

    def __init__(self, server: RedisServer, name: str, rng: random.Random) -> None:
        self.qm = mqredis.connect(server.url, manager=name, settings=SETTINGS)
        self.rng = rng
        self.qm.create_queue("a", retry=RetryPolicy(immediate=1, cycles=1, delay=20), quota_messages=500)
        self.qm.create_queue("b", journaling=True)
        self.qm.create_queue("g", group_exclusive=True)
        self.qm.create_queue("t", transactional=True)
        self.qm.create_queue("topic", topic=True)
        self.qm.subscribe("topic", "b")
        self.queues = [self.qm.open(name) for name in "abg"]
        self.tx, self.topic = self.qm.open("t"), self.qm.open("topic")
        self.locks: list[Any] = []
        self.units: list[Any] = []
        self.browsers: list[Any] = []
        self.number = 0

    def step(self) -> None:
        """Run a random operation; refusals are expected."""
        names = [name for name in dir(self) if name.startswith("do_")]
        with contextlib.suppress(MqError):
            getattr(self, self.rng.choice(names))()

    def do_send(self) -> None:
        rng = self.rng
        self.number += 1
        items = [
            Outgoing(
                body=b"x" * rng.choice((1, 50, 5000)),
                priority=rng.randrange(8),
                delay=rng.choice((0.0, 0.0, 15.0)),
                time_to_be_received=rng.choice((None, None, 30.0)),
                correlation_id=rng.choice((None, "c", b"\x01\x00")),
                group_id=rng.choice((None, None, "g1", "g2")),
                journal=Journal(rng.randrange(4)),
                properties={"n": n},
            )
            for n in range(rng.randrange(1, 4))
        ]
        rng.choice(self.queues).send_many(items)

    def do_dedup(self) -> None:
        self.rng.choice(self.queues).send(
            b"x", dedup_key=f"k{self.rng.randrange(4)}", dedup_window=self.rng.choice((0.0, 25.0))
        )

    def do_group(self) -> None:
        self.rng.choice(self.queues[:2]).send_group([b"1", b"2"], group_id=f"group{self.number}")

    def do_publish(self) -> None:
        self.topic.send(b"news")

    def do_receive(self) -> None:
        self.rng.choice(self.queues).receive_many(self.rng.randrange(1, 4), 0)

    def do_lock(self) -> None:
        self.locks += self.rng.choice(self.queues).lock_many(self.rng.randrange(1, 3), 0, lease=20)

    def do_settle(self) -> None:
        if self.locks:
            lock = self.locks.pop(self.rng.randrange(len(self.locks)))
            self.rng.choice((lock.commit, lock.abort, lock.reject, lock.extend))()

    def do_purge(self) -> None:
        self.rng.choice(self.queues).purge()

    def do_browse(self) -> None:
        browser = self.rng.choice(self.queues[:2]).browser(co_op=True)
        self.browsers.append(browser)
        browser.first(0, mark=Mark.CO_OP, lock=self.rng.random() < 0.5)

    def do_close(self) -> None:
        if self.browsers:
            self.browsers.pop().close()

    def do_move(self) -> None:
        source = self.rng.choice(self.queues[:2])
        with self.qm.open(source.name + ";s") as sub:
            source.move(source.peek(0).lookup_id, sub)

    def do_begin(self) -> None:
        unit = self.qm.transaction(lease=40)
        self.units.append(unit)
        self.tx.send_many([b"x"] * self.rng.randrange(1, 4), transaction=unit)

    def do_unit(self) -> None:
        if self.units:
            unit = self.rng.choice(self.units)
            self.tx.receive(0, transaction=unit)

    def do_end(self) -> None:
        if self.units:
            unit = self.units.pop(self.rng.randrange(len(self.units)))
            self.rng.choice((unit.commit, unit.abort, unit.prepare))()

    def do_time(self) -> None:
        self.qm.advance_clock(self.rng.choice((1, 5, 30)))

    def do_maintain(self) -> None:
        self.qm.maintain()

    def do_handle(self) -> None:
        with self.qm.open("b", Access.PEEK) as q, contextlib.suppress(IoTimeout):
            q.peek(0)


class SessionlessDoctor:
    """Runs the doctor without a session, so that the store does not change."""

    def __init__(self, server: RedisServer) -> None:
        self.wire = Wire(server)

    def faults(self, name: str) -> list[Fault]:
        """Return the findings; a store that the script cannot read is one, too."""
        operation = iter(snapshot.take(ManagerKeys(name)))
        answer: Any = None
        try:
            while True:
                step: Any = operation.send(answer)
                if isinstance(step, Command):
                    answer = self.wire.command(*step.args)
                    if isinstance(answer, Exception):
                        answer = Refused(str(answer), True)
                    continue
                [told] = self.wire.volley([Shot(step, "0.0", 0)])
                answer = (int(told.raw[0]), told.raw[3:])
        except StopIteration as stop:
            return [fault for fault in doctor.find(stop.value) if fault.severity == "error"]
        except (MqError, AssertionError) as error:
            return [Fault("meta.unreadable", name, str(error))]  # as ``operations.doctor.examine`` says it


@check("doctor, healthy", "10,000 states of stores in use: the doctor finds nothing wrong with any of them")
def healthy(run: Run) -> None:
    """Run the doctor after every step of random runs."""
    states = run.size(10_000, 60)
    with RedisServer() as server:
        checker = SessionlessDoctor(server)
        for store in range(-(-states // STEPS_PER_STORE)):
            user = RandomUser(server, f"w{store}", run.rng("store", store))
            with user.qm:
                for step in range(min(STEPS_PER_STORE, states - store * STEPS_PER_STORE)):
                    user.step()
                    faults = checker.faults(f"w{store}")
                    assert not faults, f"store {store}, step {step}: {faults[:2]}"
                    run.add("states")
        checker.wire.close()


def _store(server: RedisServer, run: Run) -> dict[bytes, bytes]:
    """Return the dumped keys of a manager that has used every feature."""
    user = RandomUser(server, "d", run.rng("patient"))
    for _ in range(60):
        user.step()
    for name in (
        "send",
        "dedup",
        "lock",
        "begin",
        "group",
        "move",
        "browse",
        "begin",
        "unit",
        "send",
        "lock",
    ):
        with contextlib.suppress(MqError):
            getattr(user, f"do_{name}")()
    with server.client() as raw:
        kept = {key: raw.dump(key) for key in raw.keys("mq:{d}:*")}
    user.qm.close()
    return kept


def _restore(raw: Any, kept: dict[bytes, bytes]) -> None:
    with raw.pipeline(transaction=False) as pipe:
        pipe.flushdb()
        for key, data in kept.items():
            pipe.restore(key, 0, data)
        pipe.execute()


def _bodies(raw: Any) -> set[bytes]:
    """The messages of the manager, by queue and lookup id."""
    found = set()
    for key in raw.keys("mq:{d}:q:*:m"):
        if raw.type(key) == b"hash":
            found |= {key + field for field in raw.hkeys(key) if field[:1] != b"^" and len(field) == 16}
    return found


@check(
    "doctor, planted", "whatever is dropped, altered or added in any key is found; repairs lose no message"
)
def planted(run: Run) -> None:
    """Apply one corruption at a time to the same store, run the doctor, repair, run it again."""
    missed: list[str] = []
    lost: list[str] = []
    mended = 0
    with RedisServer() as server, server.client() as raw:
        kept = _store(server, run)
        _restore(raw, kept)
        checker = SessionlessDoctor(server)
        assert not checker.faults("d"), "the store was not healthy to begin with"
        _restore(raw, kept)  # the doctor has expanded packed locks, which no fault below would meet
        messages = _bodies(raw)
        every = list(corruptions(raw, "mq:{d}:"))
        run.counts["corruptions there are"] = len(every)
        codes: Counter[str] = Counter()
        for one in run.rng("planted").sample(every, min(len(every), run.size(len(every), 30))):
            _restore(raw, kept)
            one.plant(raw)
            faults = checker.faults("d")
            run.add("planted")
            codes.update({fault.code for fault in faults})
            if not faults:
                missed.append(one.name)
                continue
            mended += _repair(server, raw, checker, one, messages, lost)
        checker.wire.close()
    run.counts.update({"found": int(run.counts["planted"]) - len(missed), "mended": mended})
    run.counts["kinds of findings"] = len(codes)
    assert not missed, f"{len(missed)} were not found: {missed[:40]}"
    assert not lost, f"repairs lost messages: {lost[:5]}"
    if run.scale >= 1:
        assert len(every) >= 400, f"only {len(every)} corruptions"


def _repair(
    server: RedisServer,
    raw: Any,
    checker: SessionlessDoctor,
    one: Corruption,
    messages: set[bytes],
    lost: list[str],
) -> bool:
    """Repair the store. Return whether it is healthy then."""
    with contextlib.suppress(MqError):
        before = _bodies(raw)
        with mqredis.connect(server.url, manager="d", settings=SETTINGS) as qm:
            qm.doctor(repair=True)
        if before - _bodies(raw) or (one.keeps and messages - _bodies(raw)):
            lost.append(one.name)
    return not checker.faults("d")
