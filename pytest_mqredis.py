"""The pytest plugin of mqredis: a queue manager for each test, in the process or on a server.

It stands beside the package, because pytest imports the plugins of every installed distribution: a run that uses no
fixture of these imports nothing of mqredis, and so pays nothing for it.

pyproject.toml registers it (pytest11), and ``mqredis.testing.plugin`` is its former name. docs/testing.md describes the
option, the variable and the fixtures, whose names are in the tests of applications; tests/testing has its tests.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import AsyncIterator, Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    import mqredis
    import mqredis.asyncio
    from mqredis.testing.helpers import Clock

_URL = "MQREDIS_TEST_URL"


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--mqredis-url``."""
    group = parser.getgroup("mqredis")
    group.addoption(
        "--mqredis-url",
        metavar="URL",
        default=os.environ.get(_URL),
        help=f"run the tests that use mqredis fixtures on this server (default: ${_URL}, else fakeredis)",
    )


@pytest.fixture
def mqredis_settings(request: pytest.FixtureRequest) -> Iterator[mqredis.Settings]:
    """Settings of the test's own queue manager; override this fixture to change them.

    Without ``--mqredis-url`` the store is fakeredis, fresh for each test. On a server each test has a manager of its
    own, whose keys are removed when the test is over.
    """
    import mqredis
    from mqredis.drivers.connect import forget_store

    name = f"test-{secrets.token_hex(6)}"
    url = request.config.getoption("--mqredis-url")
    settings = mqredis.Settings(
        url=url or f"memory://{name}",
        manager=name,
        test_clock=True,
        allow_volatile=True,
        allow_eviction=True,
        recheck_seconds=0.5,
        retry_seconds=5.0,
    )
    yield settings
    if not url:
        forget_store(name)
    elif "mqredis_manager" not in request.fixturenames:  # the test has perhaps connected by itself
        with mqredis.connect(settings=settings) as manager:
            _remove(manager)


@pytest.fixture
def mqredis_manager(mqredis_settings: mqredis.Settings) -> Iterator[mqredis.QueueManager]:
    """A queue manager of the test's own; ``mqredis_clock`` moves its time."""
    import mqredis

    with mqredis.connect(settings=mqredis_settings) as manager:
        yield manager
        if not manager.driver.stopped:
            _remove(manager)
            return
    with mqredis.connect(settings=mqredis_settings) as manager:  # the test has closed the other one
        _remove(manager)


@pytest.fixture
def mqredis_environment(
    mqredis_manager: mqredis.QueueManager,
    mqredis_settings: mqredis.Settings,
    monkeypatch: pytest.MonkeyPatch,
) -> mqredis.Settings:
    """For an application that connects by itself: ``mqredis.connect()`` without arguments opens ``mqredis_manager``.

    The variables ``MQREDIS_...`` hold ``mqredis_settings``, which is returned, and nothing else.
    """
    from mqredis.settings import ENV_PREFIX

    values = mqredis_settings.model_dump(mode="json", exclude_unset=True, exclude_none=True)
    for name in type(mqredis_settings).model_fields:
        monkeypatch.setenv(f"{ENV_PREFIX}{name.upper()}", str(values.get(name, "")))
    assert mqredis_manager.name == mqredis_settings.manager  # noqa: S101 - it removes what this test leaves
    return mqredis_settings


def _remove(manager: mqredis.QueueManager) -> None:
    """Delete everything that the test has stored, since the server may be shared."""
    driver, pattern = manager.driver, f"{manager.context.keys.tag}*"
    cursor: Any = "0"
    while True:
        cursor, keys = driver.command("SCAN", cursor, "MATCH", pattern, "COUNT", 1000)
        if keys:
            driver.command("UNLINK", *keys)
        if int(cursor) == 0:
            return


async def _async_manager(
    mqredis_manager: mqredis.QueueManager, mqredis_settings: mqredis.Settings
) -> AsyncIterator[mqredis.asyncio.QueueManager]:
    """The queue manager of ``mqredis_manager``, through ``mqredis.asyncio``."""
    import mqredis.asyncio

    assert mqredis_manager.name == mqredis_settings.manager  # noqa: S101 - it removes what this test leaves
    async with mqredis.asyncio.connect(settings=mqredis_settings) as manager:
        yield manager


mqredis_async_manager: Any
try:
    # With pytest-asyncio the fixture must be marked as its own, or its strict mode leaves it alone.
    import pytest_asyncio
except ImportError:
    mqredis_async_manager = pytest.fixture(_async_manager, name="mqredis_async_manager")
else:
    mqredis_async_manager = pytest_asyncio.fixture(_async_manager, name="mqredis_async_manager")


@pytest.fixture
def mqredis_clock(mqredis_manager: mqredis.QueueManager) -> Clock:
    """The time of ``mqredis_manager``: ``mqredis_clock.advance(60)`` lets a minute pass."""
    from mqredis.testing.helpers import Clock

    return Clock(mqredis_manager)


@pytest.fixture
def mqredis_worker(mqredis_manager: mqredis.QueueManager) -> Callable[..., int]:
    """Runs a worker on ``mqredis_manager`` until its queues are empty. Returns how many messages were handled.

    ``handled = mqredis_worker(worker)``; errors of handlers are raised unless ``errors="log"``.
    """

    def run(worker: Any, *, errors: str = "raise") -> int:
        handled: int = worker.run(burst=True, manager=mqredis_manager, errors=errors, signals=False)
        return handled

    return run
