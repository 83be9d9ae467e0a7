"""Claims, call by call: a commit receives all messages at once and removes them in pages, while other calls may run."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

import mqredis
from mqredis import Access, Acknowledge, Match, MessageClass, Outgoing
from mqredis.codec.claims import Claim, PageList
from mqredis.commands import claims as commands
from mqredis.commands.address import Address
from mqredis.commands.claims import Claimed, Order, Received
from mqredis.commands.filters import Filter
from mqredis.errors import ClaimLost, QueueNotAvailable, QueueNotFound
from mqredis.operations import pipelines
from mqredis.operations.queue_call import QueueCall
from mqredis.selector import parse
from mqredis.steps import perform
from tests.support.backend import Backend
from tests.support.counts import count

_numbers = itertools.count(1)
# The most messages that one call removes: plain ones, and ones with features (lua/claims/claims.lua).
PLAIN_PAGE, PAGE = 1000, 256


@dataclass
class Pipeline:
    """The claim of one owner on one queue, and the calls on it."""

    qm: mqredis.QueueManager
    raw: Any
    owner: str = "lake"
    lineage: str = "first"
    path: str = "orders"

    @property
    def queue(self) -> Address:
        seen = self.qm.run(pipelines.look(self.qm._context, self.path))
        return Address(self.qm._context.keys, self.path, seen.generation)

    @property
    def field(self) -> tuple[str, str]:
        """Key and field in which the claim is stored."""
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
        return self.qm.run(pipelines.claim(self.queue, *who, Order(count), first))

    def page(self, sequence: int) -> Received:
        """One call of a commit."""
        queue = self.queue
        call = commands.claim_commit(queue, self.owner, self.lineage, sequence)
        return self.qm.run(QueueCall(queue, call))

    def commit(self, sequence: int) -> int:
        return self.qm.run(pipelines.commit(self.queue, self.owner, self.lineage, sequence))

    def read(self, sequence: int, count: int = 10_000) -> list[bytes]:
        call = commands.claimed(self.queue, self.owner, self.lineage, sequence, 0, count)
        return self.qm.run(perform(call))

    def release(self, forget: bool = False) -> int:
        return self.qm.run(pipelines.release(self.qm._context, self.path, self.owner, forget))

    def holds(self, messages: int, locked: int) -> None:
        """Check the counters of the queue, and that the doctor has no finding."""
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
    """A committed claim of 1500 messages, partly removed, with 1500 more messages in the queue."""
    pipeline.fill(3000)
    assert pipeline.claim(1, 1500, first=True).count == 1500
    assert pipeline.page(1) == Received(PLAIN_PAGE, True, True)
    return pipeline


@pytest.mark.parametrize("case", ["nothing", "found", "deleted"])
def test_wait_ends_its_registrations(pipeline: Pipeline, case: str) -> None:
    qm, first = pipeline.qm, (pipeline.queue, "")
    qm.create_queue("second")
    second = (replace(pipeline, path="second").queue, "")
    wait = pipelines.wait(qm.context, [first, second], 0)
    if case == "found":
        qm.open("second").send(b"x")
    if case == "deleted":
        qm.delete_queue("second")
        with pytest.raises(QueueNotAvailable):
            qm.run(wait)
    else:
        assert qm.run(wait) is (case == "found")
    assert [info.waiters for info in qm.queues()] == [0] * (2 - (case == "deleted"))


def test_commit_receives_all_messages_at_once_and_removes_them_in_pages(draining: Pipeline) -> None:
    known = draining.known
    assert (known.committed, known.sequence, known.count, known.draining) == (1, 1, 0, known.number)
    draining.holds(2000, 500)
    # As after a crash: the batch is committed, and repeating the commit removes the rest.
    with pytest.raises(ClaimLost, match="received already"):
        draining.read(1)
    assert draining.page(1) == Received(500, False, True)
    assert draining.known.draining == 0
    assert len(draining.text.split()) == 9
    draining.holds(1500, 0)
    assert draining.commit(1) == 0


def test_next_claim_is_accepted_while_the_committed_one_is_removed(draining: Pipeline) -> None:
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


def test_commit_removes_the_rest_of_the_previous_claim(draining: Pipeline) -> None:
    draining.claim(2)
    first = draining.known.draining
    assert draining.page(2) == Received(500, True, True)  # and received what is claimed in the same step
    known = draining.known
    assert (known.committed, known.draining) == (2, known.number)
    assert known.draining != first
    draining.holds(1500, 1500)
    assert draining.page(2) == Received(PLAIN_PAGE, True, True)
    assert draining.page(2) == Received(500, False, True)
    draining.holds(0, 0)


def test_commit_waits_until_the_previous_claim_is_nearly_removed(draining: Pipeline) -> None:
    """Only one claim at a time is being removed."""
    draining.commit(1)
    draining.fill(3000)
    draining.claim(2, 2200)
    assert draining.page(2).more
    draining.claim(3, 10)
    page = draining.page(3)
    assert page == Received(PLAIN_PAGE, True, False)
    assert draining.known.committed == 2
    assert draining.read(3)
    assert draining.qm.run(
        pipelines.receive(draining.queue, draining.owner, draining.lineage, 3)
    )  # the last page of 2 receives 3
    assert draining.commit(3) == 10
    draining.holds(4500 - 2210, 0)


def test_new_checkpoint_takes_over_the_open_claim_and_the_removal(draining: Pipeline) -> None:
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


def test_new_checkpoint_without_a_claim_removes_the_rest_of_the_old_one(draining: Pipeline) -> None:
    """It has nothing of its own to commit."""
    new = replace(draining, lineage="second")
    with pytest.raises(ClaimLost, match="another checkpoint"):
        new.commit(1)
    assert new.commit(0) == 500
    assert new.known.lineage == "first"
    new.holds(1500, 0)


@pytest.mark.parametrize("forget", [False, True])
def test_release_by_an_operator_returns_only_uncommitted_messages(draining: Pipeline, forget: bool) -> None:
    draining.claim(2, 1100)
    assert draining.release(forget) == 1100
    draining.holds(1500, 0)
    assert bool(draining.raw.hexists(*draining.field)) is not forget
    if not forget:
        with pytest.raises(ClaimLost, match="released this claim"):
            draining.commit(2)
        assert draining.commit(1) == 0


def test_claim_of_a_new_checkpoint_is_refused_until_the_release_is_complete(pipeline: Pipeline) -> None:
    pipeline.fill(600)
    assert pipeline.claim(1, first=True).count == 600
    call = commands.claim_release(pipeline.queue, pipeline.owner, False)
    pipeline.qm.run(perform(call))  # the first page of the release only
    pipeline.lineage = "second"
    with pytest.raises(ClaimLost, match="once the release has come to its end"):
        pipeline.claim(1, first=True)
    pipeline.holds(600, 600 - PAGE)
    assert pipeline.release() == 600 - PAGE
    assert pipeline.claim(1, first=True).count == 600
    assert pipeline.commit(1) == 600
    pipeline.holds(0, 0)


def test_claims_of_a_queue_show_what_each_reader_holds(pipeline: Pipeline) -> None:
    def shown() -> tuple[str, int, int, int]:
        (claim,) = pipeline.qm.claims("orders")
        assert (claim.queue, claim.owner, claim.connected) == ("orders", "lake", False)
        assert (claim.messages > 0) is (claim.bytes > 0) or claim.state == "released"
        return claim.state, claim.sequence, claim.messages, claim.removing

    assert pipeline.qm.claims("orders") == []
    pipeline.fill(2200)
    order = (pipeline.owner, pipeline.lineage, 1, Order(1500), True, "")
    pipeline.qm.run(perform(commands.claim(pipeline.queue, *order)))  # the first page only
    assert shown() == ("filling", 1, PLAIN_PAGE, 0)
    pipeline.claim(1, 1500, first=True)
    assert shown() == ("complete", 1, 1500, 0)
    pipeline.page(1)
    assert shown() == ("committed", 1, 0, 500)
    pipeline.claim(2, 600)
    assert shown() == ("complete", 2, 600, 500)
    pipeline.commit(1)
    assert shown() == ("complete", 2, 600, 0)
    pipeline.qm.run(perform(commands.claim_release(pipeline.queue, pipeline.owner, False)))
    assert shown() == ("released", 1, 600 - PAGE, 0)
    pipeline.release()
    assert shown() == ("released", 1, 0, 0)
    pipeline.release(forget=True)
    assert pipeline.qm.claims("orders") == []


def test_forget_removes_the_rest_of_a_committed_claim_and_its_record(draining: Pipeline) -> None:
    assert draining.release(forget=True) == 0
    draining.holds(1500, 0)
    assert not draining.raw.hexists(*draining.field)


def test_committed_messages_reach_the_journal_despite_a_purge(pipeline: Pipeline) -> None:
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


def test_delete_queue_acknowledges_committed_messages_as_received(pipeline: Pipeline) -> None:
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


def test_claim_of_a_queue_that_begins_with_ids_without_records_ends(pipeline: Pipeline) -> None:
    pipeline.fill(5)
    available = f"mq:{{{pipeline.qm.name}}}:q:{pipeline.path}:a"
    ghosts = {f"{number:016x}": 0 for number in range(PLAIN_PAGE + 1)}
    pipeline.raw.zadd(available, ghosts)
    assert pipeline.claim(1, first=True).count == 0
    pipeline.raw.zrem(available, *ghosts)  # as the doctor does
    assert pipeline.commit(1) == 0
    assert pipeline.claim(2).count == 5


def test_matches_reports_whether_a_claim_would_find_a_message(pipeline: Pipeline) -> None:
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


@pytest.mark.parametrize(
    "priorities, after, bound, left",
    [("37375", 0, 3, "40"), ("37375", None, 2, "34"), ("37375", 2, None, "102"), ("33333", 0, None, "0")],
    ids=["both", "bound", "after", "after, one priority"],
)
def test_claim_within_limits_takes_messages_of_each_priority(
    pipeline: Pipeline, priorities: str, after: int | None, bound: int | None, left: str
) -> None:
    with pipeline.qm.open("orders") as queue:
        ids = [queue.send(str(n), priority=int(each)).lookup_id for n, each in enumerate(priorities)]
        place = {n: f"{id_:016x}"[2:] for n, id_ in enumerate(ids)} | {None: ""}
        order = Order(10, after=place[after], bound=place[bound])
        who = (pipeline.owner, pipeline.lineage, 1)
        claimed = pipeline.qm.run(pipelines.claim(pipeline.queue, *who, order, True))
        assert claimed.count == 5 - len(left)
        assert "".join(message.text for message in queue.browse()) == left


def test_claim_ends_before_the_message_that_exceeds_its_bytes(pipeline: Pipeline) -> None:
    pipeline.fill(10)
    one = pipeline.claim(1, 1, first=True).bytes
    for sequence, most_bytes in enumerate((3 * one - 1, 3 * one, one - 1), 2):
        pipeline.commit(sequence - 1)
        who = (pipeline.owner, pipeline.lineage, sequence)
        claimed = pipeline.qm.run(pipelines.claim(pipeline.queue, *who, Order(10, most_bytes)))
        count = max(1, most_bytes // one)
        assert (claimed.count, claimed.bytes, claimed.sealed) == (count, count * one, True)


@pytest.mark.parametrize("size", [1000, 100_000])
def test_claim_counts_the_bytes_of_messages_that_were_locked_before(pipeline: Pipeline, size: int) -> None:
    """All messages have states then, as many as the queue has messages. A large body is not in its message's record."""
    with pipeline.qm.open("orders") as queue:
        for body in (b"x" * size, b"y"):
            queue.send(body)
        for lock in queue.lock_many(2):
            lock.abort()
    assert pipeline.claim(1, first=True).bytes == pipeline.qm.queue_info("orders").bytes > size
    pipeline.commit(1)


