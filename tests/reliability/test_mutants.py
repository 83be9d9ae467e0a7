"""The changes that the check "mutants" makes."""

from __future__ import annotations

import re

import pytest

from mqredis import scripts
from tests.reliability.mutants import FILES, PATTERNS


@pytest.mark.parametrize("pattern", [pattern for pattern, _ in PATTERNS])
def test_every_kind_of_change_can_be_made_somewhere(pattern: str) -> None:
    """A pattern that names a field which was renamed would silently test nothing."""
    assert any(re.search(pattern, (scripts.root() / f"{file}.lua").read_text()) for file in FILES)
