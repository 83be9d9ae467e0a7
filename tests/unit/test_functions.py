"""Scripts as functions of the server: what is added to a bundle."""

from __future__ import annotations

import re

import pytest

from mqredis import scripts
from mqredis.functions import library

FRAME = ["-- spare", "local box = { count = 0, most = 3, held = {}, name = nil }"]


@pytest.mark.parametrize("name", scripts.names())
def test_lines_stay_where_they_are(name: str) -> None:
    script = scripts.get(name)
    title, text = script.function().name, script.function().load[3]
    assert re.fullmatch(rf"mqredis_[0-9a-f]{{12}}_{name}", title)
    was, now = script.text.splitlines(), text.splitlines()
    for n in range(1, len(was)):
        line = was[n].replace("redis.call(", "call(")
        assert now[n].endswith((line, line.removeprefix("local ")))
    assert "redis.call(" not in "\n".join(now[: len(was)])


def test_what_a_call_leaves_behind_is_set_back() -> None:
    lines = [
        *FRAME,
        "function box.put()",
        "  box.count, box.late = 1, 2",
        "  box.held[1] = 2",
        "end",
        "box.put()",
    ]
    _, text = library("x", lines, 6, True)
    ending = text[text.index("local function run") :]
    assert "box.count = 0\n" in ending
    assert "box.held = {}\n" in ending
    assert "if box then box.late = nil end\n" in ending
    assert "box.most" not in ending
    assert "flags={'allow-oom'}" in ending


def test_state_that_nothing_sets_back_is_an_error() -> None:
    lines = [*FRAME, "function box.put()", "  box.other[1] = 2", "end", "box.put()"]
    with pytest.raises(ValueError, match="box"):
        library("x", lines, 5, False)
