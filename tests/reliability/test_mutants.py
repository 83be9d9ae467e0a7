"""The changes that the check "mutants" makes."""

from __future__ import annotations

import re

import pytest

from mqredis import scripts
from tests.reliability.mutants import FILES, PATTERNS, mutants
from tests.reliability.probes import ProbedLua
from tests.support.server import RedisServer


@pytest.mark.parametrize("pattern", [pattern for pattern, _ in PATTERNS])
def test_every_kind_of_change_can_be_made_somewhere(pattern: str) -> None:
    """A pattern that names a field which was renamed would silently test nothing."""
    assert any(re.search(pattern, (scripts.root() / f"{file}.lua").read_text()) for file in FILES)


def test_lua_with_probes_compiles(redis_server: RedisServer) -> None:
    lua = ProbedLua()
    with redis_server.client() as client:
        for file in FILES:
            client.script_load((lua.folder / f"{file}.lua").read_text())  # type: ignore[no-untyped-call,unused-ignore]
    assert len(lua.unprobed) < 0.01 * sum(1 for _ in mutants())
    lua.remove()
