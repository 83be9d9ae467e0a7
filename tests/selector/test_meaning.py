"""The parser against meanings that are computed beside the text, without a parser.

The other differential tests evaluate the parsed tree on both sides, so an error of the parser is on both sides too.
Here a generator writes a selector and works out its truth for one message with Python's own operators. It leaves out
parentheses where precedence allows that, changes the case of keywords, and puts keywords into strings.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Callable
from random import Random

from mqredis.selector import parse

Truth = bool | None
Part = Callable[[Random, int], tuple[str, Truth]]
_MESSAGE = {"a": 1, "b": 2, "n": 7, "s": "NOT", "t": "it's", "u": "IN ('x')", "flag": True, "off": False}
_ABSENT = ["gone", "missing"]
_TEXTS = ["NOT", "it's", "IN ('x')", "AND", "", "x", "OR TRUE", "NULL"]
_PATTERNS = ["NOT", "NO_", "%", "%'%", "IN (%)", "_T_", "IN ('_')", "it's"]


def _keyword(rnd: Random, word: str) -> str:
    return rnd.choice([word, word.lower(), word.title()])


def _space(rnd: Random) -> str:
    return rnd.choice([" ", " ", "  ", "\n", "\t"])


def _maybe_space(rnd: Random) -> str:
    return rnd.choice(["", " "])


def _join(rnd: Random, *words: str) -> str:
    return "".join(word + _space(rnd) for word in words[:-1]) + words[-1]


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _both(left: Truth, right: Truth) -> Truth:
    if False in (left, right):
        return False
    return None if None in (left, right) else True


def _either(left: Truth, right: Truth) -> Truth:
    if True in (left, right):
        return True
    return None if None in (left, right) else False


def _opposite(value: Truth) -> Truth:
    return None if value is None else not value


def _number(rnd: Random, depth: int) -> tuple[str, int | None]:
    """A sum of products, and its value; None for unknown."""
    text, value = _product(rnd, depth)
    for _ in range(rnd.choice([0, 0, 1, 2])):
        op = rnd.choice("+-")
        more, right = _product(rnd, depth)
        text = f"{text}{_maybe_space(rnd)}{op} {more}"
        if value is not None:
            value = None if right is None else value + right if op == "+" else value - right
    return text, value


def _product(rnd: Random, depth: int) -> tuple[str, int | None]:
    text, value = _factor(rnd, depth)
    for _ in range(rnd.choice([0, 0, 1])):
        more, right = _factor(rnd, depth)
        op = "*" if right == 0 else rnd.choice("*/")  # test_numbers has divisions by zero
        text = f"{text}{_maybe_space(rnd)}{op}{_maybe_space(rnd)}{more}"
        if value is None or right is None:
            value = None
        elif op == "*":
            value *= right
        else:
            value = abs(value) // abs(right) * (1 if (value < 0) == (right < 0) else -1)
    return text, value


def _factor(rnd: Random, depth: int) -> tuple[str, int | None]:
    if depth and rnd.random() < 0.25:
        text, value = _number(rnd, depth - 1)
        return f"({text})", value
    if rnd.random() < 0.2:
        text, value = _factor(rnd, depth)
        return f"- {text}", None if value is None else -value
    if rnd.random() < 0.5:
        number = rnd.randint(0, 9)
        return str(number), number
    name = rnd.choice(["a", "b", "n", *_ABSENT])
    found = _MESSAGE.get(name)
    return name, found if isinstance(found, int) else None


def _text_name(rnd: Random) -> tuple[str, str | None]:
    name = rnd.choice(["s", "t", "u", "gone"])
    found = _MESSAGE.get(name)
    return name, found if isinstance(found, str) else None


def _compared(op: str, left: int | str, right: int | str) -> bool:
    if op in ("=", "<>"):
        return (left == right) is (op == "=")
    assert isinstance(left, int)
    assert isinstance(right, int)
    return {"<": left < right, "<=": left <= right, ">": left > right, ">=": left >= right}[op]


def _predicate(rnd: Random, depth: int) -> tuple[str, Truth]:
    negated = rnd.random() < 0.5
    word = [_keyword(rnd, "NOT")] if negated else []
    match rnd.randrange(7):
        case 0:
            left, one = _number(rnd, depth)
            right, other = _number(rnd, depth)
            op = rnd.choice(["=", "<>", "<", "<=", ">", ">="])
            truth = None if one is None or other is None else _compared(op, one, other)
            return f"{left}{_maybe_space(rnd)}{op}{_maybe_space(rnd)}{right}", truth
        case 1:
            name, value = _text_name(rnd)
            text, op = rnd.choice(_TEXTS), rnd.choice(["=", "<>"])
            return f"{name}{op}{_quoted(text)}", None if value is None else _compared(op, value, text)
        case 2:
            (item, x), (low, y), (high, z) = (_number(rnd, depth) for _ in range(3))
            above = None if x is None or y is None else x >= y
            below = None if x is None or z is None else x <= z
            text = _join(rnd, item, *word, _keyword(rnd, "BETWEEN"), low, _keyword(rnd, "AND"), high)
            truth = _both(above, below)
        case 3:
            name, value = _text_name(rnd)
            texts = [rnd.choice(_TEXTS) for _ in range(rnd.randint(1, 3))]
            listed = f"{_maybe_space(rnd)},{_maybe_space(rnd)}".join(map(_quoted, texts))
            text = _join(rnd, name, *word, _keyword(rnd, "IN"), f"({listed})")
            truth = None if value is None else value in texts
        case 4:
            name, value = _text_name(rnd)
            pattern = rnd.choice(_PATTERNS)
            escape = [_keyword(rnd, "ESCAPE"), "'!'"] if rnd.random() < 0.5 else []
            text = _join(rnd, name, *word, _keyword(rnd, "LIKE"), _quoted(pattern), *escape)
            truth = None if value is None else _like(pattern, value)
        case 5:
            name = rnd.choice([*_MESSAGE, *_ABSENT])
            text = _join(rnd, name, _keyword(rnd, "IS"), *word, _keyword(rnd, "NULL"))
            truth = name not in _MESSAGE
        case _:
            name = rnd.choice(["flag", "off", "gone", "TRUE", "FALSE"])
            constants: dict[str, Truth] = {
                "flag": True,
                "off": False,
                "gone": None,
                "TRUE": True,
                "FALSE": False,
            }
            return name, constants[name]
    return text, _opposite(truth) if negated else truth


def _like(pattern: str, value: str) -> bool:
    wanted = "".join({"%": ".*", "_": "."}.get(char, re.escape(char)) for char in pattern)
    return re.fullmatch(wanted, value, re.DOTALL) is not None


def _condition(rnd: Random, depth: int) -> tuple[str, Truth]:
    """OR of ANDs of negations, each level without parentheses of its own."""
    return _chain(rnd, depth, _conjunction, "OR", _either)


def _conjunction(rnd: Random, depth: int) -> tuple[str, Truth]:
    return _chain(rnd, depth, _negation, "AND", _both)


def _chain(
    rnd: Random, depth: int, part: Part, word: str, combine: Callable[[Truth, Truth], Truth]
) -> tuple[str, Truth]:
    text, truth = part(rnd, depth)
    for _ in range(rnd.choice([0, 0, 1, 2])):
        more, right = part(rnd, depth)
        text, truth = _join(rnd, text, _keyword(rnd, word), more), combine(truth, right)
    return text, truth


def _negation(rnd: Random, depth: int) -> tuple[str, Truth]:
    if rnd.random() < 0.25:
        text, truth = _negation(rnd, depth)
        return _join(rnd, _keyword(rnd, "NOT"), text), _opposite(truth)
    if depth and rnd.random() < 0.3:
        text, truth = _condition(rnd, depth - 1)
        return f"({text})", truth
    return _predicate(rnd, depth)


def test_parsed_selector_means_what_its_text_was_written_for():
    seed = os.environ.get("MQREDIS_TEST_SEED") or secrets.token_hex(8)
    print("MQREDIS_TEST_SEED =", seed)
    rnd = Random(seed)
    seen: set[Truth] = set()
    for _ in range(5_000):
        text, truth = _condition(rnd, 2)
        selector = parse(text)
        assert selector.evaluate(_MESSAGE) is truth, text
        seen.add(truth)
    assert seen == {True, False, None}
