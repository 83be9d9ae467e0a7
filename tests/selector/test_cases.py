"""Every published case runs under its id on each evaluator."""

from __future__ import annotations

from typing import Any

import pytest

from mqredis.errors import SelectorSyntaxError
from mqredis.selector import parse
from tests.selector.cases import CASES, subject
from tests.selector.kit import Judge, Truth

_OUTCOMES: dict[str, Truth] = {"T": True, "F": False, "U": None}
_VALID = [case for case in CASES if case[3] != "E"]
_REFUSED = [case for case in CASES if case[3] == "E"]


@pytest.mark.parametrize("case", _VALID, ids=lambda case: case[0])
def test_published_case_has_its_outcome_and_negation_the_opposite(
    judge: Judge, case: tuple[str, str, dict[str, Any], str]
):
    _, text, given, outcome = case
    wanted = _OUTCOMES[outcome]
    negated = None if wanted is None else not wanted
    questions = [(parse(text), subject(given)), (parse(f"NOT ({text or 'TRUE'})"), subject(given))]
    assert judge(questions) == [wanted, negated]


@pytest.mark.parametrize("case", _REFUSED, ids=lambda case: case[0])
def test_published_error_case_is_refused(case: tuple[str, str, dict[str, Any], str]):
    with pytest.raises(SelectorSyntaxError) as refused:
        parse(case[1])
    assert refused.value.reason
    assert 0 <= refused.value.position <= len(case[1])


def test_k13_constant_false_is_refused_for_reading():
    assert parse("TRUE = FALSE").never
    with pytest.raises(SelectorSyntaxError, match="never true"):
        parse("TRUE = FALSE", refuse_never=True)
