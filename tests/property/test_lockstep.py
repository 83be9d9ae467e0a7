"""Random operations on fakeredis and on a real Redis have equal replies and leave equal keys.

This finds differences of fakeredis: in number formats, in sort order, in the arguments that a command accepts.
"""

from __future__ import annotations

import itertools
import os
from typing import Any

import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

import mqredis
from mqredis.settings import Settings
from tests.property.dump import dump
from tests.property.steps import Runner, Step
from tests.property.strategies import STEPS
from tests.support.backend import fake_backend

FULL = bool(os.environ.get("MQREDIS_TEST_FULL"))
_numbers = itertools.count(1)


def run(client: Any, manager: str, steps: list[Step]) -> tuple[list[Any], dict[str, Any], dict[bytes, Any]]:
    """Replies, visible state and stored keys after these steps."""
    chosen = Settings(test_clock=True, allow_volatile=True)
    with mqredis.connect(client, manager=manager, settings=chosen) as qm:
        runner = Runner(qm)
        replies = [runner.do(step) for step in steps]
        keys = dump(client, manager)
        state = runner.state()  # after the dump: its replies contain ages
        assert not qm.doctor().findings
    return replies, state, keys


@pytest.mark.timeout(1800 if FULL else 300)
def test_random_steps_have_equal_results_on_fakeredis_and_redis(redis_server):
    @settings(
        max_examples=1000 if FULL else 15,
        deadline=None,
        print_blob=True,
        suppress_health_check=list(HealthCheck),
    )
    @given(steps=st.lists(STEPS, min_size=25, max_size=80))
    def agree(steps: list[Step]) -> None:
        manager = f"lockstep-{os.getpid()}-{next(_numbers)}"
        with redis_server.client() as real, fake_backend().client() as fake:
            on_real, on_fake = run(real, manager, steps), run(fake, manager, steps)
        for step, reply, other in zip(steps, on_real[0], on_fake[0], strict=True):
            note(f"{step.name}{step.args}: {reply}")
            assert other == reply, step
        assert on_fake[1] == on_real[1]
        assert on_fake[2] == on_real[2]

    agree()
