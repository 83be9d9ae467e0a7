"""The error for a package that is not installed names the command that installs it."""

from __future__ import annotations

import subprocess
import sys

import pytest

# What is imported or run, the package that is missing, and the extra that brings it.
CASES = {
    "kombu": ("import mqredis.kombu", "kombu", "kombu"),
    "django": ("from mqredis.django import MqredisBackend", "django", "django"),
    "django-tasks": (
        "sys.modules['django.tasks'] = None; from mqredis.django import MqredisBackend",
        "django_tasks",
        "django",
    ),
    "otel": ("import mqredis.otel", "opentelemetry", "otel"),
    "spark": ("import mqredis.spark", "pyspark", "spark"),
    "spark by name": ("import pyspark_mqredis", "pyspark", "spark"),
    "sealing": ("from mqredis.sealing import AesGcm; AesGcm({}, '')", "cryptography", "sealing"),
    "cron": (
        "from mqredis.worker import Worker; Worker().schedule('s', '0 3 * * *', 'q')",
        "cronsim",
        "worker",
    ),
    "collector": (
        "from mqredis.prometheus import Collector; Collector()",
        "prometheus_client",
        "prometheus",
    ),
    "console": ("import mqredis.console", "starlette", "console"),
    "memory": ("import mqredis; mqredis.connect('memory://x')", "fakeredis", "testing"),
    "memory without Lua": ("import mqredis; mqredis.connect('memory://x')", "lupa", "testing"),
}
# Makes the import of a module fail as if its package were not installed.
WITHOUT = """
import sys
class Without:
    def find_spec(self, name, path=None, target=None):
        if name == {missing!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Without())
"""
PROGRAM = (
    WITHOUT
    + """
from mqredis.errors import MissingDependency
try:
    {code}
except MissingDependency as error:
    assert isinstance(error, ImportError)
    assert error.__suppress_context__, "the traceback would repeat the error of the import"
    print(error)
"""
)


@pytest.mark.parametrize("name", CASES)
def test_missing_package_error_names_the_extra_to_install(name: str) -> None:
    code, missing, extra = CASES[name]
    program = PROGRAM.format(code=code, missing=missing)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert f"needs more packages: pip install 'mqredis[{extra}]' (No module named '{missing}')" in done.stdout
    assert len(done.stdout.splitlines()) == 1


@pytest.mark.parametrize("command", [["pipeline", "publications"], ["worker", "app:worker"]])
def test_command_line_reports_a_missing_package_without_a_traceback(command: list[str], tmp_path) -> None:
    (tmp_path / "app.py").write_text("import mqredis.spark\n")
    program = (
        f"import sys; sys.modules['pyspark'] = None; from mqredis.cli import main; sys.exit(main({command}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.returncode == 2
    assert done.stderr.startswith(
        "mqredis: mqredis.spark needs more packages: pip install 'mqredis[spark]' ("
    )
    assert len(done.stderr.splitlines()) == 1


def test_missing_module_of_the_package_itself_is_raised_unchanged() -> None:
    program = WITHOUT.format(missing="mqredis.otel.recorder") + "import mqredis.otel"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "pip install" not in done.stderr
    assert "No module named 'mqredis.otel.recorder'" in done.stderr


@pytest.mark.parametrize("words", [["pipeline", "--help"], ["pipeline", "archive", "--help"]])
def test_help_of_pipelines_needs_no_pyspark(words: list[str]) -> None:
    program = (
        f"import sys; sys.modules['pyspark'] = None; from mqredis.cli import main; sys.exit(main({words}))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert ("--checkpoint" if "archive" in words else "publications") in done.stdout
