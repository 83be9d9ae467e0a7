"""Calls: tokens, sessions, retries."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mqredis.drivers import AsyncDriver, Driver
from tests.drivers.kit import add, read


def test_calls_run_once_each(url: str, connect: Callable[..., Driver]) -> None:
    """Ten calls, ten additions, one slot."""
    driver = connect(url)
    for n in range(1, 11):
        assert driver.run(add(driver.core.keys)) == str(n)
    assert driver.run(read(driver.core.keys)) == "10"
    assert driver.history == 10
    assert driver.session == "1"


@pytest.mark.asyncio
async def test_async_calls_run_once_each(url: str, aconnect: Callable[..., AsyncDriver]) -> None:
    """The same with asyncio."""
    driver = aconnect(url)
    for n in range(1, 11):
        assert await driver.run(add(driver.core.keys)) == str(n)
    assert await driver.run(read(driver.core.keys)) == "10"
