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
