"""The former place of the pytest plugin, which is ``pytest_mqredis`` now; for one release."""

from __future__ import annotations

from pytest_mqredis import *  # noqa: F403 - its hooks and fixtures