def test_claim_with_a_filter_passes_over_groups_that_are_busy(pipeline: Pipeline) -> None:
    turns = replace(pipeline, path="turns")
    pipeline.qm.create_queue("turns", group_exclusive=True)
    red = Filter(programs=[parse("colour = 'red'").program]).text()
    with pipeline.qm.open("turns") as queue:
        for group in "aab":
            queue.send(group, group_id=group, properties={"colour": "red"})
        lock = queue.lock(0)
        who = (turns.owner, turns.lineage, 1)
        assert pipeline.qm.run(pipelines.claim(turns.queue, *who, Order(10, match=red), True)).count == 1
        assert [message.text for message in queue.browse()] == ["a"], "the message of group b was claimed"
        lock.commit()


def test_claim_takes_one_message_of_each_group_that_is_free(pipeline: Pipeline) -> None:
    turns = replace(pipeline, path="turns")
    pipeline.qm.create_queue("turns", group_exclusive=True)
    with pipeline.qm.open("turns") as queue:
        for group in "aabbcc":
            queue.send(group, group_id=group)
        with queue.lock(0):
            assert turns.claim(1, first=True).count == 2
            assert [message.text for message in queue.browse()] == ["a", "b", "c"]


@pytest.mark.parametrize("match", [b"", Filter(programs=[parse("colour = 'red'").program]).text()])
@pytest.mark.parametrize("lifetime", [None, 3600])
def test_claim_keeps_earlier_deliveries(pipeline: Pipeline, match: bytes, lifetime: int | None) -> None:
    pipeline.fill(2, properties={"colour": "red"}, time_to_be_received=lifetime)
    with pipeline.qm.open("orders") as queue:
        queue.lock(0).abort()
        who = (pipeline.owner, pipeline.lineage, 1)
        assert pipeline.qm.run(pipelines.claim(pipeline.queue, *who, Order(10, match=match), True)).count == 2
        assert pipeline.release() == 2
        pipeline.holds(2, 0)
        assert [message.delivery_count for message in queue.browse()] == [2, 1]


