"""The reference model and the broker on a real Redis, side by side.

Every step is carried out on both; the outcomes must be equal, and what a client can see of the whole state is
compared every few steps. At the end the doctor must find nothing. On a failure hypothesis prints the smallest
list of steps that shows it, and the seed.
"""

from __future__ import annotations

import itertools
import os
from typing import Any

import pytest
from hypothesis import HealthCheck, note, settings
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

import mqredis
from mqredis.settings import Settings
from tests import model
from tests.property.steps import STEPS, Runner, Step

FULL = bool(os.environ.get("MQREDIS_TEST_FULL"))
_numbers = itertools.count(1)


def machine(url: str) -> type[RuleBasedStateMachine]:
    """A state machine whose real half is on this server."""

    class SideBySide(RuleBasedStateMachine):
        def __init__(self) -> None:
            super().__init__()
            self.manager = f"model-{os.getpid()}-{next(_numbers)}"
            chosen = Settings(test_clock=True, allow_volatile=True)
            self.qm = mqredis.connect(url, manager=self.manager, settings=chosen)
            self.real = Runner(self.qm)
            self.model = Runner(model.connect(manager=self.manager, settings=chosen))
            self.count = 0

        @rule(step=STEPS)
        def carry_out(self, step: Step) -> None:
            expected, got = self.model.do(step), self.real.do(step)
            note(f"{step.name}{step.args}: {expected}")
            assert got == expected
            self.count += 1
            if self.count % 5 == 0:
                self.compare()

        def compare(self) -> None:
            assert self.real.state() == self.model.state()

        def teardown(self) -> None:
            try:
                self.compare()
                assert not findings(self.qm)
            finally:
                self.qm.close()
                model.forget(self.manager)

    return SideBySide


def findings(qm: Any) -> list[Any]:
    return list(qm.doctor().findings)


@pytest.mark.timeout(1800 if FULL else 300)
def test_model_and_broker_agree(redis_server):
    run_state_machine_as_test(
        machine(redis_server.url),
        settings=settings(
            max_examples=2000 if FULL else 120,
            stateful_step_count=60 if FULL else 40,
            deadline=None,
            print_blob=True,
            suppress_health_check=list(HealthCheck),
        ),
    )
