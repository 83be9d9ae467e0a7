"""Join the function libraries when the wheel is built (hatchling's custom build hook, which pyproject.toml names).

``mqredis/scripts.py`` joins them here and reads them from the wheel; tests/packaging builds one and compares.
Joining takes 10 to 60 ms for each script, which every process would otherwise spend before its first call. An editable
install gets none: there the sources may change.
"""

from __future__ import annotations

import sys
import tempfile
import types
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class JoinScripts(BuildHookInterface[Any]):
    """Adds ``mqredis/lua/built/<library>.lua`` to the wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the libraries into a temporary folder, and have them included."""
        if version == "editable":
            return
        scripts = self._scripts()
        self._folder = tempfile.TemporaryDirectory()
        for library in scripts.libraries():
            path = Path(self._folder.name) / f"{library.name}.lua"
            path.write_text(library.join(), encoding="utf-8")
            build_data["force_include"][str(path)] = f"mqredis/lua/{scripts.BUILT}/{library.name}.lua"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002
        """Remove the folder."""
        if version != "editable":
            self._folder.cleanup()

    def _scripts(self) -> Any:
        """The module mqredis.scripts, imported without the rest of mqredis, whose dependencies are not there."""
        package = types.ModuleType("mqredis")
        package.__path__ = [str(Path(self.root) / "mqredis")]
        sys.modules["mqredis"] = package
        from mqredis import scripts

        return scripts
