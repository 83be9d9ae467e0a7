"""The doctor's findings about function libraries that other releases left on the server."""

from __future__ import annotations

from typing import Any

import pytest

from mqredis import scripts
from mqredis.operations import libraries
from mqredis.reports import Finding
from mqredis.steps import Refused


def test_libraries_of_other_releases_are_reported_and_removed_by_a_repair() -> None:
    """The list of libraries is simulated, since the tests share one server."""
    current = scripts.get("send").library.title
    there = [current, "mqredis_0123456789ab_send", "mqredis_other_tool", "somebody_elses"]
    commands: list[tuple[object, ...]] = []

    def answers(operation: Any) -> list[Finding]:
        steps = iter(operation)
        answer: Any = None
        try:
            while True:
                step: Any = steps.send(answer)
                commands.append(step.args)
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

    (reported,) = answers(libraries.examine(repair=False))
    assert (reported.where, reported.severity, reported.repairable) == (
        "mqredis_0123456789ab_send",
        "notice",
        True,
    )
    assert len(there) == 4
    (repaired,) = answers(libraries.examine(repair=True))
    assert repaired.repaired
    assert there == [current, "mqredis_other_tool", "somebody_elses"]
    assert answers(libraries.examine(repair=True)) == []


def test_refused_library_list_gives_no_findings() -> None:
    operation = iter(libraries.examine(repair=True))
    next(operation)
    with pytest.raises(StopIteration) as stop:
        operation.send(Refused("unknown command", False))
    assert stop.value.value == []
