"""Bar: the tests notice when the Lua is changed."""

from __future__ import annotations

import re
from pathlib import Path

from tests.reliability.bar import Run, bar
from tests.reliability.engine import Engine
from tests.reliability.mutants import Bundles, Mutant, mutants
from tests.reliability.scenarios import SCENARIOS
from tests.reliability.schedule import Event, one_of
from tests.reliability.schedules_bar import variants_of
from tests.reliability.wire import Wire
from tests.support.server import RedisServer

SURVIVORS = Path("build/mutants.txt")
#: Share of the mutants that the schedules alone must kill: a tripwire, far from the 95 % that all tests together are
#: to reach. Those that change limits, groups or waits, or nothing that can be seen, are for the other tests.
LEAST = 0.40


def suite(run: Run) -> list[list[list[Event]]]:
    """Per scenario the schedules that each mutant has to pass: the same for all of them."""
    out = []
    for scenario in SCENARIOS:
        dice = run.dice("mutation", scenario.name)
        every = variants_of(scenario)
        plain = [one_of(every[0], dice) for _ in range(10)]
        out.append([*plain, *(one_of(variant, dice) for variant in dice.sample(every, min(30, len(every))))])
    return out


def killed(server: RedisServer, mutant: Mutant, schedules: list[list[list[Event]]]) -> str:
    """How the suite noticed it; "" if it did not."""
    wire = Wire(server, Bundles(mutant))
    try:
        engine = Engine(wire)
        order = sorted(range(len(SCENARIOS)), key=lambda n: (n * 7) % len(SCENARIOS))
        for n in order:
            engine.run(SCENARIOS[n], schedules[n])
    except TimeoutError:
        server.restart(kill=True)
        return "hangs"
    except Exception as error:  # noqa: BLE001 - whatever goes wrong, it was noticed
        return re.sub(r"\s+", " ", f"{type(error).__name__}: {error}")[:120]
    finally:
        wire.close()
    return ""


@bar(
    "mutants",
    "changes of the Lua (conditions, writes, keys, off by one): the schedules alone notice 40 % at least",
)
def mutation(run: Run) -> None:
    """Run the quick suite on each mutant; the unchanged scripts must pass it."""
    every = list(mutants())
    chosen = run.dice("mutants").sample(every, min(len(every), run.size(600, 6)))
    schedules = suite(run)
    with RedisServer() as server:
        engine = Engine(Wire(server))
        for scenario, lines in zip(SCENARIOS, schedules, strict=True):
            engine.run(scenario, lines)
        engine.wire.close()
        survivors = [mutant for mutant in chosen if not killed(server, mutant, schedules)]
    SURVIVORS.parent.mkdir(exist_ok=True)
    SURVIVORS.write_text("".join(f"{mutant}\n" for mutant in survivors))
    share = 1 - len(survivors) / len(chosen)
    run.counts.update(
        {
            "mutants there are": len(every),
            "mutants tried": len(chosen),
            "killed": len(chosen) - len(survivors),
            "killed percent": round(100 * share, 1),
        }
    )
    if len(chosen) >= 50:
        assert share >= LEAST, f"only {100 * share:.1f} % of the mutants were killed; see {SURVIVORS}"
