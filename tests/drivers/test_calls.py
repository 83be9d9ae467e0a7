"""Calls: tokens, sessions, retries."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mqredis.drivers.aio import AsyncDriver
from mqredis.drivers.net.pool_aio import AsyncConnection
from tests.drivers.kit import Connect, add, read
from tests.drivers.test_interrupts import Interrupt


def test_calls_run_once_each(url: str, connect_either: Connect) -> None:
    """Ten calls, ten additions, one slot."""
    driver = connect_either(url)
    for n in range(1, 11):
        assert driver.run(add(driver.core.keys)) == str(n)
    assert driver.run(read(driver.core.keys)) == "10"
    assert driver.core.history == 10
    assert driver.session == "1"


async def test_interrupt_while_discarding_a_connection_leaves_an_unknown_outcome(
    url: str, aconnect: Callable[..., AsyncDriver], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The call was made, but the client does not know it: its sequence number must not be used again."""
    driver = aconnect(url)
    await driver.run(add(driver.core.keys))

    original_discard = driver.backend.discard

    async def discard(link: AsyncConnection) -> None:
        await original_discard(link)
        raise Interrupt

    with monkeypatch.context() as patch:
        patch.setattr(driver.backend, "give", lambda _link: False)
        patch.setattr(driver.backend, "discard", discard)
        with pytest.raises(Interrupt):
            await driver.run(add(driver.core.keys))
    (token,) = driver.core.outcomes.tokens
    assert token.endswith(":2")
    assert await driver.run(add(driver.core.keys)) == "3"
