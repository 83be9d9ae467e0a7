"""The image, the workflows and the templates of the repository are consistent."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from tools import release_notes

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text())


def test_every_supported_python_is_tested() -> None:
    tried = read(ROOT / ".github/workflows/ci.yml")["jobs"]["all"]["strategy"]["matrix"]["python"]
    said = [name.rpartition(" ")[2] for name in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", name)]
    assert tried == said
    assert tried[0] == PROJECT["requires-python"].removeprefix(">=")


def test_spark_is_tested_on_pull_requests() -> None:
    ci = read(ROOT / ".github/workflows/ci.yml")
    assert "pull_request" in ci[True]  # YAML 1.1 reads the key `on` as true
    assert ci["jobs"]["spark"]["if"] == "github.event_name != 'push'"


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_have_read_permissions_and_existing_targets(path: Path) -> None:
    workflow = read(path)
    assert workflow["permissions"] == {"contents": "read"}
    assert "secrets." not in path.read_text()
    for name, job in workflow["jobs"].items():
        assert job.get("needs", name) in workflow["jobs"]
        for step in job["steps"]:
            assert ("uses" in step) != ("run" in step), name
            for target in re.findall(r"^make (\w[\w-]*)", step.get("run", ""), re.MULTILINE):
                assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE), target


def test_only_the_publishing_job_may_request_a_pypi_token() -> None:
    jobs = read(ROOT / ".github/workflows/release.yml")["jobs"]
    asking = {name for name, job in jobs.items() if "id-token" in job.get("permissions", {})}
    assert asking == {"pypi"}
    assert jobs["pypi"]["environment"]["name"] == "pypi"


@pytest.mark.parametrize("name", ["bug.yml", "feature.yml"])
def test_issue_template_is_a_form(name: str) -> None:
    form = read(ROOT / ".github/ISSUE_TEMPLATE" / name)
    assert form["name"]
    assert form["description"]
    ids = [part["id"] for part in form["body"] if part["type"] != "markdown"]
    assert ids
    assert len(ids) == len(set(ids))
    assert all(part["attributes"].get("label") or part["type"] == "markdown" for part in form["body"])


def test_changelog_section_of_a_release() -> None:
    parts = {"[Unreleased]": "- next", "[1.2.0] - 2026-12-01": "- one", "[1.1.0] - 2026-11-01": "- two"}
    text = "# Changelog\n\n" + "\n".join(f"## {title}\n\n{body}\n" for title, body in parts.items())
    assert release_notes.section(text, "1.2.0") == "- one"
    assert release_notes.section(text, "1.1.0") == "- two"
    for missing in ("1.3.0", "1.2", "Unreleased"):
        with pytest.raises(ValueError, match="has no section"):
            release_notes.section(text, missing)


def test_versions_are_equal() -> None:
    assert set(release_notes.versions().values()) == {PROJECT["version"]}


def test_build_context_of_the_image_has_the_files_of_the_wheel() -> None:
    allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    packages = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"][
        "wheel"
    ]
    needed = {
        *packages["packages"],
        *packages["force-include"],
        *PROJECT["license-files"],
        "pyproject.toml",
        "README.md",
    }
    assert needed <= allowed
    assert all((ROOT / name).exists() for name in allowed)


def test_image_does_not_run_as_root() -> None:
    text = (ROOT / "Dockerfile").read_text()
    users = re.findall(r"^USER (\S+)$", text, re.MULTILINE)
    assert users == ["10001"]
    assert text.index("USER") < text.index("ENTRYPOINT")
    # Exec form: SIGTERM reaches the process without a shell.
    assert re.findall(r"^ENTRYPOINT (.*)$", text, re.MULTILINE) == ['["mqredis"]']


def test_extras_of_the_image_exist() -> None:
    (extras,) = re.findall(r"\.whl\)\[(.*?)\]", (ROOT / "Dockerfile").read_text())
    assert set(extras.split(",")) <= set(PROJECT["optional-dependencies"])


def test_site_of_the_documentation_is_built_as_by_make_docs() -> None:
    jobs = read(ROOT / ".readthedocs.yaml")["build"]["jobs"]
    (command,) = (line for line in jobs["build"]["html"] if "mkdocs build" in line)
    makefile = (ROOT / "Makefile").read_text()
    assert "mkdocs build --strict" in command
    assert "mkdocs build --strict" in makefile
    assert any("--group docs" in line for line in jobs["install"])
