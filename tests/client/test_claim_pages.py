"""What is stored of claims: their records and pages, as calls count them and as the doctor checks them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mqredis.codec.claims import PageList
from mqredis.commands import claims as commands
from mqredis.operations.queue_call import QueueCall
from tests.support.pipeline import PLAIN_PAGE, Pipeline


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
    pipeline.qm.run(QueueCall(queue, commands.release(queue, pipeline.owner, False)))
    [pages] = PageList.parse_all(pipeline.raw.hget(key, "pages").decode())
    assert (pages.first, pages.upto, pages.packed, pages.loose) == (1, 2, PLAIN_PAGE, 0)
    pipeline.release()
    pipeline.holds(2 * PLAIN_PAGE, 0)


@pytest.mark.parametrize("first_is_loose", [False, True])
def test_pages_of_one_length_are_read_by_their_number(pipeline: Pipeline, first_is_loose: bool) -> None:
    """Only the last page may be shorter; a reader then reads only the pages that it asks for."""
    pipeline.fill(2 * PLAIN_PAGE + 1)
    if first_is_loose:
        with pipeline.qm.open("orders") as queue:
            queue.lock(0).abort()
    pipeline.claim(1, first=True)
    [pages] = PageList.parse_all(pipeline.raw.hget(pipeline.field[0], "pages").decode())
    assert (pages.upto, pages.step) == (3, PLAIN_PAGE)


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


def test_doctor_knows_the_claims_of_several_owners_in_any_order(pipeline: Pipeline) -> None:
    """Messages of a higher priority come later, and stand before those that are claimed already."""
    for priority in range(8):
        pipeline.fill(2, priority=priority)
        assert replace(pipeline, owner=f"lake {priority}").claim(1, first=True).count == 2
        pipeline.holds(2 * priority + 2, 2 * priority + 2)
