"""A Django project without files: settings, one application with tasks, and a broker of its own for each test."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import django
import pytest
from django.conf import settings

from tests.support.server import RedisServer

settings.configure(
    INSTALLED_APPS=["mqredis.django", "tests.django"],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
    USE_TZ=True,
    SECRET_KEY="not a secret",
    TASKS={"default": {"BACKEND": "mqredis.django.MqredisBackend"}},
)
django.setup()


@pytest.fixture(params=["real", "fake"])
def options(request: pytest.FixtureRequest) -> Iterator[dict[str, Any]]:
    """``OPTIONS`` of the test's backend; what a test adds counts until it first uses a task."""
    from mqredis.django.options import disconnect
    from mqredis.drivers.connect import forget_store

    if request.param == "real":
        server: RedisServer = request.getfixturevalue("redis_server")
        url = server.url
    else:
        url = "memory://django"
    volatile = {"allow_volatile": True, "test_clock": True, "recheck_seconds": 0.5}
    yield {"URL": url, "MANAGER": "django", "SETTINGS": volatile}
    disconnect()
    forget_store("django")


@pytest.fixture
def tasks(options: dict[str, Any]) -> Iterator[Any]:
    """The module with the tasks; they use the test's broker."""
    from django.test.utils import override_settings

    chosen = {
        "default": {
            "BACKEND": "mqredis.django.MqredisBackend",
            "QUEUES": ["default", "mail"],
            "OPTIONS": options,
        }
    }
    with override_settings(TASKS=chosen):
        from tests.django import tasks

        tasks.done.clear()
        yield tasks
