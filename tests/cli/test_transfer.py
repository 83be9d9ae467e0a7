"""Export and import: what is left out, and how far an import came."""

from __future__ import annotations

import errno
import itertools
import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import mqredis
from mqredis.cli import messages, transfer
from mqredis.cli.exits import Exit
from mqredis.commands.send import BATCH
from tests.cli.conftest import Run


@pytest.fixture
def orders(run: Run) -> Run:
    run("queue", "create", "orders", "--retry", '{"immediate": 0, "cycles": 2, "delay": 500}')
    run("queue", "create", "copy")
    return run


def _fail_first(queue: str) -> None:
    """Let a reader fail with the first message, so that it rests."""
    with mqredis.connect() as qm, qm.open(queue) as opened, pytest.raises(ZeroDivisionError):  # noqa: SIM117
        with opened.lock(0):
            raise ZeroDivisionError


def test_export_writes_delayed_and_resting_messages(orders: Run, tmp_path: Path) -> None:
    orders("send", "orders", "rests")
    _fail_first("orders")
    large = tmp_path / "large"
    large.write_bytes(b"x" * 50_000)
    orders("send", "orders", "--file", str(large), "--delay", "1000")
    orders("send", "orders", "now")
    done = orders("export", "orders")
    assert done.err == ""
    due = {row["lookup_id"]: row["due_at"] for row in orders("show", "scheduled", "orders", "--json").rows}
    assert [len(row["body"]) for row in done.rows] == [5, 50_000, 3]
    assert [row.get("available_at") for row in done.rows] == [due.get(row["lookup_id"]) for row in done.rows]

    assert orders("import", "copy", "--json", stdin=done.out).rows[0]["messages"] == 3
    copied = orders("show", "scheduled", "copy", "--json").rows
    assert [row["state"] for row in copied] == ["delayed", "delayed"]
    for old, new in zip(sorted(due.values()), copied, strict=True):
        late = datetime.fromisoformat(new["due_at"]) - datetime.fromisoformat(old)
        assert abs(late.total_seconds()) < 5
    assert [row["body"] for row in orders("browse", "copy", "--json").rows] == ["now"]


def test_export_chooses_delayed_messages_too(orders: Run) -> None:
    for label in ("a", "b"):
        orders("send", "orders", label, "--delay", "1000", "--property", f"kind={label}")
    assert [row["body"] for row in orders("export", "orders", "--selector", "kind = 'b'").rows] == ["b"]


def test_import_sends_a_message_at_once_whose_delay_is_over(orders: Run) -> None:
    line = '{"body": "x", "available_at": "2020-01-01T00:00:00+00:00"}\n'
    orders("import", "orders", stdin=line)
    assert orders("queue", "info", "orders", "--json").rows[0]["ready"] == 1
    told = orders("import", "orders", stdin='{"body": "x", "available_at": 5}\n', code=Exit.USAGE).err
    assert "line 1: available_at is 5, not a time" in told


@pytest.mark.parametrize("machine", [False, True])
def test_export_says_what_it_left(orders: Run, tmp_path: Path, machine: bool) -> None:
    dump = tmp_path / "dump"
    words = ("export", "orders", "--file", str(dump), *(["--json"] if machine else []))
    orders("send", "orders", "--lines", stdin="a\nb\nc\nd\n")
    with mqredis.connect() as qm, qm.open("orders") as queue:
        lock = queue.lock(0)
        for subqueue in ("poison", "retry"):
            qm.operator("test").move("orders", f"orders;{subqueue}", limit=1)
        done = orders(*words)
        lock.abort()
    text = json.loads(done.err)["warning"] if machine else done.err
    assert "not exported: 1 locked message (" in text
    assert "1 message of orders;poison (mqredis export 'orders;poison')" in text
    assert "1 message of orders;retry (mqredis export 'orders;retry')" in text
    assert len(dump.read_text().splitlines()) == 1


def test_drain_says_that_delayed_messages_stay(orders: Run) -> None:
    orders("send", "orders", "later", "--delay", "1000")
    orders("send", "orders", "now")
    done = orders("export", "orders", "--drain")
    assert [row["body"] for row in done.rows] == ["now"]
    assert "not exported: 1 delayed or resting message (export without --drain writes them)" in done.err
    assert orders("queue", "info", "orders", "--json").rows[0]["delayed"] == 1


