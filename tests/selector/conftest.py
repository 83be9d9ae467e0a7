"""Fixtures of the selector tests."""

from __future__ import annotations

import pytest

from tests.selector.kit import Judge, judge_in_lua, judge_in_python
from tests.support.backend import fake_backend


@pytest.fixture(params=["python", "fake", "real"])
def judge(request: pytest.FixtureRequest) -> Judge:
    """Each of the three evaluators in turn."""
    if request.param == "python":
        return judge_in_python
    name = "real_judge" if request.param == "real" else "fake_judge"
    found: Judge = request.getfixturevalue(name)
    return found


@pytest.fixture
def fake_judge() -> Judge:
    """Lua on a fakeredis of its own."""
    return judge_in_lua(fake_backend().client())


@pytest.fixture
def real_judge(redis_server) -> Judge:
    """Lua on the real server."""
    return judge_in_lua(redis_server.client())
