"""Claims call by call: what is received at once, what is removed page by page, and what may come between."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

import mqredis
from mqredis import Acknowledge, Match, MessageClass, Outgoing
from mqredis.codec.claims import Claim
from mqredis.commands import pipelines as commands
from mqredis.commands.common import Address
from mqredis.commands.filters import Filter
from mqredis.commands.pipelines import Claimed, Order, Received
from mqredis.errors import ClaimLost, QueueNotFound
from mqredis.operations import pipelines
from mqredis.operations.queue_call import QueueCall
from mqredis.selector import parse
from mqredis.steps import perform
from tests.support.backend import Backend
from tests.support.counts import count

_numbers = itertools.count(1)
# What one call removes at most: of messages that need no look, and of others (lua/claims/claim.lua).
RUN, PAGE = 1000, 256


@dataclass
class Pipeline:
    """One owner on one queue, and what it calls."""

    qm: mqredis.QueueManager
    raw: Any
    owner: str = "lake"
    lineage: str = "first"
    path: str = "orders"

    @property
    def queue(self) -> Address:
        seen = self.qm._run(pipelines.look(self.qm._context, self.path))
        return Address(self.qm._context.keys, self.path, seen.generation)

    @property
    def field(self) -> tuple[str, str]:
        """Where the claim stands."""
        return f"mq:{{{self.qm.name}}}:q:{self.path}:q", f"claim:{self.owner}"

    @property
    def text(self) -> str:
        text: bytes = self.raw.hget(*self.field)
        return text.decode()

    @property
    def known(self) -> Claim:
        return Claim.parse(self.text)

    def fill(self, count: int, **fields: Any) -> None:
        with self.qm.open(self.path) as queue:
            for at in range(0, count, 500):
                some = range(at, min(count, at + 500))
                queue.send_many([Outgoing(body=b"%d" % n, **fields) for n in some])

    def claim(self, sequence: int, count: int = 10_000, first: bool = False) -> Claimed:
        who = (self.owner, self.lineage, sequence)
        return self.qm._run(pipelines.claim(self.queue, *who, Order(count), first))

    def page(self, sequence: int) -> Received:
        """One call of a commit."""
        queue = self.queue
        call = commands.claim_commit(queue, self.owner, self.lineage, sequence)
        return self.qm._run(QueueCall(queue, call))

    def commit(self, sequence: int) -> int:
        return self.qm._run(pipelines.commit(self.queue, self.owner, self.lineage, sequence))

    def read(self, sequence: int, count: int = 10_000) -> list[bytes]:
        call = commands.claimed(self.queue, self.owner, self.lineage, sequence, 0, count)
        return self.qm._run(perform(call))

    def release(self, forget: bool = False) -> int:
        return self.qm._run(pipelines.release(self.qm._context, self.path, self.owner, forget))

    def holds(self, messages: int, locked: int) -> None:
        """So many are there, and the doctor agrees with the counters."""
        info = self.qm.queue_info(self.path)
        assert (info.messages, info.locked, info.ready) == (messages, locked, messages - locked)
        assert self.qm.doctor().findings == ()


@pytest.fixture
def pipeline(backend: Backend) -> Iterator[Pipeline]:
    raw = backend.client()
    with mqredis.connect(backend.client(), manager=f"claims-{os.getpid()}-{next(_numbers)}") as qm:
        qm.create_queue("orders")
        yield Pipeline(qm, raw)
    raw.close()


@pytest.fixture
def draining(pipeline: Pipeline) -> Pipeline:
    """A claim that is committed and not removed yet, and as many messages behind it."""
    pipeline.fill(3000)
    assert pipeline.claim(1, 1500, first=True).count == 1500
    assert pipeline.page(1) == Received(RUN, True, True)
    return pipeline


def test_a_commit_receives_all_at_once_and_removes_it_by_pages(draining: Pipeline) -> None:
    known = draining.known
    assert (known.committed, known.sequence, known.count, known.draining) == (1, 1, 0, known.number)
    draining.holds(2000, 500)
    # After a crash: the batch is done, and the rest of its messages is removed.
    with pytest.raises(ClaimLost, match="received already"):
        draining.read(1)
    assert draining.page(1) == Received(500, False, True)
    assert draining.known.draining == 0
    assert len(draining.text.split()) == 9
    draining.holds(1500, 0)
    assert draining.commit(1) == 0


def test_the_next_claim_comes_beside_the_removal(draining: Pipeline) -> None:
    assert draining.claim(2, 1200).count == 1200
    assert draining.claim(2, 1200).count == 1200
    draining.holds(2000, 1700)
    ids = draining.read(2)
    assert len(set(ids)) == 1200
    assert draining.page(1) == Received(500, False, True)
    assert draining.read(2) == ids
    draining.holds(1500, 1200)
    assert draining.commit(2) == 1200
    draining.holds(300, 0)


def test_a_commit_removes_what_is_left_of_the_one_before(draining: Pipeline) -> None:
    draining.claim(2)
    first = draining.known.draining
    assert draining.page(2) == Received(500, True, True)  # and received what is claimed in the same step
    known = draining.known
    assert (known.committed, known.draining) == (2, known.number)
    assert known.draining != first
    draining.holds(1500, 1500)
    assert draining.page(2) == Received(RUN, True, True)
    assert draining.page(2) == Received(500, False, True)
    draining.holds(0, 0)


def test_a_commit_is_not_done_while_much_is_left_of_the_one_before(draining: Pipeline) -> None:
    """Only one claim is being removed at a time."""
    draining.commit(1)
    draining.fill(3000)
    draining.claim(2, 2200)
    assert draining.page(2).more
    draining.claim(3, 10)
    page = draining.page(3)
    assert page == Received(RUN, True, False)
    assert draining.known.committed == 2
    assert draining.read(3)
    assert draining.qm._run(
        pipelines.receive(draining.queue, draining.owner, draining.lineage, 3)
    )  # the last page of 2 receives 3
    assert draining.commit(3) == 10
    draining.holds(4500 - 2210, 0)


def test_a_new_checkpoint_takes_over_what_is_left(draining: Pipeline) -> None:
    draining.claim(2, 1100)
    ids = draining.read(2)
    new = replace(draining, lineage="second")
    with pytest.raises(ClaimLost, match="another checkpoint"):
        new.commit(1)
    assert new.claim(2, 5, first=True).count == 1100
    assert new.known.draining == draining.known.draining != 0
    with pytest.raises(ClaimLost, match="another checkpoint"):
        draining.commit(1)
    assert new.read(2) == ids
    new.holds(2000, 1600)
    assert new.commit(0) == 500
    new.holds(1500, 1100)
    assert new.commit(0) == 0
    assert new.commit(2) == 1100
    new.holds(400, 0)


def test_whoever_finds_what_is_left_removes_it(draining: Pipeline) -> None:
    """A new checkpoint has nothing of its own to commit, and need not wait for that."""
    new = replace(draining, lineage="second")
    with pytest.raises(ClaimLost, match="another checkpoint"):
        new.commit(1)
    assert new.commit(0) == 500
    assert new.known.lineage == "first"
    new.holds(1500, 0)


@pytest.mark.parametrize("forget", [False, True])
def test_an_operator_gives_back_only_what_is_not_received(draining: Pipeline, forget: bool) -> None:
    draining.claim(2, 1100)
    assert draining.release(forget) == 1100
    draining.holds(1500, 0)
    assert bool(draining.raw.hexists(*draining.field)) is not forget
    if not forget:
        with pytest.raises(ClaimLost, match="released this claim"):
            draining.commit(2)
        assert draining.commit(1) == 0


def test_a_new_checkpoint_waits_for_the_end_of_a_release(pipeline: Pipeline) -> None:
    pipeline.fill(600)
    assert pipeline.claim(1, first=True).count == 600
    call = commands.claim_release(pipeline.queue, pipeline.owner, False)
    pipeline.qm._run(perform(call))  # and no further page
    pipeline.lineage = "second"
    with pytest.raises(ClaimLost, match="once the release has come to its end"):
        pipeline.claim(1, first=True)
    pipeline.holds(600, 600 - PAGE)
    assert pipeline.release() == 600 - PAGE
    assert pipeline.claim(1, first=True).count == 600
    assert pipeline.commit(1) == 600
    pipeline.holds(0, 0)


def test_an_operator_forgets_an_owner_who_only_removes(draining: Pipeline) -> None:
    assert draining.release(forget=True) == 0
    draining.holds(1500, 0)
    assert not draining.raw.hexists(*draining.field)


def test_what_is_received_goes_to_the_journal_whatever_is_purged(pipeline: Pipeline) -> None:
    pipeline.qm.update_queue("orders", journaling=True)
    pipeline.fill(900)
    pipeline.claim(1, 400, first=True)
    assert pipeline.page(1) == Received(PAGE, True, True)
    pipeline.claim(2, 300)
    with pipeline.qm.open("orders") as queue:
        assert queue.purge() == 200
    assert pipeline.commit(2) == 400 - PAGE + 300
    pipeline.holds(0, 0)
    with pipeline.qm.open("orders;journal") as journal:
        # Those of the second claim were purged before it was committed.
        assert [m.body for m in journal.browse()] == [b"%d" % n for n in range(400)]


def test_a_deleted_queue_acknowledges_what_was_received(pipeline: Pipeline) -> None:
    pipeline.qm.create_queue("admin")
    pipeline.fill(600, acknowledge=Acknowledge.FULL_RECEIVE, administration_queue="admin")
    pipeline.claim(1, 300, first=True)
    assert pipeline.page(1) == Received(PAGE, True, True)
    pipeline.claim(2, 100)
    pipeline.qm.delete_queue("orders")
    with pipeline.qm.open("admin") as admin:
        classes = [m.message_class for m in admin.browse()]
    assert classes.count(MessageClass.ACK_RECEIVE) == 300
    assert len(classes) == 600
    assert pipeline.qm.doctor().findings == ()


def test_whether_a_claim_would_find_something(pipeline: Pipeline) -> None:
    red = Filter(programs=[parse("colour = 'red'").program]).text()

    def matches(**order: Any) -> bool:
        return pipeline.qm.run(pipelines.matches(pipeline.queue, Order(10, match=red, **order)))

    pipeline.fill(600, properties={"colour": "blue"})
    assert not matches()
    with pipeline.qm.open("orders") as queue:
        first, second = (
            f"{queue.send(b'x', properties={'colour': 'red'}).lookup_id:016x}"[2:] for _ in range(2)
        )
        assert matches()
        assert (matches(after=first), matches(after=second)) == (True, False)
        assert (matches(bound=first), matches(bound="0" * 14)) == (True, False)
        absent = pipeline.queue
        pipeline.holds(602, 0)
    pipeline.qm.delete_queue("orders")
    with pytest.raises(QueueNotFound):
        pipeline.qm.run(pipelines.matches(absent, Order(10, match=red)))


def test_messages_that_ask_for_a_report_leave_before_a_page_of_others(pipeline: Pipeline) -> None:
    pipeline.qm.create_queue("admin")
    pipeline.fill(3, acknowledge=Acknowledge.FULL_RECEIVE, administration_queue="admin")
    assert pipeline.claim(1, 3, first=True).count == 3
    assert pipeline.commit(1) == 3
    pipeline.fill(2, acknowledge=Acknowledge.FULL_RECEIVE, administration_queue="admin")
    pipeline.fill(600)
    assert pipeline.claim(2, 602).count == 602
    assert pipeline.commit(2) == 602
    pipeline.holds(0, 0)
    with pipeline.qm.open("admin") as admin:
        assert [m.message_class for m in admin.browse()] == [MessageClass.ACK_RECEIVE] * 5


def test_what_an_older_version_has_left_is_read(pipeline: Pipeline) -> None:
    """Its field has no such number; between two pages of its commit the claim was still open."""
    pipeline.fill(1500)
    pipeline.claim(1, first=True)
    before = pipeline.text
    assert len(before.split()) == 9
    pipeline.page(1)
    pipeline.raw.hset(*pipeline.field, before)
    assert (pipeline.known.committed, pipeline.known.draining) == (0, 0)
    assert pipeline.commit(1) == 500
    pipeline.holds(0, 0)


def test_the_doctor_knows_what_is_being_removed(draining: Pipeline) -> None:
    draining.claim(2, 700)
    right = draining.text
    for wrong in (right.rpartition(" ")[0], right.rpartition(" ")[0] + " 99"):
        draining.raw.hset(*draining.field, wrong)
        assert {finding.code for finding in draining.qm.doctor().findings} == {"claim.count", "claim.pages"}
    draining.raw.hset(*draining.field, right + " x")
    assert "claim.malformed" in {finding.code for finding in draining.qm.doctor().findings}
    draining.raw.hset(*draining.field, right)
    draining.holds(2000, 1200)


def test_the_doctor_knows_pages(pipeline: Pipeline) -> None:
    """A packed message is where it belongs; a page of no claim, and a book that is wrong, are found."""
    pipeline.fill(1600)
    pipeline.claim(1, 1500, first=True)
    pipeline.holds(1600, 1500)
    key, states = pipeline.field[0], pipeline.field[0][:-1] + "s"
    right = pipeline.raw.hget(key, "pages")
    number = pipeline.known.number
    ids = pipeline.raw.hget(states, f"c{number}:1")
    assert len(ids) == 16 * 500

    def codes() -> set[str]:
        return {finding.code for finding in pipeline.qm.doctor().findings}

    for field in (f"c{number}:2", "b77:0", "c"):
        pipeline.raw.hset(states, field, ids)
        assert codes() == {"stray.s"}
        assert pipeline.qm.doctor(repair=True).findings
        assert not pipeline.raw.hexists(states, field)
    pipeline.holds(1600, 1500)
    for wrong, code in (
        (right.replace(b" 1500 ", b" 1400 "), "claim.pages"),
        (right.replace(b"%d " % number, b"99 ", 1), "claim.pages"),
        (b"what", "claim.malformed"),
    ):
        pipeline.raw.hset(key, "pages", wrong)
        assert code in codes()
    pipeline.raw.hset(key, "pages", right)
    pipeline.raw.hdel(states, f"c{number}:1")
    assert codes() == {"claim.count", "claim.pages", "position.lost"}


@pytest.mark.parametrize("asked", ["never", "before", "meanwhile"])
def test_special_messages_are_seen_where_none_was_sent(pipeline: Pipeline, asked: str) -> None:
    """An acknowledgement is put into its queue by the broker, so no sender has told that it is special. It has the id
    of the message that it tells of, and is found by that again when it comes back."""
    pipeline.qm.create_queue("admin")
    acks = replace(pipeline, path="admin")
    acks.fill(3)
    with pipeline.qm.open("orders") as queue:
        told = Outgoing(body=b"x", acknowledge=Acknowledge.FULL_REACH_QUEUE, administration_queue="admin")
        sent = [*queue.send_many([told] * 5)][3]

    def found() -> int:
        with pipeline.qm.open("admin") as queue:
            return len(list(queue.browse(match=Match(correlation_id=sent.message_id))))

    assert asked != "before" or found() == 1
    acks.holds(8, 0)
    assert acks.claim(1, first=True).count == 8
    acks.holds(8, 8)  # the doctor would see what the index still holds of them
    assert asked != "meanwhile" or found() == 0
    assert acks.release() == 8
    acks.holds(8, 0)
    assert found() == 1
    acks.lineage = "second"
    assert acks.claim(1, first=True).count == 8
    assert (found(), acks.commit(1)) == (0, 8)
    acks.holds(0, 0)


def test_only_special_messages_mark_a_queue(pipeline: Pipeline) -> None:
    """Where none ever came a claim reads no records."""

    def marked() -> bool:
        return bool(count(pipeline.raw, pipeline.field[0], "marks"))

    with pipeline.qm.open("orders") as queue:
        for _ in range(2):  # a session's first call goes the long way
            queue.send(b"x")
            queue.send_many([b"x", b"y"])
        assert not marked()
        queue.send_many([Outgoing(body=b"x"), Outgoing(body=b"y", correlation_id="c")])
        assert marked()


@pytest.mark.parametrize("large", [0, 1, 5])
def test_bytes_of_a_claim_are_those_of_its_messages(pipeline: Pipeline, large: int) -> None:
    bodies = [b"x" * 9000] * large + [b"y" * n for n in range(20)]
    with pipeline.qm.open("orders") as queue:
        queue.send_many(bodies)
    size = pipeline.qm.queue_info("orders").bytes
    assert pipeline.claim(1, 10, first=True).count == 10
    assert pipeline.claim(1).sealed
    before = pipeline.known.bytes
    pipeline.holds(20 + large, 10)
    assert pipeline.commit(1) == 10
    assert pipeline.qm.queue_info("orders").bytes == size - before
    assert pipeline.claim(2).bytes == size - before
    assert pipeline.commit(2) == 10 + large
    pipeline.holds(0, 0)


def test_a_look_that_needs_another_queue_keeps_what_it_has_done(backend: Backend) -> None:
    """It serves lapsed locks, and only then finds out that what has expired goes to a queue that it was not given."""
    settings = mqredis.Settings(test_clock=True, allow_volatile=True)
    name = f"claims-{os.getpid()}-{next(_numbers)}"
    with mqredis.connect(backend.client(), manager=name, settings=settings) as qm:
        qm.create_queue("orders")
        orders = qm.open("orders")
        orders.send(b"purged")
        orders.lock(0, lease=5)
        orders.purge()
        orders.send(b"expired", time_to_be_received=5, journal=mqredis.Journal.DEAD_LETTER)
        qm.advance_clock(6)
        assert qm._run(pipelines.look(qm._context, "orders")).messages == 0
        assert qm.queue_info("orders").messages == 0
        assert qm.doctor().healthy


def test_the_backlog_of_an_owner_counts_one_message_of_each_group_that_takes_turns(
    backend: Backend,
) -> None:
    name = f"claims-{os.getpid()}-{next(_numbers)}"
    with mqredis.connect(backend.client(), manager=name) as qm:
        qm.create_queue("turns", group_exclusive=True)
        with qm.open("turns") as queue:
            queue.send_many([Outgoing(body=b"x", group_id=group) for group in ("a", "a", "a", "b", "b")])
        all_readers = qm.run(pipelines.look(qm.context, "turns"))
        owner = qm.run(pipelines.look(qm.context, "turns", "lake"))
        assert (all_readers.available, all_readers.turns) == (5, False)
        assert (owner.available, owner.turns) == (2, True)
