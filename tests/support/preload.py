"""Libraries that tests preload into a server, built from C files of this folder."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path


class CompilerMissing(RuntimeError):
    """There is nothing to build a library with, or nothing to load it."""


def lacking() -> str:
    """Why no library can be preloaded here; "" if one can."""
    if not sys.platform.startswith("linux"):
        return "Libraries are preloaded only on Linux: they need LD_PRELOAD."
    if shutil.which("cc") is None:
        return "There is no C compiler: no cc on PATH (Debian: apt-get install gcc libc6-dev)."
    return ""


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="mq-")


@cache
def library(source: str) -> Path:
    """The library of a C file beside this one, built once for each process. Raises CompilerMissing."""
    if reason := lacking():
        raise CompilerMissing(reason)
    path = Path(_folder().name) / f"{source}.so"
    built = subprocess.run(
        [
            "cc",
            "-shared",
            "-fPIC",
            "-O1",
            "-Wall",
            "-Werror",
            "-o",
            str(path),
            str(Path(__file__).with_name(source)),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    if built.returncode:
        raise CompilerMissing(f"cc does not build {source}:\n{built.stderr}")
    return path
