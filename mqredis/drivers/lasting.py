"""Drivers whose every lasting change waits for the level of the settings, unless its call names another."""

from __future__ import annotations

from asyncio import AbstractEventLoop
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from mqredis.drivers.aio import AsyncDriver
from mqredis.drivers.session import Run
from mqredis.drivers.sync import Driver
from mqredis.models import Durability
from mqredis.operations.durable import durably
from mqredis.settings import Settings
from mqredis.steps import Operation, Way

R = TypeVar("R")


class DurableDriver(Driver):
    """The blocking one. A class of its own, so that the plain one asks nothing."""

    def run(self, operation: Operation[R], deadline: float | None = None) -> R:
        """Run an operation to its end in this thread. Raises DurabilityNotReached too."""
        return super().run(durably(operation, self.settings.durability), deadline)

    def straight(self, _way: Way[Any], _differing: Sequence[bytes]) -> None:
        """Every lasting change is an operation's."""


class AsyncDurableDriver(AsyncDriver):
    """Its twin."""

    async def run(
        self,
        operation: Operation[R],
        deadline: float | None = None,
        keep: Callable[[Run], object] | None = None,
    ) -> R:
        """Run an operation to its end in this task. Raises DurabilityNotReached too."""
        return await super().run(durably(operation, self.settings.durability), deadline, keep)

    async def straight(
        self, _way: Way[Any], _differing: Sequence[bytes], _loop: AbstractEventLoop | None = None
    ) -> None:
        """Every lasting change is an operation's."""


def driver_for(settings: Settings) -> type[Driver]:
    """The blocking driver that these settings want."""
    return Driver if settings.durability == Durability.MEMORY else DurableDriver


def async_driver_for(settings: Settings) -> type[AsyncDriver]:
    """The same for asyncio."""
    return AsyncDriver if settings.durability == Durability.MEMORY else AsyncDurableDriver
