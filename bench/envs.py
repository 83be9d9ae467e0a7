"""The environments of the peers, apart from ours: their requirements contradict each other."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
#: Where the environments are made; another place may be named.
VARIABLE = "MQREDIS_BENCH_ENVS"


def place() -> Path:
    """The folder that holds them."""
    return Path(os.environ.get(VARIABLE) or ROOT / ".venv-bench")


def python(name: str) -> Path:
    """The interpreter of one environment."""
    return place() / name / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def ensure(names: Iterable[str]) -> None:
    """Make the environments that are missing or whose requirements have changed."""
    for name in sorted(set(names)):
        requirements = ROOT / "bench" / f"requirements-{name}.txt"
        digest = hashlib.sha256(requirements.read_bytes()).hexdigest()
        stamp = place() / name / "requirements.sha256"
        if stamp.is_file() and stamp.read_text() == digest:
            continue
        print(f"installing the peers of {requirements.name} ...", file=sys.stderr)
        uv = shutil.which("uv")
        if not python(name).exists():
            make = (
                [uv, "venv", "--quiet", "--python", sys.executable] if uv else [sys.executable, "-m", "venv"]
            )
            subprocess.run([*make, str(place() / name)], check=True)
        install = [uv, "pip", "install", "--quiet", "--python", str(python(name))] if uv else [
            str(python(name)), "-m", "pip", "install", "--quiet"
        ]  # fmt: skip
        subprocess.run([*install, "--requirement", str(requirements)], check=True)
        stamp.write_text(digest)


def versions(name: str) -> dict[str, str]:
    """What is installed there."""
    script = (
        "import json, platform; from importlib.metadata import distributions;"
        "found = {d.metadata['Name']: d.version for d in distributions()};"
        "print(json.dumps({**found, 'python': platform.python_version()}))"
    )
    output = subprocess.run([str(python(name)), "-c", script], check=True, capture_output=True, text=True)
    found: dict[str, str] = json.loads(output.stdout)
    return dict(sorted(found.items()))
