"""``python -m tests.reliability.trials PLAN OUT``: run the tests on changed Lua, one mutant after the other.

A warm process collects the tests once and forks for each mutant: the child changes one line in a copy of the Lua and
runs the tests that use a script with this line, those first that have killed neighbours of the mutant, until one
fails. Which tests use which scripts, and how long they take, comes from a run on the unchanged Lua, which must pass.

PLAN: a JSON list of ``[file, number, after]``. OUT: for each a JSON line with ``killed``, the test that noticed it.
"""

from __future__ import annotations

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

import pytest
from _pytest.runner import runtestprotocol

from mqredis import functions, scripts
from mqredis.drivers.session import Core

FOLDERS = (
    "tests/conformance",
    "tests/msmq",
    "tests/matching",
    "tests/doctor/test_doctor.py",
    "tests/contract/test_cost.py",
)
#: Variants of a test that run the same Lua again, on a slower server or by another face.
TWICE = ("fake", "async", "model-sync")
#: Seconds without an end of a test after which it is tried on the unchanged Lua; a test takes some 0.03.
PATIENCE = 15.0


@dataclass
class Trial:
    """What came of the tests in one child."""

    failed: str = ""
    hung: bool = False
    seconds: dict[str, float] = field(default_factory=dict)
    scripts: dict[str, list[str]] = field(default_factory=dict)


class Trials:
    """The plugin: it runs children in place of the tests."""

    def __init__(self, plan: list[tuple[str, int, str]], out: Path) -> None:
        self.plan = plan
        self.out = out
        self.uses: dict[str, list[str]] = {}
        self.kills: dict[str, Counter[str]] = {}
        self.all_kills: Counter[str] = Counter()

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [item for item in items if not any(word in item.nodeid for word in TWICE)]

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        self.items = {item.nodeid: item for item in session.items}
        first = self._child(list(self.items), None, watch=True)
        if first.failed:
            raise pytest.UsageError(f"the unchanged Lua does not pass {first.failed}")
        self.uses, self.seconds = first.scripts, first.seconds
        with self.out.open("w") as out:
            for file, number, after in self.plan:
                killed = self._try(file, number, after)
                out.write(json.dumps({"mutant": [file, number, after], "killed": killed}) + "\n")
                out.flush()
        return True

    def _try(self, file: str, number: int, after: str) -> str:
        """The test that notices the mutant, "" if none does."""
        spot = (f"lua/{file}.lua", number)
        among = {name for name in scripts.names() if spot in scripts.get(name).lines}
        chosen = [test for test, used in self.uses.items() if among.intersection(used)]
        near = self.kills.setdefault(file, Counter())
        chosen.sort(key=lambda test: (-near[test], -self.all_kills[test], self.seconds[test]))
        while chosen:
            trial = self._child(chosen, (file, number, after))
            if not trial.failed:
                return ""
            if trial.hung and self._child([trial.failed], None).failed:
                chosen = chosen[chosen.index(trial.failed) :]  # the machine is slow, not the mutant
                continue
            near[trial.failed] += 1
            self.all_kills[trial.failed] += 1
            return ("hangs: " if trial.hung else "") + trial.failed
        return ""

    def _child(self, chosen: list[str], mutant: tuple[str, int, str] | None, watch: bool = False) -> Trial:
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
                self._run(chosen, mutant, writer, watch)
            finally:
                os._exit(0)
        os.close(writer)
        trial = _listen(reader, chosen)
        with suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(reader)
        shutil.rmtree(folder, ignore_errors=True)
        return trial

    def _run(self, chosen: list[str], mutant: tuple[str, int, str] | None, pipe: int, watch: bool) -> None:
        """In the child: one line for each test that ends."""
        used: set[str] = set()
        if watch:
            plain = Core.script

            def script(self: Core, name: str) -> scripts.Form:
                used.add(name)
                return plain(self, name)

            Core.script = script  # type: ignore[method-assign]
        if mutant is not None:
            plant(*mutant)
        for n, name in enumerate(chosen):
            following = self.items[chosen[n + 1]] if n + 1 < len(chosen) else None
            used.clear()
            began = monotonic()
            reports = runtestprotocol(self.items[name], log=False, nextitem=following)
            failed = any(report.failed for report in reports)
            line = {"failed": failed, "seconds": monotonic() - began, "scripts": sorted(used)}
            os.write(pipe, json.dumps(line).encode() + b"\n")
            if failed:
                return


def _listen(reader: int, chosen: list[str]) -> Trial:
    trial, rest = Trial(), b""
    for name in chosen:
        while b"\n" not in rest:
            ready, _, _ = select.select([reader], [], [], PATIENCE)
            data = os.read(reader, 65536) if ready else b""
            if not data:
                trial.failed, trial.hung = name, not ready
                return trial
            rest += data
        line, _, rest = rest.partition(b"\n")
        told = json.loads(line)
        trial.seconds[name], trial.scripts[name] = told["seconds"], told["scripts"]
        if told["failed"]:
            trial.failed = name
            return trial
    return trial


def plant(file: str, number: int, after: str) -> None:
    """Let this process take the Lua from a copy with one line changed."""
    copy = Path(tempfile.mkdtemp(prefix="lua-"))
    shutil.copytree(scripts.root(), copy, dirs_exist_ok=True)
    path = copy / f"{file}.lua"
    lines = path.read_text().split("\n")
    lines[number - 1] = after
    path.write_text("\n".join(lines))
    for module in (scripts, functions):
        for value in list(vars(module).values()):
            if hasattr(value, "cache_clear"):
                value.cache_clear()
    scripts.root = lambda: copy  # type: ignore[assignment]


def main(plan: Path, out: Path) -> int:
    trials = Trials([(file, number, after) for file, number, after in json.loads(plan.read_text())], out)
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
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
