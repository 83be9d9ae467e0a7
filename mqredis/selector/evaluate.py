"""The plain Python evaluator: what a selector means, in the shortest form we could find.

``Selector.matches`` calls it, and the builder for constants.

The broker evaluates selectors in Lua (``lua/selector/selector_condition.lua``, ``selector_operand.lua``);
``tests/selector/test_differential.py`` compares both. True, False and None stand for true, false and unknown (SQL-92).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from mqredis.selector.like import like
from mqredis.selector.nodes import (
    CONDITIONS,
    And,
    Between,
    Chain,
    Compare,
    Condition,
    Constant,
    Header,
    Holds,
    In,
    IsNull,
    Like,
    Literal,
    Node,
    Not,
    Or,
    Property,
    Sign,
    Value,
)
from mqredis.selector.values import arithmetic, compare, normal, signed


@dataclass(frozen=True, slots=True)
class Subject:
    """One message as a selector sees it."""

    properties: Mapping[str, Any]
    header: Mapping[str, Any]
    like_budget: int


def both(left: bool | None, right: bool | None) -> bool | None:
    """AND."""
    if left is False or right is False:
        return False
    return None if left is None or right is None else True


def either(left: bool | None, right: bool | None) -> bool | None:
    """OR."""
    if left is True or right is True:
        return True
    return None if left is None or right is None else False


def opposite(value: bool | None) -> bool | None:
    """NOT."""
    return None if value is None else not value


def value_of(node: Node, message: Subject) -> Value:
    """The value of an operand."""
    match node:
        case Literal(value):
            return value
        case Property(name):
            return normal(message.properties.get(name))
        case Header(_, field):
            return normal(field.read(message.header))
        case Sign(op, item):
            return signed(op, value_of(item, message))
        case Chain(first, rest):
            total = value_of(first, message)
            for op, item in rest:
                total = arithmetic(op, total, value_of(item, message))
            return total
        case _:
            return truth_of(node, message)


def truth_of(node: Condition, message: Subject) -> bool | None:
    """The truth of a condition."""
    return _TESTS[type(node)](node, message)


def _between(node: Between, message: Subject) -> bool | None:
    item, low, high = (value_of(part, message) for part in (node.item, node.low, node.high))
    if node.negated:
        return either(compare("<", item, low), compare(">", item, high))
    return both(compare(">=", item, low), compare("<=", item, high))


def _in(node: In, message: Subject) -> bool | None:
    value = value_of(node.item, message)
    return value in node.values if isinstance(value, str) else None


def _like(node: Like, message: Subject) -> bool | None:
    value = value_of(node.item, message)
    return like(node, value, message.like_budget) if isinstance(value, str) else None


def _holds(node: Holds, message: Subject) -> bool | None:
    value = value_of(node.item, message)
    return value if isinstance(value, bool) else None


def _and(node: And, message: Subject) -> bool | None:
    result: bool | None = True
    for item in node.items:
        result = both(result, truth_of(item, message))
        if result is False:
            break
    return result


def _or(node: Or, message: Subject) -> bool | None:
    result: bool | None = False
    for item in node.items:
        result = either(result, truth_of(item, message))
        if result is True:
            break
    return result


_TESTS: dict[type, Callable[[Any, Subject], bool | None]] = {
    Constant: lambda node, _: node.value,
    Compare: lambda node, m: compare(node.op, value_of(node.left, m), value_of(node.right, m)),
    Between: _between,
    In: _in,
    Like: _like,
    IsNull: lambda node, m: value_of(node.item, m) is None,
    Holds: _holds,
    Not: lambda node, m: opposite(truth_of(node.item, m)),
    And: _and,
    Or: _or,
}
assert set(_TESTS) == set(CONDITIONS)  # noqa: S101
