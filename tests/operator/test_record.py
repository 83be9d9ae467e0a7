"""Actions that other calls carry out, in the log of operators: once for each token, with their outcome."""

from __future__ import annotations

import json
from typing import Any

import pytest

import mqredis
from mqredis import InvalidArgument, Operator, QueueManager


def logged(qm: QueueManager) -> list[tuple[str, Any, Any, Any]]:
    with qm.open(mqredis.ACTIONS, mqredis.Access.PEEK) as log:
        return [
            (entry.label, entry.properties["queue"], entry.properties["finished"], json.loads(entry.body))
            for entry in log.browse()
        ]


def test_an_action_begins_once_and_tells_its_outcome(qm: QueueManager, operator: Operator) -> None:
    assert operator.begin("inhibit", "orders", token="t", details={"put": True}) is None
    assert operator.begin("inhibit", "orders", token="t") == {}
    operator.end("inhibit", "orders", token="t", outcome={"result": "done"})
    assert operator.begin("inhibit", "orders", token="t") == {"result": "done"}
    assert logged(qm) == [
        ("inhibit", "orders", False, {"put": True}),
        ("inhibit", "orders", True, {"result": "done"}),
    ]


def test_the_entries_of_one_action_have_a_call_in_common(qm: QueueManager, operator: Operator) -> None:
    for token in "ab":
        operator.begin("limits", "orders", token=token)
    operator.end("limits", "orders", token="a", outcome={"error": "it failed"})
    with qm.open(mqredis.ACTIONS, mqredis.Access.PEEK) as log:
        first, second, third = [entry.properties["call"] for entry in log.browse()]
    assert first == third
    assert first != second


def test_a_token_belongs_to_its_action_and_queue_for_a_day(qm: QueueManager, operator: Operator) -> None:
    assert operator.begin("inhibit", "orders", token="t") is None
    assert operator.begin("limits", "orders", token="t") is None
    assert operator.begin("inhibit", token="t") is None
    assert qm.operator("bob").begin("inhibit", "orders", token="t") == {}


def test_a_manager_that_is_full_or_throttled_has_a_log(qm: QueueManager, operator: Operator) -> None:
    with qm.open("orders") as orders:
        orders.send("x")
    qm.set_quota(messages=1)
    qm.throttle(True)
    assert operator.begin("throttle", token="t") is None
    operator.delete("orders", token="t")
    assert [action for action, *_ in logged(qm)] == ["throttle", "delete"]


@pytest.mark.parametrize("details", [{"x": object}, {"x": [{"y": 1}]}])
def test_details_are_json_or_text(qm: QueueManager, operator: Operator, details: dict[str, Any]) -> None:
    assert operator.begin("inhibit", token="t", details=details) is None
    assert logged(qm)[0][3].keys() == {"x"}


def test_details_that_refer_to_themselves_are_refused(qm: QueueManager, operator: Operator) -> None:
    details: dict[str, Any] = {}
    details["x"] = details
    with pytest.raises(InvalidArgument, match="JSON"):
        operator.begin("inhibit", token="t", details=details)
