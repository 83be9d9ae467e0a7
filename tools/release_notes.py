"""Print the changelog's section of a release: ``python -m tools.release_notes 0.1.0``.

The workflow ``release`` publishes what it prints. Ends with an error if the places that name the version differ, or if
the changelog has no such section with a date.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

import mqredis

ROOT = Path(__file__).resolve().parents[1]


def section(changelog: str, version: str) -> str:
    """The text below ``## [version] - date``, up to the next section. Raises ValueError if it is not there."""
    found = re.search(
        rf"^## \[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d\n(.*?)(?=^## |\Z)",
        changelog,
        re.DOTALL | re.MULTILINE,
    )
    if found is None or not found[1].strip():
        raise ValueError(f"CHANGELOG.md has no section `## [{version}] - <date>` with text")
    return found[1].strip()


def versions() -> dict[str, str]:
    """The version in each place that names it."""
    return {
        "pyproject.toml": tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"],
        "mqredis.__version__": mqredis.__version__,
    }


def main(version: str) -> None:
    """Check and print. Raises ValueError."""
    wrong = {place: found for place, found in versions().items() if found != version}
    if wrong:
        raise ValueError(f"the release is {version}, but {wrong}")
    print(section((ROOT / "CHANGELOG.md").read_text(), version))


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except (TypeError, ValueError) as error:
        sys.exit(f"release_notes: {error}")
