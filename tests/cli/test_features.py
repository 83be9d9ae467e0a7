"""Command line for topics, statistics, reports, redrive and other features beyond sending and receiving."""

from __future__ import annotations

import threading

import pytest

import mqredis
from mqredis.cli.exits import Exit
from tests.cli.conftest import Run


def test_topics(run: Run) -> None:
    run("queue", "create", "news", "--topic")
    for name in ("all", "eu"):
        run("queue", "create", name)
    run("topic", "subscribe", "news", "all")
    assert run("topic", "subscribe", "news", "eu", "--selector", "region = 'EU'", "--json").rows == [
        {"topic": "news", "queue": "eu", "selector": "region = 'EU'"}
    ]
    run("send", "news", "x", "--property", "region=EU")
    run("send", "news", "y")
    assert [row["queue"] for row in run("topic", "list", "news", "--json").rows] == ["all", "eu"]
    assert run("receive", "eu", "--count", "0").out == "x\n"
    run("topic", "unsubscribe", "news", "eu")
    assert " eu " not in run("topic", "list", "news").out
    assert run("receive", "all", "--count", "0").out == "x\ny\n"
    assert "is not a topic" in run("topic", "subscribe", "all", "eu", code=Exit.USAGE).err


def test_statistics_of_a_queue(run: Run) -> None:
    run("queue", "create", "orders", "--journaling")
    run("send", "orders", "x", "--priority", "5")
    run("receive", "orders")
    run("send", "orders", "y", "--priority", "6")
    (row,) = run("stats", "orders", "--json").rows
    assert (row["ready"], row["journal_messages"], row["total_in"], row["total_out"]) == (1, 1, 2, 1)
    assert list(row["oldest_seconds"]) == ["6"]
    assert "journal messages" in run("stats", "orders").out
    run("stats", "nowhere", code=Exit.REFUSED)


def test_stats_history_of_a_queue(run: Run) -> None:
    run("queue", "create", "orders")
    run("send", "orders", "x")
    run("receive", "orders")
    run("send", "orders", "y")
    rows = run(
        "stats", "orders", "--history", "--json"
    ).rows  # two rows if a period of 5 minutes ended in between
    assert sum(row["messages_in"] for row in rows) == 2
    assert sum(row["messages_out"] for row in rows) == 1
    assert (rows[-1]["messages"], rows[-1]["failed"], rows[-1]["retried"]) == (1, 0, 0)
    assert not rows[-1]["complete"]
    assert "oldest seconds" in run("stats", "orders", "--history").out
    run("stats", "nowhere", "--history", code=Exit.REFUSED)
    assert "--history needs the name of a queue" in run("stats", "--history", code=Exit.USAGE).err


