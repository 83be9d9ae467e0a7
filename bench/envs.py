"""The environments of the peers, apart from the project's own: their requirements contradict each other.

``runner`` starts the peers with it, and ``instructions`` another commit. peers/mqredis.py and peers/bullmq.mjs read the
variables that begin with BENCH_.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterable
from io import BytesIO
from pathlib import Path

from bench.peers import Entry

ROOT = Path(__file__).resolve().parent.parent
PLACE = Path(os.environ.get("MQREDIS_BENCH_ENVS") or ROOT / ".venv-bench")


def command(entry: Entry) -> list[str]:
    """The command that starts a peer; the address of the server and the shape follow."""
    if entry.environment == "node":
        return ["node", str(ROOT / "bench" / "peers" / entry.module)]
    return [str(PLACE / entry.environment / "bin" / "python"), "-m", "bench.child", entry.module, entry.cls]


def variables(checkout: Path | None) -> dict[str, str]:
    """The environment variables of a peer's process. ``checkout``: where its ``mqredis`` comes from."""
    bench = PLACE / "import"
    bench.mkdir(parents=True, exist_ok=True)
    if not (bench / "bench").exists():  # a folder that has the benchmark and no mqredis
        (bench / "bench").symlink_to(ROOT / "bench")
    path = os.pathsep.join([str(bench), str(checkout or ROOT)])
    node = str(PLACE / "node")
    return {
        **os.environ,
        "PYTHONPATH": path,
        "PYTHONDONTWRITEBYTECODE": "1",
        "BENCH_CHECKOUT": str(checkout or ROOT),
        "BENCH_NODE_MODULES": node,
    }


def ensure(names: Iterable[str]) -> None:
    """Make the environments that are missing or whose requirements have changed."""
    for name in sorted(set(names)):
        source = ROOT / "bench" / ("package.json" if name == "node" else f"requirements-{name}.txt")
        digest, stamp = hashlib.sha256(source.read_bytes()).hexdigest(), PLACE / name / "requirements.sha256"
        if stamp.is_file() and stamp.read_text() == digest:
            continue
        print(f"installing the peers of {source.name} ...", file=sys.stderr)
        folder = PLACE / name
        folder.mkdir(parents=True, exist_ok=True)
        if name == "node":
            shutil.copy(source, folder / "package.json")
            subprocess.run(["npm", "install", "--silent", "--no-audit", "--no-fund"], cwd=folder, check=True)
        else:
            subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
            pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet"]
            subprocess.run([*pip, "--requirement", str(source)], check=True)
        stamp.write_text(digest)


def checkout(commit: str) -> Path:
    """A folder with the files of another commit of this repository."""
    folder = ROOT / "build" / "bench" / commit
    if not folder.is_dir():
        archive = subprocess.run(["git", "archive", commit], cwd=ROOT, check=True, capture_output=True).stdout
        unfinished = folder.with_name(f"{commit}.unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        with tarfile.open(fileobj=BytesIO(archive)) as files:
            files.extractall(unfinished, filter="data")
        unfinished.rename(folder)
    return folder
