"""The former place of the pytest plugin, which is ``pytest_mqredis`` now; for one release.

Projects that name it with ``-p`` still load it (tests/testing/test_plugin.py).
"""

from __future__ import annotations

from pytest_mqredis import *  # noqa: F403 - its hooks and fixtures
