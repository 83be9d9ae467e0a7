"""Integrations use the public interface and the attributes of docs/extending.md, and nothing private of either."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2] / "mqredis"
#: Folders whose code stands beside the interface, and not inside of it.
INTEGRATIONS = ("cli", "django", "kombu", "otel", "prometheus", "spark", "testing", "worker")


def private(tree: ast.AST) -> list[ast.Attribute]:
    """Each access to a private attribute of another object."""
    return [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and node.attr.startswith("_")
        and not node.attr.startswith("__")
        and not (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"))
    ]


def own(folder: Path) -> set[str]:
    """The private attributes and methods that the classes of a folder define."""
    names: set[str] = set()
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                names.add(node.name)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                names.add(node.attr)
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                names.add(node.target.id)
    return names


#: Private attributes of the interface, its drivers and operations.
INTERFACE = own(ROOT / "asyncio") | own(ROOT / "operations") | own(ROOT / "drivers")


@pytest.mark.parametrize("folder", INTEGRATIONS)
def test_an_integration_uses_no_private_attribute_of_the_interface(folder: str) -> None:
    known = own(ROOT / folder)
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno} {node.attr}"
        for path in sorted((ROOT / folder).rglob("*.py"))
        for node in private(ast.parse(path.read_text()))
        if node.attr in INTERFACE and node.attr not in known
    ]
    assert found == []


def test_the_connections_use_no_private_attribute_of_redis_py() -> None:
    known = own(ROOT / "drivers")
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno} {node.attr}"
        for path in sorted((ROOT / "drivers").rglob("*.py"))
        for node in private(ast.parse(path.read_text()))
        if node.attr not in known
    ]
    assert found == []


def test_the_search_finds_private_attributes() -> None:
    tree = ast.parse("self._mine = manager._driver.backend")
    assert [node.attr for node in private(tree)] == ["_driver"]
    assert "_driver" in INTERFACE
