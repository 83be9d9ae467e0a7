"""Each row of the table of failures names a check or a test file that exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.reliability import catalog
from tests.reliability.check import CHECKS

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "guarantees.md"

catalog.load()


def rows() -> list[str]:
    lines = PAGE.read_text().split("\n## Failures\n")[1].split("\n## ")[0].splitlines()
    return [line for line in lines if line.startswith("| ")][1:]


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.split("|")[1].strip())
def test_row_names_existing_checks_or_tests(row: str) -> None:
    shown = row.split("|")[-2]
    files = re.findall(r"`(tests/[^`]+)`", shown)
    checks = re.findall(r"\[([^\]]+)\]\(reliability\.md\)", shown)
    assert files or checks, "no check or test verifies this guarantee"
    assert [name for name in files if not (ROOT / name).exists()] == []
    assert [name for name in checks if name not in CHECKS and name not in catalog.ABSENT] == []


def test_table_of_failures_is_found() -> None:
    assert len(rows()) > 15
