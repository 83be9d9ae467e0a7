"""The three evaluators for selector tests: Python, Lua on fakeredis, Lua on a real server."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import redis

from mqredis import scripts
from mqredis.selector import Selector
from mqredis.selector.encode import encode
from mqredis.selector.nodes import Not

ARRIVED = 1_700_000_000_000
LOOKUP_ID = 0x0400000000000011
# A body that looks like a record head: bytes after the first NUL must not be read as fields.
TRAP = b"\x01a\x02i1\x01s\x02strap\x01n\x02i7\x01region\x02sEU\x03l" + b"trap\x03ctrap\x03p7\0\x01b\x02t"

Truth = bool | None


@dataclass(frozen=True)
class Subject:
    """A message: its properties, and header fields under the names of ``mqredis.models.Message``."""

    properties: Mapping[str, Any] = field(default_factory=dict)
    header: Mapping[str, Any] = field(default_factory=dict)

    def full_header(self) -> dict[str, Any]:
        """Return the header, completed with the fields that every stored message has."""
        sent = self.header.get("sent_ms", ARRIVED)
        lookup_id = self.header.get("lookup_id", LOOKUP_ID)
        defaults = {"message_id": f"mq-{lookup_id:016x}", "arrived_ms": ARRIVED, "sent_ms": sent}
        return {**defaults, "lookup_id": lookup_id, "recoverable": True, **self.header}


Judge = Callable[[Sequence[tuple[Selector, Subject]]], list[Truth]]


def bundle(name: str, seen: set[str] | None = None) -> str:
    """Return a Lua library with all its requirements."""
    seen = set() if seen is None else seen
    seen.add(name)
    text = (scripts.root() / f"{name}.lua").read_text()
    wanted = re.findall(r'^--- require (?:lazy )?"([^"]+)"$', text, re.MULTILINE)
    required = "".join(bundle(other, seen) for other in wanted if other not in seen)
    return required + text


# Four arguments for each question: program, program of the negation, record, lookup id. T, F or U for each.
ENTRY = """
local answers, programs = {}, {}
for n = 1, #ARGV, 4 do
  local hits = ""
  for k = n, n + 1 do
    programs[ARGV[k]] = programs[ARGV[k]] or selector.compile(ARGV[k])
    hits = hits .. (selector.test(programs[ARGV[k]], ARGV[n + 2], ARGV[n + 3]) and "1" or "0")
  end
  answers[#answers + 1] = hits
end
return answers
"""
_MEANING: dict[bytes, Truth] = {b"10": True, b"01": False, b"00": None}


def judge_in_python(questions: Sequence[tuple[Selector, Subject]]) -> list[Truth]:
    """The plain evaluator."""
    return [selector.evaluate(s.properties, s.full_header()) for selector, s in questions]


def judge_in_lua(client: redis.Redis) -> Judge:
    """Evaluate in Lua on a server: unknown if neither the selector nor its negation selects."""
    script = bundle("selector/selector") + ENTRY
    sha: str = client.script_load(script)  # type: ignore[assignment,no-untyped-call,unused-ignore]

    def judge(questions: Sequence[tuple[Selector, Subject]]) -> list[Truth]:
        arguments: list[bytes] = []
        for selector, subject in questions:
            lid = b"%016x" % subject.full_header()["lookup_id"]
            arguments += [selector.program, negation(selector), record(subject), lid]
        answers: Any = client.evalsha(sha, 0, *arguments)
        return [_MEANING[answer] for answer in answers]

    return judge


def negation(selector: Selector) -> bytes:
    """The program of ``NOT (selector)``; not folded, so that the whole condition is evaluated in full."""
    return encode(Not(selector.root), selector.like_budget)


def _escape(text: str) -> bytes:
    return re.sub(b"[\0-\4]", lambda m: bytes((4, 0x40 + m[0][0])), text.encode())


def _identifier(value: str | bytes) -> bytes:
    return b"x" + value.hex().encode() if isinstance(value, bytes) else b"s" + _escape(value)


def _property(value: Any) -> bytes:
    match value:
        case True:
            return b"t"
        case False:
            return b"f"
        case None:
            return b"n"
        case str():
            return b"s" + _escape(value)
        case int():
            return b"i%d" % value
        case float():
            return b"d" + repr(value).encode()
        case _:
            return b"x" + bytes(value).hex().encode()


_TEXTS = {
    "label": b"l",
    "content_type": b"y",
    "response_queue": b"r",
    "administration_queue": b"A",
    "dead_letter_queue": b"Q",
    "dedup_key": b"k",
    "transaction_id": b"T",
    "original_queue": b"O",
    "reason": b"R",
}
_NUMBERS = {
    "sequence": b"n",
    "offset": b"o",
    "priority": b"p",
    "app_tag": b"t",
    "body_type": b"b",
    "message_class": b"C",
    "acknowledge": b"a",
    "journal": b"j",
}
_IDENTIFIERS = {"message_id": b"m", "correlation_id": b"c", "group_id": b"g"}


def record(subject: Subject, body: bytes = TRAP) -> bytes:
    """The record of a message, as ``lua/core/record.lua`` describes it."""
    head = [b"\1" + _escape(name) + b"\2" + _property(value) for name, value in subject.properties.items()]
    header = subject.header
    for keys, write in ((_TEXTS, _escape), (_IDENTIFIERS, _identifier), (_NUMBERS, lambda n: b"%d" % n)):
        head += [
            b"\3" + key + write(header[name]) for name, key in keys.items() if header.get(name) is not None
        ]
    flags = sum(
        bit for name, bit in (("last_in_group", 1), ("segment", 2), ("last_segment", 4)) if header.get(name)
    )
    if flags:
        head.append(b"\3z%d" % flags)
    if header.get("recoverable") is False:
        head.append(b"\3d0")
    if "sent_ms" in header:
        head.append(b"\3S%d" % (ARRIVED - header["sent_ms"]))
    if "original_lookup_id" in header:
        head.append(b"\3I%016x" % header["original_lookup_id"])
    return b"%d0" % ARRIVED + b"".join(head) + b"\0" + body