def test_drain_removes_messages_when_they_are_on_the_disk(
    orders: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders("send", "orders", "one")
    dump, synced = tmp_path / "dump.jsonl", []

    def fsync(_: int) -> None:
        with mqredis.connect() as qm:
            synced.append((len(dump.read_text().splitlines()), qm.queue_info("orders").messages))

    monkeypatch.setattr(os, "fsync", fsync)
    orders("export", "orders", "--file", str(dump), "--drain")
    assert synced == [(1, 1)]
    with mqredis.connect() as qm:
        assert qm.queue_info("orders").messages == 0


@pytest.mark.parametrize("freed", [2, 1])
def test_drain_ends_when_messages_that_it_wrote_went_back_to_the_queue(
    orders: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, freed: int
) -> None:
    orders("send", "copy", "--lines", stdin="a\nb\n")
    dump, frees = tmp_path / "dump.jsonl", iter([freed])

    def fsync(_: int) -> None:  # the first one takes longer than the lease
        with mqredis.connect() as qm:
            ids = [lock.lookup_id for lock in qm.locks("copy").items][: next(frees, 0)]
            if ids:
                qm.operator("ann").release("copy", ids)

    monkeypatch.setattr(os, "fsync", fsync)
    told = orders("export", "copy", "--file", str(dump), "--drain", code=Exit.REFUSED).err
    assert f"{freed} of the last 2 lines" in told
    assert len(dump.read_text().splitlines()) == 2
    assert orders("queue", "info", "copy", "--json").rows[0]["ready"] == freed


def test_drain_locks_for_longer_than_readers_do(orders: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    orders("send", "orders", "x")
    leases: list[timedelta] = []

    def flush() -> None:
        with mqredis.connect() as qm:
            leases.extend(lock.lease_until - datetime.now(UTC) for lock in qm.locks("orders").items)

    monkeypatch.setenv("MQREDIS_LEASE_SECONDS", "1")
    monkeypatch.setattr(transfer, "_keep", lambda _: flush())
    orders("export", "orders", "--drain")
    assert [lease.total_seconds() > 500 for lease in leases] == [True]


@pytest.mark.parametrize(
    "words", [("export", "last", "--drain"), ("receive", "last"), ("receive", "last", "--raw")]
)
@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "no space"), KeyboardInterrupt()])
def test_message_that_cannot_be_written_has_no_failed_attempt(
    run: Run, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], error: BaseException
) -> None:
    run("queue", "create", "last", "--retry", '{"immediate": 0, "final": "drop"}')
    run("send", "last", "kept")

    def fails() -> None:
        raise error

    with monkeypatch.context() as broken:
        broken.setattr(transfer, "_keep", lambda _: fails())
        broken.setattr(messages, "show", lambda *_: fails())
        run(*words, code=Exit.INTERRUPTED if isinstance(error, KeyboardInterrupt) else Exit.REFUSED)
    (row,) = run("receive", "last", "--json").rows
    assert (row["body"], row["delivery_count"], row["attempts"]) == ("kept", 2, 1)


@pytest.mark.parametrize(
    "error, still", [(OSError(errno.ENOSPC, "no space"), "are still"), (KeyboardInterrupt(), "may still be")]
)
def test_drain_that_failed_says_which_lines_are_of_messages_that_it_removed(
    orders: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException, still: str
) -> None:
    orders("send", "orders", "--lines", stdin=_lines(BATCH + 2))
    dump, synced = tmp_path / "dump", itertools.count()

    def fsync(_: int) -> None:
        if next(synced):
            raise error

    monkeypatch.setattr(os, "fsync", fsync)
    code = Exit.INTERRUPTED if isinstance(error, KeyboardInterrupt) else Exit.REFUSED
    told = orders("export", "orders", "--file", str(dump), "--drain", code=code).err
    assert f"removed {BATCH} messages; the lines from {BATCH + 1} on are of messages that {still} in" in told
    assert len(dump.read_text().splitlines()) == BATCH + 2
    assert orders("queue", "info", "orders", "--json").rows[0]["ready"] == 2
    logged = orders("actions", "--json").rows[0]
    assert (logged["action"], logged["changed"]) == ("drain", BATCH)


def _lines(count: int) -> str:
    return "".join(f'{{"body": "{number}"}}\n' for number in range(1, count + 1))


def test_import_that_failed_continues_behind_what_was_sent(orders: Run) -> None:
    good = _lines(BATCH + 10)
    told = orders("import", "orders", stdin=good + "hello\n", code=Exit.USAGE).err
    assert f"line {BATCH + 11} is not JSON" in told
    assert f"sent {BATCH} messages; lines 1 to {BATCH} are done: continue with --skip {BATCH}" in told
    rest = good + '{"body": "267"}\n'
    assert "sent 11 messages" in orders("import", "orders", "--skip", str(BATCH), stdin=rest).out
    bodies = [row["body"] for row in orders("browse", "orders", "--limit", "0", "--json").rows]
    assert bodies == [str(number) for number in range(1, BATCH + 12)]


def test_import_says_how_far_a_quota_let_it_come(orders: Run) -> None:
    orders("queue", "set", "orders", "--quota-messages", str(BATCH + 5))
    told = orders("import", "orders", "--json", stdin="\n" + _lines(2 * BATCH), code=Exit.REFUSED).err
    error = json.loads(told)
    assert error["error"] == "QueueQuotaExceeded"
    assert f"sent {BATCH} messages; lines 1 to {BATCH + 1} are done" in error["text"]
    assert orders("queue", "info", "orders", "--json").rows[0]["messages"] == BATCH


