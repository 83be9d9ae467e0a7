"""Every case of the tables runs on every store and interface."""

from __future__ import annotations

import pytest

from tests.conformance.cases import BASIS
from tests.conformance.script import Case, cases, play
from tests.conformance.tables import cursors, queues, reads, settling, waits

CASES = [
    case
    for module in (reads, cursors, settling, waits, queues)
    for name, table in vars(module).items()
    if name.isupper()
    for case in cases(table)
]


def marked(case: Case):
    """Return a parameter for the case, marked with the published case that it tests."""
    marks = [pytest.mark.case(case.published, BASIS[case.published])] if case.published else []
    return pytest.param(case, id=case.name, marks=marks)


@pytest.mark.parametrize("case", [marked(case) for case in CASES])
def test_scripted_case_has_the_expected_outcomes(broker, case: Case):
    play(broker, case)
