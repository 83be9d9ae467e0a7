"""The command line ``mqredis``."""

from __future__ import annotations

from mqredis.cli.app import main

__all__ = ["main"]
