"""Connection pools: which connections are closed with them, and that none is opened afterwards."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import pytest

from mqredis.drivers.aio import AsyncDriver
from mqredis.drivers.net.pool import Backend, Connection
from mqredis.drivers.sync import Driver
from mqredis.errors import BrokerUnavailable
from tests.drivers.kit import take

# No server listens on this port.
NODE = ("127.0.0.1", 1)


def test_connection_returned_while_idle_ones_are_dropped_is_closed(
    url: str, connect: Callable[..., Driver]
) -> None:
    driver = connect(url)
    driver.run(take(driver.core.keys, seconds=0))
    backend = driver.backend
    link = backend.acquire(time.monotonic() + 30)

    class Idle(deque[Connection]):
        def append(self, link: Connection) -> None:
            closing = threading.Thread(target=backend.drop_idle)
            closing.start()
            closing.join(30)
            super().append(link)

    backend._idle = Idle()
    assert backend.give(link)
    assert not backend._idle
    assert backend._count == 0


def test_drop_idle_changes_the_epoch_under_the_lock(url: str, connect: Callable[..., Driver]) -> None:
    owned: list[bool] = []

    class Watched(Backend):
        @property
        def _epoch(self) -> int:
            return self._number

        @_epoch.setter
        def _epoch(self, number: int) -> None:
            self._number = number
            owned.append(self._cond._is_owned())  # type: ignore[attr-defined]

    backend = Watched(connect(url).backend.plan)
    owned.clear()
    backend.drop_idle()
    assert owned == [True]


def test_closed_pool_refuses_to_connect(url: str, connect: Callable[..., Driver]) -> None:
    backend = connect(url).backend
    backend.close()
    before = backend._count
    for node in (None, NODE):
        with pytest.raises(BrokerUnavailable, match="closed by this process"):
            backend.acquire(time.monotonic() + 30, node)
    assert backend._count == before


def test_connection_opened_while_the_pool_closes_is_not_kept(
    url: str, connect: Callable[..., Driver], monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = connect(url).backend
    current = backend._current

    def located() -> Any:
        found = current()
        backend.close()
        return found

    monkeypatch.setattr(backend, "_current", located)
    link = backend.acquire(time.monotonic() + 30)
    backend.release(link)
    assert not backend._idle
    assert backend._count == 0


async def test_async_closed_pool_refuses_to_connect(url: str, aconnect: Callable[..., AsyncDriver]) -> None:
    backend = aconnect(url).backend
    await backend.close()
    before = backend._count
    for node in (None, NODE):
        with pytest.raises(BrokerUnavailable, match="closed by this process"):
            await backend.acquire(time.monotonic() + 30, node)
    assert backend._count == before
