"""The tree of a selector: plain values, no behaviour.

All of this package uses it. A new condition is added to ``Condition``, ``CONDITIONS`` and ``parts`` here, and needs a
rule in ``parser`` and ``builder``, a row in ``evaluate`` and ``encode`` (both check that none is missing), a letter in
lua/selector/selector_condition.lua, and docs/selectors.md.

Operands have a value (``Literal``, ``Property``, ``Header``, ``Sign``, ``Chain``, or any condition), conditions are
true, false or unknown (the rest). ``And``, ``Or`` and ``Chain`` are flat, so the depth of a tree is bounded by the
brackets and prefix operators of its text and recursion over it is safe.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from mqredis.selector.names import HeaderField


class Invalid(Enum):
    """The value of arithmetic that has none: a string in a sum, 1/0, more than 64 bits. Never NULL."""

    INVALID = "invalid"


INVALID = Invalid.INVALID

# The value of an operand; None is NULL.
Value = str | bytes | bool | int | float | Invalid | None


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant."""

    value: str | bytes | bool | int | float | Invalid


@dataclass(frozen=True, slots=True)
class Property:
    """A user property of the message; NULL when it is absent."""

    name: str


@dataclass(frozen=True, slots=True)
class Header:
    """A header field under one of its names."""

    name: str
    field: HeaderField


@dataclass(frozen=True, slots=True)
class Sign:
    """Unary plus or minus."""

    op: str
    item: Node


@dataclass(frozen=True, slots=True)
class Chain:
    """``a + b - c`` or ``a * b / c``, from left to right."""

    first: Node
    rest: tuple[tuple[str, Node], ...]


@dataclass(frozen=True, slots=True)
class Compare:
    """One comparison; ``op`` is one of ``= <> < <= > >=``."""

    op: str
    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class Between:
    """``item >= low AND item <= high``; negated ``item < low OR item > high``."""

    item: Node
    low: Node
    high: Node
    negated: bool


@dataclass(frozen=True, slots=True)
class In:
    """Is the text one of these?"""

    item: Property | Header
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Like:
    """Does the text match?

    The pattern is split at its percent signs: one segment means no percent sign at all. ``None`` inside a
    segment is an underscore.
    """

    item: Property | Header
    segments: tuple[tuple[str | None, ...], ...]

    @property
    def searches(self) -> bool:
        """Does the cost grow with the text? Only text before the first and after the last % is cheap."""
        return len(self.segments) > 2 or self.wild

    @property
    def wild(self) -> bool:
        """Are there underscores?"""
        return any(None in segment for segment in self.segments)


@dataclass(frozen=True, slots=True)
class IsNull:
    """Is the field absent? Always true or false."""

    item: Property | Header


@dataclass(frozen=True, slots=True)
class Holds:
    """A field used as a condition: true or false if it is a boolean, else unknown."""

    item: Property | Header


@dataclass(frozen=True, slots=True)
class Not:
    """Turns true and false around; unknown stays."""

    item: Condition


@dataclass(frozen=True, slots=True)
class And:
    """All of two or more."""

    items: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """Any of two or more."""

    items: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Constant:
    """A condition that no message changes; None is unknown."""

    value: bool | None


Condition = Compare | Between | In | Like | IsNull | Holds | Not | And | Or | Constant
Node = Literal | Property | Header | Sign | Chain | Condition
CONDITIONS = (Compare, Between, In, Like, IsNull, Holds, Not, And, Or, Constant)


def parts(node: Node) -> tuple[Node, ...]:
    """The nodes directly below one."""
    match node:
        case Sign(_, item) | Like(item) | In(item) | IsNull(item) | Holds(item) | Not(item):
            return (item,)
        case Chain(first, rest):
            return (first, *(item for _, item in rest))
        case Compare(_, left, right):
            return (left, right)
        case Between(item, low, high):
            return (item, low, high)
        case And(items) | Or(items):
            return items
        case _:
            return ()


def walk(node: Node) -> Iterator[Node]:
    """A node and everything below it."""
    waiting = [node]
    while waiting:
        found = waiting.pop()
        yield found
        waiting.extend(parts(found))
