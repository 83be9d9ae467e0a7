"""What ``import mqredis`` loads: a program pays at its start for what it uses, and not for the rest."""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from types import ModuleType

import pytest

import mqredis
import mqredis.asyncio

# Modules that are imported when they are first used, each with all modules below it.
LAZY = (
    "lark",
    "mqredis.asyncio",
    "mqredis.client.browser",
    "mqredis.client.cursor",
    "mqredis.client.group",
    "mqredis.drivers.aio",
    "mqredis.drivers.coalescing",
    "mqredis.drivers.net.aio",
    "mqredis.drivers.net.pool_aio",
    "mqredis.drivers.waiting.registry_aio",
    "mqredis.drivers.waiting.waits_aio",
    "mqredis.embedded",
    "mqredis.operations.browser",
    "mqredis.operations.cursor",
    "mqredis.models.inspection",
    "mqredis.operations.doctor",
    "mqredis.operations.inspection",
    "mqredis.operations.pipelines",
    "mqredis.reports",
    "mqredis.selector",
)


@cache
def loaded(code: str) -> set[str]:
    """The modules that a new process has loaded after this code."""
    command = [sys.executable, "-c", f"{code}\nimport sys\nprint(*sys.modules)"]
    return set(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split())


def test_import_mqredis_loads_no_module_that_few_programs_use() -> None:
    modules = loaded("import mqredis")
    assert "mqredis.operations.send" in modules
    assert [name for name in LAZY if any(f"{module}.".startswith(f"{name}.") for module in modules)] == []


def test_import_mqredis_loads_only_the_packages_that_a_client_needs() -> None:
    packages = {module.split(".")[1] for module in loaded("import mqredis") if module.startswith("mqredis.")}
    assert packages <= {
        "bundles", "client", "codec", "commands", "drivers", "errors", "keys", "lua_files", "models", "operations",
        "scripts", "sealing", "settings", "status", "steps",
    }  # fmt: skip


def test_the_asyncio_interface_loads_no_blocking_driver() -> None:
    assert "mqredis.drivers.aio" in loaded("import mqredis.asyncio")
    assert "lark" not in loaded("import mqredis.asyncio")


@pytest.mark.parametrize("module", [mqredis, mqredis.asyncio], ids=["mqredis", "mqredis.asyncio"])
def test_every_public_name_is_there(module: ModuleType) -> None:
    assert [name for name in module.__all__ if not hasattr(module, name)] == []
    with pytest.raises(AttributeError, match="has no attribute 'Brouser'"):
        module.Brouser  # noqa: B018
