"""The sdist, the wheel built from it, and clean environments that hold one or the other."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]
# What a checkout has and a clone has not.
_LOCAL = (".git", ".venv*", "build", "dist", "__pycache__", ".*_cache", ".hypothesis", "*.egg-info")

# Run by the environments: every script of the installed package in both forms, and where the package is.
_LIST_BUNDLES = """
import json, sys, mqredis
from mqredis import scripts
bundles = {name: scripts.get(name).text for name in scripts.names()}
libraries = {library.name: (library.title, library.text) for library in scripts.libraries()}
json.dump({"bundles": bundles, "libraries": libraries, "package": list(mqredis.__path__)[0]}, sys.stdout)
"""


def run(*command: str | Path, cwd: Path, **more: str) -> str:
    """Run a program, with ``more`` in its environment, and return what it printed. Its errors are in the assertion."""
    # Neither the checkout nor the tests' environment may help the installed package along.
    ours = {"PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV"}
    environment = {name: value for name, value in os.environ.items() if name not in ours} | more
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@dataclass(frozen=True)
class Installed:
    """mqredis in an environment of its own."""

    python: Path
    elsewhere: Path

    @property
    def scripts(self) -> Path:
        """Where its programs are."""
        return self.python.parent

    def bundles(self) -> tuple[dict[str, str], Path]:
        """Every script as this installation joins it, and the folder of the package."""
        answer = self._answer()
        return answer["bundles"], Path(answer["package"])

    def libraries(self) -> dict[str, tuple[str, str]]:
        """Name and text of every function library."""
        return {name: (title, text) for name, (title, text) in self._answer()["libraries"].items()}

    def _answer(self) -> Any:
        return json.loads(run(self.python, "-c", _LIST_BUNDLES, cwd=self.elsewhere))


def install(where: Path, *arguments: str | Path) -> Installed:
    """A clean environment with what ``pip install <arguments>`` brings."""
    venv.create(where / "env", with_pip=True, symlinks=True)
    python = where / "env" / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *arguments, cwd=where)
    elsewhere = where / "elsewhere"
    elsewhere.mkdir()
    return Installed(python, elsewhere)


@pytest.fixture(scope="session")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the sources: building must not leave anything in the checkout."""
    target = tmp_path_factory.mktemp("clone") / "mqredis"
    shutil.copytree(CHECKOUT, target, ignore=shutil.ignore_patterns(*_LOCAL))
    return target


@pytest.fixture(scope="session")
def distributions(clone: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The sdist and the wheel that is built from it."""
    target = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--outdir", target, clone, cwd=target)
    (sdist,) = target.glob("*.tar.gz")
    (wheel,) = target.glob("*.whl")
    return sdist, wheel


@pytest.fixture(scope="session")
def from_wheel(distributions: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """An environment with the wheel and what it depends on, nothing else."""
    return install(tmp_path_factory.mktemp("wheel"), distributions[1])


@pytest.fixture(scope="session")
def editable(clone: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """An environment with an editable install of the copied checkout."""
    return install(tmp_path_factory.mktemp("editable"), "--editable", clone)
