"""The model serves each timer when it is due, and the broker with the next call to the queue; both have equal results.

In other tests time passes together with ``maintain``, so that no timer is late.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from typing import Any, ClassVar

import pytest

from mqredis.models import Acknowledge, Journal
from tests.property.random_steps import RandomSteps, shrunk
from tests.property.steps import NAMES, Runner, Step
from tests.property.test_model import Pair

FULL = bool(os.environ.get("MQREDIS_TEST_FULL"))
# Copies and acknowledgements are written when a timer is served, and so have other ids and another order.
OF_TIMERS = {"lookup_id", "original_lookup_id", "correlation_id", "first", "last"}


POLICIES = [
    {"retry": {"immediate": retries, "cycles": 0, "final": final}}
    for retries in (0, 1)
    for final in ("poison", "dead_letter", "reject", "drop")
]
CHANGED: tuple[dict[str, Any], ...] = (
    {"retry": None},
    *({"journaling": on} for on in (True, False)),
    *({"quota_messages": most} for most in (5, None)),
    *({"get_inhibited": on} for on in (True, False, False)),
    *({"put_inhibited": on} for on in (True, False, False)),
)


def without_ids(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: without_ids(one) for name, one in value.items() if name not in OF_TIMERS}
    return [without_ids(one) for one in value] if isinstance(value, list | tuple) else value


def in_any_order(bodies: Any) -> Any:
    facts = ("body", "message_class", "original_queue", "reason", "response_queue")
    return sorted(str([one.get(fact) for fact in facts]) for one in bodies)


class LateRunner(Runner):
    """Lets time pass without serving a timer, and serves all of them before it looks at the state."""

    def pass_time(self, seconds: float) -> None:
        self.qm.advance_clock(seconds)

    def outcome(self, work: Callable[[], Any]) -> Any:
        return without_ids(super().outcome(work))

    def state(self) -> dict[str, Any]:
        self.qm.maintain()
        state: dict[str, Any] = without_ids(super().state())
        for name, row in state.items():
            if name in ("admin", "letters") or name.startswith("system$") or name.endswith(";journal"):
                row["bodies"] = in_any_order(row["bodies"])
                row.pop("statistics", None)
        return state


class LatePair(Pair):
    """A new model and a new manager on a real Redis."""

    runner: ClassVar[type[Runner]] = LateRunner

    def wrong_view(self, seed: int) -> str:
        return ""  # views show the ids


class LateSteps(RandomSteps):
    """Steps with retry policies that know no rests, which begin when a timer is served; and without a quota of the
    manager, in which messages count until their timers are served."""

    mains: ClassVar[tuple[str, ...]] = NAMES
    subqueues: ClassVar[tuple[str, ...]] = ("plain;s", "units;s")

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        for name in ("manager_quota", "redrive", "subscribe", "unsubscribe", "throttle"):
            del self.kinds[name]
        self.kinds |= {
            "send": (16, lambda: (self.main(), self.fit(), self.message())),
            "send_many": (3, lambda: (self.main(), self.fit(), self.messages())),
            "change": (4, lambda: (self.main(), self.one(*POLICIES, *CHANGED))),
            "recreate": (4, lambda: (self.main(),)),
            "pass_time": (10, lambda: (self.one(1e3, 1e4, 5e4, 1e5, 5e5, 1e6),)),
        }

    def message(self) -> dict[str, Any]:
        fields = super().message()
        for name in ("acknowledge", "administration_queue", "journal", "dead_letter_queue"):
            fields.pop(name, None)
        if self.rng.random() < 0.4:
            fields |= {"acknowledge": Acknowledge(self.rng.randint(1, 15)), "administration_queue": "admin"}
        if self.rng.random() < 0.5:
            fields["journal"] = Journal(self.one(1, 1, 2, 3))
        if self.rng.random() < 0.2:
            fields["dead_letter_queue"] = "letters"
        if self.rng.random() < 0.3:
            fields["time_to_be_received"] = self.one(5e3, 5e4, 5e5)
        return fields

    def move(self) -> tuple[Any, ...]:
        source, target = self.one(*((name, f"{name};s") for name in ("plain", "units")))
        if self.rng.random() < 0.5:
            source, target = target, source
        return source, target, self.rng.randint(0, 9), self.unit()


def fails(url: str, steps: list[Step]) -> str:
    return LatePair(url).run_steps(steps)


@pytest.mark.timeout(1800 if FULL else 300)
def test_random_runs_with_late_timers_have_equal_results_on_model_and_broker(redis_server):
    """``MQREDIS_TEST_SEED`` repeats one run. A failing run is shortened."""
    chosen = os.environ.get("MQREDIS_TEST_SEED")
    seeds = [int(chosen)] if chosen else [random.getrandbits(32) for _ in range(400 if FULL else 10)]
    for seed in seeds:
        steps = LateSteps(seed).steps(100)
        if fails(redis_server.url, steps):
            steps = shrunk(steps, lambda shorter: bool(fails(redis_server.url, shorter)))
            listing = "\n".join(map(str, steps))
            pytest.fail(f"seed {seed}: {fails(redis_server.url, steps)}\n{listing}")
