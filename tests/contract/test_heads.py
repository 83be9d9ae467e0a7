"""The head of a module names each package that uses the module: who changes it sees what else depends on it."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "mqredis"
# What names a package in a head, besides its own name.
WORDS = {
    "asyncio": "interface|application|``(QueueManager|Queue|Operator|Transaction|LockedMessage|Browser|Cursor|connect)",
    "cli": r"command line|``mqredis [a-z]",
    "models": "model",
    "operations": "operation",
    "commands": "command",
    "drivers": "driver",
    "prometheus": "metrics",
}
# Generated from asyncio, with the same heads.
GENERATED = PACKAGE / "client"


@cache
def trees() -> dict[str, ast.Module]:
    """The modules of mqredis by name, without the generated interface."""
    return {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): ast.parse(
            path.read_text()
        )
        for path in sorted(PACKAGE.rglob("*.py"))
        if GENERATED not in path.parents
    }


def imported(tree: ast.Module) -> set[str]:
    """The modules of mqredis that a module imports from, wherever that is."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                found.add(inner if inner in trees() else node.module)
        elif isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
    return found & trees().keys()


def package_of(module: str) -> str:
    """The folder of mqredis that a module is in; "" for one that is directly in mqredis."""
    parts = module.split(".")
    folder = parts[1] if len(parts) > 1 else ""
    return folder if (PACKAGE / folder).is_dir() else ""


@cache
def users() -> dict[str, set[str]]:
    """The packages that use each module, except its own."""
    found: dict[str, set[str]] = {name: set() for name in trees()}
    for name, tree in trees().items():
        for module in imported(tree):
            if package_of(name) not in ("", package_of(module)):
                found[module].add(package_of(name))
    return found


def unnamed(head: str, packages: set[str]) -> set[str]:
    """Those of these packages that a head does not name. "All packages" names each."""
    if re.search(r"\ball (other )?packages\b", head, re.IGNORECASE):
        return set()
    return {
        name
        for name in packages
        if not re.search(rf"\b{name}s?\b|{WORDS.get(name, name)}", head, re.IGNORECASE)
    }


@pytest.mark.parametrize("module", [name for name in trees() if name != "mqredis"])
def test_head_names_the_packages_that_use_the_module(module: str) -> None:
    assert unnamed(ast.get_docstring(trees()[module]) or "", users()[module]) == set()


def test_use_in_another_package_is_found() -> None:
    assert {"operations", "worker"} <= users()["mqredis.commands.settlement"]
    assert unnamed("``operations.settle`` calls it.", {"operations", "kombu"}) == {"kombu"}
    assert unnamed("All packages of mqredis raise these.", {"kombu"}) == set()
