"""``python -m tests.reliability.trials PLAN``: run the tests on changed Lua, one mutant after the other.

A warm process collects the tests once and forks for each mutant: the child changes one line in a copy of the Lua and
runs the tests in which this makes a difference, those first that have killed neighbours of the mutant, until one
fails. Which tests these are, and how long they take, comes from a run on the unchanged Lua with probes
(``tests.reliability.probes``).

PLAN: a JSON list of ``[name, file, number, after]``. What noticed each of them goes into the ledger.
"""

from __future__ import annotations

import gc
import json
import os
import select
import shutil
import signal
import sys
import tempfile
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

from mqredis import scripts
from mqredis.lua_files import Line
from tests.property.matching import RandomMatchingSteps
from tests.property.random_steps import RandomSteps
from tests.property.test_matching import MatchingPair
from tests.property.test_model import Pair
from tests.reliability.ledger import Ledger
from tests.reliability.mutants import copy_of_lua, mutants, take_lua_from
from tests.reliability.probes import ProbedLua
from tests.reliability.random_runs import STEPS
from tests.support.server import RedisServer

# They notice most, so they go first.
RANDOM_RUNS = "tests/reliability/random_runs.py"
FOLDERS = (
    RANDOM_RUNS,
    "tests/conformance",
    "tests/msmq",
    "tests/matching",
    "tests/doctor/test_doctor.py",
    "tests/doctor/test_planted_faults.py",
    "tests/doctor/test_server_checks.py",
    "tests/contract/test_cost.py",
    "tests/contract/test_history_numbers.py",
    "tests/contract/test_search_cost.py",
    "tests/selector",
    "tests/client",
    "tests/operator",
    "tests/inspection",
    "tests/worker",
    "tests/console",
    "tests/property/test_moment.py",
    "tests/property/test_packed.py",
    "tests/property/test_pages.py",
    "tests/reliability/test_calls.py",
    "tests/reliability/test_handoff.py",
    "tests/reliability/test_regressions.py",
    # The others of this file take seconds each.
    "tests/reliability/test_clock.py::test_reported_times_follow_the_clock_of_the_server",
    "tests/reliability/test_clock.py::test_listed_times_follow_the_clock_of_the_server",
)
# Variants of a test that run the same Lua again (slower servers, the other interface), or that the schedules replace.
TWICE = ("fake", "async", "model-sync", "test_killed")
# Seconds without an end of a test after which it is looked at by itself, and how long it is given then; a test takes
# some 0.03. A busy machine must not pass for a mutant that hangs.
PATIENCE, LONGEST = 15.0, 60.0

# File, number of the line, the line instead.
Change = tuple[str, int, str]


@dataclass
class Trial:
    """What came of the tests in one child."""

    failed: str = ""
    hung: bool = False
    seconds: dict[str, float] = field(default_factory=dict)
    noted: dict[str, list[int]] = field(default_factory=dict)
    """The mutants that make a difference in a test, by their numbers in the order of ``mutants()``."""


