"""Reading by identifiers: the model against a real Redis, and fakeredis against a real Redis."""

from __future__ import annotations

import itertools
import os
import random
from typing import Any, ClassVar

import pytest

import mqredis
from mqredis.settings import Settings
from tests.property.dump import dump
from tests.property.found import FOUND
from tests.property.matching import MatchingRunner, RandomMatchingSteps
from tests.property.random_steps import shrunk
from tests.property.steps import Runner, Step
from tests.property.test_model import Pair, difference
from tests.support.backend import fake_backend

FULL = bool(os.environ.get("MQREDIS_TEST_FULL"))
_numbers = itertools.count(1)


class MatchingPair(Pair):
    """A new model and a new manager on a real Redis."""

    runner: ClassVar[type[Runner]] = MatchingRunner


def seeds(full: int, few: int) -> list[int]:
    """Return the seeds of the runs; ``MQREDIS_TEST_SEED`` repeats one run. A failing run is shortened."""
    chosen = os.environ.get("MQREDIS_TEST_SEED")
    return [int(chosen)] if chosen else [random.getrandbits(32) for _ in range(full if FULL else few)]


@pytest.mark.timeout(3600 if FULL else 300)
def test_random_matching_runs_have_equal_results_on_model_and_broker(redis_server):
    for seed in seeds(1000, 8):
        steps = RandomMatchingSteps(seed).steps(150)
        wrong = MatchingPair(redis_server.url).run_steps(steps)
        if wrong:
            steps = shrunk(steps, lambda shorter: bool(MatchingPair(redis_server.url).run_steps(shorter)))
            listing = "\n".join(map(str, steps))
            pytest.fail(f"seed {seed}: {MatchingPair(redis_server.url).run_steps(steps)}\n{listing}")


@pytest.mark.parametrize("steps", FOUND.values(), ids=FOUND.keys())
def test_recorded_failure_has_equal_results_on_model_and_broker(redis_server, steps):
    assert MatchingPair(redis_server.url).run_steps(list(steps)) == ""


def run(client: Any, manager: str, steps: list[Step]) -> list[Any]:
    """Replies, visible state and stored keys after these steps."""
    chosen = Settings(test_clock=True, allow_volatile=True, mark_interval_seconds=5000)
    with mqredis.connect(client, manager=manager, settings=chosen) as qm:
        runner = MatchingRunner(qm)
        replies = [runner.do(step) for step in steps]
        keys = dump(client, manager)
        return [replies, runner.state(), keys]  # the keys are read first: replies of state() contain ages


@pytest.mark.timeout(3600 if FULL else 300)
def test_random_matching_runs_have_equal_results_on_fakeredis_and_redis(redis_server):
    for seed in seeds(300, 3):
        steps = RandomMatchingSteps(seed).steps(120)
        manager = f"fakes-{os.getpid()}-{next(_numbers)}"
        with redis_server.client() as real, fake_backend().client() as fake:
            on_real, on_fake = run(real, manager, steps), run(fake, manager, steps)
        assert on_fake == on_real, f"seed {seed}: {difference(on_real, on_fake)}"
