"""A property is found by its whole name, and compared as a whole."""

from __future__ import annotations

from typing import Any

import pytest

from mqredis.selector import parse
from tests.selector.kit import Judge, Subject, Truth


@pytest.mark.parametrize(
    "text,properties,outcome",
    [
        ("a.b = 1", {"a.b": 1}, True),
        ("a.b = 1", {"axb": 1}, None),  # the dot stands for itself
        ("b = 1", {"ab": 1}, None),
        ("a = 1", {"ab": 1}, None),
        ("s = 'a'", {"s": "a"}, True),
        ("s = 'a'", {"s": "ab"}, False),
        ("s = 'a'", {"s": "a\0"}, False),  # stored with an escape behind the letter
        ("s = 'a\1'", {"s": "a\1"}, True),
    ],
)
def test_property_is_compared_by_its_whole_name_and_value(
    judge: Judge, text: str, properties: dict[str, Any], outcome: Truth
):
    assert judge([(parse(text), Subject(properties))]) == [outcome]