def test_claim_deletes_expired_messages_that_it_meets(backend: Backend) -> None:
    """More timers are due than one call serves (lua/core/timers.lua)."""
    name, settings = f"claims-{os.getpid()}-{next(_numbers)}", mqredis.Settings(test_clock=True)
    with mqredis.connect(backend.client(), manager=name, settings=settings) as qm:
        qm.create_queue("orders")
        pipeline = Pipeline(qm, backend.client())
        pipeline.fill(600, time_to_be_received=60)
        pipeline.fill(3)
        call = commands.claim(pipeline.queue, pipeline.owner, pipeline.lineage, 1, Order(10), True)
        qm.advance_clock(61)
        claimed = qm.run(perform(call))
        assert (claimed.count, claimed.sealed) == (0, False)
        assert pipeline.raw.zcard(f"mq:{{{name}}}:q:orders:a") == 603 - 8 * 32 - 10
        assert pipeline.claim(1).count == 3


def test_commit_sends_acknowledgements_for_small_and_mixed_batches(pipeline: Pipeline) -> None:
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


def test_claim_record_without_a_draining_number_is_read(pipeline: Pipeline) -> None:
    """Older versions wrote no such number, and kept the claim open between two pages of its commit."""
    pipeline.fill(1500)
    pipeline.claim(1, first=True)
    before = pipeline.text
    assert len(before.split()) == 9
    pipeline.page(1)
    pipeline.raw.hset(*pipeline.field, before)
    assert (pipeline.known.committed, pipeline.known.draining) == (0, 0)
    assert pipeline.commit(1) == 500
    pipeline.holds(0, 0)


