"""Hostile selectors are refused with SelectorSyntaxError within limits of calls and processor time."""

from __future__ import annotations

import sys
from collections.abc import Callable
from time import thread_time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mqredis.errors import SelectorSyntaxError
from mqredis.selector import MAX_BYTES, MAX_DEPTH, MAX_NODES, parse
from mqredis.selector.nodes import walk
from tests.selector.kit import Judge, Subject

# Function calls in Python and C: less than 50 ms of work, and the same number on every machine.
_LIMIT_CALLS = 150_000
# Processor time of the thread, for work without calls (such as a regular expression). The promise is 50 ms; ten times
# that is allowed, so that only work of another order of magnitude fails.
_LIMIT_SECONDS = 0.5

_HOSTILE = {
    "empty brackets": "((((",
    "brackets": "(" * 8000,
    "brackets, closed": "(" * 4000 + "a=1" + ")" * 4000,
    "a million brackets": "(" * 1_000_000,
    "100,000 items": "c IN (" + ", ".join(f"'{n}'" for n in range(100_000)) + ")",
    "many items": "c IN (" + ",".join(["''"] * 2500) + ")",
    "NOT NOT": "NOT " * 2000 + "a",
    "minus minus": "-" * 8000 + "a = 1",
    "NOT (": "NOT (" * 60 + "a" + ")" * 60,
    "minus (": "-(" * 60 + "a" + ")" * 60 + " = 1",
    "long sum": "+".join(["a"] * 2000) + " = 1",
    "long OR": " OR ".join(["a"] * 1200),
    "long LIKE": "s LIKE '" + "%_" * 6000 + "'",
    "many LIKEs": " OR ".join(["s LIKE '%a_b%'"] * 600),
    "open string": "'" * 10239,
    "open string, long": "s = '" + "a" * 8000,
    "quotes": "\"'" * 4000,
    "long number": "a = " + "9" * 8000,
    "long hexadecimal": "a = 0x" + "F" * 8000,
    "long octal": "a = 0" + "7" * 8000,
    "large double": "a = 1e999999999",
    "long double": "a = 1." + "0" * 7000 + "e400",
    "dots": "." * 8000,
    "dotted": "a." * 4000,
    "commas": "a IN (" + "," * 8000,
    "NUL": "\0",
    "NUL in text": "a\0 = 1",
    "no break space": "a\N{NO-BREAK SPACE}= 1",
    "surrogate": "a = '\ud800'",
    "bytes that are no UTF-8": b"a = '\xff'",
    "wide": "é" * 5121,
    "not text": 5,
    "None": None,
    "combining mark": "\N{COMBINING ACUTE ACCENT}a = 1",
    "dotless keyword": "a \N{LATIN SMALL LETTER DOTLESS I}S NULL",
    "Lua": "a = 1]] redis.call('FLUSHALL') --[[",
    "semicolon": "a = 1; DROP TABLE a",
}


@pytest.fixture(scope="module", autouse=True)
def _warm():
    """The tables of the grammar are built once, with the first selector that gets as far as the parser."""
    parse("a = 1")


@pytest.mark.parametrize("text", _HOSTILE.values(), ids=_HOSTILE.keys())
def test_hostile_selector_is_refused_within_the_limits(text):
    def attempt() -> None:
        with pytest.raises(SelectorSyntaxError) as refused:
            parse(text)
        assert refused.value.reason
        assert len(str(refused.value)) < 300

    assert _quickest(attempt) < _LIMIT_SECONDS
    assert _calls(attempt) < _LIMIT_CALLS


def _quickest(action: Callable[[], object]) -> float:
    """Return the least processor time of three runs, in seconds: garbage collection may slow down any of them."""
    seconds = []
    for _ in range(3):
        started = thread_time()
        action()
        seconds.append(thread_time() - started)
    return min(seconds)


def _calls(action: Callable[[], object]) -> int:
    """Return the number of function calls."""
    count = 0

    def note(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        action()
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.parametrize(
    "text",
    [
        " AND ".join(f"a={n}" for n in range(255)),
        "+".join(["a"] * 500) + "=1",
        " AND ".join(["((((((a=1))))))"] * 100),
        "(" * (MAX_DEPTH - 2) + "a=1" + ")" * (MAX_DEPTH - 2),
        "NOT -a = 1 AND " * 150 + "a = 1",
        "c IN (" + ",".join(f"'{n}'" for n in range(1000)) + ")",
        "s LIKE '" + "%_" * 4000 + "'",
        "s = '" + "a" * (MAX_BYTES - 6) + "'",
    ],
    ids=lambda text: text[:12],
)
def test_largest_allowed_selector_is_parsed_within_the_limits(judge: Judge, text: str):
    # The text differs each time, because results of the parser are cached.
    spaces = (" " * n for n in range(4))
    if len(text) < MAX_BYTES - 8:
        assert _quickest(lambda: parse(text + next(spaces))) < _LIMIT_SECONDS
        assert _calls(lambda: parse(text + next(spaces))) < _LIMIT_CALLS
    selector = parse(text)
    assert len(list(walk(selector.root))) <= MAX_NODES
    assert judge([(selector, Subject({"a": 1, "c": "7", "s": "x"}))]) != []


def _position(text: str | bytes) -> int:
    """Return the position of the error, or 0. A selector that is parsed must also evaluate."""
    try:
        selector = parse(text)
    except SelectorSyntaxError as refused:
        return refused.position
    assert selector.evaluate({"a": 1}) in (True, False, None)
    return 0


@settings(max_examples=500, deadline=None)
@given(st.text(max_size=60) | st.binary(max_size=60))
def test_random_text_or_bytes_is_parsed_or_refused_with_a_position(text: str | bytes):
    assert 0 <= _position(text) <= len(text)


_WORDS = [
    "a",
    "b",
    "1",
    "2.5",
    "'x'",
    '"0x0a"',
    "TRUE",
    "NULL",
    "NOT",
    "AND",
    "OR",
    "IN",
    "IS",
    "LIKE",
    "BETWEEN",
]
_WORDS += ["ESCAPE", "=", "<>", "<", "+", "-", "*", "/", "(", ")", ",", "JMSPriority", "9223372036854775808"]


@settings(max_examples=1000, deadline=None)
@given(st.lists(st.sampled_from(_WORDS), max_size=12).map(" ".join))
def test_random_tokens_are_parsed_or_refused_with_a_position(text: str):
    assert 0 <= _position(text) <= len(text)
