"""The reference model and the broker on a real Redis have equal results.

Every step is carried out on both, and the outcomes must be equal. The state that a client can see is compared every
few steps. At the end the doctor must find nothing. On a failure hypothesis prints the seed and the smallest list of
steps that fails.
"""

from __future__ import annotations

import itertools
import os
import random
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, note, settings
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

import mqredis
from mqredis.settings import Settings
from tests import model
from tests.property import views
from tests.property.random_steps import RandomSteps, shrunk
from tests.property.steps import Runner, Step
from tests.property.strategies import STEPS

FULL = bool(os.environ.get("MQREDIS_TEST_FULL"))
_numbers = itertools.count(1)
KEPT = (4, 9, 12, 40, 199, 227, 1120, 3499909800, 448983990)


def machine(url: str) -> type[RuleBasedStateMachine]:
    """Return a state machine that compares the model with a manager on this server."""

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
            if self.count % 10 == 0:
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


class Pair:
    """A new model and a new manager on a real Redis."""

    runner: ClassVar[type[Runner]] = Runner

    def __init__(self, url: str) -> None:
        self.manager = f"steps-{os.getpid()}-{next(_numbers)}"
        chosen = Settings(test_clock=True, allow_volatile=True, mark_interval_seconds=5000)
        self.qm = mqredis.connect(url, manager=self.manager, settings=chosen)
        self.real = self.runner(self.qm)
        self.model = self.runner(model.connect(manager=self.manager, settings=chosen))

    def run_steps(self, steps: list[Step]) -> str:
        """Carry out all steps; return a description of the first failure, or an empty text."""
        try:
            for number, step in enumerate(steps):
                expected, got = self.model.do(step), self.real.do(step)
                if got != expected:
                    return f"step {number}, {step}: {difference(expected, got)}"
                if number % 10 == 0 or number == len(steps) - 1:
                    expected, got = self.model.state(), self.real.state()
                    if got != expected:
                        return f"after step {number}, {step}: {difference(expected, got)}"
            return "".join(map(str, findings(self.qm))) or self.wrong_view(len(steps))
        finally:
            self.qm.close()
            model.forget(self.manager)

    def wrong_view(self, seed: int) -> str:
        """The first view of operators that shows something else than the model; "" if all agree."""
        return views.difference(self.qm, self.model.qm.store, seed)


def difference(expected: Any, got: Any, path: str = "") -> str:
    """Describe the differences between two states."""
    if isinstance(expected, dict) and isinstance(got, dict) and expected.keys() == got.keys():
        return "; ".join(
            difference(expected[k], got[k], f"{path}/{k}") for k in expected if expected[k] != got[k]
        )
    if isinstance(expected, dict) and isinstance(got, dict):
        return f"{path}: {sorted(expected.keys() - got.keys())} missing, {sorted(got.keys() - expected.keys())} new"
    if isinstance(expected, list) and isinstance(got, list) and len(expected) == len(got):
        pairs = enumerate(zip(expected, got, strict=True))
        return "; ".join(difference(a, b, f"{path}/{n}") for n, (a, b) in pairs if a != b)
    return f"{path}: expected {expected!r:.300}, got {got!r:.300}"


def findings(qm: Any) -> list[Any]:
    return list(qm.doctor().findings)


@pytest.mark.timeout(1800 if FULL else 300)
def test_generated_steps_have_equal_results_on_model_and_broker(redis_server):
    run_state_machine_as_test(
        machine(redis_server.url),
        settings=settings(
            max_examples=2000 if FULL else 60,
            stateful_step_count=60 if FULL else 40,
            deadline=None,
            print_blob=True,
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.mark.timeout(3600 if FULL else 300)
def test_long_random_runs_have_equal_results_on_model_and_broker(redis_server):
    """``MQREDIS_TEST_SEED`` repeats one run. A failing run is shortened.

    ``KEPT`` are seeds that once found a fault; tests/msmq/test_found.py has a test for each fault.
    """
    chosen = os.environ.get("MQREDIS_TEST_SEED")
    seeds = (
        [int(chosen)] if chosen else [*KEPT, *(random.getrandbits(32) for _ in range(600 if FULL else 10))]
    )
    for seed in seeds:
        steps = RandomSteps(seed).steps(200)
        wrong = Pair(redis_server.url).run_steps(steps)
        if wrong:
            steps = shrunk(steps, lambda shorter: bool(Pair(redis_server.url).run_steps(shorter)))
            listing = "\n".join(map(str, steps))
            pytest.fail(f"seed {seed}: {Pair(redis_server.url).run_steps(steps)}\n{listing}")