def test_doctor_checks_the_draining_number_of_a_claim(draining: Pipeline) -> None:
    draining.claim(2, 700)
    right = draining.text
    for wrong in (right.rpartition(" ")[0], right.rpartition(" ")[0] + " 99"):
        draining.raw.hset(*draining.field, wrong)
        assert {finding.code for finding in draining.qm.doctor().findings} == {"claim.count", "claim.pages"}
    draining.raw.hset(*draining.field, right + " x")
    assert "claim.malformed" in {finding.code for finding in draining.qm.doctor().findings}
    draining.raw.hset(*draining.field, right)
    draining.holds(2000, 1200)


def test_released_claim_counts_only_the_messages_of_the_pages_that_it_has(pipeline: Pipeline) -> None:
    """The first page is loose after the first call of a release, and the order that it kept is of no use any more."""
    pipeline.fill(2 * PLAIN_PAGE)
    pipeline.claim(1, first=True)
    queue, key = pipeline.queue, pipeline.field[0]
    pipeline.qm.run(QueueCall(queue, commands.claim_release(queue, pipeline.owner, False)))
    [pages] = PageList.parse_all(pipeline.raw.hget(key, "pages").decode())
    assert (pages.first, pages.upto, pages.packed, pages.loose) == (1, 2, PLAIN_PAGE, 0)
    pipeline.release()
    pipeline.holds(2 * PLAIN_PAGE, 0)


def test_doctor_finds_stray_and_inconsistent_claim_pages(pipeline: Pipeline) -> None:
    """It reports a page that belongs to no claim, a wrong list of pages, and a page that is missing."""
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


@pytest.mark.parametrize("browsed", ["never", "before", "meanwhile"])
def test_acknowledgements_are_claimed_and_reindexed_after_release(pipeline: Pipeline, browsed: str) -> None:
    """The broker itself puts an acknowledgement into the queue. It is indexed by the id of the message that it
    acknowledges, is not in the index while it is claimed, and is found again after a release."""
    pipeline.qm.create_queue("admin")
    acks = replace(pipeline, path="admin")
    acks.fill(3)
    with pipeline.qm.open("orders") as queue:
        told = Outgoing(body=b"x", acknowledge=Acknowledge.FULL_REACH_QUEUE, administration_queue="admin")
        sent = [*queue.send_many([told] * 5)][3]

    def found() -> int:
        with pipeline.qm.open("admin") as queue:
            return len(list(queue.browse(match=Match(correlation_id=sent.message_id))))

    assert browsed != "before" or found() == 1
    acks.holds(8, 0)
    assert acks.claim(1, first=True).count == 8
    acks.holds(8, 8)  # the doctor reports index entries that are left
    assert browsed != "meanwhile" or found() == 0
    assert acks.release() == 8
    acks.holds(8, 0)
    assert found() == 1
    acks.lineage = "second"
    assert acks.claim(1, first=True).count == 8
    assert (found(), acks.commit(1)) == (0, 8)
    acks.holds(0, 0)


