"""The log of actions names each action on messages once, with what it has changed and whether it has finished."""

from __future__ import annotations

import json

import mqredis
from mqredis import Operator, QueueManager
from mqredis.models.operator import BulkResult
from tests.operator.kit import bodies, send


def test_actions_are_logged(qm: QueueManager, operator: Operator) -> None:
    send(qm, *"ab")
    operator.count("orders")
    operator.delete("orders", selector="$label = 'a'", token="t")
    operator.delete("orders", selector="$label = 'a'", token="t")
    with qm.open("system$;actions", mqredis.Access.PEEK) as log:
        (entry,) = log.browse()
    assert entry.label == "delete"
    assert entry.properties == {
        "operator": "ada",
        "source": "api",
        "queue": "orders",
        "changed": 1,
        "finished": True,
    }
    assert json.loads(entry.body) == {"selector": "$label = 'a'"}
    qm.advance_clock(29 * 86_400)
    assert len(bodies(qm, "system$;actions")) == 1
    qm.advance_clock(86_400)
    assert bodies(qm, "system$;actions") == []


def test_action_of_several_steps_is_one_log_entry(qm: QueueManager, operator: Operator) -> None:
    def entries() -> list[tuple[str, object, object]]:
        with qm.open("system$;actions", mqredis.Access.PEEK) as log:
            return [
                (entry.label, entry.properties["changed"], entry.properties["finished"])
                for entry in log.browse()
            ]

    with qm.open("orders") as queue:
        queue.send_many([b"x"] * 700)
    found = operator.delete("orders", steps=1)
    assert entries() == [("delete", found.changed, False)]
    operator.pause("orders")
    found = operator.delete("orders", steps=1, cursor=found.cursor)
    assert entries() == [("pause", 1, True), ("delete", found.changed, False)]
    operator.resume("orders")
    # The action also continues if its log entry was deleted.
    qm.operator("bob").delete("system$;actions")
    assert operator.delete("orders", cursor=found.cursor).changed == 700
    assert entries() == [("delete", 3, True), ("delete", 700, True)]


def test_log_says_that_an_action_has_finished_whose_last_calls_changed_nothing(
    qm: QueueManager, operator: Operator
) -> None:
    with qm.open("orders") as queue:
        queue.send_many([mqredis.Outgoing(b"x", label="b" if n == 0 else "a") for n in range(2500)])
    calls: list[BulkResult] = []
    assert operator.delete("orders", selector="$label = 'b'", progress=calls.append).changed == 1
    assert len(calls) > 1
    with qm.open("system$;actions", mqredis.Access.PEEK) as log:
        (entry,) = log.browse()
    assert (entry.properties["changed"], entry.properties["finished"]) == (1, True)
