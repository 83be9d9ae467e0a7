"""``parse``: the text of a selector to a :class:`~mqredis.selector.selector.Selector`.

``mqredis.selector`` exports it; operations parse what callers pass as ``selector``. A rule with a new name needs a
method of ``builder.Builder``.

The grammar (docs/selectors.md) is Jakarta Messaging 3.8.1 with IBM MQ's additions. lark builds the LALR tables and runs
them; it is imported when the first selector is parsed. The parser keeps its own stack, so no text can exhaust Python's.
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any

from mqredis.selector.builder import Builder
from mqredis.selector.lexer import Lexeme, decode, refuse, tokens
from mqredis.selector.nodes import Condition, Constant
from mqredis.selector.selector import Selector

_GRAMMAR = r"""
%declare _AND _OR NOT _BETWEEN _LIKE _IN _IS _NULL _ESCAPE BOOL NAME NUMBER STRING BYTES
%declare COMPARE ADD MULTIPLY _OPEN _CLOSE _COMMA

selector: disjunction
?disjunction: conjunction (_OR conjunction)*
?conjunction: negation (_AND negation)*
?negation: NOT negation | predicate
?predicate: total
    | total COMPARE total                              -> comparison
    | total _BETWEEN total _AND total                   -> between
    | total NOT _BETWEEN total _AND total               -> not_between
    | total [NOT] _IN _OPEN STRING (_COMMA STRING)* _CLOSE -> contained
    | total [NOT] _LIKE STRING [_ESCAPE STRING]         -> like
    | total _IS [NOT] _NULL                            -> null
?total: product (ADD product)*
?product: signed (MULTIPLY signed)*
?signed: ADD signed | atom
?atom: NUMBER -> literal
    | STRING  -> literal
    | BYTES   -> literal
    | BOOL    -> literal
    | NAME    -> name
    | _OPEN disjunction _CLOSE -> bracketed
"""


def parse(text: str | bytes, *, refuse_never: bool = False) -> Selector:
    """Parse a selector; raises :class:`~mqredis.errors.SelectorSyntaxError` and nothing else.

    Blank text means "no selector" and matches everything. With ``refuse_never`` a selector that no message
    can match is refused too, as IBM MQ does at MQOPEN (2504 MQRC_SELECTOR_ALWAYS_FALSE).
    """
    selector = _parse(decode(text))
    if refuse_never and selector.never:
        refuse("no message can match: the condition is never true", 0, mqrc=2504)
    return selector


@lru_cache(maxsize=256)
def _parse(text: str) -> Selector:
    found = tokens(text)
    return Selector(text, _run(found, len(text)) if found else Constant(True))


@cache
def _lark() -> Any:
    import lark
    from lark.lexer import Lexer

    class Nothing(Lexer):
        """The tokens are fed one by one."""

        def __init__(self, _conf: Any) -> None: ...

        def lex(self, *_: Any) -> Any:
            return iter(())

    return lark.Lark(
        _GRAMMAR,
        parser="lalr",
        lexer=Nothing,
        transformer=Builder(),
        start="selector",
        maybe_placeholders=False,
    )


def _run(found: list[Lexeme], end: int) -> Condition:
    from lark.exceptions import UnexpectedToken

    machine = _lark().parse_interactive("")
    token = None
    try:
        for token in found:
            machine.feed_token(token)
        token = None
        result: Condition = machine.feed_eof()
    except UnexpectedToken:
        if token is None:
            refuse("the selector ends too early", end)
        refuse(f"unexpected {token.text[:40]}", token.at)
    return result
