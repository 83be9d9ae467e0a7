"""Steps that once had different results on the model and the broker, kept as regression tests."""

from __future__ import annotations

from typing import Any

from mqredis.models import Grouping, Mark
from tests.property.steps import FITTING, Step

_L, _S, _C = Grouping.LOGICAL_ORDER, Grouping.ALL_SEGMENTS_AVAILABLE, Grouping.COMPLETE_MESSAGE


def _send(queue: str, **fields: Any) -> Step:
    return Step("send", (queue, FITTING, {"body": b"1", **fields}))


def _group(queue: str, *bodies: bytes, size: int | None = None) -> Step:
    return Step("send_group", (queue, FITTING, list(bodies), "g", size))


def _get(
    how: str, queue: str, grouping: Grouping | None = None, selector: str | None = None, **match: Any
) -> Step:
    return Step("get", (how, queue, FITTING, match, selector, grouping))


def _many(how: str, queue: str, count: int, **match: Any) -> Step:
    return Step("get_many", (how, queue, FITTING, count, match, None))


def _open(queue: str, grouping: Grouping | None = None, co_op: bool = False) -> Step:
    return Step("open_browser", (queue, {}, None, grouping, co_op))


def _browser(how: str, **asked: Any) -> Step:
    return Step("use_browser", (0, how, "plain", FITTING, {}, asked))


FOUND: dict[str, tuple[Step, ...]] = {
    "what a cursor has locked goes with its queue": (
        _send("plain"), _open("plain"), _browser("first", lock=True, lease=5e4), Step("recreate", ("plain",)),
        _browser("close"),
    ),
    "a group that is taken counts its delivery": (
        _group("turns", b"55555", b"1"),
        Step("get_group", ("turns", FITTING, {}, None)),
    ),
    "a message taken under the cursor counts its delivery": (
        _send("plain"), _open("plain"), _browser("next"), _browser("take"),
    ),
    "and once only if it was locked": (
        _send("plain"), _open("plain"), _browser("next", lock=True, lease=5e3), _browser("take"),
    ),
    "and twice if that lock has lapsed": (
        _send("turns"), _open("turns"), _browser("next", lock=True, lease=5e3), Step("pass_time", (1e4,)),
        _browser("take"),
    ),
    "segments that were joined are marked, all of them": (
        _open("turns", _C, True), _group("turns", b"1", b"88888888", b"22", size=2),
        _browser("next", unmarked=True, mark=Mark.CO_OP), _browser("first", unmarked=True, mark=Mark.CO_OP),
        _browser("first", unmarked=True), Step("get", ("receive", "turns", None, {}, None, None)),
    ),
    "segments that were joined are locked and given back, all of them": (
        _open("plain", _C), _group("plain", b"88888888", b"22", size=2), _browser("first", lock=True, lease=5e4),
        _browser("current"), _browser("unlock"), _browser("first", lock=True, lease=5e4), _browser("next"),
        _get("receive", "plain", _C),
    ),
    "segments that were joined are taken under the cursor, all of them": (
        _open("plain", _C), _group("plain", b"88888888", b"22", size=2), _browser("first"), _browser("take"),
        _browser("first", lock=True, lease=5e4), _browser("take"),
    ),
    "a group is free again whatever order its segments come back in": (
        _send("turns", group_id="g", sequence=1, offset=2, segment=True, last_segment=True),
        _group("turns", b"8888", b"1", size=2),
        _open("turns", _C), _browser("first", lock=True, lease=5e4), _browser("unlock"),
        Step("lock", ("turns", 5e4)),
    ),
    "a complete message of one segment": (
        _send("turns", group_id="g", sequence=2, offset=0, segment=True, last_segment=True),
        _get("lock", "turns", _C),
    ),
    "a message without a group in a subqueue of a queue with turns": (
        _send("turns", correlation_id="c2"), Step("move", ("turns", "turns;s", 0, None)),
    ),
    "a batch that matches has one message of each group": (
        _send("turns", group_id="g", correlation_id="c"), _send("turns", group_id="g", correlation_id="c"),
        _send("turns", group_id="h", correlation_id="c"), _many("lock", "turns", 3, correlation_id="c"),
    ),
    "the next message of a group whose first one is active": (
        _group("turns", b"1", b"22", b"333"), _get("lock", "turns", _L), _get("receive", "turns", _L),
        Step("end_lock", (0, "commit")), _get("receive", "turns", _L),
    ),
    "a cursor leaves a group alone that is active": (
        _send("turns", group_id="g"), _send("turns", group_id="g"), _send("turns", group_id="h"),
        Step("lock", ("turns", 5e4)), Step("open_cursor", ("turns",)),
        Step("use_cursor", (0, "turns", "peek", None)), Step("use_cursor", (0, "turns", "receive", None)),
        Step("use_cursor", (0, "turns", "reset", None)), Step("use_cursor", (0, "turns", "receive", None)),
    ),
    "a browse that fails moves nothing": (
        _send("plain", correlation_id="c1"), _send("plain"), _open("plain"), _browser("next"),
        Step("use_browser", (0, "first", "plain", None, {"correlation_id": "none"}, {})), _browser("next"),
    ),
    "a lock under the cursor that was purged": (
        _send("units"), _open("units"), _browser("first", lock=True, lease=5e4), Step("purge", ("units",)),
        _browser("current"), _browser("take"),
    ),
    "locks of a group come back oldest first": (
        _group("plain", b"1", b"22", b"333"), _get("lock", "plain", _L), _get("lock", "plain", _L),
        Step("end_lock", (0, "abort")), Step("end_lock", (0, "abort")), _get("lock", "plain", _L),
    ),
    "two messages in the last place of a group": (
        _group("plain", b"1", b"22"), _send("plain", group_id="g", sequence=2),
        Step("get_group", ("plain", FITTING, {}, None)), _get("receive", "plain", _L),
    ),
    "an empty segment that is not the last": (
        _send("plain", body=b"", group_id="g", segment=True), _get("receive", "plain", _S),
    ),
    "a message in the place of another is whole by itself": (
        _group("plain", b"1", b"22"), _send("plain", group_id="g", sequence=1, correlation_id=b"k"),
        Step("open_browser", ("plain", {"correlation_id": b"k"}, None, _L | _C, True)), _browser("first"),
    ),
}  # fmt: skip
