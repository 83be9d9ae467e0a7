"""LIKE: patterns and the match, with a bound on the work.

``evaluate`` matches with it, ``builder`` compiles patterns, and ``selector`` shares the budget.
``lua/selector/selector_like.lua`` does the same on the server: change both.

Percent stands for any run of characters, underscore for one character; characters are Unicode code points, on
the server too. The leftmost match of each segment in turn is enough, so nothing ever backtracks further than
one segment: time is linear, except for patterns that mix underscores and repeated text, and those have a
budget of comparisons. Beyond a budget the answer is unknown.
"""

from __future__ import annotations

from mqredis.selector.nodes import Like

# docs/selectors.md tells users these limits (tests/docs/test_docs.py compares).
# Characters that the LIKEs of one selector may search in, shared equally among them; never less than the
# floor. The server needs some 3 ms for the worst case, of the 4 that a selector has (selector.allowed in Lua).
# ``encode`` puts the share into the program, so Lua has no such number, and stored subscriptions keep theirs.
BUDGET = 16384
FLOOR = 256
# A text may be that many times longer when the pattern has no underscores, as the server then searches in C.
# A pattern with underscores may make so many comparisons for each character of its budget.
# tests/contract/test_arguments.py compares the factor with Lua's; tests/selector/test_like.py tests both at the bound.
FACTOR = 4

Segments = tuple[tuple[str | None, ...], ...]


def compile_pattern(pattern: str, escape: str | None) -> Segments:
    """Split a pattern at its percent signs.

    The escape character makes a percent sign, an underscore or itself literal; before anything else it is an
    ordinary character (docs/selectors.md; case L12 of tests/selector/cases.py).
    """
    segments: list[list[str | None]] = [[]]
    special = {"%", "_", escape}
    at = 0
    while at < len(pattern):
        char, following = pattern[at], pattern[at + 1 : at + 2]
        if char == escape and following in special:
            segments[-1].append(following)
            at += 1
        elif char == "%" and char != escape:
            segments.append([])
        else:
            segments[-1].append(None if char == "_" and char != escape else char)
        at += 1
    if len(segments) == 1:
        return (tuple(segments[0]),)
    # A run of percent signs is one; the first and the last segment stay even when empty: they are anchors.
    middle = [tuple(segment) for segment in segments[1:-1] if segment]
    return (tuple(segments[0]), *middle, tuple(segments[-1]))


def share(searching: int) -> int:
    """The budget of each LIKE of a selector that has so many of them that search."""
    return max(FLOOR, BUDGET // max(1, searching))


def like(node: Like, text: str, budget: int) -> bool | None:
    """Does the text match? Unknown when the work would exceed the budget."""
    segments = node.segments
    if node.searches and len(text) > (budget if node.wild else budget * FACTOR):
        return None
    if len(segments) == 1:
        return len(text) == len(segments[0]) and _fits(segments[0], text, 0)
    first, last = segments[0], segments[-1]
    at, end = len(first), len(text) - len(last)
    if at > end or not _fits(first, text, 0) or not _fits(last, text, end):
        return False
    if not node.wild:
        for segment in segments[1:-1]:
            found = text.find("".join(c or "" for c in segment), at, end)
            if found < 0:
                return False
            at = found + len(segment)
        return True
    return _search(segments[1:-1], text, at, end, budget * FACTOR)


def _search(segments: Segments, text: str, at: int, end: int, limit: int) -> bool | None:
    steps = 0
    for segment in segments:
        while True:
            if at + len(segment) > end:
                return False
            for offset, char in enumerate(segment):
                steps += 1
                if char is not None and char != text[at + offset]:
                    break
            else:
                at += len(segment)
                break
            if steps > limit:
                return None
            at += 1
    return True


def _fits(segment: tuple[str | None, ...], text: str, at: int) -> bool:
    return all(char is None or char == text[at + offset] for offset, char in enumerate(segment))
