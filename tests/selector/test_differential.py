"""Lua on a real server, Lua on fakeredis and the Python evaluator give the same result for every selector.

``MQREDIS_TEST_SELECTORS`` sets how many random selectors are tried (each on three messages),
``MQREDIS_TEST_SEED`` repeats a run.
"""

from __future__ import annotations

import os
import secrets
from random import Random

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mqredis.selector import Selector, parse
from tests.selector import generate
from tests.selector.kit import Judge, Subject, judge_in_python

_SELECTORS = int(os.environ.get("MQREDIS_TEST_SELECTORS", "3000"))
_BATCH = 100


def _check(questions: list[tuple[Selector, Subject]], *judges: Judge) -> None:
    wanted = judge_in_python(questions)
    for judge in judges:
        for question, right, answer in zip(questions, wanted, judge(questions), strict=True):
            assert answer is right, (question[0].text, question[1], f"Python {right}", f"Lua {answer}")


def test_random_selectors_evaluate_alike_in_lua_and_python(fake_judge: Judge, real_judge: Judge):
    seed = os.environ.get("MQREDIS_TEST_SEED") or secrets.token_hex(8)
    print("MQREDIS_TEST_SEED =", seed)
    rnd = Random(seed)
    tried = 0
    outcomes: set[object] = set()
    while tried < _SELECTORS:
        questions: list[tuple[Selector, Subject]] = []
        for _ in range(_BATCH):
            selector = parse(generate.selector(rnd))
            questions += [(selector, generate.subject(rnd)) for _ in range(3)]
        tried += _BATCH
        _check(questions, fake_judge, real_judge)
        outcomes.update(judge_in_python(questions))
    assert outcomes == {True, False, None}


@settings(
    max_examples=max(100, _SELECTORS // 20),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(rnd=st.randoms(use_true_random=False))
def test_generated_selectors_evaluate_alike_on_redis_and_in_python(real_judge: Judge, rnd: Random):
    """Random selectors by hypothesis: slower, but a failure is reduced to the shortest selector."""
    selector = parse(generate.selector(rnd))
    _check([(selector, generate.subject(rnd)) for _ in range(3)], real_judge)
