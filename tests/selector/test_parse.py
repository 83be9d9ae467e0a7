"""The parser: tree, constant folding, positions of errors, and attributes of the result."""

from __future__ import annotations

import pickle
import subprocess
import sys

import pytest

from mqredis.errors import InvalidArgument, SelectorSyntaxError
from mqredis.selector import Selector, parse
from mqredis.selector.nodes import And, Compare, Constant, Holds, Literal, Not, Or, Property
from mqredis.status import Status


@pytest.mark.parametrize(
    "text,position,reason",
    [
        ("a = ", 4, "ends too early"),
        ("a = = 1", 4, "unexpected ="),
        ("a = 1 b", 6, "unexpected b"),
        ("a = 'x", 4, "not closed"),
        ("a != 1", 2, "not equal is <>"),
        ("a = 09", 4, "octal"),
        ("a = 12abc", 6, "unexpected 'a'"),
        ("a = 9223372036854775808", 4, "64-bit"),
        ("a - 9223372036854775808 = 1", 4, "64-bit"),
        ("a = 1e309", 4, "too large"),
        ('a = "x"', 4, "byte strings"),
        ('a = "0x123"', 4, "even number"),
        ('a = "0x1g"', 4, "hexadecimal"),
        ("a > 'x'", 4, "ordered"),
        ("TRUE >= a", 0, "ordered"),
        ("a = 1 OR 5", 9, "condition is needed"),
        ("TRUE OR 5", 8, "condition is needed"),
        ("NOT a + 1", 4, "condition is needed"),
        ("'x' IN ('x')", 0, "left side of IN"),
        ("a + 1 LIKE 'x'", 0, "left side of LIKE"),
        ("(a = 1) IS NULL", 1, "left side of IS NULL"),
        ("(a) IS NOT NULL", 1, "left side of IS NULL"),
        ("b = 1 AND (a) NOT IN ('x')", 11, "left side of IN"),
        ("((a)) LIKE 'x'", 2, "left side of LIKE"),
        ("a = 1 AND b LIKE 'x' ESCAPE 'yy'", 28, "one character"),
        ("a + 'x' = 1", 4, "arithmetic"),
        ("-(a = 1) = 1", 2, "sign"),
        ("s BETWEEN 'a' AND 'b'", 10, "BETWEEN"),
        ("a\N{NO-BREAK SPACE}= 1", 1, "not allowed in a name"),
        ("a = 1 AND (b = 2", 16, "ends too early"),
        ("a..b = 1", 1, "unexpected '.'"),
        ("and = 1", 0, "unexpected and"),
    ],
)
def test_syntax_error_has_position_and_reason(text: str, position: int, reason: str):
    with pytest.raises(SelectorSyntaxError) as refused:
        parse(text)
    assert refused.value.position == position
    assert reason in refused.value.reason
    assert f"character {position}" in str(refused.value)
    assert refused.value.status == Status.SELECTOR_SYNTAX
    assert isinstance(refused.value, InvalidArgument | ValueError)


@pytest.mark.parametrize(
    "text", ["", " \t\r\n\f", b"", "TRUE", "5 < 7", "a = 1 OR TRUE", "NOT FALSE", "-1 * -1 = 1"]
)
def test_selector_that_is_always_true_is_detected(text: str | bytes):
    selector = parse(text)
    assert selector.always
    assert selector.matches({})


@pytest.mark.parametrize(
    "text", ["FALSE", "a = 1 AND FALSE", "1 = 'x'", "1 / 0 = 1", "NOT (a = 1 OR 1 = 1)", "(1 = 2) = TRUE"]
)
def test_selector_that_is_never_true_is_detected_and_refused(text: str):
    assert parse(text).never
    with pytest.raises(SelectorSyntaxError) as refused:
        parse(text, refuse_never=True)
    assert refused.value.mqrc == 2504


@pytest.mark.parametrize("character,bytes_each", [("x", 1), ("é", 2)])
def test_selector_has_at_most_10240_bytes(character: str, bytes_each: int):
    longest = "a = '" + character * ((10240 - 6) // bytes_each) + "'"
    assert parse(longest).matches({"a": character * ((10240 - 6) // bytes_each)})
    with pytest.raises(SelectorSyntaxError) as refused:
        parse(longest + " ")
    assert refused.value.mqrc == 2519


def test_syntax_error_has_the_reason_code_of_ibm_mq():
    with pytest.raises(SelectorSyntaxError) as refused:
        parse("a =")
    assert refused.value.mqrc == 2459


@pytest.mark.parametrize(
    "text,root",
    [
        ("TRUE AND a", Holds(Property("a"))),
        ("FALSE OR NOT NOT a", Holds(Property("a"))),
        ("a = 2 * 3 + 1", Compare("=", Property("a"), Literal(7))),
        ("a = 7 / 2", Compare("=", Property("a"), Literal(3))),
        ("a = - - 5", Compare("=", Property("a"), Literal(5))),
        (
            "(a AND b) AND NOT (f OR x)",
            And(
                (
                    Holds(Property("a")),
                    Holds(Property("b")),
                    Not(Or((Holds(Property("f")), Holds(Property("x"))))),
                )
            ),
        ),
        ("1 = 1 AND TRUE", Constant(True)),
    ],
)
def test_constant_expressions_are_folded(text: str, root: object):
    assert parse(text).root == root


def test_utf8_bytes_and_text_give_equal_selectors():
    assert parse("été = 'é'".encode()) == parse("été = 'é'")
    assert parse("été = 'é'").matches({"été": "é"})


def test_property_names_are_not_normalized():
    """A property is found only under the code points with which it was set."""
    assert parse("\N{LATIN SMALL LETTER E WITH ACUTE} IS NULL").matches({"e\N{COMBINING ACUTE ACCENT}": 1})


def test_pickled_selector_equals_the_original():
    selector = parse("a = 1 AND JMSCorrelationID = 'x' AND s LIKE 'a%'")
    copy: Selector = pickle.loads(pickle.dumps(selector))  # noqa: S301
    assert copy == selector
    assert (copy.root, copy.program, copy.index_hints) == (
        selector.root,
        selector.program,
        selector.index_hints,
    )


def test_integer_properties_beyond_64_bits_have_no_value():
    assert parse("a = 1 OR a <> 1 OR a > 0").evaluate({"a": 1 << 63}) is False


def test_lark_is_imported_when_the_first_selector_is_parsed():
    code = "import sys, mqredis.selector; assert 'lark' not in sys.modules; mqredis.selector.parse('a = 1')"
    subprocess.run([sys.executable, "-c", code + "; assert 'lark' in sys.modules"], check=True)