def test_import_counts_no_part_of_a_call_with_large_bodies(orders: Run) -> None:
    body, room = "x" * 200_000, 5
    orders("queue", "set", "orders", "--quota-messages", str(room))
    told = orders("import", "orders", stdin=f'{{"body": "{body}"}}\n' * 30, code=Exit.REFUSED).err
    sent = orders("queue", "info", "orders", "--json").rows[0]["messages"]
    assert 0 < sent <= room
    assert f"continue with --skip {sent}" in told


def test_import_that_was_interrupted_says_what_is_uncertain(
    orders: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("mqredis.cli.transfer.send_batch", interrupted)
    told = orders("import", "orders", stdin=_lines(3), code=Exit.INTERRUPTED).err
    assert "nothing was sent; lines 1 to 3 may have been sent as well" in told


def test_repeated_export_with_drain_does_not_replace_the_first_file(orders: Run, tmp_path: Path) -> None:
    dump = tmp_path / "orders.jsonl"
    orders("send", "orders", "first")
    orders("export", "orders", "--file", str(dump), "--drain")
    written = dump.read_bytes()
    orders("send", "orders", "second")
    told = orders("export", "orders", "--file", str(dump), "--drain", code=Exit.USAGE).err
    assert "name another file" in told
    assert dump.read_bytes() == written
    assert orders("queue", "info", "orders", "--json").rows[0]["messages"] == 1
    orders("export", "orders", "--file", str(dump))  # a copy of messages that stay may be replaced


def test_import_that_fails_in_the_middle_says_how_many_it_has_sent(run: Run) -> None:
    run("queue", "create", "orders")
    lines = '{"body": "x"}\n' * 300 + "no JSON\n"
    failed = run("import", "orders", stdin=lines, code=Exit.USAGE)
    assert "sent the first 256 messages" in failed.out
    assert "line 301 is not JSON" in failed.err
    failed = run("import", "orders", "--json", stdin=lines, code=Exit.USAGE)
    assert failed.rows == [{"queue": "orders", "messages": 256, "expired": 0}]
    assert run("queue", "info", "orders", "--json").rows[0]["messages"] == 512


def test_export_and_import_keep_all_fields_but_broker_ids(orders: Run, tmp_path: Path) -> None:
    orders("send", "orders", "plain")
    orders(
        "send",
        "orders",
        "rich",
        "--message-id",
        "m",
        "--property",
        "a=b",
        "--priority",
        "6",
        "--group-id",
        "0xff",
    )
    (tmp_path / "bytes").write_bytes(bytes(range(256)) * 40)
    orders("send", "orders", "--file", str(tmp_path / "bytes"))
    orders("send", "orders", "odd", "--property", "base64=text")
    before = orders("browse", "orders", "--json").rows
    dump = tmp_path / "orders.jsonl"
    assert "4 messages" in orders("export", "orders", "--file", str(dump), "--drain").out
    assert orders("queue", "info", "orders", "--json").rows[0]["messages"] == 0
    assert "sent 4" in orders("import", "orders", "--file", str(dump)).out
    after = orders("browse", "orders", "--json").rows
    changing = {"lookup_id", "token", "sent_at", "arrived_at", "delivery_count"}
    for old, new in zip(before, after, strict=True):
        same = [{k: v for k, v in row.items() if k not in changing} for row in (old, new)]
        if old["message_id"].startswith("mq-"):
            for row in same:
                del row["message_id"]
        assert same[0] == same[1]
    assert [json.loads(line) for line in orders("export", "orders").out.splitlines()] == after


def test_import_of_deeply_nested_json_names_the_line(orders: Run) -> None:
    done = orders("import", "orders", stdin='{"body": "a"}\n' + "[" * 100_000, code=2)
    assert done.err == "mqredis: line 2: its JSON is nested too deeply; nothing was sent\n"
    nested = '{"body": "a", "properties": {"p": ' + '{"p": ' * 900 + "1" + "}" * 902
    done = orders("import", "orders", stdin=nested, code=2)
    assert done.err.startswith("mqredis: line 1: ")


def test_import_error_names_the_line(orders: Run) -> None:
    good = '{"body": "a"}\n'
    for bad in ("hello\n", "[]\n", '{"body": "a", "priority": 9}\n', '{"body_base64": "?"}\n'):
        assert "line 2" in orders("import", "orders", stdin=good + bad, code=Exit.USAGE).err
    assert "line 2" in orders("import", "orders", stdin=good + '{"expires_at": 5}\n', code=Exit.USAGE).err


def test_import_skips_expired_messages(orders: Run) -> None:
    line = '{"body": "old", "expires_at": "2020-01-01T00:00:00+00:00"}\n'
    assert orders("import", "orders", "--json", stdin=line).rows[0] == {
        "queue": "orders",
        "messages": 0,
        "expired": 1,
    }
