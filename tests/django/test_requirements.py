"""What the extra ``django`` asks for."""

from __future__ import annotations

import tomllib
from pathlib import Path

from packaging.requirements import Requirement


def test_django_tasks_comes_with_every_python() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    required = {r.name: r for r in map(Requirement, project["optional-dependencies"]["django"])}
    # Django 5.2 runs on Python 3.12 and later, too, and has no tasks of its own.
    assert required["django-tasks"].marker is None