class Trials:
    """The plugin: it runs children in place of the tests."""

    def __init__(self, plan: list[tuple[str, str, int, str]], ledger: Ledger) -> None:
        self.plan = plan
        self.ledger = ledger

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [item for item in items if not any(word in item.nodeid for word in TWICE)]

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        self.items = {item.nodeid: item for item in session.items}
        known = self.ledger.differences()
        if known is None:
            known = self._unchanged()
            self.ledger.keep_differences(known)
        self.seconds: dict[str, float] = known["seconds"]
        self.tests: dict[int, list[str]] = {number: list(self.items) for number in known["unprobed"]}
        """Tests by the number of the mutant."""
        for test, numbers in known["noted"].items():
            for number in numbers:
                self.tests.setdefault(number, []).append(test)
        self._warm()
        numbers = {mutant.name: number for number, mutant in enumerate(mutants())}
        for name, file, line, after in self.plan:
            tests = self._in_order(name, file, numbers[name])
            self.ledger.add(name, self._try(tests, (file, line, after)))
        return True

    def _unchanged(self) -> dict[str, Any]:
        """Run all tests on the Lua with probes. One that fails has a second try: the machine may be busy."""
        lua, rest = ProbedLua(), list(self.items)
        found: dict[str, Any] = {"noted": {}, "seconds": {}, "unprobed": sorted(lua.unprobed)}
        while rest:
            trials = [self._child(rest, lua, patience=LONGEST)]
            if failed := trials[0].failed:
                trials.append(self._child([failed], lua, patience=LONGEST))
                if trials[1].failed:
                    raise pytest.UsageError(f"the unchanged Lua does not pass {failed}")
            for each in trials:
                found["noted"].update(each.noted)
                found["seconds"].update(each.seconds)
            rest = rest[rest.index(failed) + 1 :] if failed else []
        lua.remove()
        return found

    def _warm(self) -> None:
        """What each child would make anew, imports, bundles and grammars, costs more than the test that kills it."""
        for script in map(scripts.get, scripts.names()):
            script.function()
            _ = script.joined  # `plant` looks through the lines of each script
        with RedisServer() as server:
            for pair, random_steps in ((Pair, RandomSteps), (MatchingPair, RandomMatchingSteps)):
                assert not pair(server.url).run_steps(random_steps(0).steps(STEPS))
        gc.collect()
        gc.freeze()

    def _try(self, chosen: list[str], change: Change) -> str:
        """The test that notices the mutant, "" if none does."""
        while chosen:
            trial = self._child(chosen, change)
            if not trial.failed:
                return ""
            if trial.hung and self._hangs(trial.failed, change):
                return "hangs: " + trial.failed
            # A failure that was due to a busy machine does not come twice.
            if not trial.hung and self._child([trial.failed], change, patience=LONGEST).failed:
                return trial.failed
            chosen = chosen[chosen.index(trial.failed) + 1 :]  # the machine is slow, not the mutant
        return ""

    def _in_order(self, mutant: str, file: str, number: int) -> list[str]:
        """First what noticed it once, then what noticed its neighbours, what noticed most, then the random runs."""
        hint, near = self.ledger.hints.get(mutant), self.ledger.kills.get(file, Counter())
        total = sum(self.ledger.kills.values(), Counter())
        return sorted(
            self.tests.get(number, ()),
            key=lambda t: (t != hint, -near[t], -total[t], RANDOM_RUNS not in t, self.seconds[t]),
        )

    def _hangs(self, test: str, change: Change) -> bool:
        """Does it take for ever on the mutant alone? One that fails in the end has noticed it as well."""
        trial = self._child([test], change, patience=LONGEST)
        return bool(trial.failed) and not self._child([test], None, patience=LONGEST).failed

    def _child(self, chosen: list[str], lua: Change | ProbedLua | None, patience: float = PATIENCE) -> Trial:
        folder = Path(tempfile.mkdtemp(prefix="mq-"))
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                os.setsid()  # its servers are to end with it
                os.close(reader)
                os.environ["TMPDIR"] = tempfile.tempdir = str(folder)
                with Path(os.devnull).open("w") as nowhere:
                    os.dup2(nowhere.fileno(), 1)
                    os.dup2(nowhere.fileno(), 2)
                self._run(chosen, lua, writer)
            finally:
                os._exit(0)
        os.close(writer)
        try:
            return _listen(reader, chosen, patience)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            os.close(reader)
            shutil.rmtree(folder, ignore_errors=True)

    def _run(self, chosen: list[str], lua: Change | ProbedLua | None, pipe: int) -> None:
        """In the child: one line for each test that ends."""
        if isinstance(lua, ProbedLua):
            lua.use()
        elif lua is not None:
            plant(*lua)
        for n, name in enumerate(chosen):
            following = self.items[chosen[n + 1]] if n + 1 < len(chosen) else None
            began = monotonic()
            reports = runtestprotocol(self.items[name], log=False, nextitem=following)
            failed = any(report.failed for report in reports)
            noted = sorted(lua.noted()) if isinstance(lua, ProbedLua) else []
            line = {"failed": failed, "seconds": monotonic() - began, "noted": noted}
            os.write(pipe, json.dumps(line).encode() + b"\n")
            if failed:
                return


def _listen(reader: int, chosen: list[str], patience: float) -> Trial:
    trial, rest = Trial(), b""
    for name in chosen:
        while b"\n" not in rest:
            ready, _, _ = select.select([reader], [], [], patience)
            data = os.read(reader, 65536) if ready else b""
            if not data:
                trial.failed, trial.hung = name, not ready
                return trial
            rest += data
        line, _, rest = rest.partition(b"\n")
        told = json.loads(line)
        trial.seconds[name], trial.noted[name] = told["seconds"], told["noted"]
        if told["failed"]:
            trial.failed = name
            return trial
    return trial


def plant(file: str, number: int, after: str) -> None:
    """Let this process take the Lua from a copy with one line changed: what has not got that line stays as it is."""
    spot = (f"lua/{file}.lua", number)
    kept = {
        script.name: script for script in map(scripts.get, scripts.names()) if not _has(script.joined, spot)
    }
    kept_libraries = {each.name: each for each in scripts.libraries() if not _has(each.joined, spot)}
    copy = copy_of_lua()
    path = copy / f"{file}.lua"
    lines = path.read_text().split("\n")
    lines[number - 1] = after
    path.write_text("\n".join(lines))
    take_lua_from(copy)
    fresh = scripts.get
    scripts.get = lambda name: kept.get(name) or fresh(name)  # type: ignore[assignment]
    fresh_library = scripts.library
    scripts.library = lambda name: kept_libraries.get(name) or fresh_library(name)  # type: ignore[assignment]


def _has(lines: list[Line], spot: tuple[str, int]) -> bool:
    return any(line[:2] == spot for line in lines)


def main(plan: Path) -> int:
    # Whatever ends this ends the servers of the child, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    trials = Trials([tuple(each) for each in json.loads(plan.read_text())], Ledger())
    # Where mqredis is installed it brings a plugin, which pytest would rewrite: too late, it is imported here already.
    options = [
        "-q",
        "-p",
        "no:cacheprovider",
        "--timeout",
        "0",
        "-W",
        "ignore::pytest.PytestAssertRewriteWarning",
    ]
    return int(pytest.main([*options, *FOLDERS], plugins=[trials]))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
