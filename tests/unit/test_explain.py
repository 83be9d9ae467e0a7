"""Errors of scripts name the file and the line."""

from __future__ import annotations

import re

import pytest

from mqredis import scripts


@pytest.mark.parametrize("functions", [False, True])
def test_error_names_file_and_line_without_other_scripts(
    monkeypatch: pytest.MonkeyPatch, functions: bool
) -> None:
    asked: list[str] = []
    get = scripts.get

    def asking(name: str) -> scripts.Script:
        asked.append(name)
        return get(name)

    monkeypatch.setattr(scripts, "get", asking)
    script = get("queue_info")
    form = script.function().name if functions else script.sha
    kind = "function" if functions else "script"
    told = scripts.explain("queue_info", f"ERR user_{kind}:60: no script: {form}, on @user_{kind}:60.")
    assert re.match(r"ERR lua/\S+\.lua:\d+: no script: ", told)
    assert asked == ["queue_info"]
