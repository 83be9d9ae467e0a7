"""Operators' actions on the command line."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from time import monotonic

import pytest

import mqredis
from mqredis import Message, Settings
from mqredis.cli.exits import Exit
from mqredis.worker import Reject, Worker
from tests.cli.conftest import Run, manager, run  # noqa: F401 - fixtures
from tests.support.server import RedisServer


@pytest.fixture
def orders(run: Run) -> Run:  # noqa: F811
    run("queue", "create", "orders")
    return run


def ready(run: Run) -> int:  # noqa: F811
    return len(run("browse", "orders", "--json").rows)


def test_cancel_reschedule_and_run_now_of_delayed_messages(orders: Run) -> None:
    row = orders("send", "orders", "a", "--delay", "3600", "--json").rows[0]
    orders("send", "orders", "b", "--delay", "3600", "--property", "region=EU")
    assert orders("cancel", "orders", "--all", "--count").out == "counted 2 messages\n"
    assert (
        orders("reschedule", "orders", row["lookup_id"], "--delay", "7200").out == "rescheduled 1 message\n"
    )
    assert orders("reschedule", "orders", "--all", "--at", "2100-01-01").out == "rescheduled 2 messages\n"
    assert orders("run-now", "orders", "--selector", "region = 'EU'", "--json").rows == [
        {"queue": "orders", "messages": 1}
    ]
    assert ready(orders) == 1
    assert orders("cancel", "orders", "--all").out == "cancelled 1 message\n"
    assert "not found" in orders("cancel", "orders", row["lookup_id"], code=Exit.NOTHING).err


def test_delete_to_the_trash_and_restore(orders: Run) -> None:
    orders("send", "orders", "--lines", stdin="a\nb\nc\n")
    assert orders("delete", "orders", "--all", "--trash", "60", "--limit", "2").out == (
        "moved 2 messages to the trash for 60 s\n"
    )
    assert ready(orders) == 1
    assert orders("restore", "orders", "--all").out == "restored 2 messages\n"
    assert ready(orders) == 3
    assert orders("delete", "orders", "--all", "--scheduled").out == "deleted 0 messages\n"
    assert "say which" in orders("delete", "orders", code=Exit.USAGE).err


def test_priority_changes_the_order(orders: Run) -> None:
    orders("send", "orders", "--lines", stdin="a\nb\n")
    row = orders("browse", "orders", "--json").rows[1]
    orders("priority", "orders", row["lookup_id"], "--to", "7")
    assert [row["body"] for row in orders("browse", "orders", "--json").rows] == ["b", "a"]


def test_actions_shows_operator_and_action(orders: Run) -> None:
    orders("send", "orders", "--lines", stdin="a\nb\n")
    orders("delete", "orders", "--all", "--operator", "ada", "--token", "once", "--limit", "1")
    orders("delete", "orders", "--all", "--operator", "ada", "--token", "once", "--limit", "1")
    row, created, _ = orders("actions", "--json").rows
    assert (created["action"], created["details"]) == ("create_queue", {"result": "done"})
    assert (row["operator"], row["action"], row["queue"], row["changed"]) == ("ada", "delete", "orders", 1)
    assert row["details"] == {"limit": 1}
    assert "ada" in orders("actions").out


def test_release_of_a_lock_and_abort_of_a_transaction(orders: Run, url: str, manager: str) -> None:  # noqa: F811
    orders("queue", "create", "ledger", "--transactional")
    settings = Settings(allow_volatile=True)
    with mqredis.connect(url, manager=manager, settings=settings) as qm, qm.open("orders") as queue:
        queue.send(b"x")
        lookup_id = hex(queue.lock(0).message.lookup_id)
        assert orders("release", "orders", lookup_id).out == "released 1 message\n"
        assert "not locked" in orders("release", "orders", lookup_id, code=Exit.NOTHING).err
        with qm.open("ledger") as ledger:
            unit = qm.transaction(id="stuck")
            ledger.send(b"x", transaction=unit)
            assert orders("abort", "stuck", "--json").rows == [{"transaction": "stuck"}]
            assert "stuck" in orders("abort", "stuck", code=Exit.REFUSED).err


def test_pause_resume_and_stop_worker(orders: Run) -> None:
    orders("pause", "orders", "--reason", "closed", "--operator", "ada")
    orders("pause", "--consumer", "mails", "--operator", "ada")
    rows = orders("show", "pauses", "--json").rows
    assert [(row["kind"], row["name"], row["reason"]) for row in rows] == [
        ("consumer", "mails", ""),
        ("queue", "orders", "closed"),
    ]
    assert orders("resume", "orders").out == "resumed orders\n"
    assert orders("resume", "orders").out == "orders was not paused\n"
    assert orders("show", "workers", "--json").rows == []
    assert "no running worker" in orders("stop-worker", "abc", code=Exit.REFUSED).err
    assert "no running worker" in orders("stop-worker", "abc", "--cancel", "1", code=Exit.REFUSED).err
    assert "either" in orders("pause", code=Exit.USAGE).err


def test_create_list_trigger_pause_and_remove_schedules(orders: Run) -> None:
    assert (
        orders("schedules", "create", "nightly", "orders", "go", "--cron", "0 3 * * *", "--timezone",
               "Europe/Berlin", "--label", "l", "--property", "n:=1").out
        == "created schedule nightly\n"
    )  # fmt: skip
    orders("schedules", "create", "often", "orders", "--every", "600", "--paused")
    nightly, often = orders("schedules", "list", "--json").rows
    assert (nightly["name"], nightly["cron"], nightly["interval"], nightly["timezone"]) == (
        "nightly", "0 3 * * *", None, "Europe/Berlin",
    )  # fmt: skip
    assert (nightly["paused"], nightly["declared"], nightly["overdue"], nightly["last_at"]) == (
        False, False, False, None,
    )  # fmt: skip
    assert nightly["message"] == {
        "body": "go", "label": "l", "content_type": "text/plain; charset=utf-8", "properties": {"n": 1},
    }  # fmt: skip
    assert (often["interval"], often["paused"], often["next_at"]) == (600.0, True, None)
    table = orders("schedules", "list").out
    assert "every 600 s" in table
    assert "0 3 * * *" in table
    assert orders("schedules", "trigger", "often").out == "sent the message of schedule often\n"
    assert ready(orders) == 1
    assert orders("schedules", "pause", "nightly", "--json").rows == [{"name": "nightly", "paused": True}]
    assert orders("schedules", "pause", "nightly").out == "schedule nightly was paused already\n"
    assert orders("schedules", "resume", "nightly").out == "resumed schedule nightly\n"
    assert orders("schedules", "resume", "nightly").out == "schedule nightly was not paused\n"
    for name in ("nightly", "often"):
        assert orders("schedules", "remove", name, "--operator", "ada").out == f"removed schedule {name}\n"
    assert orders("schedules", "list", "--json").rows == []
    assert orders("actions", "--json").rows[0]["operator"] == "ada"


@pytest.mark.parametrize(
    "arguments, code, message",
    [
        (("create", "s", "orders", "--cron", "0 3 * *"), Exit.USAGE, "has five fields"),
        (
            ("create", "s", "orders", "--cron", "0 3 * * *", "--timezone", "Mars"),
            Exit.USAGE,
            "no time zone 'Mars'",
        ),
        (("create", "s", "orders"), Exit.USAGE, "one of the arguments --cron --every is required"),
        (("create", "s", "orders", "--every", "0"), Exit.USAGE, "1 second at least"),
        (("create", "s", "nowhere", "--every", "60"), Exit.REFUSED, "there is no queue 'nowhere'"),
        (("remove", "s"), Exit.REFUSED, "there is no schedule 's'"),
    ],
)
def test_invalid_schedules_are_refused(
    orders: Run, arguments: tuple[str, ...], code: Exit, message: str
) -> None:
    assert message in orders("schedules", *arguments, code=code).err


def test_delete_to_the_trash_names_the_trash(orders: Run) -> None:
    orders("send", "orders", "--lines", stdin="a\nb\n")
    moved = "moved 2 messages to the trash for 5 s\n"
    assert orders("delete", "orders", "--all", "--trash", "5", "--count").out == "counted 2 messages\n"
    assert orders("delete", "orders", "--all", "--trash", "5").out == moved
    assert orders("restore", "orders", "--all").out == "restored 2 messages\n"


def test_release_with_reject_needs_confirmation(orders: Run, url: str, manager: str) -> None:  # noqa: F811
    settings = Settings(allow_volatile=True)
    with mqredis.connect(url, manager=manager, settings=settings) as qm, qm.open("orders") as queue:
        queue.send(b"x")
        lookup_id = hex(queue.lock(0).message.lookup_id)
        reject = ("release", "orders", lookup_id, "--reject", "bad day")
        assert "add --yes" in orders(*reject, code=Exit.USAGE).err
        assert "is deleted" in orders("release", "--help").out
        assert orders(*reject, "--yes").out == "rejected 1 message\n"
        assert "0 rejected" in orders(*reject, "--yes", code=Exit.NOTHING).err
    assert ready(orders) == 0


def test_pause_of_an_unknown_name_is_refused_for_queues_and_noted_for_consumers(orders: Run) -> None:
    refused = orders("pause", "nosuch", code=Exit.REFUSED)
    assert (refused.out, refused.err) == ("", "mqredis: there is no queue 'nosuch'\n")
    paused = orders("pause", "--consumer", "nosuch")
    assert paused.out == "paused nosuch\n"
    assert paused.err == "mqredis: no worker has a consumer of this name now\n"
    assert [row["name"] for row in orders("show", "pauses", "--json").rows] == ["nosuch"]
    assert orders("resume", "--consumer", "nosuch").out == "resumed nosuch\n"


def test_show_workers_lists_running_messages(orders: Run, url: str, manager: str) -> None:  # noqa: F811
    begun, ended = threading.Event(), threading.Event()
    worker = Worker(heartbeat_seconds=0.25, name="shop")

    @worker.consumer("orders", name="handle")
    def handle(message: Message) -> None:
        if message.body == b"bad":
            raise Reject("it is bad")
        begun.set()
        assert ended.wait(30)

    with (
        mqredis.connect(url, manager=manager, settings=Settings(allow_volatile=True)) as qm,
        qm.open("orders") as queue,
        worker.background(qm),
        ExitStack() as stack,
    ):
        stack.callback(ended.set)
        queue.send("bad")
        lookup_id = f"{queue.send('good').lookup_id:#018x}"
        assert begun.wait(30)
        orders("pause", "orders")
        deadline = monotonic() + 30
        while not (qm.workers() and qm.workers()[0].running and qm.workers()[0].consumers[0].rejected):
            assert monotonic() < deadline, "the worker does not report what it runs"
        (row,) = orders("show", "workers", "--json").rows
        assert row["running"][0]["lookup_ids"] == [lookup_id]
        assert (row["consumers"][0]["name"], row["paused"], row["rejected"]) == ("handle", ["orders"], 1)
        head, line = orders("show", "workers").out.splitlines()
        assert "consumers  paused  busy  running             handled  failed  rejected" in head
        assert f"handle     orders  1     {lookup_id}  0        0       1" in line


def test_schedule_without_its_message_is_reported(
    orders: Run,
    manager: str,  # noqa: F811
    redis_server: RedisServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MQREDIS_URL", redis_server.url)
    orders("queue", "create", "orders", "--exist-ok")
    orders("schedules", "create", "often", "orders", "--every", "600")
    with redis_server.client() as raw:
        raw.delete(f"mq:{{{manager}}}:schedules:messages")
    assert orders("schedules", "list", "--json").rows[0]["damaged"]
    assert "schedule often sends nothing: The stored message" in orders("schedules", "list").err
    assert "remove the schedule" in orders("schedules", "trigger", "often", code=Exit.REFUSED).err
    orders("schedules", "remove", "often")
