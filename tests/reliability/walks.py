"""Walks beside the model, and beside the long way of the scripts, that judge mutants (``trials``): each meets much of
the Lua within a second.

No part of the suite, which draws walks of its own in tests/property.
"""

from __future__ import annotations

import pytest

from tests.property.matching import MatchingWalker
from tests.property.test_matching import MatchingPair
from tests.property.test_model import Pair
from tests.property.walk import Walker
from tests.support.server import RedisServer

STEPS = 150


@pytest.mark.parametrize("seed", range(16))
def test_a_walk(redis_server: RedisServer, seed: int) -> None:
    assert Pair(redis_server.url).walk(Walker(seed).steps(STEPS)) == ""


@pytest.mark.parametrize("seed", range(8))
def test_a_walk_to_particular_messages(redis_server: RedisServer, seed: int) -> None:
    assert MatchingPair(redis_server.url).walk(MatchingWalker(seed).steps(STEPS)) == ""
