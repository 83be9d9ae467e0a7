"""Integrations use the public interface and the attributes of docs/extending.md, and nothing private."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2] / "mqredis"
# Folders whose code stands beside the interface, and not inside of it.
INTEGRATIONS = ("cli", "console", "django", "kombu", "otel", "prometheus", "spark", "testing", "worker")


@cache
def trees(folder: Path) -> list[tuple[Path, ast.AST]]:
    """The modules of a folder, parsed."""
    return [(path, ast.parse(path.read_text())) for path in sorted(folder.rglob("*.py"))]


def private(tree: ast.AST) -> list[ast.Attribute]:
    """Each access to a private attribute of another object."""
    return [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and node.attr.startswith("_")
        and not node.attr.startswith("__")
        and not of_self(node)
    ]


def of_self(node: ast.Attribute) -> bool:
    """Is this an attribute of the object or class whose method accesses it?"""
    return isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")


def own(folder: Path) -> set[str]:
    """The private attributes and methods that the classes of a folder define.

    An assignment to an attribute of another object (``lock._settled = True``) defines nothing.
    """
    names: set[str] = set()
    for _, tree in trees(folder):
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                names.add(node.name)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and of_self(node):
                names.add(node.attr)
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                names.add(node.target.id)
    return names


# Names that classes outside of the integrations define.
INTERFACE = set().union(
    *(own(folder) for folder in ROOT.iterdir() if folder.is_dir() and folder.name not in INTEGRATIONS)
)


def documented(owner: str) -> set[str]:
    """The attributes of ``QueueManager.driver`` or ``QueueManager.context`` in the table of docs/extending.md."""
    page = (ROOT.parent / "docs" / "extending.md").read_text()
    (row,) = re.findall(rf"^\| `QueueManager\.{owner}` \|(.*)\|$", page, re.MULTILINE)
    return set(re.findall(r"`\.?(\w+)", row))


def reached(tree: ast.AST, owner: str) -> list[ast.Attribute]:
    """Each access to an attribute of what ``owner`` names: ``x.driver.a``, ``driver.a`` or ``context_of(x).a``."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            value = node.value
            called = value.func if isinstance(value, ast.Call) else None
            if (
                (isinstance(value, ast.Attribute) and value.attr == owner)
                or (owner == "driver" and isinstance(value, ast.Name) and value.id == owner)
                or (isinstance(called, ast.Name) and called.id == f"{owner}_of")
            ):
                found.append(node)
    return found


@pytest.mark.parametrize("folder", INTEGRATIONS)
def test_an_integration_uses_no_private_attribute_of_the_interface(folder: str) -> None:
    known = own(ROOT / folder)
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno} {node.attr}"
        for path, tree in trees(ROOT / folder)
        for node in private(tree)
        if node.attr in INTERFACE and node.attr not in known
    ]
    assert found == []


@pytest.mark.parametrize("owner", ["driver", "context"])
@pytest.mark.parametrize("folder", INTEGRATIONS)
def test_an_integration_reaches_only_documented_attributes(folder: str, owner: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno} {node.attr}"
        for path, tree in trees(ROOT / folder)
        for node in reached(tree, owner)
        if node.attr not in documented(owner)
    ]
    assert found == []


def test_the_connections_use_no_private_attribute_of_redis_py() -> None:
    known = own(ROOT / "drivers")
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno} {node.attr}"
        for path, tree in trees(ROOT / "drivers")
        for node in private(tree)
        if node.attr not in known
    ]
    assert found == []


def test_the_search_finds_private_attributes() -> None:
    tree = ast.parse("self._mine = manager._driver.backend")
    assert [node.attr for node in private(tree)] == ["_driver"]
    assert "_driver" in INTERFACE


def test_an_assignment_to_another_object_defines_no_attribute(tmp_path: Path) -> None:
    (tmp_path / "loop.py").write_text(
        "class Loop:\n    def run(self):\n        self._mine = lock._settled = True\n"
    )
    assert own(tmp_path) == {"run", "_mine"}
    assert "_settled" in INTERFACE


def test_the_search_finds_attributes_that_are_not_documented() -> None:
    tree = ast.parse("manager.driver.backend.x(); driver.run(y); context_of(manager).handles")
    assert {node.attr for node in reached(tree, "driver")} == {"backend", "run"}
    assert [node.attr for node in reached(tree, "context")] == ["handles"]
    assert "backend" not in documented("driver")
    assert {"command", "cancel"} <= documented("driver")
