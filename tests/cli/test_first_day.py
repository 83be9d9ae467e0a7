"""Behaviour of the command line that confused new users."""

from __future__ import annotations

import logging
import re
from datetime import datetime
from pathlib import Path

import pytest

import mqredis
from mqredis.cli.exits import Exit
from mqredis.worker import Worker
from tests.cli.conftest import Run

# A time as tables show it: in UTC, which it says.
TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ")


@pytest.fixture
def orders(run: Run) -> Run:
    run("queue", "create", "orders")
    return run


@pytest.mark.parametrize("words", ["browse orders", "actions", "show messages orders"])
def test_times_name_their_zone(orders: Run, words: str) -> None:
    orders("send", "orders", "x")
    assert TIME.search(orders(*words.split()).out)
    for row in orders(*words.split(), "--json").rows:
        told = [datetime.fromisoformat(row[name]) for name in ("arrived_at", "time") if name in row]
        assert told
        assert all(time.tzinfo is not None for time in told)


def test_pause_of_a_queue_is_shown(orders: Run) -> None:
    commands = [("queue", "info", "orders"), ("queue", "list"), ("stats", "orders"), ("show", "overview")]
    for words in commands:
        assert orders(*words, "--json").rows[0]["paused"] is False
    orders("pause", "orders")
    for words in commands:
        assert next(row for row in orders(*words, "--json").rows if row["name"] == "orders")["paused"] is True
        assert "paused" in orders(*words).out
    assert orders("stats", "--json").rows[0]["queues"][0]["paused"] is True


@pytest.mark.parametrize("words, left", [("orders", 1), ("--consumer handle", 1), ("other", 0)])
def test_burst_worker_respects_a_pause(
    orders: Run, words: str, left: int, caplog: pytest.LogCaptureFixture
) -> None:
    orders("queue", "create", "other")
    orders("send", "orders", "x")
    orders("pause", *words.split())
    worker, handled = Worker(), []

    @worker.consumer("orders", name="handle")
    def handle(body: str) -> None:
        handled.append(body)

    with mqredis.connect() as qm, caplog.at_level(logging.WARNING):
        worker.run(burst=True, manager=qm)
        assert qm.queue_info("orders").ready == left
    assert len(handled) == 1 - left
    assert caplog.text.count("handle is paused by an operator") == left


@pytest.mark.parametrize(
    "words",
    [
        "send orders x",
        "receive orders",
        "queue create other",
        "queue set orders --label x",
        "queue purge orders",
        "queue delete orders",
        "throttle on",
        "pause orders",
        "redrive",
        "scripts load",
        "scripts clean",
    ],
)
def test_read_only_option_refuses_changes(orders: Run, words: str) -> None:
    before = len(orders("actions", "--json").rows)
    told = orders("--read-only", *words.split(), code=Exit.REFUSED).err
    assert "this client is read-only (Settings.read_only)" in told
    told = orders(*words.split(), "--read-only", "--json", code=Exit.REFUSED).err
    assert "AccessDenied" in told
    assert len(orders("actions", "--json").rows) == before
    assert orders("--read-only", "queue", "list", "--names").out == "orders\n"


def test_read_only_commands_show_messages(orders: Run) -> None:
    orders("peek", "orders", "--read-only", code=Exit.NOTHING)
    orders("send", "orders", "--file", __file__)
    orders("send", "orders", "second", "--property", "kind=b")
    orders("send", "orders", "later", "--delay", "1000")
    commands = ("peek orders", "browse orders", "browse orders --limit 1", "export orders")
    for words in (*commands, "peek orders --raw", "browse orders --selector kind='b'"):
        usual = orders(*words.split(), "--json")
        assert usual.rows if "--raw" not in words else usual.out
        assert orders(*words.split(), "--json", "--read-only") == usual
    first = orders("peek", "orders", "--json").rows[0]["lookup_id"]
    told = orders("peek", "orders", "--lookup-id", first, "--raw", "--read-only").out
    assert told == Path(__file__).read_text()
    assert "cannot wait" in orders("peek", "orders", "--wait", "--read-only", code=Exit.USAGE).err
    for words in ("peek other", "browse other", "export other", "export orders;sub"):
        orders(*words.split(), "--read-only", code=Exit.REFUSED)


@pytest.mark.parametrize("words", ["worker app:worker", "broker", "pipeline publications"])
def test_commands_that_always_write_refuse_read_only(orders: Run, words: str) -> None:
    told = orders("--read-only", *words.split(), code=Exit.USAGE).err
    assert told == f"mqredis: {words.split(maxsplit=1)[0]} changes what is stored: leave out --read-only\n"


def test_statistics_have_units(orders: Run) -> None:
    orders("send", "orders", "x" * 2000)
    told = dict(line.split("  ", 1) for line in orders("stats", "orders").out.splitlines())
    figures = {name: text.strip() for name, text in told.items()}
    assert figures["bytes"].startswith("2,0")
    assert re.fullmatch(r"[\d.,]+ s \(priority 3\)", figures["oldest seconds"])
    assert re.fullmatch(r"[\d.,]+/s", figures["rate in"])
    assert re.fullmatch(r"[\d.,]+ s", figures["rate seconds"])
    assert figures["warnings"] == "-"


