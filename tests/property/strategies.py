"""Hypothesis strategies for :mod:`tests.property.steps`: small odd values."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from mqredis.models import Acknowledge, Journal, Seek
from tests.property.features import CHANGED
from tests.property.steps import FITTING, NAMES, SIDES, SUBQUEUES, Step

BODIES = st.one_of(
    st.sampled_from([b"", b"\0", b"\0\1\2\3\4", b"-0", b"\r\n+OK\r\n"]),
    st.binary(max_size=40),
    # Big ones as a recipe, so that a failure can be read.
    st.tuples(st.just(b"x"), st.integers(4090, 4100)),
    st.just((b"\xff\0", 9_000)),
)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
VALUES = st.one_of(
    TEXTS, st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False, allow_infinity=False), st.booleans(),
    st.none(), st.binary(max_size=12),
)  # fmt: skip


def sendable(fields: dict[str, Any]) -> dict[str, Any]:
    """These fields; a dedup window without a dedup key would be refused."""
    return fields if "dedup_key" in fields else {n: v for n, v in fields.items() if n != "dedup_window"}


MESSAGES = st.fixed_dictionaries(
    {"body": BODIES},
    optional={
        "priority": st.integers(0, 7),
        "label": TEXTS,
        "correlation_id": st.one_of(TEXTS.filter(bool), st.binary(min_size=1, max_size=8)),
        "properties": st.dictionaries(TEXTS.filter(bool), VALUES, max_size=3),
        "app_tag": st.integers(0, 2**32 - 1),
        "time_to_be_received": st.sampled_from([0.0, 5_000.0, 50_000.0, 500_000.0]),
        "time_to_reach_queue": st.sampled_from([1_000.0, 9_000.0]),
        "sent_seconds_ago": st.sampled_from([3_000.0, 7_000.0]),
        "delay": st.sampled_from([5_000.0, 50_000.0, 500_000.0]),
        "acknowledge": st.sampled_from(list(range(16))).map(Acknowledge),
        "administration_queue": st.sampled_from(["admin", "admin", "units", "nowhere", "news", "plain"]),
        "journal": st.sampled_from([1, 1, 2, 3]).map(Journal),
        "dead_letter_queue": st.sampled_from(["letters", "units", "nowhere", "news"]),
        "dedup_key": st.sampled_from(["k", "l", "ü\x03k"]),
        "dedup_window": st.sampled_from([0.0, 5_000.0, 50_000.0]),
    },
).map(sendable)
QUEUE = st.sampled_from([*NAMES, "plain", "plain", "units", "units"])
TARGET = st.one_of(QUEUE, QUEUE, QUEUE, st.sampled_from(["news", "unit news", "admin"]))
WHICH = st.integers(0, 7)
UNIT = st.sampled_from([None, FITTING, FITTING, FITTING, FITTING, 0, 1])
READ = st.one_of(QUEUE, QUEUE, st.sampled_from(SUBQUEUES), st.sampled_from([*SIDES, "admin", "letters"]))
READ_UNIT = st.sampled_from([None, None, None, FITTING, FITTING, FITTING, 0])
MOVED = st.sampled_from(
    ["plain", "plain", "plain;s", "units", "units", "units;s", "plain;poison", "plain;retry"]
)
CURSOR_CALLS = ["peek", "peek", "peek_next", "peek_next", "receive", "lock", "reset"]
LEASE = st.sampled_from([5_000.0, 50_000.0, 500_000.0])
TOPICS = ["news", "news", "unit news", "plain"]
SELECTOR = st.sampled_from([None, "n = 1", "n <> 1", "n IS NULL"])
SOURCES = ["system$;deadletter", "system$;deadxact", "system$;journal", "letters", "plain;journal"]
WHERE = st.sampled_from([None, None, {"correlation_id": "c-1"}])
LIMIT = st.sampled_from([None, None, 1, 2])
CHANGES = st.sampled_from(CHANGED)
KINDS: dict[str, tuple[st.SearchStrategy[Any], ...]] = {
    "send": (TARGET, UNIT, MESSAGES),
    "send_many": (TARGET, UNIT, st.lists(MESSAGES, min_size=1, max_size=4)),
    "receive": (READ, READ_UNIT),
    "receive_many": (READ, READ_UNIT, st.integers(1, 4)),
    "peek": (READ,),
    "lock": (READ, LEASE),
    "lock_many": (READ, st.integers(1, 4), LEASE),
    "by_id": (
        st.sampled_from(["peek", "lock", "receive"]), READ, WHICH, st.sampled_from(list(Seek)), READ_UNIT,
        st.booleans(),
    ),
    "end_lock": (WHICH, st.sampled_from(["commit", "abort", "reject"])),
    "extend_lock": (WHICH, LEASE),
    "begin": (LEASE,),
    "end_unit": (WHICH, st.sampled_from(["commit", "commit", "abort", "abort", "prepare"])),
    "open_cursor": (READ,),
    "use_cursor": (WHICH, READ, st.sampled_from(CURSOR_CALLS), READ_UNIT),
    "move": (MOVED, MOVED, WHICH, READ_UNIT),
    "purge": (READ,),
    "recreate": (QUEUE,),
    "reopen": (READ,),
    "close": (READ,),
    "reject": (WHICH,),
    "send_several": (st.lists(QUEUE, min_size=1, max_size=3), UNIT, MESSAGES),
    "subscribe": (st.sampled_from(TOPICS), st.sampled_from([*NAMES, "letters", "news", "nowhere"]), SELECTOR),
    "unsubscribe": (st.sampled_from(TOPICS), st.sampled_from(NAMES)),
    "redrive": (st.sampled_from(SOURCES), WHERE, st.sampled_from([None, None, *NAMES, "news"]), LIMIT),
    "change": (QUEUE, CHANGES),
    "throttle": (st.sampled_from([False, False, True]),),
    "manager_quota": (st.one_of(st.none(), st.integers(0, 30)),),
    "pass_time": (st.sampled_from([1e3, 1e4, 1e5, 1e6]),),
}  # fmt: skip
# How often a kind is drawn: sends, reads and transactions lead to more states than the rest.
WEIGHTS = {
    "send": 14,
    "send_many": 6,
    "receive": 6,
    "by_id": 8,
    "use_cursor": 8,
    "end_unit": 6,
    "move": 8,
    "lock": 4,
    "end_lock": 5,
    "pass_time": 3,
}


def step_of(name: str) -> st.SearchStrategy[Step]:
    return st.tuples(*KINDS[name]).map(lambda args: Step(name, args))


STEPS = st.sampled_from([n for n in KINDS for _ in range(WEIGHTS.get(n, 1))]).flatmap(step_of)
