"""Check: every order of the calls of a few clients, with a crash or a lost message at every point."""

from __future__ import annotations

from collections.abc import Iterator

from tests.reliability.check import Run, check
from tests.reliability.engine import Engine, Scenario
from tests.reliability.scenarios import SCENARIOS
from tests.reliability.schedule import Event, Variant, all_of, one_of, variants
from tests.reliability.wire import Wire
from tests.support.server import RedisServer

# Schedules of the full run.
FULL = 260_000


def variants_of(scenario: Scenario) -> list[Variant]:
    """Return all fault variants of a scenario."""
    return list(variants([(name, len(steps)) for name, steps in scenario.clients.items()]))


def _shares(totals: dict[str, int], budget: int) -> dict[str, int]:
    """So many schedules for each scenario: what the small ones cannot use is left to the others."""
    shares: dict[str, int] = {}
    weights = {scenario.name: scenario.weight for scenario in SCENARIOS}
    for name in sorted(totals, key=lambda name: totals[name] * weights[name]):
        equal = (budget - sum(shares.values())) // (len(totals) - len(shares))
        shares[name] = min(totals[name], max(1, int(equal * weights[name])))
    return shares


def _schedules(scenario: Scenario, budget: int, run: Run) -> Iterator[list[Event]]:
    """All schedules if the budget allows it; else all without a fault, then others by chance."""
    every = variants_of(scenario)
    total = sum(variant.count for variant in every)
    if total <= budget:
        run.add("exhausted scenarios")
        for variant in every:
            yield from all_of(variant)
        return
    rng = run.rng("schedules", scenario.name)
    plain = list(all_of(every[0]))
    if len(plain) > budget // 2:
        plain = rng.sample(plain, budget // 2)
    yield from plain
    weights = [variant.count**0.5 for variant in every]  # rare faults are not to drown
    for variant in rng.choices(every, weights, k=budget - len(plain)):
        yield one_of(variant, rng)


@check("schedules", "every order of calls, crash and lost message leaves each message in one place, once")
def schedules(run: Run) -> None:
    """Run them on one server."""
    with RedisServer() as server:
        wire = Wire(server)
        engine = Engine(wire)
        totals = {scenario.name: sum(v.count for v in variants_of(scenario)) for scenario in SCENARIOS}
        shares = _shares(totals, run.size(FULL, 3 * len(SCENARIOS)))
        for scenario in SCENARIOS:
            run.add("scenarios")
            run.add("schedules", engine.run(scenario, _schedules(scenario, shares[scenario.name], run)))
        run.counts["script calls"] = wire.calls
        run.counts["different ends"] = len(engine.states)
        run.counts["orders there are"] = sum(totals.values())
        wire.close()
