"""The command line ``mqredis``: pyproject.toml and ``mqredis.__main__`` run ``main``."""

from __future__ import annotations

from mqredis.cli.app import main

__all__ = ["main"]
