"""Every argument of every public call, with every kind of invalid value, on both interfaces.

``KINDS`` lists invalid values for each kind of argument, ``CALLS`` the arguments of each call with their kinds. A
public method or argument without a row fails ``test_every_public_argument_is_tested``.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

import mqredis
from mqredis import Grouping, Mark, Settings
from mqredis.errors import MqError
from tests.bad_input.conftest import Bench

CLASSES = (
    "QueueManager",
    "Queue",
    "Transaction",
    "LockedMessage",
    "Cursor",
    "Browser",
    "GroupWriter",
    "Operator",
)
NAN, INF, HUGE = math.nan, math.inf, 10**400
_NOT_SECONDS = [NAN, INF, True, "1", b"1", [1], HUGE, 1e300]
_NOT_TEXT = [5, b"x", ["x"], True, object()]
_OTHER_THING = ["x", 5, True, object()]

# Invalid values of each kind of argument; None is included unless it selects a default.
KINDS: dict[str, list[Any]] = {
    "name": ["", "x" * 10_000, "a{b", "a\nb", "a\0b", "a*", "\ud800", None, 5, b"q", ["q"], True],
    "pattern": [5, b"*", ["*"], True],
    "timeout": _NOT_SECONDS,
    "deadline": [*_NOT_SECONDS, 0, -1, None],
    "lease": [*_NOT_SECONDS, 0, -1, 604_800.1, 1e9],
    "seconds": [*_NOT_SECONDS, -1, None],
    "rate": [NAN, INF, True, "1", 0, -1],
    "count": [0, -1, 257, HUGE, True, 1.5, "2", None, NAN],
    "limit": [-1, True, 1.5, "2", NAN],
    "moment": [5, "now", b"x", True, datetime(2026, 1, 1)],  # noqa: DTZ001 - without a time zone it is refused
    "after": [5, b"1-1", ["1"], True, "", "nonsense", "1:2:3", "\ud800", "x" * 10_000],
    "quota": [-1, True, 1.5, "5", NAN, HUGE],
    "size": [0, -1, True, 1.5, "5"],
    "lookup_id": [-1, 2**64, HUGE, True, 1.5, "1", b"1", None, NAN],
    "seek": ["next", 1, None, True],
    "flag": [1, 0, "yes", None],
    "tag": [5, b"t", ["t"], True, "", "x" * 256, "\ud800"],
    "needed_tag": [5, b"t", ["t"], None, ""],
    "match": [*_OTHER_THING, {"message_id": "x"}],
    "selector": [
        5,
        b"a = 1",
        ["a = 1"],
        True,
        "a =",
        "a = 'x",
        "1 = 2",
        "a" * 10_241,
        "\ud800 = 1",
        "a\0 = 1",
        "(" * 200,
    ],
    "grouping": [*_OTHER_THING, 1, 99, Grouping(16), Grouping(15 + 32)],
    "mark": [*_OTHER_THING, 1, Mark(4), Mark(3 + 8)],
    "transaction": _OTHER_THING,
    "durability": ["nowhere", 5, True, b"fsync"],
    "access": ["all", 1, None, True],
    "share": ["deny", 1, None, True],
    "queue": [*_OTHER_THING, None],
    "message": [*_OTHER_THING, None],
    "where": ["x", 5, True],
    "body": [None, 5, 1.5, ["A"], {"a": 1}, object(), "\ud800"],
    "items": [None, 5, b"one", "one", [None], [5], [b"good", object()]],
    "group_id": [5, "x" * 256, ["g"], True, "\ud800"],  # the none value counts as not given
    "reason": [5, None, b"x", ["x"]],
    "token": [5, None, b"x", ["x"], "", "nonsense", "1:2:3", "\ud800"],
    "settle": [5, [5], ["x"], [None], [object()], set(), iter(())],
    "id": ["", "x" * 10_000, "a{b", "a\nb", "a\0b", "\ud800", 5, b"q", True],
    "fields": [
        {"colour": "red"},
        {"correlationid": "c"},
        {"priority": 8},
        {"label": 5},
        {"delay": -1},
        {"properties": {"n": [1]}},
    ],
    "operator": ["", "x" * 256, None, 5, b"ada", ["ada"], "\ud800"],
    "when": [
        NAN,
        INF,
        True,
        b"1",
        [1],
        HUGE,
        0,
        -1,
        None,
        "",
        "* * * *",
        "60 * * * *",
        "\ud800 * * * *",
        "x" * 10_000,
    ],
    "zone": ["", "Mars", "../etc/passwd", 5, None, b"UTC", "\ud800", "x" * 10_000],
    "span": [5, "yesterday", b"1", True, datetime(2026, 1, 1), timedelta(0), timedelta(-1), NAN],  # noqa: DTZ001 - as above
    "names": [5, None, "q", b"q", [""], [None], ["a*"], [["q"]]],
    "step": [None, 0, -300, 299, 301, 86_700, 300.0, "300", True, HUGE],
    "trash": [*_NOT_SECONDS, 0, -1],
    "delay": [*_NOT_SECONDS, -1, None],
    "consumer": ["", 5, b"x", "x" * 256, "a\nb", None],
    "worker": ["", "no one", 5, None, b"x", "nobody"],
    "message_or_id": [-1, 2**64, HUGE, True, 1.5, None, NAN, [], "", b"", b"\0", "x" * 300, object()],
    "lookup_ids": [5, None, [], "1", [-1], [None], range(257)],
    "reject": [5, b"x", ["x"]],
    "action_token": [5, b"x", "", "\ud800", "x" * 256],
    "action_name": ["", 5, None, b"x", "x" * 256, "a\nb", "\ud800"],
    "details": [5, "x", ["x"], {5: "x"}],
    "outcome": [5, "x", ["x"], {5: "x"}, {"x": "x" * 4000}, None],
    "changed": [-1, 1.5, "1", None, True, HUGE],
    "transaction_id": ["", 5, None, b"t", "\ud800", "x" * 10_000],
    "priority": [-1, 8, True, 1.5, "1", None],
    "time": [5, "now", datetime(2030, 1, 1), True, None],  # noqa: DTZ001 - without a time zone
    "choice": [
        {"colour": "red"},
        {"lookup_ids": 5},
        {"lookup_ids": []},
        {"lookup_ids": [-1]},
        {"lookup_ids": [1], "limit": 1},
        {"lookup_ids": range(257)},
        {"match": "x"},
        {"selector": "a ="},
        {"scheduled": 1},
        {"limit": 0},
        {"limit": "1"},
        {"cursor": "x"},
        {"cursor": 5},
        {"steps": 0},
        {"progress": 5},
        {"token": ""},
        {"token": 5},
    ],
    "properties": [{"colour": "red"}, {"quota_messages": -1}, {"label": 5}, {"journaling": 1}, {"retry": 5}],
}
_READ = {"timeout": "timeout", "match": "match", "selector": "selector"}
_TAKE = {**_READ, "tag": "tag", "transaction": "transaction"}
_SENT = {"transaction": "transaction", "durability": "durability"}
_BROWSE = {**_READ, "lock": "flag", "lease": "lease", "unmarked": "flag", "mark": "mark"}

# Call: what it needs to be called at all, and the kind of each of its arguments.
CALLS: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "QueueManager.create_queue": (
        {"name": "new"}, {"name": "name", "exist_ok": "flag", "properties": "properties"},
    ),
    "QueueManager.queue_info": ({}, {"name": "name"}),
    "QueueManager.update_queue": ({"name": "q"}, {"name": "name", "changes": "properties"}),
    "QueueManager.delete_queue": ({}, {"name": "name"}),
    "QueueManager.queues": ({}, {"pattern": "pattern"}),
    "QueueManager.open": (
        {"name": "q"}, {"name": "name", "access": "access", "share": "share", "selector": "selector"},
    ),
    "QueueManager.transaction": ({}, {"id": "id", "lease": "lease"}),
    "QueueManager.resolve": ({}, {"token": "token"}),
    "QueueManager.statistics": ({}, {"name": "name"}),
    "QueueManager.failed_messages": ({}, {}),
    "QueueManager.redrive": (
        {},
        {
            "source": "name", "where": "where", "to": "id", "limit": "limit", "rate": "rate", "match": "match",
            "selector": "selector",
        },
    ),
    "QueueManager.subscribe": (
        {"topic": "topic", "queue": "q"}, {"topic": "name", "queue": "name", "selector": "selector"},
    ),
    "QueueManager.unsubscribe": ({"topic": "topic", "queue": "q"}, {"topic": "name", "queue": "name"}),
    "QueueManager.subscriptions": ({}, {"topic": "name"}),
    "QueueManager.request": (
        {"queue": "$q", "body": b"", "timeout": 1},
        {"queue": "queue", "body": "body", "timeout": "deadline", "fields": "fields"},
    ),
    "QueueManager.reply": (
        {"message": "$message", "body": b""}, {"message": "message", "body": "body", "fields": "fields"},
    ),
    "QueueManager.operator": ({"name": "ada"}, {"name": "operator", "source": "reason"}),
    "QueueManager.workers": ({}, {}),
    "QueueManager.pauses": ({}, {}),
    "QueueManager.schedules": ({}, {}),
    "QueueManager.info": ({}, {}),
    "QueueManager.throttle": ({}, {"on": "flag"}),
    "QueueManager.set_quota": ({}, {"messages": "quota", "bytes": "quota"}),
    "QueueManager.advance_clock": ({}, {"seconds": "seconds"}),
    "QueueManager.doctor": ({}, {"repair": "flag"}),
    "QueueManager.maintain": ({}, {}),
    "QueueManager.locks": (
        {"queue": "q"},
        {"queue": "name", "match": "match", "selector": "selector", "after": "after", "limit": "count"},
    ),
    "QueueManager.transactions": ({}, {"after": "after"}),
    "QueueManager.sessions": ({}, {"after": "after", "limit": "count"}),
    "QueueManager.claims": ({}, {"queue": "name"}),
    "QueueManager.publications": ({}, {}),
    "QueueManager.history": ({"queue": "q"}, {"queue": "name", "since": "span", "step": "step"}),
    "QueueManager.histories": ({"queues": ["q"]}, {"queues": "names", "since": "span", "step": "step"}),
    "QueueManager.overview": ({}, {"pattern": "pattern"}),
    "QueueManager.messages": (
        {"queue": "q"},
        {
            "queue": "name", "match": "match", "selector": "selector", "after": "after", "limit": "count",
            "reverse": "flag", "complete": "flag",
        },
    ),
    "QueueManager.scheduled": (
        {"queue": "q"},
        {
            "queue": "name", "since": "moment", "until": "moment", "match": "match", "selector": "selector",
            "after": "after", "limit": "count", "complete": "flag",
        },
    ),
    "QueueManager.message": ({"queue": "q", "lookup_id": 1}, {"queue": "name", "lookup_id": "lookup_id"}),
    "QueueManager.trail": ({"queue": "q", "message": 1}, {"queue": "name", "message": "message_or_id"}),
    "QueueManager.close": ({}, {}),
    "Queue.send": ({"body": b""}, {"body": "body", **_SENT, "fields": "fields"}),
    "Queue.send_many": ({"items": [b"x"]}, {"items": "items", **_SENT}),
    "Queue.send_group": (
        {"items": [b"x"]}, {"items": "items", "group_id": "group_id", "segment_bytes": "size", **_SENT},
    ),
    "Queue.group": ({}, {"group_id": "group_id"}),
    "Queue.receive": ({"timeout": 0}, {**_TAKE, "grouping": "grouping"}),
    "Queue.receive_many": (
        {"max": 1, "timeout": 0}, {"max": "count", **_READ, "transaction": "transaction"},
    ),
    "Queue.receive_group": ({"timeout": 0}, _TAKE),
    "Queue.groups": ({"timeout": 0}, {**_READ, "transaction": "transaction"}),
    "Queue.peek": ({"timeout": 0}, {**_READ, "transaction": "transaction"}),
    "Queue.browse": ({}, {"match": "match", "selector": "selector", "delayed": "flag"}),
    "Queue.browser": ({}, {"match": "match", "selector": "selector", "grouping": "grouping", "co_op": "flag"}),
    "Queue.lock": ({"timeout": 0}, {**_TAKE, "lease": "lease", "grouping": "grouping"}),
    "Queue.lock_many": ({"max": 1, "timeout": 0}, {"max": "count", **_READ, "lease": "lease", "settle": "settle"}),
    "Queue.commit_many": ({"locks": []}, {"locks": "settle", "durability": "durability"}),
    "Queue.peek_by_lookup_id": ({"lookup_id": 1}, {"lookup_id": "lookup_id", "seek": "seek"}),
    "Queue.receive_by_lookup_id": (
        {"lookup_id": 1},
        {"lookup_id": "lookup_id", "seek": "seek", "transaction": "transaction", "allow_peek": "flag"},
    ),
    "Queue.lock_by_lookup_id": (
        {"lookup_id": 1},
        {
            "lookup_id": "lookup_id", "seek": "seek", "lease": "lease", "allow_peek": "flag",
            "transaction": "transaction",
        },
    ),
    "Queue.cursor": ({}, {"match": "match", "selector": "selector"}),
    "Queue.move": (
        {"lookup_id": 1, "target": "$q"},
        {"lookup_id": "lookup_id", "target": "queue", "transaction": "transaction"},
    ),
    "Queue.purge": ({}, {"match": "match", "selector": "selector"}),
    "Queue.cancel": ({}, {"tag": "needed_tag"}),
    "Queue.close": ({}, {}),
    "Transaction.prepare": ({}, {}),
    "Transaction.commit": ({}, {"durability": "durability", "retaining": "flag"}),
    "Transaction.abort": ({}, {}),
    "Transaction.extend": ({}, {"lease": "lease"}),
    "Transaction.reject": (
        {"queue": "$q", "message": "$message"}, {"queue": "queue", "message": "message", "reason": "reason"},
    ),
    "LockedMessage.commit": ({}, {"durability": "durability"}),
    "LockedMessage.abort": ({}, {"reason": "reason"}),
    "LockedMessage.reject": ({}, {"reason": "reason", "durability": "durability"}),
    "LockedMessage.extend": ({}, {"lease": "lease"}),
    "Cursor.peek": ({"timeout": 0}, {"timeout": "timeout"}),
    "Cursor.peek_next": ({"timeout": 0}, {"timeout": "timeout"}),
    "Cursor.receive": ({"timeout": 0}, {"timeout": "timeout", "transaction": "transaction", "tag": "tag"}),
    "Cursor.lock": (
        {"timeout": 0}, {"timeout": "timeout", "lease": "lease", "tag": "tag", "transaction": "transaction"},
    ),
    "Cursor.reset": ({}, {}),
    "Cursor.close": ({}, {}),
    "Browser.first": ({}, _BROWSE),
    "Browser.next": ({}, _BROWSE),
    "Browser.current": ({}, {}),
    "Browser.take": ({}, {"transaction": "transaction"}),
    "Browser.unlock": ({}, {}),
    "Browser.unmark": ({"message": "$message"}, {"message": "message", "mark": "mark"}),
    "Browser.close": ({}, {}),
    "GroupWriter.send": (
        {"body": b""},
        {"body": "body", "last": "flag", "segment": "flag", "transaction": "transaction", "fields": "fields"},
    ),
    "GroupWriter.close": ({}, {}),
    "Operator.count": ({"queue": "q"}, {"queue": "name", "choice": "choice"}),
    "Operator.delete": ({"queue": "q"}, {"queue": "name", "trash": "trash", "choice": "choice"}),
    "Operator.cancel": ({"queue": "q"}, {"queue": "name", "trash": "trash", "choice": "choice"}),
    "Operator.restore": ({"queue": "q"}, {"queue": "name", "choice": "choice"}),
    "Operator.move": (
        {"source": "q", "target": "q;sub"}, {"source": "name", "target": "name", "choice": "choice"},
    ),
    "Operator.redrive": ({"source": "q"}, {"source": "name", "to": "id", "choice": "choice"}),
    "Operator.reschedule": ({"queue": "q"}, {"queue": "name", "delay": "delay", "at": "time", "choice": "choice"}),
    "Operator.run_now": ({"queue": "q"}, {"queue": "name", "choice": "choice"}),
    "Operator.change_priority": (
        {"queue": "q", "priority": 1}, {"queue": "name", "priority": "priority", "choice": "choice"},
    ),
    "Operator.release": (
        {"queue": "q", "lookup_ids": [1]},
        {"queue": "name", "lookup_ids": "lookup_ids", "reject": "reject", "token": "action_token"},
    ),
    "Operator.pause": (
        {}, {"queue": "name", "consumer": "consumer", "reason": "reason", "token": "action_token"},
    ),
    "Operator.resume": ({}, {"queue": "name", "consumer": "consumer", "token": "action_token"}),
    "Operator.stop_worker": ({"worker": "abc"}, {"worker": "worker", "token": "action_token"}),
    "Operator.cancel_handler": (
        {"worker": "abc", "lookup_id": 1}, {"worker": "worker", "lookup_id": "lookup_id", "token": "action_token"},
    ),
    "Operator.begin": (
        {"action": "a", "queue": "q", "token": "t"},
        {"action": "action_name", "queue": "name", "token": "action_token", "details": "details"},
    ),
    "Operator.end": (
        {"action": "a", "queue": "q", "token": "t", "outcome": {}},
        {"action": "action_name", "queue": "name", "token": "action_token", "outcome": "outcome", "changed": "changed"},
    ),
    "Operator.create_schedule": (
        {"name": "s", "when": 60, "queue": "q"},
        {
            "name": "name", "when": "when", "queue": "name", "body": "body", "timezone": "zone", "paused": "flag",
            "token": "action_token", "fields": "fields",
        },
    ),
    "Operator.pause_schedule": ({"name": "s"}, {"name": "name", "token": "action_token"}),
    "Operator.resume_schedule": ({"name": "s"}, {"name": "name", "token": "action_token"}),
    "Operator.trigger_schedule": ({"name": "s"}, {"name": "name", "token": "action_token"}),
    "Operator.remove_schedule": ({"name": "s"}, {"name": "name", "token": "action_token"}),
    "Operator.abort": ({"transaction": "t"}, {"transaction": "transaction_id", "token": "action_token"}),
}  # fmt: skip
# Methods for integrations (docs/extending.md), which take objects that mqredis has made and no values of users.
FOR_INTEGRATIONS = {"QueueManager.run", "QueueManager.wrap", "Queue.locked_messages", "Transaction.end"}
# Arguments for which None is valid.
OPTIONAL = {
    "Operator.begin.queue",
    "Operator.begin.details",
    "Operator.end.queue",
    "QueueManager.redrive.to",
    "Operator.redrive.to",
    "Browser.first.lease",
}
WITH = [name for name, (_, arguments) in CALLS.items() if arguments]


def public() -> dict[str, list[str]]:
    """Every public method of both interfaces for users, and its arguments."""
    found = {}
    for name in CLASSES:
        for method, function in inspect.getmembers(getattr(mqredis.client, name), inspect.isfunction):
            if not method.startswith("_"):
                found[f"{name}.{method}"] = [p for p in inspect.signature(function).parameters if p != "self"]
    return {name: arguments for name, arguments in found.items() if name not in FOR_INTEGRATIONS}


def test_every_public_argument_is_tested():
    assert public() == {
        name: [a for a in public().get(name, []) if a in row] for name, (_, row) in CALLS.items()
    }
    assert {kind for _, row in CALLS.values() for kind in row.values()} == set(KINDS)


class Objects:
    """One object of each class on a queue manager, of the sync or the asyncio interface."""

    def __init__(self, connect: Callable[..., Any], url: Any, manager: str) -> None:
        qm = connect(url, manager=manager, settings=Settings(test_clock=True, allow_volatile=True))
        q = qm.open("q")
        q.send(b"for the lock", response_queue="q")
        lock = q.lock_many(9, 0)[-1]
        browser = q.browser()
        q.send(b"to be browsed")
        browser.first()
        self.made = {
            "QueueManager": qm, "Queue": q, "Transaction": qm.transaction(), "LockedMessage": lock,
            "Cursor": q.cursor(), "Browser": browser, "GroupWriter": q.group(), "Operator": qm.operator("ada"),
            "$q": q, "$message": lock.message,
        }  # fmt: skip

    def wrong(self, call: str, argument: str, value: Any) -> str:
        """Return a complaint about how a call refuses this value, "" if the refusal is correct."""
        name, method = call.split(".")
        given, _ = CALLS[call]
        named = {a: self.made.get(v, v) if isinstance(v, str) else v for a, v in given.items()}
        named.update(
            value if argument in ("fields", "properties", "changes", "choice") else {argument: value}
        )
        try:
            answer = getattr(self.made[name], method)(**named)
            answer = list(answer) if inspect.isgenerator(answer) else answer
        except MqError as error:
            text = str(error)
            return "" if 10 < len(text) < 600 and not text.startswith("Traceback") else f"says {text[:80]!r}"
        except Exception as error:  # noqa: BLE001 - any other error is a finding
            return f"raises {error!r:.120}"
        return f"answers {answer!r:.80}"


@pytest.mark.parametrize("call", WITH)
def test_invalid_argument_raises_a_typed_error_and_writes_nothing(connect_either, redis_server, call):
    """Each refusal is an MqError with a readable text."""
    raw = redis_server.client()
    bench = Bench(raw, "every-call")
    bench.qm.create_queue("topic", topic=True)
    objects = Objects(connect_either, redis_server.url, bench.manager)
    before = bench.keys()
    found = []
    for argument, kind in CALLS[call][1].items():
        for value in KINDS[kind]:
            if value is None and f"{call}.{argument}" in OPTIONAL:
                continue
            complaint = objects.wrong(call, argument, value)
            if complaint:
                found.append(f"{argument}={value!r:.40} {complaint}")
        if bench.keys() != before:
            found.append(f"{argument}: something was written")
            before = bench.keys()
    objects.made["QueueManager"].close()
    bench.qm.close()
    raw.close()
    assert not found, "\n".join(found)
