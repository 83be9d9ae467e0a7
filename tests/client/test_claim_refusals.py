"""When a call on a claim is refused, and which reason the error gives."""

from __future__ import annotations

import pytest

from mqredis.commands import claims as commands
from mqredis.commands.claims import Claimed, Order
from mqredis.errors import ClaimLost, QueueNotAvailable
from mqredis.operations.queue_call import QueueCall
from mqredis.steps import perform
from tests.support.pipeline import Pipeline


def page(pipeline: Pipeline, sequence: int, first: bool = False) -> Claimed:
    """One call of a claim."""
    who = (pipeline.owner, pipeline.lineage, sequence)
    return pipeline.qm.run(
        QueueCall(pipeline.queue, commands.claim(pipeline.queue, *who, Order(9000), first))
    )


@pytest.mark.parametrize("created_again", [True, False])
def test_claims_end_with_their_queue(pipeline: Pipeline, created_again: bool) -> None:
    """A queue of the same name that is created later is another one."""
    pipeline.fill(2)
    pipeline.claim(1, first=True)
    former, who = pipeline.queue, (pipeline.owner, pipeline.lineage, 1)
    pipeline.qm.delete_queue("orders")
    if created_again:
        pipeline.qm.create_queue("orders")
        pipeline.fill(2)
    with pytest.raises(QueueNotAvailable):
        pipeline.qm.run(QueueCall(former, commands.claim(former, *who, Order(10), True)))
    with pytest.raises(QueueNotAvailable):
        pipeline.qm.run(QueueCall(former, commands.commit(former, *who)))
    with pytest.raises(QueueNotAvailable):
        pipeline.qm.run(perform(commands.read(former, *who, 0, 10)))
    if created_again:
        pipeline.holds(2, 0)


def test_claim_of_an_unknown_owner_begins_with_the_first_batch_or_a_new_checkpoint(
    pipeline: Pipeline,
) -> None:
    pipeline.fill(3)
    with pytest.raises(ClaimLost, match="does not know the batch before"):
        pipeline.claim(2, 1)
    pipeline.holds(3, 0)
    assert pipeline.claim(1, 1).count == 1
    pipeline.owner = "ocean"
    assert pipeline.claim(2, 1, first=True).count == 1
    pipeline.holds(3, 2)


def test_claim_follows_the_last_one_once_that_is_committed(pipeline: Pipeline) -> None:
    pipeline.fill(4)
    pipeline.claim(1, 2, first=True)
    for sequence in (2, 3):
        with pytest.raises(ClaimLost, match="an earlier batch of this reader is not received yet"):
            pipeline.claim(sequence)
    pipeline.commit(1)
    with pytest.raises(ClaimLost, match="does not know the batch before"):
        pipeline.claim(3)
    assert pipeline.claim(2).count == 2
    pipeline.holds(2, 2)


def test_claim_is_committed_once_it_is_complete(pipeline: Pipeline) -> None:
    pipeline.fill(1500)
    assert not page(pipeline, 1, first=True).sealed
    with pytest.raises(ClaimLost, match="an earlier batch of this reader is not received yet"):
        pipeline.commit(1)
    assert pipeline.claim(1).count == 1500
    assert pipeline.commit(1) == 1500


def test_claim_is_not_taken_over_while_its_process_is_connected(pipeline: Pipeline) -> None:
    pipeline.fill(2)
    pipeline.claim(1, 1, first=True)
    channel = pipeline.qm.context.keys.claim_channel(pipeline.owner, pipeline.lineage)
    second = Pipeline(pipeline.qm, pipeline.raw, lineage="second")
    with pipeline.raw.pubsub() as process:
        process.subscribe(channel)
        process.parse_response()
        with pytest.raises(ClaimLost, match="another query with this consumerName is running"):
            second.claim(1, first=True)
        process.unsubscribe(channel)
        process.parse_response()
    assert second.claim(1, first=True).count == 1
    with pytest.raises(ClaimLost, match="another checkpoint has taken over"):
        pipeline.commit(1)
    with pytest.raises(ClaimLost, match="another checkpoint has taken over"):
        pipeline.claim(1)
    assert second.commit(1) == 1
