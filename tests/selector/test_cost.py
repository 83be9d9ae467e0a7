"""The work of one call is bounded: each message reduces ``program.time_left``, by more for expensive selectors."""

from __future__ import annotations

import pytest

from mqredis.selector import parse
from tests.selector.kit import Subject, bundle, record
from tests.support.backend import Backend

_ENTRY = """
local program, tested = selector.compile(ARGV[1]), 0
while program.time_left > 0 do
  selector.test(program, ARGV[2], ARGV[3])
  tested = tested + 1
end
return tested
"""
_FEW = " OR ".join(f"a{n} * a{n} / 3 = 1" for n in range(120))


@pytest.mark.parametrize(
    "text,body,least,most",
    [
        ("region = 'EU' AND amount BETWEEN 10 AND 20", 200, 500, 1000),
        ("region = 'EU' AND amount BETWEEN 10 AND 20", 4096, 200, 400),
        (_FEW, 200, 5, 30),
        ("+".join(["a"] * 500) + " = 1", 200, 5, 20),
        ("large / 3 = 1", 200, 20, 40),
        ("s LIKE '%a_b%'", 200, 1, 5),
        ("s LIKE 'x%'", 200, 1, 5),
    ],
    ids=["simple", "bodies of 4 KiB", "arithmetic", "long sum", "division", "LIKE", "anchored LIKE"],
)
def test_number_of_messages_tested_in_one_call_is_bounded(
    backend: Backend, text: str, body: int, least: int, most: int
):
    properties = {"region": "EU", "amount": 5}
    if "large" in text:
        properties["large"] = 2**62
    if "LIKE" in text:
        properties["s"] = "a" * 16000
    text_of_message = record(Subject(properties), b"b" * body)
    client = backend.client()
    tested = client.eval(
        bundle("selector/selector") + _ENTRY, 0, parse(text).program, text_of_message, "0" * 16
    )
    assert least <= tested <= most


@pytest.mark.parametrize(
    "text", ["region = 'EU' AND (region = 'US' OR region = 'EU')", "amount > 4", "price < 1.5"]
)
def test_property_is_compared_with_a_constant_in_a_faster_way(backend: Backend, text: str):
    """With a text also inside of AND and OR, since there it does not matter whether it is false or unknown."""
    entry = """
    selector_value.compare = nil -- the comparison of any two values, which takes longer
    return selector.test(selector.compile(ARGV[1]), ARGV[2], ARGV[3]) and 1 or 0
    """
    arguments = parse(text).program, record(Subject({"region": "EU", "amount": 5, "price": 1.25})), "0" * 16
    assert backend.client().eval(bundle("selector/selector") + entry, 0, *arguments) == 1
