"""Numbers: 64-bit integers are exact, overflow and x/0 have no value, doubles follow IEEE 754."""

from __future__ import annotations

from random import Random

import pytest

from mqredis.selector import Selector, parse
from tests.selector.kit import Judge, Subject, Truth

_LOW, _HIGH = -(1 << 63), (1 << 63) - 1
_EDGES = [0, 1, 2, 10**7, 10**14, 10**15, (1 << 53) - 1, 1 << 53, (1 << 53) + 1, 1 << 62, _HIGH]


def _integers(rnd: Random) -> int:
    near_an_edge = rnd.choice(_EDGES) + rnd.randint(-2, 2)
    found = rnd.choice([near_an_edge, rnd.getrandbits(rnd.randint(1, 63))])
    return max(_LOW, min(_HIGH, rnd.choice([found, -found])))


def _exact(op: str, a: int, b: int) -> int | None:
    if op == "/" and b == 0:
        return None
    quotient = (abs(a) // abs(b)) * (1 if (a < 0) == (b < 0) else -1) if op == "/" else 0
    result = {"+": a + b, "-": a - b, "*": a * b, "/": quotient}[op]
    return result if _LOW <= result <= _HIGH else None


def test_integer_arithmetic_is_exact(judge: Judge):
    """Each evaluator computes with two properties; the results are compared with those of Python integers."""
    rnd = Random(64)
    questions: list[tuple[Selector, Subject]] = []
    wanted: list[Truth] = []
    parsed = {op: parse(f"a {op} b = c") for op in "+-*/"}
    for _ in range(1500):
        a, b, op = _integers(rnd), _integers(rnd), rnd.choice("+-*/")
        result = _exact(op, a, b)
        for guess in [0] if result is None else [result, result + 1, result - 1]:
            if _LOW <= guess <= _HIGH:
                questions.append((parsed[op], Subject({"a": a, "b": b, "c": guess})))
                wanted.append(guess == result)
    assert judge(questions) == wanted


def test_integer_comparison_is_exact(judge: Judge):
    rnd = Random(65)
    pairs = [(_integers(rnd), _integers(rnd)) for _ in range(300)]
    pairs += [(a, a + 1) for a, _ in pairs if a < _HIGH] + [(a, a) for a, _ in pairs]
    less, most = parse("a < b"), parse("a >= b")
    assert judge([(less, Subject({"a": a, "b": b})) for a, b in pairs]) == [a < b for a, b in pairs]
    assert judge([(most, Subject({"a": a, "b": b})) for a, b in pairs]) == [a >= b for a, b in pairs]


@pytest.mark.parametrize(
    "text,outcome",
    [
        ("a + 1 > 0", False),  # 2^63 overflows: it has no value, and every comparison with it is false
        ("a + 1 <> 0", False),
        ("NOT (a + 1 = 0)", True),
        ("a + 1 + absent = 0", None),  # NULL makes the whole expression NULL
        ("-b = 0", False),
        ("-b <> 0", False),
        ("b / -1 = b", False),
        ("a / 0 = 0", False),
        ("a / 0.0 > 0", True),  # doubles divide as IEEE says
        ("-a / 0.0 < 0", True),
        ("a / -0.0 < 0", True),
        ("z / 0.0 = z / 0.0", False),
        ("z / 0.0 <> z / 0.0", True),
        ("z * -5 = 0 AND 1.0 / (z * -5) > 0", True),  # an integer has no -0
        ("1.0 / -z > 0", True),
        ("1.0 / -y < 0", True),
        ("-7 / 2 = -3", True),
        ("b = -9223372036854775808", True),
        ("-9223372036854775808.0 - 1 < 0", True),  # a double, not the integer that just fits
        ("-9223372036854775808.0 - 2e18 < -1e19", True),
        ("a = 9223372036854775807.0", True),  # an integer compared with a double becomes a double, as in Java
        ("p + 1 = 9007199254740993", True),
        ("p * 2 - p = p", True),
        ("most + 2 = 9007199254740993", True),  # a double does not have the sum
        ("-2 - most = -9007199254740993", True),
        ("third * 3 = 9007199254740993", True),
        ("third * -3 = -9007199254740993", True),
        ("0x7FFFFFFFFFFFFFFF = a", True),
        ("0777777777777777777777 = a", True),
        ("1.0 = 1 AND 10 = 1e1", True),
        ("TRUE = (1 = 1)", True),
        ("+s = 's'", False),
        ("s = 's' AND (s = 's') = TRUE", True),
        ("(absent = 1) = TRUE", None),
        ("(absent = 's') = FALSE", None),
        ("flag + 1 = 2", False),
    ],
)
def test_numeric_edge_case_has_the_expected_outcome(judge: Judge, text: str, outcome: Truth):
    given = {"a": _HIGH, "b": _LOW, "z": 0, "y": 0.0, "p": 1 << 53, "s": "s", "flag": True}
    given |= {"most": (1 << 53) - 1, "third": ((1 << 53) + 1) // 3}
    assert judge([(parse(text), Subject(given))]) == [outcome]
