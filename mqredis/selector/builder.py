"""From grammar rules to the tree: types are checked and constants folded on the way up.

``parser`` makes a tree with it.

lark calls each method of :class:`Builder` for the rule of its name in ``parser._GRAMMAR``, from the innermost rule on.
``parts`` is what stood on the right side of the rule, in order: a :class:`Part` for each rule in it, a ``Lexeme`` for
each token. Tokens whose names begin with an underscore are left out, and so are optional ones that are not there.

A constant condition or operand is computed here with ``evaluate``, so it means the same as on the server.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from mqredis.selector.evaluate import Subject, truth_of, value_of
from mqredis.selector.lexer import MAX_DEPTH, Lexeme, refuse
from mqredis.selector.like import compile_pattern
from mqredis.selector.names import FIELDS, refusal
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
)

_NO_MESSAGE = Subject({}, {}, 0)


class Part(NamedTuple):
    """A finished piece of the tree."""

    node: Node
    at: int
    """Where it begins in the text, for errors."""
    depth: int
    """How many nodes stand below each other in it; 1 for a leaf."""
    bracketed: bool = False
    """Does it stand in parentheses?"""


class Builder:
    """Callbacks of the grammar in ``mqredis/selector/parser.py``."""

    def selector(self, parts: list[Part]) -> Condition:
        """The whole text is one condition."""
        return _condition(parts[0])

    def disjunction(self, parts: list[Part]) -> Part:
        """OR."""
        return _joined(Or, parts, absorbing=True)

    def conjunction(self, parts: list[Part]) -> Part:
        """AND."""
        return _joined(And, parts, absorbing=False)

    def negation(self, parts: list[Any]) -> Part:
        """NOT."""
        item = _condition(parts[1])
        if isinstance(item, Not):
            return Part(item.item, parts[0].at, parts[1].depth)
        return _part(Not(item), parts[0].at, parts[1])

    def comparison(self, parts: list[Any]) -> Part:
        """``= <> < <= > >=``; only numbers have an order (docs/selectors.md)."""
        left, op, right = parts
        if op.value not in ("=", "<>"):
            _number(left, "only numbers can be ordered")
            _number(right, "only numbers can be ordered")
        return _part(Compare(op.value, left.node, right.node), left.at, left, right)

    def between(self, parts: list[Part]) -> Part:
        """BETWEEN."""
        return self._between(parts, negated=False)

    def not_between(self, parts: list[Any]) -> Part:
        """NOT BETWEEN."""
        return self._between([parts[0], *parts[2:]], negated=True)

    def bracketed(self, parts: list[Part]) -> Part:
        """``(...)``, a condition or an operand."""
        return parts[0]._replace(bracketed=True)

    def _between(self, parts: list[Part], negated: bool) -> Part:
        for part in parts:
            _number(part, "BETWEEN takes numbers")
        item, low, high = parts
        return _part(Between(item.node, low.node, high.node, negated), item.at, *parts)

    def contained(self, parts: list[Any]) -> Part:
        """``name [NOT] IN (...)``."""
        part, *rest = parts
        item = _name(part, "IN")
        negated, strings = _without_not(rest)
        values = dict.fromkeys(token.value for token in strings)
        return _maybe_not(Part(In(item, tuple(values)), part.at, part.depth + 1), negated)

    def like(self, parts: list[Any]) -> Part:
        """``name [NOT] LIKE pattern [ESCAPE character]``."""
        part, *rest = parts
        item = _name(part, "LIKE")
        negated, (pattern, *escape) = _without_not(rest)
        if escape and len(escape[0].value) != 1:
            refuse("the escape is one character", escape[0].at)
        segments = compile_pattern(pattern.value, escape[0].value if escape else None)
        return _maybe_not(Part(Like(item, segments), part.at, part.depth + 1), negated)

    def null(self, parts: list[Any]) -> Part:
        """``name IS [NOT] NULL``."""
        part, *rest = parts
        negated, _ = _without_not(rest)
        return _maybe_not(Part(IsNull(_name(part, "IS NULL")), part.at, part.depth + 1), negated)

    def total(self, parts: list[Any]) -> Part:
        """``+`` and ``-``."""
        return _chain(parts)

    def product(self, parts: list[Any]) -> Part:
        """``*`` and ``/``."""
        return _chain(parts)

    def signed(self, parts: list[Any]) -> Part:
        """Unary plus and minus; ``-9223372036854775808`` is the one use of that number."""
        op, item = parts
        if op.value == "-" and _beyond_range(item):
            return Part(Literal(-(1 << 63)), op.at, 1)
        _number(item, "only numbers have a sign")
        return _part(Sign(op.value, item.node), op.at, item)

    def literal(self, parts: list[Lexeme]) -> Part:
        """A number, a string, a byte string, TRUE or FALSE."""
        return Part(Literal(parts[0].value), parts[0].at, 1)

    def name(self, parts: list[Lexeme]) -> Part:
        """A header field or a property."""
        name, at = str(parts[0].value), parts[0].at
        field = FIELDS.get(name)
        if field is not None:
            return Part(Header(name, field), at, 1)
        reason = refusal(name)
        if reason:
            refuse(reason, at)
        return Part(Property(name), at, 1)


def _part(node: Node, at: int, *parts: Part) -> Part:
    """The piece of a node that stands above ``parts``: a constant in its place if all of them are constants."""
    depth = 1 + max(part.depth for part in parts)
    if depth > MAX_DEPTH:
        refuse(f"nested more than {MAX_DEPTH} deep", at)
    for part in parts:
        _in_range(part)
    # Nothing that names a field may be folded: an absent field makes the result unknown.
    if all(isinstance(part.node, Literal | Constant) for part in parts):
        if isinstance(node, CONDITIONS):
            return Part(Constant(truth_of(node, _NO_MESSAGE)), at, 1)
        value = value_of(node, _NO_MESSAGE)
        if value is not None:
            return Part(Literal(value), at, 1)
    return Part(node, at, depth)


def _in_range(part: Part) -> None:
    """Refuse 2**63, which the lexer lets through since it may stand behind a minus."""
    if _beyond_range(part):
        refuse("the number is outside the range of 64-bit integers", part.at)


def _beyond_range(part: Part) -> bool:
    """Is it the integer 2**63? The double of that value is not."""
    value = part.node.value if isinstance(part.node, Literal) else None
    return isinstance(value, int) and value == 1 << 63


def _without_not(tokens: list[Any]) -> tuple[bool, list[Any]]:
    """Whether they begin with an optional NOT, and the other tokens, which are strings in all rules that have some."""
    negated = bool(tokens) and tokens[0].type == "NOT"
    return negated, tokens[1:] if negated else tokens


def _maybe_not(part: Part, negated: bool) -> Part:
    return _part(Not(part.node), part.at, part) if negated else part  # type: ignore[arg-type]  # a condition, as the grammar has it


def _condition(part: Part) -> Condition:
    """The piece as a condition: a name alone is one if its value is a boolean."""
    node = part.node
    if isinstance(node, CONDITIONS):
        return node
    if isinstance(node, Property | Header):
        return Holds(node)
    if isinstance(node, Literal) and isinstance(node.value, bool):
        return Constant(node.value)
    return refuse("a condition is needed here, not a value", part.at)


def _number(part: Part, reason: str) -> None:
    """Refuse an operand that cannot be a number. Names may be one; what they are is known only with a message."""
    node = part.node
    number = isinstance(node, Property | Header | Sign | Chain)
    if isinstance(node, Literal):
        # Arithmetic without a value (INVALID) is an operand of arithmetic all the same.
        number = not isinstance(node.value, str | bytes | bool)
    if not number:
        refuse(reason, part.at)


def _name(part: Part, what: str) -> Property | Header:
    if part.bracketed or not isinstance(part.node, Property | Header):
        refuse(f"the left side of {what} is a name", part.at)
    return part.node


def _chain(parts: list[Any]) -> Part:
    """Operands with operators between them, all of one precedence."""
    for part in parts[::2]:
        _number(part, "arithmetic takes numbers")
    rest = tuple((parts[n].value, parts[n + 1].node) for n in range(1, len(parts), 2))
    return _part(Chain(parts[0].node, rest), parts[0].at, *parts[::2])


def _joined(kind: type[And] | type[Or], parts: list[Part], absorbing: bool) -> Part:
    """AND or OR of several conditions, flat. ``absorbing``: the constant that decides it; the other one is left out."""
    items: list[Condition] = []
    conditions = [_condition(part) for part in parts]
    for item in conditions:
        if isinstance(item, Constant) and item.value is absorbing:
            return Part(item, parts[0].at, 1)
        if not isinstance(item, Constant) or item.value is None:
            items.extend(item.items if isinstance(item, kind) else [item])
    if len(items) > 1:
        return _part(kind(tuple(items)), parts[0].at, *parts)
    return Part(
        items[0] if items else Constant(not absorbing), parts[0].at, max(part.depth for part in parts)
    )
