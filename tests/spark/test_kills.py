"""A few kills; `make reliability-full` kills the driver at every place and at a hundred random moments."""

from __future__ import annotations

from random import Random

import pytest

from tests.spark.kills import Pipeline

pytestmark = [pytest.mark.spark, pytest.mark.reliability, pytest.mark.timeout(900)]

# Between two pages of a claim, and of a publication: in one pipeline that has both.
SLICE = ("mid-claim", "mid-publish")
SEED = 20261120


def test_driver_killed_at_named_places_and_a_random_moment(qm, redis_server, tmp_path):
    pipeline = Pipeline("both", tmp_path, qm, redis_server.url)
    for place in SLICE:
        pipeline.die(place)
    pipeline.feed(2)
    pipeline.run(kill_after=Random(SEED).uniform(2, 8))
    pipeline.verify()