def test_statistics_warn_of_failed_messages(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    run("queue", "create", "orders", "--retry", '{"immediate": 0}')
    with mqredis.connect() as qm, qm.open("orders") as queue:
        for _ in range(2):
            queue.send("x")
            queue.lock(0).abort()
    assert "warning" not in run("stats").out
    monkeypatch.setenv("MQREDIS_FAILED_MESSAGES_WARNING", "1")
    assert "warning: 2 failed messages are in orders;poison, more than" in run("stats").out
    (row,) = run("stats", "--json").rows
    (text,) = row["warnings"]
    assert run("stats", "orders", "--json").rows[0]["warnings"] == [text]
    assert "failed messages" in run("stats", "orders").out
    assert "queue.failed" in run("doctor").out


def test_inhibits(run: Run) -> None:
    run("queue", "create", "orders")
    run("send", "orders", "x")
    run("queue", "set", "orders", "--get-inhibited", "--put-inhibited")
    run("send", "orders", "y", code=Exit.REFUSED)
    run("receive", "orders", code=Exit.REFUSED)
    run("queue", "set", "orders", "--no-get-inhibited", "--no-put-inhibited")
    assert run("receive", "orders").out == "x\n"


def test_acknowledgements_dead_letters_and_deduplication(run: Run) -> None:
    for name in ("orders", "admin", "letters"):
        run("queue", "create", name)
    report_options = [
        "--acknowledge",
        "full-receive",
        "--administration-queue",
        "admin",
        "--response-queue",
        "admin",
    ]
    run(
        "send",
        "orders",
        "x",
        *report_options,
        "--expires",
        "0",
        "--journal",
        "both",
        "--dead-letter-queue",
        "letters",
    )
    (nack,) = run("receive", "admin", "--json").rows
    assert nack["message_class"] == 0xC002
    (dead,) = run("browse", "letters", "--json").rows
    assert (dead["reason"], dead["original_queue"]) == ("receive_timeout", "orders")
    run("send", "orders", "y", "--dedup-key", "k", "--dedup-window", "60", "--reach", "5")
    run("send", "orders", "z", "--dedup-key", "k", code=Exit.REFUSED)
    run("send", "orders", "z", "--acknowledge", "sometimes", code=Exit.USAGE)


def test_redrive_of_matching_messages(run: Run) -> None:
    for name in ("orders", "letters", "other"):
        run("queue", "create", name)
    for n in (1, 2, 3):
        options = ["--property", f"n:={n}", "--correlation-id", f"c{n}", "--group-id", f"g{n}"]
        run("send", "orders", f"{n}", *options, "--journal", "journal")
    source = "system$;journal"
    assert run("redrive", source, "--selector", "n > 2", "--to", "other", "--json").rows[0]["messages"] == 1
    assert (
        run("redrive", source, "--correlation-id", "c1", "--to", "other", "--json").rows[0]["messages"] == 1
    )
    none = run("redrive", source, "--group-id", "g3", "--to", "other", "--json", code=Exit.NOTHING)
    assert none.rows[0]["messages"] == 0
    assert (
        run("redrive", source, "--group-id", "g2", "--rate", "100", "--to", "other").out
        == "put back 1 message of system$;journal\n"
    )
    assert run("receive", "other", "--count", "0").out == "3\n1\n2\n"
    run("redrive", source, "--selector", "n = = 1", code=Exit.USAGE)


def test_send_to_several_queues(run: Run) -> None:
    for name in ("a", "b"):
        run("queue", "create", name)
    run("send", "a,b", "x")
    assert [run("receive", name).out for name in "ab"] == ["x\n", "x\n"]


def test_request_waits_for_the_reply(run: Run, url: str, manager: str) -> None:
    run("queue", "create", "service")

    def serve() -> None:
        with mqredis.connect(url, manager=manager) as qm, qm.open("service") as queue:
            message = queue.receive(60)
            qm.reply(message, message.body.upper())

    server = threading.Thread(target=serve)
    server.start()
    assert run("request", "service", "hello", "--timeout", "60").out == "HELLO\n"
    server.join(60)
    run("request", "service", "hello", "--timeout", "0.05", code=Exit.NOTHING)


def test_delete_of_a_queue_with_messages_in_subqueues_needs_yes(run: Run) -> None:
    run("queue", "create", "orders", "--journaling", "--retry", '{"immediate": 0, "cycles": 1, "delay": 60}')
    run("queue", "create", "orders2")
    run("send", "orders", "--lines", stdin="a\nb\nc\n")
    run("receive", "orders")
    run("delete", "orders", "--all", "--limit", "1", "--trash", "60")
    run("send", "orders", "late", "--delay", "60")
    with mqredis.connect() as qm, qm.open("orders") as queue:
        queue.lock(0).abort()
    error = run("queue", "delete", "orders", code=Exit.USAGE).err
    assert error == (
        "mqredis: orders holds 1 message, orders;journal holds 1 message, orders;retry holds 1 message, "
        "orders;trash holds 1 message: add --yes to delete the queue all the same\n"
    )
    assert run("queue", "delete", "orders", "--yes").out == "deleted orders with 4 messages\n"
    run("queue", "delete", "orders2")


def test_redrive_to_a_missing_queue_changes_nothing(run: Run) -> None:
    run("queue", "create", "orders", "--retry", '{"immediate": 0}')
    run("send", "orders", "x")
    with mqredis.connect() as qm, qm.open("orders") as queue:
        queue.lock(0).abort()
    refused = run("redrive", "orders;poison", "--to", "nosuch", code=Exit.REFUSED)
    assert (refused.out, refused.err) == ("", "mqredis: there is no queue 'nosuch'\n")
    assert (
        run("redrive", "orders;poison", "--selector", "n = 1", code=Exit.NOTHING).out
        == "put back 0 messages of orders;poison\n"
    )
    assert run("redrive", code=Exit.NOTHING).out == "put back 0 messages of system$;deadletter\n"
    assert run("redrive", "orders;poison").out == "put back 1 message of orders;poison\n"


@pytest.mark.parametrize(
    "words", ["redrive {}", "browse {}", "export {}", "queue purge {}", "move {} orders --all"]
)
def test_unknown_subqueue_name_is_an_error(run: Run, words: str) -> None:
    run("queue", "create", "orders")
    error = "mqredis: there is no queue 'orders;posion'\n"
    assert run(*words.format("orders;posion").split(), code=Exit.REFUSED).err == error
    assert run("queue", "list", "--names").out == "orders\n"
    for name in ("journal", "poison", "retry", "trash"):
        run("browse", f"orders;{name}")


def test_errors_name_options_of_the_command_line(run: Run) -> None:
    run("queue", "create", "orders")
    assert "--exist-ok" in run("queue", "create", "orders", code=Exit.REFUSED).err
    error = run("queue", "create", "orders", "--transactional", "--exist-ok", code=Exit.REFUSED).err
    assert "transactional is False" in error
    for action in ("pause", "resume", "trigger", "remove"):
        error = run("schedules", action, "nightli", code=Exit.REFUSED).err
        assert error == "mqredis: there is no schedule 'nightli': see mqredis schedules list\n"
    for words in (("orders", "--consumer", "x"), ()):
        for name in ("pause", "resume"):
            error = run(name, *words, code=Exit.USAGE).err
            assert error == "mqredis: give either a queue or --consumer\n"
    for worker, *options in (["nosuch"], ["no-such", "--cancel", "7"]):
        error = run("stop-worker", worker, *options, code=Exit.REFUSED).err
        assert (
            error == f"mqredis: there is no running worker with the id '{worker}': see mqredis show workers\n"
        )
