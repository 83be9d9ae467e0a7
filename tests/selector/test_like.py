"""LIKE gives the results of a simple recursive match, and its work is bounded for every pattern."""

from __future__ import annotations

from functools import cache
from random import Random

import pytest

from mqredis.selector import parse
from mqredis.selector.like import BUDGET, FACTOR, FLOOR
from tests.selector.kit import Judge, Subject


@cache
def _simple(pattern: str, text: str) -> bool:
    if not pattern:
        return not text
    if pattern[0] == "%":
        return _simple(pattern[1:], text) or (text != "" and _simple(pattern, text[1:]))
    return text != "" and pattern[0] in ("_", text[0]) and _simple(pattern[1:], text[1:])


def test_like_gives_the_result_of_a_simple_recursive_match(judge: Judge):
    rnd = Random(8)
    cases = []
    for _ in range(2000):
        pattern = "".join(rnd.choice("%%_abé\N{GRINNING FACE}") for _ in range(rnd.randint(0, 7)))
        cases.append(
            (pattern, "".join(rnd.choice("aabé\N{GRINNING FACE}") for _ in range(rnd.randint(0, 8))))
        )
    answers = judge([(parse(f"s LIKE '{pattern}'"), Subject({"s": text})) for pattern, text in cases])
    assert answers == [_simple(pattern, text) for pattern, text in cases]


@pytest.mark.parametrize(
    "pattern,text,outcome",
    [
        ("%\0%", "a\0b", True),  # bytes that are delimiters in a record
        ("a_b", "a\4b", True),
        ("\1_\3", "\1\2\3", True),
        ("%.%", "a.b", True),
        ("%.%", "ab", False),
        ("[a-z]%", "[a-z]x", True),
        ("[a-z]%", "x", False),
        ("%%%", "", True),
        ("a%a", "a", False),
        ("ab%ba", "aba", False),
        ("%ab%ab%", "abab", True),
        ("%ab%ab%", "aab", False),
        ("_é_", "\N{GRINNING FACE}éx", True),
    ],
)
def test_like_pattern_has_the_expected_outcome(judge: Judge, pattern: str, text: str, outcome: bool):
    assert judge([(parse(f"s LIKE '{pattern}'"), Subject({"s": text}))]) == [outcome]


@pytest.mark.parametrize(
    "condition,text,outcome",
    [
        ("'a%b' ESCAPE '%'", "a%b", True),
        ("'a%b' ESCAPE '%'", "ab", False),
        ("'a%%b' ESCAPE '%'", "a%b", True),
        ("'a%_b' ESCAPE '%'", "a_b", True),
        ("'_' ESCAPE '_'", "_", True),
        ("'_' ESCAPE '_'", "x", False),
        ("'_%%' ESCAPE '_'", "%abc", True),
    ],
)
def test_a_wildcard_that_is_the_escape_character_is_never_a_wildcard(
    judge: Judge, condition: str, text: str, outcome: bool
):
    assert judge([(parse(f"s LIKE {condition}"), Subject({"s": text}))]) == [outcome]


@pytest.mark.parametrize(
    "pattern,text",
    [
        ("%a" * 2000 + "%b", "a" * 4000),
        ("%" + "a" * 4000 + "b%", "a" * 60_000),
        ("%" + "_" * 4000 + "b%", "a" * 60_000),
        ("%" + "a_" * 2000 + "b%", "a" * 60_000),
        ("%_" * 2000 + "b", "a" * 60_000),
        ("%a_b" * 1000 + "%", "a" * 60_000),
        ("%" + "é_" * 1500 + "b%", "é" * 60_000),
    ],
    ids=lambda value: f"{value[:6]}{len(value)}",
)
def test_like_pattern_with_excessive_backtracking_ends(judge: Judge, pattern: str, text: str):
    """The worst patterns of 8 KiB take about 3 ms for one message. Without a bound on its steps, the search would
    exceed the time limit of a test."""
    selector = parse(f"s LIKE '{pattern}'")
    (answer,) = judge([(selector, Subject({"s": text}))])
    assert answer is not True


def test_all_likes_of_a_selector_share_one_budget(judge: Judge):
    """The budget applies to the selector, not to each LIKE."""
    selector = parse(" OR ".join(f"s LIKE '%a_b{n}%'" for n in range(200)))
    assert selector.like_budget == FLOOR
    (answer,) = judge([(selector, Subject({"s": "a" * FLOOR}))])
    assert answer is not True


@pytest.mark.parametrize(
    "pattern,length,outcome",
    [
        ("%b%", BUDGET * FACTOR, False),
        ("%b%", BUDGET * FACTOR + 1, None),
        ("%_b", BUDGET, False),
        ("%_b", BUDGET + 1, None),
        ("%_aaaaaab%", BUDGET, None),  # eight comparisons, but for the last seven
        ("%_aaaaaab%", BUDGET * FACTOR // 8 + 7, False),
        ("%_aaaaaab%", BUDGET * FACTOR // 8 + 8, None),
        ("a%", BUDGET * FACTOR + 1, True),  # anchored at an end: costs nothing, so it has no limit
        ("%a", BUDGET * FACTOR + 1, True),
    ],
)
@pytest.mark.parametrize("char", ["a", "é"])
def test_like_beyond_its_budget_is_unknown(
    judge: Judge, char: str, pattern: str, length: int, outcome: bool | None
):
    pattern = pattern.replace("a", char)
    assert judge([(parse(f"s LIKE '{pattern}'"), Subject({"s": char * length}))]) == [outcome]
