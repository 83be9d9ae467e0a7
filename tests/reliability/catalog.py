"""The bars, in the order in which they run."""

from __future__ import annotations

from importlib import import_module

MODULES = (
    "schedules_bar",
    "kills_bar",
    "cuts_bar",
    "waits_bar",
    "server_bar",
    "soak_bar",
    "mutation_bar",
)


def load() -> None:
    """Register every bar."""
    for name in MODULES:
        import_module(f"tests.reliability.{name}")
