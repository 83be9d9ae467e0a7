"""Checks that every published case has a test, or a reason for having none."""

from __future__ import annotations

import re
from pathlib import Path

from tests.matching.cases import LEFT_OUT, PUBLISHED

_MARK = re.compile(r"^@ibm\(([^)]*)\)", re.MULTILINE)


def _tested() -> set[str]:
    files = Path(__file__).parent.glob("test_*.py")
    return {
        name
        for file in files
        for mark in _MARK.findall(file.read_text())
        for name in re.findall(r"\w+", mark)
    }


def test_every_published_case_has_a_test_or_a_reason() -> None:
    assert _tested() | LEFT_OUT.keys() == PUBLISHED
    assert not _tested() & LEFT_OUT.keys()
