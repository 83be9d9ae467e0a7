"""Comparison and arithmetic of the values of operands, the same rules as in ``lua/selector/selector_value.lua``.

``evaluate`` uses it, and ``builder`` for constants.

docs/selectors.md, "Meaning". NULL wins over everything; unlike types compare as
false; exact integers have 64 bits and never wrap.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any, TypeGuard

from mqredis.selector.nodes import INVALID, Invalid, Value

_LOW, _HIGH = -(1 << 63), (1 << 63) - 1

_TESTS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def normal(value: Any) -> Value:
    """A property as the selector sees it: integers outside 64 bits have no value."""
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        return exact(int(value))
    found: Value = value
    return found


def exact(value: int) -> int | Invalid:
    """The integer, if 64 bits hold it."""
    return value if _LOW <= value <= _HIGH else INVALID


def is_number(value: Value) -> TypeGuard[int | float]:
    """Booleans are no numbers."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def compare(op: str, left: Value, right: Value) -> bool | None:
    """One comparison in three-valued logic."""
    if left is None or right is None:
        return None
    if is_number(left) and is_number(right):
        if isinstance(left, float) or isinstance(right, float):
            left, right = float(left), float(right)
        return _TESTS[op](left, right)
    for kind in (str, bytes, bool):
        if isinstance(left, kind) and isinstance(right, kind):
            return op in ("=", "<>") and _TESTS[op](left, right)
    return False


def arithmetic(op: str, left: Value, right: Value) -> Value:
    """``left op right`` for one of ``+ - * /``."""
    if left is None or right is None:
        return None
    if not (is_number(left) and is_number(right)):
        return INVALID
    if isinstance(left, float) or isinstance(right, float):
        return _double(op, float(left), float(right))
    return _exact(op, left, right)


def signed(op: str, value: Value) -> Value:
    """Unary plus or minus."""
    if value is None:
        return None
    if not is_number(value):
        return INVALID
    if op == "+":
        return value
    return -value if isinstance(value, float) else exact(-value)


def _exact(op: str, left: int, right: int) -> int | Invalid:
    match op:
        case "+":
            return exact(left + right)
        case "-":
            return exact(left - right)
        case "*":
            return exact(left * right)
    if right == 0:
        return INVALID
    quotient = abs(left) // abs(right)
    return exact(quotient if (left < 0) == (right < 0) else -quotient)


def _double(op: str, left: float, right: float) -> float:
    match op:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
    if right:
        return left / right
    if left == 0 or math.isnan(left):
        return math.nan
    return math.copysign(math.inf, left) * math.copysign(1.0, right)
