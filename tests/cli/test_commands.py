"""Every command with text and JSON output, on a real server and on fakeredis."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import mqredis
from mqredis.cli.app import build
from mqredis.cli.exits import EXITS, Exit
from mqredis.keys import DEAD_LETTER
from tests.cli.conftest import Run
from tests.support.server import RedisServer


@pytest.fixture
def orders(run: Run) -> Run:
    run("queue", "create", "orders")
    return run


def test_sent_message_is_received(orders: Run) -> None:
    sent = orders("send", "orders", "hello", "--json").rows[0]
    assert orders("peek", "orders").out == "hello\n"
    assert orders("receive", "orders", "--json").rows[0]["lookup_id"] == sent["lookup_id"]
    assert "no message is available" in orders("receive", "orders", code=Exit.NOTHING).err


def test_send_options_set_the_message_fields(orders: Run) -> None:
    orders(
        "send", "orders", "b", "--priority", "7", "--label", "l", "--message-id", "m", "--correlation-id", "0x00ff",
        "--group-id", "g", "--content-type", "text/html", "--property", "region=EU", "--property", "n:=12.5",
        "--property", "yes:=true", "--expires", "60",
    )  # fmt: skip
    row = orders("peek", "orders", "--json").rows[0]
    assert row["priority"] == 7
    assert row["label"] == "l"
    assert (row["message_id"], row["correlation_id"], row["group_id"]) == ("m", {"base64": "AP8="}, "g")
    assert row["properties"] == {"region": "EU", "n": 12.5, "yes": True}
    assert row["content_type"] == "text/html"
    assert row["expires_at"] > row["sent_at"]


def test_bodies_are_read_from_lines_files_and_stdin(orders: Run, tmp_path: Path) -> None:
    orders("send", "orders", "--lines", stdin="a\nb\n")
    orders("send", "orders", stdin="whole\ntext\n")
    (tmp_path / "body").write_bytes(b"\xff\x00")
    orders("send", "orders", "--file", str(tmp_path / "body"))
    rows = orders("browse", "orders", "--json").rows
    assert [row.get("body", row.get("body_base64")) for row in rows] == ["a", "b", "whole\ntext\n", "/wA="]
    assert orders("receive", "orders", "--count", "2", "--raw").out == "ab"


def test_options_may_precede_or_follow_arguments(orders: Run) -> None:
    orders("send", "--priority", "7", "orders", "a")
    orders("send", "orders", "--priority", "7", "b")
    orders("send", "orders", "c", "--priority", "7")
    orders("send", "orders", "--priority", "7", "--", "-d")
    assert [row["priority"] for row in orders("browse", "orders", "--json").rows] == [7] * 4
    assert orders("receive", "orders", "--count", "0").out.split() == ["a", "b", "c", "-d"]
    orders("send", "orders", "a", "--label", "l", "b", code=Exit.USAGE)
    orders("send", "--label", "l", code=Exit.USAGE)


def test_lines_that_are_not_utf8_are_sent_as_bytes(orders: Run) -> None:
    orders("send", "orders", "--lines", stdin=b"a\r\n\xff\nlast")
    rows = orders("browse", "orders", "--json").rows
    assert [row.get("body", row.get("body_base64")) for row in rows] == ["a", "/w==", "last"]


@pytest.mark.parametrize("server_kind", ["real"])  # the command is a process of its own
def test_lines_of_an_open_pipe_are_sent_immediately(run: Run, start: Any) -> None:
    run("queue", "create", "orders")
    process = start("send", "orders", "--lines")
    process.stdin.write("first\n")
    process.stdin.flush()
    assert run("receive", "orders", "--timeout", "30").out == "first\n"
    process.stdin.close()
    assert process.wait(30) == 0
    for stream in (process.stdout, process.stderr):
        stream.close()


def test_lookup_id_excludes_other_selections(orders: Run) -> None:
    (sent,) = orders("send", "orders", "a", "--json").rows
    for more in (["--wait"], ["--timeout", "1"], ["--selector", "label = 'x'"]):
        orders("peek", "orders", "--lookup-id", sent["lookup_id"], *more, code=Exit.USAGE)
    orders("receive", "orders", "--lookup-id", sent["lookup_id"], "--count", "2", code=Exit.USAGE)


def test_receive_count_0_receives_all(orders: Run) -> None:
    orders("send", "orders", "--lines", stdin="".join(f"{n}\n" for n in range(300)))
    assert orders("receive", "orders", "--count", "0").out.split() == [str(n) for n in range(300)]


def test_message_is_read_by_lookup_id(orders: Run) -> None:
    ids = [row["lookup_id"] for row in orders("send", "orders", "--lines", "--json", stdin="a\nb\nc\n").rows]
    assert orders("peek", "orders", "--lookup-id", ids[1]).out == "b\n"
    assert orders("receive", "orders", "--lookup-id", str(int(ids[1], 16))).out == "b\n"
    orders("receive", "orders", "--lookup-id", ids[1], code=Exit.NOTHING)


def test_browse_shows_a_table_without_control_characters(orders: Run) -> None:
    orders("send", "orders", "a\x1b[2Jb")
    orders("send", "orders", "x" * 100)
    orders("send", "orders", "\u0436" * 48)
    lines = orders("browse", "orders").out.splitlines()
    assert lines[0].split()[:2] == ["lookup", "id"]
    assert lines[1].endswith(r"a\x1b[2Jb")
    assert lines[2].endswith("x...")
    assert lines[3].endswith(" " + "\u0436" * 48)
    assert len(orders("browse", "orders", "--limit", "1").out.splitlines()) == 2


@pytest.mark.parametrize("words, most", [("browse orders", 100), ("show messages orders", 1000)])
def test_listing_says_that_it_does_not_show_all(orders: Run, words: str, most: int) -> None:
    with mqredis.connect() as qm, qm.open("orders") as queue:
        queue.send_many(["x"] * (most % 256))
        for _ in range(most // 256):
            queue.send_many(["x"] * 256)
        assert orders(*words.split()).err == ""
        queue.send("one more")
    told = f"there are more than the first {most:,}: --limit 0 shows all"
    done = orders(*words.split())
    assert (done.out.count("\n"), done.err) == (most + 1, f"mqredis: {told}\n")
    done = orders(*words.split(), "--json")
    assert (done.out.count("\n"), json.loads(done.err)) == (most, {"warning": told})
    done = orders(*words.split(), "--limit", "0")
    assert (done.out.count("\n"), done.err) == (most + 2, "")
    done = orders(*words.split(), "--limit", "3")
    assert (done.out.count("\n"), done.err) == (4, "")


def test_browse_shows_the_reason_of_dead_letters(orders: Run) -> None:
    with mqredis.connect() as qm, qm.open("orders") as queue:
        queue.send("broken", journal=mqredis.Journal.DEAD_LETTER)
        queue.send("whole")
        queue.lock(0).reject("its price\x1b is missing")
    assert "reason" not in orders("browse", "orders").out
    head, row = orders("browse", DEAD_LETTER).out.splitlines()
    assert head.split()[-2:] == ["reason", "body"]
    assert row.endswith("missing  broken")
    assert "\x1b" not in row


def test_queue_commands(run: Run) -> None:
    run("queue", "create", "a", "--quota-messages", "1", "--label", "first", "--journaling")
    assert "exists already" in run("queue", "create", "a", code=Exit.REFUSED).err
    run("queue", "create", "a", "--exist-ok")
    run("queue", "create", "b", "--transactional")
    assert run("queue", "list", "--names").out == "a\nb\n"
    run("queue", "set", "a", "--retry", '{"cycles": 2, "delay": 0.5}')
    assert "immediate 2, cycles 2, delay 0.5, " in run("queue", "info", "a").out
    assert [row["name"] for row in run("queue", "list", "b*", "--json").rows] == ["b"]
    info = run("queue", "info", "a", "--json").rows[0]
    assert (info["quota_messages"], info["label"], info["journaling"]) == (1, "first", True)
    run("send", "a", "x")
    assert "quota" in run("send", "a", "y", code=Exit.REFUSED).err
    changed = run("queue", "set", "a", "--quota-messages", "none", "--no-journaling", "--json").rows[0]
    assert (changed["quota_messages"], changed["journaling"]) == (None, False)
    run("send", "a", "y")
    run("queue", "set", "a", code=Exit.USAGE)
    assert "--yes" in run("queue", "delete", "a", code=Exit.USAGE).err
    assert run("queue", "purge", "a", "--json").rows == [{"name": "a", "removed": 2}]
    run("queue", "delete", "a")
    assert "there is no queue 'a'" in run("queue", "info", "a", code=Exit.REFUSED).err


def test_send_to_a_transactional_queue_uses_one_transaction(run: Run) -> None:
    run("queue", "create", "tx", "--transactional")
    run("send", "tx", "--lines", stdin="a\nb\n")
    rows = run("browse", "tx", "--json").rows
    assert [row["body"] for row in rows] == ["a", "b"]
    assert rows[0]["first_in_transaction"]
    assert rows[1]["last_in_transaction"]


def test_move_by_id_and_all(orders: Run) -> None:
    ids = [row["lookup_id"] for row in orders("send", "orders", "--lines", "--json", stdin="a\nb\nc\n").rows]
    assert orders("move", "orders", "orders;retry", ids[1], "--json").rows[0]["moved"] == 1
    assert orders("browse", "orders;retry", "--json").rows[0]["lookup_id"] == ids[1]
    orders("move", "orders;retry", "orders", "--all")
    assert [row["body"] for row in orders("browse", "orders", "--json").rows] == ["a", "b", "c"]
    orders("move", "orders", "orders;retry", code=Exit.USAGE)
    orders("move", "orders", "orders;retry", "0x0400000000000fff", code=Exit.NOTHING)


@pytest.mark.parametrize(
    "words",
    ["receive orders --count", "browse orders --limit", "show locks orders --limit", "redrive --limit"],
)
def test_negative_number_of_messages_is_refused(orders: Run, words: str) -> None:
    done = orders(*words.split(), "-3", code=2)
    assert f"argument {words.rsplit(maxsplit=1)[-1]}: '-3' is less than 0" in done.err


def test_retry_policy_and_redrive(orders: Run) -> None:
    policy = orders("queue", "set", "orders", "--retry", '{"immediate": 0, "cycles": 0}', "--json").rows[0][
        "retry"
    ]
    assert (policy["immediate"], policy["cycles"]) == (0, 0)
    orders("queue", "set", "orders", "--retry", "{", code=Exit.USAGE)
    assert orders("queue", "set", "orders", "--retry", "none", "--json").rows[0]["retry"] is None
    assert orders("redrive", "--json", code=Exit.NOTHING).rows[0]["messages"] == 0


def test_throttle_quota_maintain_stats(orders: Run) -> None:
    orders("throttle", "on")
    assert "throttled" in orders("send", "orders", "x", code=Exit.REFUSED).err
    orders("throttle", "off")
    assert orders("quota", "--messages", "1", "--json").rows[0] == {"quota_messages": 1, "quota_bytes": None}
    orders("send", "orders", "x")
    orders("send", "orders", "y", code=Exit.REFUSED)
    assert orders("quota", "--bytes", "9000", "--json").rows[0] == {"quota_messages": 1, "quota_bytes": 9000}
    assert orders("quota", "--json").rows[0] == {"quota_messages": 1, "quota_bytes": 9000}
    lifted = orders("quota", "--messages", "none", "--bytes", "none", "--json").rows[0]
    assert lifted == {"quota_messages": None, "quota_bytes": None}
    orders("send", "orders", "y")
    assert "served" in orders("maintain").out
    stats = orders("stats", "--json").rows[0]
    assert stats["manager"]["messages"] == 2
    assert stats["queues"][0]["name"] == "orders"
    assert "orders" in orders("stats").out


def test_top(orders: Run) -> None:
    orders("send", "orders", "x")
    views = orders("top", "--count", "2", "--interval", "0", "--json").rows
    assert [view["messages"] for view in views] == [1, 1]
    assert views[0]["queues"][0]["ready"] == 1
    assert views[0]["queues"][0]["oldest_s"] is not None
    assert "oldest" in orders("top", "--count", "1").out


@pytest.mark.parametrize("interval, pause", [("inf", 86_400.0), ("nan", 0.05), ("-1", 0.05)])
def test_top_pauses_for_a_time_that_can_be_waited_for(
    orders: Run, monkeypatch: pytest.MonkeyPatch, interval: str, pause: float
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr("mqredis.cli.watch.time.sleep", pauses.append)
    orders("top", "--count", "2", "--interval", interval)
    assert pauses == [pause]


def test_resolve_errors_name_the_reason(orders: Run) -> None:
    assert "is over" in orders("resolve", "77.1:5", code=Exit.REFUSED).err
    assert "not an operation token" in orders("resolve", "hello", code=Exit.USAGE).err


def test_json_error_has_class_text_and_status(run: Run, manager: str) -> None:
    error = json.loads(run("receive", "nope", "--json", code=Exit.REFUSED).err)
    text = f"there is no queue 'nope' in queue manager {manager!r}: create it with create_queue (mqredis queue create)"
    assert error == {"error": "QueueNotFound", "text": text, "status": 0xC00E0003}


@pytest.mark.parametrize("words", [[], ["fly"], ["send"], ["queue"], ["throttle", "maybe"]])
def test_invalid_command_line_is_a_usage_error(run: Run, words: list[str]) -> None:
    assert "usage: mqredis" in run(*words, code=Exit.USAGE).err


def test_help_names_every_exit_code(run: Run) -> None:
    text = run("--help").out
    for code in EXITS:
        assert f"{int(code):>3}  {EXITS[code]}" in text


def test_show_commands(orders: Run) -> None:
    orders("send", "orders", "a", "--label", "first")
    (row,) = orders("show", "overview", "ord*", "--json").rows
    assert (row["name"], row["ready"], row["total_in"]) == ("orders", 1, 1)
    assert orders("show", "overview").out.split()[:2] == ["name", "ready"]
    for what in ("locks", "claims"):
        assert orders("show", what, "orders", "--json").rows == []
        assert "ghost" in orders("show", what, "ghost", code=Exit.REFUSED).err
    assert orders("show", "transactions", "--json").rows == []
    orders("send", "orders", "later", "--delay", "60")
    (ready,) = orders("show", "messages", "orders", "--json").rows
    assert (ready["label"], ready["state"], ready["body"]) == ("first", "ready", "a")
    (later,) = orders("show", "scheduled", "orders", "--until", "2200-01-01T00:00:00", "--json").rows
    assert (later["state"], later["body"], later["overdue"]) == ("delayed", "later", False)
    assert "delayed" in orders("show", "scheduled", "orders").out
    orders("show", "scheduled", "orders", "--since", "2200-01-01T00:00:00", "--selector", "a = 1")
    rows = orders("show", "sessions", "--json").rows
    assert rows[-1]["version"]
    assert orders("show", "sessions", "--limit", "1").out.count("\n") == 2


def test_show_message_in_any_state(orders: Run) -> None:
    (sent,) = orders("send", "orders", "later", "--delay", "60", "--label", "first", "--json").rows
    (row,) = orders("show", "message", "orders", sent["lookup_id"], "--json").rows
    assert (row["state"], row["body"], row["label"]) == ("delayed", "later", "first")
    assert orders("show", "message", "orders", sent["lookup_id"]).out.rstrip().endswith("later")
    orders("run-now", "orders", "--all")
    with mqredis.connect() as qm, qm.open("orders") as queue:
        lock = queue.lock(0)
        (row,) = orders("show", "message", "orders", sent["lookup_id"], "--json").rows
        assert (row["state"], row["body"]) == ("locked", "later")
        lock.commit()
    assert "no message" in orders("show", "message", "orders", sent["lookup_id"], code=Exit.NOTHING).err


def test_show_message_whose_body_is_no_text(orders: Run) -> None:
    with mqredis.connect() as qm, qm.open("orders") as queue:
        sent = queue.send(b"\xff\x00")
    shown = orders("show", "message", "orders", f"0x{sent.lookup_id:016x}").out
    assert shown.rstrip().endswith("base64 /wA=")


def test_show_locks_of_chosen_messages(orders: Run) -> None:
    for name in ("m-1", "m-2"):
        orders("send", "orders", "a", "--message-id", name)
    with mqredis.connect() as qm, qm.open("orders") as queue:
        locked = queue.lock_many(2, 0)
        (row,) = orders("show", "locks", "orders", "--message-id", "m-2", "--json").rows
        assert row["message_id"] == "m-2"
        choice = ("--message-id", "m-2", "--selector", "a = 1")
        assert orders("show", "locks", "orders", "--json", *choice).rows == []
        for lock in locked:
            lock.commit()


def test_show_sessions_has_the_addresses(run: Run, start_server: Callable[..., RedisServer]) -> None:
    url = start_server(tcp=True).tcp_url
    (row,) = run("show", "sessions", "--json", "--url", url).rows
    assert row["address"] == "127.0.0.1"
    assert re.search(r"\saddress\s(?s:.)*\s127\.0\.0\.1\s", run("show", "sessions", "--url", url).out)


def test_trail_lists_the_events_of_a_message(orders: Run) -> None:
    orders("queue", "set", "orders", "--trail", "1")
    number = orders("send", "orders", "a", "--message-id", "m-1").out.strip()
    by_message_id = orders("trail", "orders", "m-1", "--json").rows
    orders("move", "orders", "orders;aside", number)
    first, moved = orders("trail", "orders", number, "--json").rows
    assert by_message_id == [first]
    assert (first["event"], first["queue"], first["lookup_id"], first["omitted"]) == (
        "sent",
        "orders",
        None,
        0,
    )
    assert (moved["event"], moved["target"]) == ("moved", "orders;aside")
    assert moved["client"]
    lines = orders("trail", "orders", number).out.splitlines()
    assert [line.split()[:2] for line in lines[:1]] == [["time", "event"]]
    assert [line.split()[2] for line in lines[1:]] == ["sent", "moved"]


def test_missing_trail_is_reported(orders: Run) -> None:
    number = orders("send", "orders", "a").out.strip()
    for message in (number, "nothing"):
        assert "needs the property trail" in orders("trail", "orders", message, code=Exit.NOTHING).err
    assert "0xzz" in orders("trail", "orders", "0xzz", code=Exit.USAGE).err
    assert "ghost" in orders("trail", "ghost", number, code=Exit.REFUSED).err


def test_every_command_takes_the_common_options() -> None:
    def check_options(parser: object) -> None:
        for action in parser._actions:  # type: ignore[attr-defined]
            if hasattr(action, "choices") and isinstance(action.choices, dict):
                for inner in action.choices.values():
                    check_options(inner)
        options = {option for action in parser._actions for option in action.option_strings}  # type: ignore[attr-defined]
        words = ("queue", "topic", "schedules", "scripts", "show", "completion")
        if parser.prog not in {f"mqredis {word}" for word in words}:  # type: ignore[attr-defined]
            assert {"--url", "--manager", "--json"} <= options, parser

    check_options(build())


@pytest.mark.parametrize(
    "options",
    [
        ["--message-id", "0x0a0b"],
        ["--correlation-id", "c1"],
        ["--group-id", "0x01"],
        ["--selector", "n = 1"],
        ["--group-id", "0x0100", "--correlation-id", "c1", "--selector", "n < 2 AND JMSXGroupID IS NOT NULL"],
    ],
    ids=lambda o: f"{len(o) // 2} {o[0]}",
)
def test_match_options_select_messages(orders: Run, options: list[str]) -> None:
    orders("send", "orders", "other", "--correlation-id", "c2", "--property", "n:=2")
    of_all = ("--message-id", "0x0a0b", "--correlation-id", "c1", "--group-id", "0x01", "--property", "n:=1")
    for body in ("a", "b", "c", "d"):
        orders("send", "orders", body, *of_all)
    assert orders("peek", "orders", *options).out == "a\n"
    assert [row["body"] for row in orders("browse", "orders", "--json", *options).rows] == [
        "a",
        "b",
        "c",
        "d",
    ]
    assert orders("receive", "orders", *options).out == "a\n"
    assert orders("move", "orders", "orders;x", *options, "--json").rows[0]["moved"] == 3
    orders("move", "orders;x", "orders", "--all")
    assert len(orders("export", "orders", *options).out.splitlines()) == 3
    assert orders("queue", "purge", "orders", *options, "--json").rows[0]["removed"] == 3
    assert orders("receive", "orders").out == "other\n"


@pytest.mark.parametrize(
    "command", [["receive"], ["peek"], ["browse"], ["move"], ["queue", "purge"]], ids=" ".join
)
def test_commands_without_a_match_change_nothing(orders: Run, command: list[str]) -> None:
    orders("send", "orders", "a", "--correlation-id", "c1", "--property", "n:=1")
    more = ["orders;x"] if command == ["move"] else []
    code = Exit.NOTHING if command[0] in ("receive", "peek") else Exit.DONE
    for options in (
        ["--correlation-id", "none"],
        ["--message-id", "none"],
        ["--group-id", "g"],
        ["--selector", "n > 1"],
    ):
        orders(*command, "orders", *more, *options, code=code)
    assert [row["body"] for row in orders("browse", "orders", "--json").rows] == ["a"]


def test_purge_by_selector_writes_no_journal(run: Run) -> None:
    run("queue", "create", "orders", "--journaling")
    for n in range(3):
        run("send", "orders", f"{n}", "--property", f"n:={n}")
    assert run("queue", "purge", "orders", "--selector", "n > 0", "--json").rows[0]["removed"] == 2
    assert [row["body"] for row in run("browse", "orders", "--json").rows] == ["0"]
    assert run("browse", "orders;journal", "--json").rows == []


def test_invalid_selector_is_a_usage_error(orders: Run) -> None:
    assert "mqredis:" in orders("peek", "orders", "--selector", "n = = 1", code=Exit.USAGE).err