@pytest.mark.parametrize("words", ["stats", "queue list", "top --count 1", "show overview"])
def test_tables_write_numbers_with_separators(orders: Run, words: str) -> None:
    orders("send", "orders", "x" * 2000)
    told = orders(*words.split()).out
    (row,) = (line for line in told.splitlines() if line.startswith("orders "))
    assert re.search(r" 2,0\d\d " if words != "show overview" else r" [\d.,]+ s ", row), row


def test_missing_trail_error_says_how_to_enable_trails(orders: Run) -> None:
    told = orders("trail", "orders", "m-1", code=Exit.NOTHING).err
    assert "(mqredis queue set orders --trail 1)" in told
    orders("queue", "set", "orders", "--trail", "0.5")
    told = orders("trail", "orders", "m-1", code=Exit.NOTHING).err
    assert "only 0.5 of its messages have a trail" in told
    assert "its trail is gone" in told
    assert "there was no such message in orders" in told


def test_locks_table_omits_since_if_unknown(orders: Run) -> None:
    orders("send", "orders", "x")
    assert "since" not in orders("show", "locks", "orders").out
    with mqredis.connect() as qm, qm.open("orders") as queue:
        lock = queue.lock(0)
        told = orders("show", "locks", "orders").out
        known = orders("show", "locks", "orders", "--json").rows[0]["since"] is not None
        lock.commit()
    assert ("since" in told) is known


def test_created_queue_is_told_from_an_existing_one(orders: Run, caplog: pytest.LogCaptureFixture) -> None:
    assert orders("queue", "create", "other", "--exist-ok").out == "queue other was created\n"
    assert orders("queue", "create", "other", "--exist-ok").out == "queue other exists\n"
    assert not caplog.records
    words = ("--exist-ok", "--quota-messages", "5", "--label", "", "--retry", '{"cycles": 1}')
    assert orders("queue", "create", "other", *words).out == "queue other exists\n"
    (record,) = caplog.records
    assert "of which quota_messages, retry differ from the given ones" in record.getMessage()
    assert "mqredis queue set" in record.getMessage()
    assert orders("queue", "info", "other", "--json").rows[0]["quota_messages"] is None
    assert "exists already" in orders("queue", "create", "other", code=Exit.REFUSED).err


def test_worker_warns_of_properties_that_an_existing_queue_keeps(
    orders: Run, caplog: pytest.LogCaptureFixture
) -> None:
    worker = Worker()

    @worker.consumer("orders", create={"quota_messages": 5})
    def handle(body: str) -> None: ...

    with mqredis.connect() as qm, caplog.at_level(logging.WARNING):
        worker.run(burst=True, manager=qm)
        assert qm.queue_info("orders").quota_messages is None
    warnings = [record.getMessage() for record in caplog.records if "differ from" in record.getMessage()]
    assert len(warnings) == 1
    assert "of which quota_messages differ" in warnings[0]


@pytest.mark.parametrize("action", ["create", "set"])
def test_options_of_queues_have_a_text(run: Run, action: str) -> None:
    told = " ".join(run("queue", action, "--help").out.split())
    assert (
        "--quota-bytes NUMBER Bytes that the messages of the queue may take together; none: no limit" in told
    )
    options = re.split(r" (?=--[a-z])", told.partition("properties:")[2])
    bare = [text for text in options if re.fullmatch(r"--[a-z-]+( NUMBER| TEXT)?", text.strip())]
    assert not bare


@pytest.mark.parametrize("action", ["pause", "resume"])
def test_option_consumer_says_what_its_command_does(run: Run, action: str) -> None:
    told = " ".join(run(action, "--help").out.split())
    assert f"--consumer NAME {action} the consumers of this name instead of a queue" in told


def test_retry_none_means_no_policy(run: Run) -> None:
    told = " ".join(run("queue", "set", "--help").out.split())
    assert "delays in seconds; none: no policy" in told


def test_trail_takes_short_lookup_ids(orders: Run) -> None:
    assert "no trail of '0x1'" in orders("trail", "orders", "0x1", code=Exit.NOTHING).err


def test_errors_name_the_command(orders: Run) -> None:
    orders("throttle", "on")
    assert "run mqredis throttle off" in orders("send", "orders", "x", code=Exit.REFUSED).err
    orders("throttle", "off")
    orders("queue", "set", "orders", "--quota-messages", "0")
    assert "(mqredis queue set)" in orders("send", "orders", "x", code=Exit.REFUSED).err
    orders("queue", "set", "orders", "--put-inhibited")
    assert "(mqredis queue set --no-put-inhibited)" in orders("send", "orders", "x", code=Exit.REFUSED).err
