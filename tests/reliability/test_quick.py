"""A small run of every reliability check for each change; `make reliability` runs a tenth of the full size."""

from __future__ import annotations

import gc

import pytest

from tests.reliability import catalog
from tests.reliability.check import CHECKS, play

catalog.load()

# The slice of each check: a few seconds. Another seed each week would make a failure hard to tell from a change.
SCALE = 0.002
SEED = 20261120

pytestmark = pytest.mark.reliability


@pytest.mark.parametrize("name", sorted([*CHECKS, *catalog.ABSENT]))
def test_small_run_of_a_check_passes(name: str) -> None:
    if reason := catalog.ABSENT.get(name):
        pytest.skip(reason)
    line = play(CHECKS[name], SEED, SCALE, output=None)
    gc.collect()  # unclosed resources of a check must be reported in this test, not in the next
    assert line["verdict"] == "pass", line.get("why")
