"""``begin`` and ``end``: actions that other calls carry out are logged once for each token, with their outcome."""

from __future__ import annotations

import json
from typing import Any

import pytest

import mqredis
from mqredis import InvalidArgument, Operator, QueueManager
from tests.support.backend import Backend
from tests.support.standing_clock import change_lua


def logged(qm: QueueManager) -> list[tuple[str, Any, Any, Any]]:
    with qm.open(mqredis.ACTIONS, mqredis.Access.PEEK) as log:
        return [
            (entry.label, entry.properties["queue"], entry.properties["finished"], json.loads(entry.body))
            for entry in log.browse()
        ]


def test_begin_with_a_used_token_returns_the_outcome(qm: QueueManager, operator: Operator) -> None:
    assert operator.begin("inhibit", "orders", token="t", details={"put": True}) is None
    assert operator.begin("inhibit", "orders", token="t") == {}
    operator.end("inhibit", "orders", token="t", outcome={"result": "done"})
    assert operator.begin("inhibit", "orders", token="t") == {"result": "done"}
    assert logged(qm) == [
        ("inhibit", "orders", False, {"put": True}),
        ("inhibit", "orders", True, {"result": "done"}),
    ]


def test_entries_of_one_action_have_the_same_call_id(qm: QueueManager, operator: Operator) -> None:
    for token in "ab":
        operator.begin("limits", "orders", token=token)
    operator.end("limits", "orders", token="a", outcome={"error": "it failed"})
    with qm.open(mqredis.ACTIONS, mqredis.Access.PEEK) as log:
        first, second, third = [entry.properties["call"] for entry in log.browse()]
    assert first == third
    assert first != second


def test_token_is_unique_per_action_and_queue_for_all_operators(qm: QueueManager, operator: Operator) -> None:
    assert operator.begin("inhibit", "orders", token="t") is None
    assert operator.begin("limits", "orders", token="t") is None
    assert operator.begin("inhibit", token="t") is None
    assert qm.operator("bob").begin("inhibit", "orders", token="t") == {}


def test_actions_are_logged_when_the_manager_is_full_or_throttled(
    qm: QueueManager, operator: Operator
) -> None:
    with qm.open("orders") as orders:
        orders.send("x")
    qm.set_quota(messages=1)
    qm.throttle(True)
    assert operator.begin("throttle", token="t") is None
    operator.delete("orders", token="t")
    assert [action for action, *_ in logged(qm)] == ["throttle", "delete"]


def test_oldest_entry_leaves_a_full_log_for_a_new_one(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Operators read that 10,000 entries are kept; a few are enough here."""
    change_lua(monkeypatch, "most = 10000", "most = 5")
    with mqredis.connect(backend.client(), settings=mqredis.Settings(functions="off")) as qm:
        for n in range(8):
            qm.operator("ada").begin("inhibit", str(n), token="t")
            assert [int(queue) for _, queue, _, _ in logged(qm)] == [*range(n + 1)][-5:]
        assert qm.doctor().healthy


@pytest.mark.parametrize("details", [{"x": object}, {"x": [{"y": 1}]}])
def test_details_that_are_not_json_are_logged_as_text(
    qm: QueueManager, operator: Operator, details: dict[str, Any]
) -> None:
    assert operator.begin("inhibit", token="t", details=details) is None
    assert logged(qm)[0][3].keys() == {"x"}


def test_recursive_details_are_refused(qm: QueueManager, operator: Operator) -> None:
    details: dict[str, Any] = {}
    details["x"] = details
    with pytest.raises(InvalidArgument, match="JSON"):
        operator.begin("inhibit", token="t", details=details)
