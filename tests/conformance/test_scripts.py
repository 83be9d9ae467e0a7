"""Every case of the tables, on every store and face."""

from __future__ import annotations

import pytest

from tests.conformance.cases import BASIS
from tests.conformance.script import Case, cases, play
from tests.conformance.tables import reads, rest

TABLES = {**vars(reads), **vars(rest)}
CASES = [case for name, table in TABLES.items() if name.isupper() for case in cases(table)]


def marked(case: Case):
    """The case, with the mark of the published one that it is."""
    marks = [pytest.mark.case(case.published, BASIS[case.published])] if case.published else []
    return pytest.param(case, id=case.name, marks=marks)


@pytest.mark.parametrize("case", [marked(case) for case in CASES])
def test_case(broker, case: Case):
    play(broker, case)
