"""Text to tokens, in one pass, with every limit checked before the parser sees anything.

``parser`` reads tokens from it, by the names that its grammar declares; a new keyword or operator is declared there,
too. All of this package raises its errors with ``refuse``.

Lexical rules: Jakarta Messaging 3.8.1.1 (Java identifiers and literals) and IBM MQ (dotted names, byte strings
``"0x.."``). Work is linear in the text, and the text is at most 10 KiB.
"""

from __future__ import annotations

import math
import re
import unicodedata
from typing import NamedTuple, NoReturn

from mqredis.errors import SelectorSyntaxError

# docs/selectors.md tells users these limits (tests/docs/test_docs.py compares).
MAX_BYTES = 10240
MAX_DEPTH = 64
MAX_NODES = 1024

_KEYWORDS = {
    "AND": "_AND",
    "OR": "_OR",
    "NOT": "NOT",
    "BETWEEN": "_BETWEEN",
    "LIKE": "_LIKE",
    "IN": "_IN",
    "IS": "_IS",
    "NULL": "_NULL",
    "ESCAPE": "_ESCAPE",
    "TRUE": "BOOL",
    "FALSE": "BOOL",
}
_TOKEN = re.compile(
    r"""(?P<space>[ \t\f\r\n]+)
      | (?P<name>[A-Za-z_$\x80-\U0010ffff][A-Za-z0-9_$\x80-\U0010ffff]*
                 (?:\.[A-Za-z_$\x80-\U0010ffff][A-Za-z0-9_$\x80-\U0010ffff]*)*)
      | (?P<hex>0[xX][0-9a-fA-F]+[lL]?)
      | (?P<double>(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+)
      | (?P<integer>[0-9]+[lL]?)
      | (?P<string>'(?:[^']|'')*')
      | (?P<bytes>"[^"]*")
      | (?P<compare><>|<=|>=|=|<|>)
      | (?P<add>[+-])
      | (?P<multiply>[*/])
      | (?P<open>\()
      | (?P<close>\))
      | (?P<comma>,)""",
    re.VERBOSE,
)
_TYPES = {
    "compare": "COMPARE",
    "add": "ADD",
    "multiply": "MULTIPLY",
    "open": "_OPEN",
    "close": "_CLOSE",
    "comma": "_COMMA",
}
# Unicode categories of the characters that may begin a name, and that may follow.
_START = ("L", "Nl", "Sc", "Pc")
_PART = (*_START, "Nd", "Mn", "Mc")
# Tokens that nest without a bracket if they follow each other.
_PREFIXES = ("ADD", "NOT", "_OPEN")
# No 64-bit integer has more in base 8, 10 or 16, once leading zeros are gone.
_MOST_DIGITS = 22

TokenValue = str | bytes | bool | int | float


class Lexeme(NamedTuple):
    """One token: its type in the grammar, its value, its place in the text."""

    type: str
    value: TokenValue
    at: int
    text: str


def refuse(reason: str, position: int, mqrc: int = SelectorSyntaxError.mqrc) -> NoReturn:
    """Raise the one error of this package."""
    raise SelectorSyntaxError(
        f"the selector is not valid at character {position}: {reason}",
        reason=reason,
        position=position,
        mqrc=mqrc,
    )


def decode(text: str | bytes) -> str:
    """The text as str, within its size limit."""
    if not isinstance(text, str | bytes):
        refuse(f"a selector is text, not {type(text).__name__}", 0)
    if len(text) <= MAX_BYTES:
        try:
            size = len(text.encode()) if isinstance(text, str) else len(text)
            if size <= MAX_BYTES:
                return text if isinstance(text, str) else text.decode()
        except UnicodeError as error:
            refuse("the text is not valid Unicode", getattr(error, "start", 0))
    return refuse(f"the text is longer than {MAX_BYTES} bytes", 0, mqrc=2519)


def tokens(text: str) -> list[Lexeme]:
    """All tokens of a selector."""
    found: list[Lexeme] = []
    at = nodes = depth = run = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            _explain(text, at)
        kind = match.lastgroup or ""
        start, at = at, match.end()
        if kind == "space":
            continue
        token = _token(kind, match[0], start)
        if kind in ("name", "hex", "double", "integer"):
            _boundary(text, at)
        found.append(token)
        # Prefix operators nest as brackets do; everything else is flat in the tree.
        run = run + 1 if token.type in _PREFIXES else 0
        depth += (kind == "open") - (kind == "close")
        if max(run, depth) > MAX_DEPTH:
            refuse(f"nested more than {MAX_DEPTH} deep", start)
        nodes += kind not in ("close", "comma")
        if nodes > MAX_NODES:
            refuse(f"more than {MAX_NODES} operands and operators", start)
    return found


def _token(kind: str, text: str, at: int) -> Lexeme:
    match kind:
        case "name":
            return _name(text, at)
        case "hex" | "integer":
            return Lexeme("NUMBER", _integer(text, at), at, text)
        case "double":
            value = float(text)
            if math.isinf(value):
                refuse("the number is too large for a double", at)
            return Lexeme("NUMBER", value, at, text)
        case "string":
            return Lexeme("STRING", text[1:-1].replace("''", "'"), at, text)
        case "bytes":
            return Lexeme("BYTES", _bytes(text, at), at, text)
        case _:
            return Lexeme(_TYPES[kind], text, at, text)


def _name(text: str, at: int) -> Lexeme:
    if text.isascii():
        keyword = _KEYWORDS.get(text.upper())
        if keyword:
            return Lexeme(keyword, text.upper() == "TRUE" if keyword == "BOOL" else text.upper(), at, text)
    else:
        first = True
        for offset, char in enumerate(text):
            if char > "\x7f" and not unicodedata.category(char).startswith(_START if first else _PART):
                refuse(f"{char!r} is not allowed in a name", at + offset)
            first = char == "."
    return Lexeme("NAME", text, at, text)


def _integer(text: str, at: int) -> int:
    digits = text.rstrip("lL")
    base = 10
    if digits[:2] in ("0x", "0X"):
        base, digits = 16, digits[2:]
    elif len(digits) > 1 and digits[0] == "0":
        base = 8
        if not set(digits) <= set("01234567"):
            refuse(f"{text} begins with 0 and is not octal", at)
    digits = digits.lstrip("0") or "0"
    value = int(digits, base) if len(digits) <= _MOST_DIGITS else 1 << 64
    # 2**63 is let through here: the builder allows it under a minus only.
    if value > 1 << 63:
        refuse("the number is outside the range of 64-bit integers", at)
    return value


def _bytes(text: str, at: int) -> bytes:
    body = text[1:-1]
    if body[:2] not in ("0x", "0X"):
        refuse('double quotes are for byte strings such as "0x0AFC"; text goes in single quotes', at)
    if re.fullmatch("[0-9a-fA-F]*", body[2:]) is None:
        refuse("a byte string holds hexadecimal digits only", at)
    if len(body) % 2:
        refuse("a byte string has an even number of digits", at)
    return bytes.fromhex(body[2:])


def _boundary(text: str, at: int) -> None:
    if at < len(text) and (text[at] in "._$" or text[at].isalnum()):
        refuse(f"unexpected {text[at]!r}", at)


def _explain(text: str, at: int) -> NoReturn:
    char = text[at]
    if char in "'\"":
        refuse("the string is not closed", at)
    if char == "!":
        refuse("unexpected '!'; not equal is <>", at)
    refuse(f"unexpected {char!r}", at)
