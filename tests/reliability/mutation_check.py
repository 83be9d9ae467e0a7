"""Check: the tests notice when the Lua is changed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from math import ceil
from pathlib import Path

from tests.reliability.check import Run, check
from tests.reliability.engine import Engine
from tests.reliability.ledger import Ledger
from tests.reliability.mutants import Bundles, Mutant, mutants, sample
from tests.reliability.scenarios import SCENARIOS
from tests.reliability.schedule import Event, one_of
from tests.reliability.schedules_check import variants_of
from tests.reliability.wire import Wire
from tests.support.server import RedisServer

# Mutants that no test can notice, each with its reason: ``key # reason``.
EXPLAINED = Path(__file__).parent / "survivors.txt"
SURVIVORS = Path("build/mutants.txt")
# Mutants of the full run, and the share of them that must be killed. Each of the others is explained.
FULL, LEAST = 420, 0.95
# From so many on all tests check them, which takes minutes; below, in smaller runs, the schedules alone.
WHOLE = 50


def suite(run: Run, whole: bool) -> list[list[list[Event]]]:
    """Per scenario the schedules that each mutant has to pass: the same for all of them, fewer in a smaller run."""
    out: list[list[list[Event]]] = []
    orders, others = (10, 30) if whole else (4, 8)
    for scenario in SCENARIOS:
        rng = run.rng("mutation", scenario.name)
        every = variants_of(scenario)
        plain = [one_of(every[0], rng) for _ in range(ceil(orders * scenario.weight))]
        some = rng.sample(every, min(ceil(others * scenario.weight), len(every)))
        out.append([*plain, *(one_of(variant, rng) for variant in some)])
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


def noticed_by_no_test(chosen: list[Mutant], ledger: Ledger) -> Ledger:
    """Let the tests check those that the ledger does not know: a process for each processor has its share."""
    todo = [mutant for mutant in chosen if ledger.verdict(mutant.name) is None]
    plan = [(mutant.name, mutant.file, mutant.number, mutant.after) for mutant in todo]
    count = max(1, min(os.cpu_count() or 1, len(todo) // 20))
    if ledger.differences() is None:
        _trials([[]])
    _trials([plan[n::count] for n in range(count)])
    return Ledger()


def _trials(plans: list[list[tuple[str, str, int, str]]]) -> None:
    """Processes of ``trials``, one for each plan."""
    with tempfile.TemporaryDirectory() as folder:
        running = []
        for n, plan in enumerate(plans):
            path = Path(folder) / f"plan{n}"
            path.write_text(json.dumps(plan))
            command = [sys.executable, "-m", "tests.reliability.trials", str(path)]
            running.append(subprocess.Popen(command, stdout=sys.stderr))
        ends = [process.wait() for process in running]
    assert all(end in (0, 5) for end in ends), "the trials of the mutants did not end well"


def explained() -> dict[str, str]:
    """Reasons by the key of the mutant."""
    lines = [line for line in EXPLAINED.read_text().splitlines() if " # " in line and line[0] != "#"]
    return {key.strip(): reason for key, _, reason in (line.rpartition(" # ") for line in lines)}


@check(
    "mutants",
    "the tests notice changes of the Lua (conditions, writes, keys, off by one), or it is said why not",
)
def mutation(run: Run) -> None:
    """Run the tests, then the schedules, on each mutant; the unchanged scripts must pass them.

    Those whose survival is explained are not tried again: they count as alive.
    """
    chosen = sample(run.size(FULL, 2), run.seed)
    whole, ledger = len(chosen) >= WHOLE, Ledger()
    schedules = suite(run, whole)
    reasons = explained()
    same = [mutant for mutant in chosen if mutant.key in reasons]
    checked = [mutant for mutant in chosen if mutant.key not in reasons]
    if whole:
        ledger = noticed_by_no_test(checked, ledger)
        checked = [mutant for mutant in checked if not ledger.verdict(mutant.name)]
    open_ = []
    with RedisServer() as server:
        engine = Engine(Wire(server))
        for scenario, lines in zip(SCENARIOS, schedules, strict=True):
            engine.run(scenario, lines)
        engine.wire.close()
        for mutant in checked:
            how = killed(server, mutant, schedules)
            if not how:
                open_.append(mutant)
            elif whole:
                ledger.add(mutant.name, "schedules: " + how)
    SURVIVORS.parent.mkdir(exist_ok=True)
    SURVIVORS.write_text("".join(f"{mutant}\n" for mutant in open_))
    dead = len(chosen) - len(same) - len(open_)
    share = dead / max(1, len(chosen) - len(same))
    run.counts.update(
        {
            "mutants there are": sum(1 for _ in mutants()),
            "mutants tried": len(chosen),
            "killed": dead,
            "explained": len(same),
            "survived": len(open_),
            "killed percent": round(100 * dead / len(chosen), 1),
        }
    )
    if whole:
        assert dead >= LEAST * len(chosen), (
            f"only {dead} of {len(chosen)} mutants were killed; see {SURVIVORS}"
        )
        assert not open_, f"{len(open_)} survivors are not explained; see {SURVIVORS}"
    else:
        assert share > 0, "the schedules noticed none of the mutants"
