"""Random steps with a seed, on the broker and on the model, that check mutants (``trials``).

Each runs much of the Lua within a second. They are no part of the suite, which draws its own steps in tests/property.
"""

from __future__ import annotations

import pytest

from tests.property.matching import RandomMatchingSteps
from tests.property.random_steps import RandomSteps
from tests.property.test_matching import MatchingPair
from tests.property.test_model import Pair
from tests.support.server import RedisServer

STEPS = 150


@pytest.mark.parametrize("seed", range(16))
def test_random_steps(redis_server: RedisServer, seed: int) -> None:
    assert Pair(redis_server.url).run_steps(RandomSteps(seed).steps(STEPS)) == ""


@pytest.mark.parametrize("seed", range(8))
def test_random_steps_with_particular_messages(redis_server: RedisServer, seed: int) -> None:
    assert MatchingPair(redis_server.url).run_steps(RandomMatchingSteps(seed).steps(STEPS)) == ""
