"""Claims, call by call: a commit receives all messages at once and removes them in pages, while other calls may run."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace

import pytest

import mqredis
from mqredis import Access, Acknowledge, Match, MessageClass, Outgoing
from mqredis.commands import claims as commands
from mqredis.commands.address import Address
from mqredis.commands.claims import Order, Received
from mqredis.commands.settlement import COMMIT, LOCKED
from mqredis.errors import ClaimLost, TransactionUsage
from mqredis.operations import pipelines
from mqredis.operations.queue_call import QueueCall
from mqredis.operations.settle import settle
from mqredis.steps import Call, perform
from tests.support.backend import Backend
from tests.support.counts import count
from tests.support.pipeline import PAGE, PLAIN_PAGE, Pipeline, new_manager


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


def test_claim_beside_the_removal_of_another_keeps_earlier_deliveries(draining: Pipeline) -> None:
    with draining.qm.open("orders") as queue:
        for lock in queue.lock_many(4):
            lock.abort()
        assert draining.claim(2, 5).count == 5
        assert draining.release() == 5
        assert [message.delivery_count for message in queue.browse()][:6] == [2, 2, 2, 2, 1, 0]


def test_claim_is_complete_with_the_call_that_reaches_its_limit_of_bytes(pipeline: Pipeline) -> None:
    pipeline.fill(2)
    queue = pipeline.queue
    order = Order(10, most_bytes=1)
    claimed = pipeline.qm.run(perform(commands.claim(queue, "lake", "first", 1, order, True)))
    assert (claimed.count, claimed.sealed) == (1, True)


def test_claim_beside_that_of_another_owner_keeps_earlier_deliveries(pipeline: Pipeline) -> None:
    pipeline.fill(2)
    assert pipeline.claim(1, 1, first=True).count == 1
    with pipeline.qm.open("orders") as queue:
        queue.lock(0).abort()
        other = replace(pipeline, owner="sea")
        assert other.claim(1, first=True).count == 1
        other.release()
        assert queue.peek(0).delivery_count == 2


def test_commit_removes_plain_messages_that_were_locked_before_in_large_pages(pipeline: Pipeline) -> None:
    pipeline.fill(PLAIN_PAGE - 1)
    with pipeline.qm.open("orders") as queue:
        queue.lock(0).abort()
    pipeline.claim(1, first=True)
    assert pipeline.page(1) == Received(PLAIN_PAGE - 1, False, True)


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
    # The last page of 2 receives 3.
    assert draining.qm.run(pipelines.receive(draining.queue, draining.owner, draining.lineage, 3))
    assert draining.commit(3) == 10
    draining.holds(4500 - 2210, 0)


def test_backlog_tells_when_its_first_message_came(pipeline: Pipeline) -> None:
    pipeline.fill(1)
    seen = pipeline.qm.run(perform(commands.backlog(pipeline.queue)))
    assert seen.oldest_ms is not None
    assert 0 <= seen.now_ms - seen.oldest_ms < 60_000


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


@pytest.mark.parametrize(
    "call",
    [
        lambda queue: commands.claim(queue, "lake", "first", 2, Order(1), False),
        lambda queue: commands.commit(queue, "lake", "first", 1),
        lambda queue: commands.release(queue, "lake", False),
    ],
    ids=["claim", "commit", "release"],
)
def test_calls_on_a_claim_remove_expired_messages(
    backend: Backend, call: Callable[[Address], Call[object]]
) -> None:
    with new_manager(backend, test_clock=True, allow_volatile=True) as qm:
        qm.create_queue("orders")
        pipeline = Pipeline(qm, backend.client())
        pipeline.fill(1)
        pipeline.claim(1, first=True)
        pipeline.fill(1, time_to_be_received=5)
        queue = pipeline.queue
        qm.advance_clock(6)
        with contextlib.suppress(ClaimLost):
            qm.run(QueueCall(queue, call(queue)))
        assert not qm.overview("orders")[0].overdue


def test_released_messages_of_a_subqueue_leave_its_queue_after_a_purge(pipeline: Pipeline) -> None:
    """They count in the quota of the queue, which the doctor checks."""
    aside = replace(pipeline, path="orders;aside")
    with pipeline.qm.open("orders") as queue, pipeline.qm.open(aside.path) as subqueue:
        queue.move(queue.send(b"x").lookup_id, subqueue)
        aside.claim(1, first=True)
        subqueue.purge()
        assert aside.release() == 1
    aside.holds(0, 0)


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
    call = commands.release(pipeline.queue, pipeline.owner, False)
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
    pipeline.qm.run(perform(commands.release(pipeline.queue, pipeline.owner, False)))
    assert shown() == ("released", 1, 600 - PAGE, 0)
    pipeline.release()
    assert shown() == ("released", 1, 0, 0)
    pipeline.release(forget=True)
    assert pipeline.qm.claims("orders") == []


def test_claims_of_a_queue_show_whether_their_readers_are_connected(pipeline: Pipeline) -> None:
    pipeline.fill(1)
    pipeline.claim(1, first=True)
    channel = pipeline.qm.context.keys.claim_channel(pipeline.owner, pipeline.lineage)
    with pipeline.raw.pubsub() as subscription:
        subscription.subscribe(channel)
        assert subscription.get_message(timeout=5)["type"] == "subscribe"
        assert [claim.connected for claim in pipeline.qm.claims("orders")] == [True]


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


def test_messages_of_a_committed_claim_do_not_count_as_purged(draining: Pipeline) -> None:
    with draining.qm.open("orders") as queue:
        assert queue.purge() == 1500
    assert draining.commit(1) == 500
    draining.holds(0, 0)
    assert draining.qm.statistics("orders").purged == 1500


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


def test_look_that_is_repeated_with_another_queue_keeps_its_changes(backend: Backend) -> None:
    """The call ends expired leases, and only then finds that an expired message goes to a queue it was not given."""
    with new_manager(backend, test_clock=True, allow_volatile=True) as qm:
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


# The sequence number of the claim and the fence of the lock.
@pytest.mark.parametrize("is_same", [True, False])
@pytest.mark.parametrize("locked_before", [True, False])  # else the message is in a packed page
def test_commit_of_a_message_that_a_claim_holds_tells_that_it_is_locked(
    pipeline: Pipeline, locked_before: bool, is_same: bool
) -> None:
    pipeline.fill(2)
    with pipeline.qm.open("orders") as queue:
        lookup_id, fence = f"{queue.peek(0).lookup_id:016x}", "7"
        if locked_before:
            lock = queue.lock(0)
            fence = lock.fence
            lock.abort()
        assert pipeline.claim(int(fence) if is_same else 1, first=True).count == 2
        settled = pipeline.qm.run(settle(queue.handle, [(COMMIT, fence, lookup_id)]))
        assert settled.lost == [(lookup_id, LOCKED)]
    pipeline.holds(2, 2)


def test_peek_by_lookup_id_says_that_a_claimed_message_is_locked(pipeline: Pipeline) -> None:
    with pipeline.qm.open("orders") as queue:
        lookup_id = queue.send(b"x").lookup_id
        assert pipeline.claim(1, first=True).count == 1
        with pytest.raises(TransactionUsage):
            queue.peek_by_lookup_id(lookup_id)


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
