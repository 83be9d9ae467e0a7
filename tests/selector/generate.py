"""Random selectors and messages: small, and biased towards the places where implementations part ways."""

from __future__ import annotations

from random import Random
from typing import Any

from tests.selector.kit import Subject

_EDGES = [
    *(0, 1, -1, 2, 3, 5, 7, 10, -10, 255, 1 << 31, (1 << 53) - 1, 1 << 53, (1 << 53) + 1, -(1 << 53), 10**15),
    *((1 << 53) - 2, 1 - (1 << 53), 2 - (1 << 53), 999_999_999_999_999, -999_999_999_999_999),
    *(
        (1 << 63) - 1,
        -(1 << 63),
        (1 << 63) - 2,
        -(1 << 63) + 1,
        1 << 62,
        3037000500,
        -3037000500,
        10**16,
        10**18,
    ),
]
_DOUBLES = [0.0, -0.0, 0.1, 2.5, -2.5, 1.0, 7.0, 3.0, 1e308, -1e308, 5e-324, 9007199254740992.0, 1e19, 4e-10]
_TEXTS = [
    "",
    "a",
    "b",
    "ab",
    "aab",
    "abab",
    "aaab",
    "é",
    "aé",
    "a\nb",
    "it's",
    "\0\1\2\3\4",
    "%",
    "_",
    "5",
    "😀a",
    "EU",
    "NOT",
]
_BYTES = [b"", b"\0", b"\x0a\xfc\x23", b"ab"]
_NAMES = ["a", "b", "n", "x", "s", "t", "flag", "f", "été", "dotted.name", "_u", "$own"]
_NUMBER_FIELDS = [
    "JMSPriority",
    "JMSTimestamp",
    "$sequence",
    "JMSXGroupSeq",
    "$lookup_id",
    "$arrived_at",
    "$app_tag",
]
_TEXT_FIELDS = ["JMSMessageID", "JMSCorrelationID", "JMSXGroupID", "JMSType", "$label", "JMSDeliveryMode"]
_OTHER_FIELDS = ["$recoverable", "$segment", "$last_in_group", "Root.MQMD.CorrelId", "Root.MQMD.MsgType"]
_FIELDS = _NUMBER_FIELDS + _TEXT_FIELDS + _OTHER_FIELDS


def subject(rnd: Random) -> Subject:
    """A message; half of the names that selectors use are absent."""
    properties = {name: _value(rnd) for name in _NAMES if rnd.random() < 0.55}
    header: dict[str, Any] = {}
    for name in ("message_id", "correlation_id", "group_id"):
        if rnd.random() < 0.5:
            header[name] = rnd.choice([*_TEXTS[1:], *_BYTES[1:]])
    for name, most in (("priority", 7), ("sequence", 9), ("app_tag", 5), ("message_class", 1)):
        if rnd.random() < 0.3:
            header[name] = rnd.randint(1, most)
    for name in ("last_in_group", "segment", "recoverable"):
        if rnd.random() < 0.3:
            header[name] = rnd.random() < 0.5
    if rnd.random() < 0.3:
        header["label"] = rnd.choice(_TEXTS[1:])
    if rnd.random() < 0.3:
        header["sent_ms"] = 1_700_000_000_000 - rnd.randint(0, 5)
    return Subject(properties, header)


def _value(rnd: Random) -> Any:
    kind = rnd.randrange(8)
    if kind < 3:
        return rnd.choice(_EDGES)
    if kind == 3:
        return rnd.choice(_DOUBLES)
    if kind < 6:
        return rnd.choice(_TEXTS)
    return rnd.choice([True, False, None, rnd.choice(_BYTES)])


def selector(rnd: Random, depth: int = 3) -> str:
    """A text that parses."""
    kind = rnd.randrange(10)
    if depth and kind < 4:
        word = rnd.choice(["AND", "OR"])
        return f" {word} ".join(f"({selector(rnd, depth - 1)})" for _ in range(rnd.randint(2, 3)))
    if depth and kind == 4:
        return f"NOT ({selector(rnd, depth - 1)})"
    return _predicate(rnd)


def _predicate(rnd: Random) -> str:
    negation = rnd.choice(["", "NOT "])
    match rnd.randrange(9):
        case 0 | 1 | 2:
            return f"{_sum(rnd)} {rnd.choice(['=', '<>', '<', '<=', '>', '>='])} {_sum(rnd)}"
        case 3:
            right = rnd.choice([_text(rnd), _name(rnd), "TRUE", _bytes(rnd), "(a = 1)"])
            return f"{_name(rnd)} {rnd.choice(['=', '<>'])} {right}"
        case 4:
            return f"{_sum(rnd)} {negation}BETWEEN {_sum(rnd)} AND {_sum(rnd)}"
        case 5:
            return f"{_name(rnd)} {negation}IN ({', '.join(_text(rnd) for _ in range(rnd.randint(1, 3)))})"
        case 6:
            return f"{_name(rnd)} {negation}LIKE {_pattern(rnd)}"
        case 7:
            return f"{_name(rnd)} IS {negation}NULL"
        case _:
            return rnd.choice([_name(rnd), "TRUE", "FALSE"])


def _name(rnd: Random) -> str:
    return rnd.choice(_NAMES) if rnd.random() < 0.7 else rnd.choice(_FIELDS)


def _sum(rnd: Random, depth: int = 2) -> str:
    if depth and rnd.random() < 0.45:
        operators = [rnd.choice("+-*/") for _ in range(rnd.randint(1, 2))]
        rest = "".join(f" {op} {_sum(rnd, depth - 1)}" for op in operators)
        return f"({_sum(rnd, depth - 1)}{rest})"
    sign = rnd.choice(["", "", "", "-", "+", "- "])
    kind = rnd.randrange(6)
    if kind == 0:
        return sign + repr(abs(rnd.choice(_DOUBLES)))
    if kind < 3:
        number = rnd.choice(_EDGES)
        return str(number) if number < 0 else sign + str(number)
    return sign + _name(rnd)


def _text(rnd: Random) -> str:
    return "'" + rnd.choice(_TEXTS).replace("'", "''") + "'"


def _bytes(rnd: Random) -> str:
    return f'"0x{rnd.choice(_BYTES).hex()}"'


def _pattern(rnd: Random) -> str:
    pattern = "".join(
        rnd.choice(["%", "_", "a", "b", "é", "!", "\n", "%", "😀"]) for _ in range(rnd.randint(0, 6))
    )
    return f"'{pattern}'" + rnd.choice(["", " ESCAPE '!'", " ESCAPE 'a'"])
