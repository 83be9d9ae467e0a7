"""The doctor on the libraries of functions that other releases left on the server."""

from __future__ import annotations

from typing import Any

import pytest

from mqredis import scripts
from mqredis.operations import libraries
from mqredis.reports import Finding
from mqredis.steps import Refused


def test_libraries_of_other_releases_are_told_and_go_when_asked() -> None:
    """Works on a list of the test, since the tests share one server and its libraries."""
    current = scripts.get("send").library.title
    there = [current, "mqredis_0123456789ab_send", "mqredis_other_tool", "somebody_elses"]
    asked: list[tuple[object, ...]] = []

    def answers(operation: Any) -> list[Finding]:
        steps = iter(operation)
        answer: Any = None
        try:
            while True:
                step: Any = steps.send(answer)
                asked.append(step.args)
                if step.args[1] == "LIST":
                    answer = [
                        [b"library_name", name.encode(), b"engine", b"LUA", b"functions", []]
                        for name in there
                    ]
                else:
                    there.remove(step.args[2])
                    answer = b"OK"
        except StopIteration as stop:
            found: list[Finding] = stop.value
            return found

    (told,) = answers(libraries.examine(repair=False))
    assert (told.where, told.severity, told.repairable) == ("mqredis_0123456789ab_send", "notice", True)
    assert len(there) == 4
    (mended,) = answers(libraries.examine(repair=True))
    assert mended.repaired
    assert there == [current, "mqredis_other_tool", "somebody_elses"]
    assert answers(libraries.examine(repair=True)) == []


def test_a_server_that_tells_nothing_about_libraries_is_left_alone() -> None:
    operation = iter(libraries.examine(repair=True))
    next(operation)
    with pytest.raises(StopIteration) as stop:
        operation.send(Refused("unknown command", False))
    assert stop.value.value == []
