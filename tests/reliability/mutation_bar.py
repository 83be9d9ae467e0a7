"""Bar: the tests notice when the Lua is changed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.reliability.bar import Run, bar
from tests.reliability.engine import Engine
from tests.reliability.mutants import Bundles, Mutant, mutants, sample
from tests.reliability.scenarios import SCENARIOS
from tests.reliability.schedule import Event, one_of
from tests.reliability.schedules_bar import variants_of
from tests.reliability.wire import Wire
from tests.support.server import RedisServer

#: Mutants that no test can notice, each with its reason: ``key # reason``.
EXPLAINED = Path(__file__).parent / "survivors.txt"
SURVIVORS = Path("build/mutants.txt")
#: Mutants of the full run, and the share of those that can be noticed which must be.
FULL, LEAST = 420, 0.95
#: From so many on all tests judge; below, in the slice of each change, the schedules alone.
WHOLE = 30


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
    """How the schedules noticed it; "" if they did not."""
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


def untouched_by_tests(chosen: list[Mutant]) -> list[Mutant]:
    """Those that no test notices: a process for each processor tries its share (see ``trials``)."""
    left = {(mutant.file, mutant.number, mutant.after): mutant for mutant in chosen}
    count = max(1, min(os.cpu_count() or 1, len(chosen) // 20))
    with tempfile.TemporaryDirectory() as folder:
        running = []
        for n in range(count):
            plan, out = Path(folder) / f"plan{n}", Path(folder) / f"out{n}"
            plan.write_text(json.dumps(list(left)[n::count]))
            command = [sys.executable, "-m", "tests.reliability.trials", str(plan), str(out)]
            running.append((out, subprocess.Popen(command, stdout=sys.stderr)))
        for out, process in running:
            assert process.wait() in (0, 5), "the trials of the mutants did not end well"
            for line in out.read_text().splitlines():
                told = json.loads(line)
                if told["killed"]:
                    del left[tuple(told["mutant"])]
    return list(left.values())


def explained() -> dict[str, str]:
    """Reasons by the key of the mutant."""
    lines = [line for line in EXPLAINED.read_text().splitlines() if " # " in line and line[0] != "#"]
    return {key.strip(): reason for key, _, reason in (line.rpartition(" # ") for line in lines)}


@bar(
    "mutants",
    "the tests notice changes of the Lua (conditions, writes, keys, off by one), or it is said why not",
)
def mutation(run: Run) -> None:
    """Run the tests, then the schedules, on each mutant; the unchanged scripts must pass them."""
    chosen = sample(run.size(FULL, 2))
    schedules = suite(run)
    survivors = untouched_by_tests(chosen) if len(chosen) >= WHOLE else chosen
    with RedisServer() as server:
        engine = Engine(Wire(server))
        for scenario, lines in zip(SCENARIOS, schedules, strict=True):
            engine.run(scenario, lines)
        engine.wire.close()
        survivors = [mutant for mutant in survivors if not killed(server, mutant, schedules)]
    reasons = explained()
    same = [mutant for mutant in survivors if mutant.key in reasons]
    open_ = [mutant for mutant in survivors if mutant.key not in reasons]
    SURVIVORS.parent.mkdir(exist_ok=True)
    SURVIVORS.write_text("".join(f"{mutant}\n" for mutant in open_))
    share = 1 - len(open_) / max(1, len(chosen) - len(same))
    run.counts.update(
        {
            "mutants there are": sum(1 for _ in mutants()),
            "mutants tried": len(chosen),
            "killed": len(chosen) - len(survivors),
            "change nothing that can be seen": len(same),
            "survived": len(open_),
            "killed percent": round(100 * share, 1),
        }
    )
    if len(chosen) >= WHOLE:
        assert share >= LEAST, f"only {100 * share:.1f} % of the mutants were killed; see {SURVIVORS}"
    else:
        assert share > 0, "the schedules noticed none of the mutants"