def test_only_messages_with_features_mark_the_queue(pipeline: Pipeline) -> None:
    """A claim reads no records from a queue without the mark."""

    def marked() -> bool:
        return bool(count(pipeline.raw, pipeline.field[0], "marks"))

    with pipeline.qm.open("orders") as queue:
        for _ in range(2):  # the first call of a session takes another path
            queue.send(b"x")
            queue.send_many([b"x", b"y"])
        assert not marked()
        queue.send_many([Outgoing(body=b"x"), Outgoing(body=b"y", correlation_id="c")])
        assert marked()


@pytest.mark.parametrize("large", [0, 1, 5])
def test_claim_counts_the_bytes_of_its_messages(pipeline: Pipeline, large: int) -> None:
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


def test_look_that_is_repeated_with_another_queue_keeps_its_changes(backend: Backend) -> None:
    """The call ends expired leases, and only then finds that an expired message goes to a queue it was not given."""
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
        assert qm.run(pipelines.look(qm._context, "orders")).available == 0
        assert qm.queue_info("orders").messages == 0
        assert qm.doctor().healthy


def test_claimed_message_keeps_its_earlier_deliveries(pipeline: Pipeline) -> None:
    with pipeline.qm.open("orders") as queue:
        queue.send(b"special", time_to_be_received=600)
        queue.send(b"plain")
        for locked in queue.lock_many(2, 0):
            locked.abort()
        assert [message.delivery_count for message in queue.browse()] == [1, 1]
        pipeline.claim(1, first=True)
        assert pipeline.release() == 2
        assert [message.delivery_count for message in queue.browse()] == [2, 2]


def test_look_of_an_owner_counts_one_message_per_group_in_an_exclusive_queue(
    backend: Backend,
) -> None:
    name = f"claims-{os.getpid()}-{next(_numbers)}"
    with mqredis.connect(backend.client(), manager=name) as qm:
        qm.create_queue("turns", group_exclusive=True)
        with qm.open("turns") as queue:
            queue.send_many([Outgoing(body=b"x", group_id=group) for group in ("a", "a", "a", "b", "b")])
            first = queue.peek(0).lookup_id
        all_readers = qm.run(pipelines.look(qm.context, "turns"))
        owner = qm.run(pipelines.look(qm.context, "turns", "lake"))
        assert (all_readers.available, all_readers.turns) == (5, False)
        assert (owner.available, owner.turns) == (2, True)
        # The first three messages are of one group.
        early = qm.run(pipelines.look(qm.context, "turns", "lake", bound=f"{first % 2**56 + 2:014x}"))
        assert early.available == 1


def test_message_of_a_claim_is_shown_as_claimed_beside_a_lock(pipeline: Pipeline) -> None:
    pipeline.fill(1001)
    pipeline.claim(1, 1000, first=True)
    with pipeline.qm.open("orders") as queue:
        locked = queue.lock(0)
        last = locked.message.lookup_id
        assert pipeline.qm.queue_info("orders").locked == 1001
        states = [pipeline.qm.message("orders", id_).state for id_ in (last - 1000, last - 1, last)]
        assert states == ["claimed", "claimed", "locked"]
        locked.commit()


def test_empty_subqueue_stays_while_a_pipeline_reads_it(pipeline: Pipeline) -> None:
    qm, below = pipeline.qm, replace(pipeline, path="orders;aside")
    with qm.open("orders") as queue:
        for sequence in (1, 2):
            with qm.open(below.path, Access.ALL) as aside:
                queue.move(queue.send(b"x").lookup_id, aside)
            assert below.claim(sequence, first=sequence == 1).count == 1
            assert below.commit(sequence) == 1
            qm.maintain()
            assert qm.queue_info(below.path).messages == 0
    assert below.release(forget=True) == 0
    qm.maintain()
    assert [info.name for info in qm.queues()] == ["orders"]
