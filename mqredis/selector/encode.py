"""The compiled form of a selector: prefix notation in one byte string, a *program*.

Each ``Selector`` is encoded when it is made. ``lua/selector/selector_program.lua`` reads the program; the letters of
conditions and operands are in ``selector_condition.lua`` and ``selector_operand.lua`` beside it. Programs are stored
with subscriptions and with waiting readers, so a letter never changes its meaning without a new schema number. The
tests in tests/selector run selectors on both sides.

A program begins with the budget of its LIKE conditions. Numbers that count something are decimal and end in ``:``,
texts are such a count and that many bytes. A program is data and never becomes Lua.

Conditions: ``T F U`` constants, ``& |`` with a count, ``!``, ``c`` and an operator, ``b`` and ``B`` BETWEEN,
``n`` IN, ``k`` LIKE, ``z`` IS NULL, ``v`` a boolean field. Operands: ``p`` property, ``h`` header field,
``s x i d t f e`` literals, ``-`` and ``+`` signs, ``C`` chain, ``?`` a condition.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mqredis.models.text import escape
from mqredis.selector.names import HeaderField, View
from mqredis.selector.nodes import (
    CONDITIONS,
    INVALID,
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
)

_OPERATORS = {"=": b"=", "<>": b"#", "<": b"<", ">": b">", "<=": b"l", ">=": b"g"}
_CONSTANTS = {True: b"T", False: b"F", None: b"U"}
# Stands for an underscore inside a pattern: no UTF-8 text holds it.
_ANY = b"\xff"


def encode(root: Condition, like_budget: int) -> bytes:
    """The argument for the scripts."""
    return _count(like_budget) + _condition(root)


def _escaped(text: str) -> bytes:
    return escape(text).encode()


def _count(number: int) -> bytes:
    return b"%d:" % number


def _text(data: bytes) -> bytes:
    return _count(len(data)) + data


def _condition(node: Condition) -> bytes:
    return _ENCODERS[type(node)](node)


def _operand(node: Node) -> bytes:
    match node:
        case Literal(value):
            return _literal(value)
        case Property(name):
            return b"p" + _text(_escaped(name))
        case Header(_, field):
            return b"h" + _header(field)
        case Sign(op, item):
            return op.encode() + _operand(item)
        case Chain(first, rest):
            steps = b"".join(op.encode() + _operand(item) for op, item in rest)
            return b"C" + _count(len(rest)) + _operand(first) + steps
        case _:
            return b"?" + _condition(node)


def _literal(value: object) -> bytes:
    if value is INVALID:
        return b"e"
    if isinstance(value, bool):
        return b"t" if value else b"f"
    if isinstance(value, int):
        return b"i" + _text(str(value).encode())
    if isinstance(value, float):
        return b"d" + _text(repr(value).encode())
    if isinstance(value, bytes):
        return b"x" + _text(value.hex().encode())
    return b"s" + _text(_escaped(str(value)))


def _header(field: HeaderField) -> bytes:
    start = field.view.encode() + _text(field.key.encode())
    match field.view:
        case View.TEXT | View.INTEGER:
            return start + _text(b"" if field.default is None else _escaped(str(field.default)))
        case View.DELIVERY_MODE | View.BIT:
            return start + _literal(field.either[0]) + _literal(field.either[1])
        case _:
            return start


def _compare(node: Compare) -> bytes:
    return b"c" + _OPERATORS[node.op] + _operand(node.left) + _operand(node.right)


def _between(node: Between) -> bytes:
    ends = _operand(node.item) + _operand(node.low) + _operand(node.high)
    return (b"B" if node.negated else b"b") + ends


def _in(node: In) -> bytes:
    values = b"".join(_text(_escaped(value)) for value in node.values)
    return b"n" + _operand(node.item) + _count(len(node.values)) + values


def _like(node: Like) -> bytes:
    segments = [b"".join(_ANY if c is None else c.encode() for c in segment) for segment in node.segments]
    return b"k" + _operand(node.item) + _count(len(segments)) + b"".join(map(_text, segments))


def _many(letter: bytes) -> Callable[[Any], bytes]:
    return lambda node: letter + _count(len(node.items)) + b"".join(map(_condition, node.items))


_ENCODERS: dict[type, Callable[[Any], bytes]] = {
    Constant: lambda node: _CONSTANTS[node.value],
    Compare: _compare,
    Between: _between,
    In: _in,
    Like: _like,
    IsNull: lambda node: b"z" + _operand(node.item),
    Holds: lambda node: b"v" + _operand(node.item),
    Not: lambda node: b"!" + _condition(node.item),
    And: _many(b"&"),
    Or: _many(b"|"),
}
assert set(_ENCODERS) == set(CONDITIONS)  # noqa: S101
