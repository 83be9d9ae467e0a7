"""Numeric arguments: negative, NaN, infinite, boolean, fractional, too large, or of another type."""

from __future__ import annotations

import math

import pytest

import mqredis
from mqredis.errors import AccessDenied, InvalidArgument, MqError
from mqredis.models import Seek
from mqredis.settings import Settings

NAN, INF = math.nan, math.inf


@pytest.mark.parametrize("timeout", [NAN, INF, True, "1", b"1", [1], 1e300])
def test_invalid_timeout(bench, timeout):
    for read in (
        bench.q.receive,
        bench.q.peek,
        bench.q.lock,
        bench.q.cursor().peek,
        bench.q.cursor().receive,
    ):
        with bench.refuses(InvalidArgument):
            read(timeout)


@pytest.mark.parametrize("lease", [0, -1, NAN, INF, True, "5", 1e300])
def test_invalid_lease(bench, lease):
    held = bench.t.lock(0)
    for call in (
        lambda: bench.q.lock(0, lease=lease),
        lambda: bench.q.lock_many(2, 0, lease=lease),
        lambda: bench.q.lock_by_lookup_id(bench.id, lease=lease),
        lambda: bench.q.cursor().lock(0, lease=lease),
        lambda: bench.qm.transaction(lease=lease),
        lambda: bench.qm.transaction(id="x", lease=lease),
        lambda: held.extend(lease),
    ):
        with bench.refuses(InvalidArgument):
            call()
    held.abort()


@pytest.mark.parametrize("priority", [-1, 8, 255, True, 3.0, "3", NAN])
def test_invalid_priority(bench, priority):
    with bench.refuses(InvalidArgument):
        bench.q.send(b"B", priority=priority)


@pytest.mark.parametrize("seconds", [-1, -0.001, NAN, INF, -INF, "soon"])
@pytest.mark.parametrize(
    "field", ["time_to_be_received", "time_to_reach_queue", "sent_seconds_ago", "delay", "dedup_window"]
)
def test_invalid_durations_of_a_message(bench, field, seconds):
    with bench.refuses(InvalidArgument):
        bench.q.send(b"B", **{field: seconds})


@pytest.mark.parametrize(
    "field, value",
    [
        ("app_tag", -1),
        ("app_tag", 2**32),
        ("body_type", -1),
        ("sequence", 0),
        ("sequence", 10**9),
        ("offset", -1),
        ("acknowledge", 1000),
        ("journal", 1000),
    ],
)
def test_numeric_message_fields_out_of_range(bench, field, value):
    with bench.refuses(InvalidArgument):
        bench.q.send(b"B", **{field: value})


@pytest.mark.parametrize("count", [0, -1, 257, 10**9, True, 1.5, "2", None, NAN])
def test_invalid_count(bench, count):
    for call in (bench.q.receive_many, bench.q.lock_many):
        with bench.refuses(InvalidArgument):
            call(count, 0)


@pytest.mark.parametrize("lookup_id", [-1, 2**64, 2**70, True, 1.5, "1", b"1", None, NAN])
def test_invalid_lookup_id(bench, lookup_id):
    for call in (bench.q.peek_by_lookup_id, bench.q.receive_by_lookup_id, bench.q.lock_by_lookup_id):
        with bench.refuses(InvalidArgument):
            call(lookup_id)
    with bench.refuses(InvalidArgument):
        bench.q.move(lookup_id, bench.q)


@pytest.mark.parametrize("seek", ["next", 1, None, True])
def test_invalid_seek(bench, seek):
    with bench.refuses(InvalidArgument):
        bench.q.peek_by_lookup_id(bench.id, seek=seek)
    assert bench.q.peek_by_lookup_id(bench.id, seek=Seek.CURRENT).body == b"A"


@pytest.mark.parametrize("value", [-1, True, 1.5, "5", NAN, INF])
@pytest.mark.parametrize(
    "name", ["quota_messages", "quota_bytes", "max_message_bytes", "journal_quota_bytes"]
)
def test_invalid_quota_of_a_queue(bench, name, value):
    with bench.refuses(InvalidArgument):
        bench.qm.create_queue("new", **{name: value})
    with bench.refuses(InvalidArgument):
        bench.qm.update_queue("q", **{name: value})


@pytest.mark.parametrize(
    "properties",
    [
        {"max_message_bytes": 0},
        {"max_message_bytes": 2**40},
        {"base_priority": 32768},
        {"base_priority": -32769},
        {"transactional": 1},
        {"transactional": "yes"},
        {"journaling": None},
        {"label": "x" * 125},
        {"label": 5},
        {"type_id": "x" * 65},
        {"colour": "red"},
    ],
    ids=str,
)
def test_invalid_properties_of_a_queue(bench, properties):
    with bench.refuses(InvalidArgument):
        bench.qm.create_queue("new", **properties)


@pytest.mark.parametrize("value", [-1, True, 1.5, "5", NAN, INF, 2**60])
def test_invalid_quota_of_the_manager(bench, value):
    with bench.refuses(InvalidArgument):
        bench.qm.set_quota(messages=value)
    with bench.refuses(InvalidArgument):
        bench.qm.set_quota(bytes=value)


@pytest.mark.parametrize("on", [1, 0, "on", None])
def test_invalid_throttle_flag(bench, on):
    with bench.refuses(InvalidArgument):
        bench.qm.throttle(on)


@pytest.mark.parametrize("seconds", [-1, NAN, INF, True, "5", 1e300])
def test_invalid_clock_step(bench, seconds):
    with bench.refuses(InvalidArgument):
        bench.qm.advance_clock(seconds)


def test_clock_of_a_manager_without_a_test_clock_cannot_be_advanced(backend):
    client = backend.client()
    plain = Settings(allow_volatile=True)
    with mqredis.connect(client, manager="real", settings=plain) as qm, pytest.raises(AccessDenied):
        qm.advance_clock(5)
    client.close()


@pytest.mark.parametrize(
    "settings",
    [
        {"lease_seconds": 0},
        {"lease_seconds": NAN},
        {"retry_seconds": -1},
        {"max_connections": 0},
        {"wake": "loudly"},
        {"colour": "red"},
    ],
    ids=str,
)
def test_invalid_settings(settings):
    with pytest.raises((ValueError, MqError)):
        Settings(**settings)
    variable = {f"MQREDIS_{name.upper()}": str(value) for name, value in settings.items() if name != "colour"}
    if variable:
        with pytest.raises(InvalidArgument):
            Settings.from_env(variable)
