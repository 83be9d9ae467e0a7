"""Changes by the command line are in the log of actions."""

from __future__ import annotations

import getpass
import re
import socket
from pathlib import Path

import pytest

import mqredis
from mqredis.cli.exits import Exit
from tests.cli.conftest import Run, manager, run  # noqa: F401 - fixtures

# Command, and the expected log entry: action, queue and a part of the details.
COMMANDS = [
    ("queue create other --label x", "create_queue", "other", {"result": "done"}),
    ("queue set orders --quota-messages 10", "set_queue", "orders", {"result": "done"}),
    ("queue purge orders --selector n=1", "purge", "orders", {"result": "removed 0 messages of orders"}),
    ("queue delete orders", "delete_queue", "orders", {"result": "deleted orders with 0 messages"}),
    ("throttle on", "throttle", "", {"result": "sends are refused"}),
    ("quota --messages 9", "quota", "", {"result": "done"}),
    # How much it repairs depends on the server: it also unloads function libraries, which other tests leave there.
    ("doctor --repair", "repair", "", {}),
    ("topic subscribe news orders", "subscribe", "orders", {"result": "done"}),
    ("topic unsubscribe news orders", "unsubscribe", "orders", {"result": "done"}),
    ("export orders --drain", "drain", "orders", {"result": "exported and removed 0 messages of orders"}),
    ("import orders --file {empty}", "import", "orders", {"result": "sent 0 messages"}),
    ("move orders orders;later --all", "move", "orders", {"value": "orders%3Blater"}),
    ("delete orders --all", "delete", "orders", {}),
    ("pause orders", "pause", "orders", {}),
]


@pytest.fixture
def orders(run: Run) -> Run:  # noqa: F811
    run("queue", "create", "orders")
    run("queue", "create", "news", "--topic")
    return run


@pytest.mark.parametrize("words, action, queue, details", COMMANDS, ids=[words for words, *_ in COMMANDS])
def test_change_is_logged_with_its_operator(
    orders: Run, tmp_path: Path, words: str, action: str, queue: str, details: dict[str, object]
) -> None:
    empty = tmp_path / "empty"
    empty.touch()
    given = words.format(empty=empty).split()
    orders(*given, "--operator", "ada")
    entry = orders("actions", "--json").rows[0]
    assert (entry["action"], entry["queue"]) == (action, queue)
    assert (entry["operator"], entry["source"], entry["finished"]) == ("ada", "cli", True)
    assert details.items() <= entry["details"].items()
    if action == "repair":
        assert re.fullmatch(r"repaired \d+ findings?", entry["details"]["result"])


def test_redrive_is_logged(orders: Run) -> None:
    orders("queue", "set", "orders", "--retry", '{"immediate": 0}')
    orders("send", "orders", "x")
    orders("move", "orders", "orders;poison", "--all")
    orders("redrive", "orders;poison")
    entry = orders("actions", "--json").rows[0]
    assert (entry["action"], entry["queue"]) == ("redrive", "orders;poison")
    assert entry["details"] == {"result": "put back 1 message of orders;poison"}
    assert entry["changed"] == 1


@pytest.mark.parametrize(
    "words", ["queue purge orders", "queue delete orders --yes", "export orders --drain"]
)
def test_entry_counts_the_messages(orders: Run, words: str) -> None:
    orders("send", "orders", "x")
    orders("send", "orders", "y")
    orders(*words.split())
    ended, began = orders("actions", "--json", "--limit", "2").rows
    assert (began["changed"], ended["changed"]) == (0, 2)


def test_default_operator_is_the_user_on_this_host(orders: Run) -> None:
    orders("queue", "purge", "orders")
    ended, began = orders("actions", "--json", "--limit", "2").rows
    assert began["operator"] == ended["operator"] == f"{getpass.getuser()}@{socket.gethostname()}"
    assert began["call"] == ended["call"]
    assert "cli" in orders("actions").out


def test_actions_limit_reads_the_latest_entries(orders: Run) -> None:
    for name in "abcd":
        orders("pause", "--consumer", name)
    rows = orders("actions", "--json", "--limit", "3").rows
    assert [row["details"]["consumer"] for row in rows] == ["d", "c", "b"]
    shown = orders("actions", "--json").rows
    assert len(shown) > 4
    # 0: without a limit.
    assert orders("actions", "--json", "--limit", "0").rows == shown


def test_failed_command_is_logged_with_its_error(orders: Run) -> None:
    error = orders("queue", "set", "ghost", "--label", "x", code=Exit.REFUSED).err
    assert error == "mqredis: there is no queue 'ghost'\n"
    entry = orders("actions", "--json").rows[0]
    assert entry["details"] == {"error": "QueueNotFound: there is no queue 'ghost'"}


def test_interrupted_command_is_logged_as_such(orders: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(mqredis.QueueManager, "update_queue", interrupted)
    orders("queue", "set", "orders", "--label", "x", code=Exit.INTERRUPTED)
    entry = orders("actions", "--json").rows[0]
    assert (entry["action"], entry["details"]) == ("set_queue", {"error": "KeyboardInterrupt: "})


def test_reading_commands_are_not_logged(orders: Run) -> None:
    before = len(orders("actions", "--json").rows)
    orders("send", "orders", "x")
    for words in ("queue info orders", "quota", "doctor", "peek orders", "export orders", "receive orders"):
        orders(*words.split())
    assert len(orders("actions", "--json").rows) == before


def test_log_does_not_count_in_the_quota(orders: Run) -> None:
    before = orders("stats", "--json").rows[0]["manager"]["messages"]
    orders("quota", "--messages", "1")
    for _ in range(3):
        orders("queue", "set", "orders", "--label", "x")
    orders("send", "orders", "x")
    assert "quota" in orders("send", "orders", "y", code=Exit.REFUSED).err
    assert (before, orders("stats", "--json").rows[0]["manager"]["messages"]) == (0, 1)
