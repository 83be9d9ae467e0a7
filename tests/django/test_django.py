"""Django tasks on the broker, through Django's interface and the management command."""

from __future__ import annotations

import asyncio
import json
import re
from datetime import timedelta
from inspect import signature
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.core.management import CommandError, call_command
from django.db import connections, transaction
from django.test.utils import override_settings
from django.utils import timezone

from mqredis.django.api import TaskResultDoesNotExist, TaskResultStatus, signals, task_backends
from mqredis.django.backend import level
from mqredis.django.management.commands.mqredis_worker import Command
from mqredis.django.options import Options
from mqredis.django.runner import Runner
from mqredis.errors import ManagerNotFound, MessageTooLarge
from mqredis.models import Message
from mqredis.operations import giveback, settle
from mqredis.testing import drain
from mqredis.worker import Reject, Worker


def work(**options: Any) -> str:
    out = StringIO()
    call_command("mqredis_worker", "--burst", stdout=out, **options)
    return out.getvalue()


def queue_of(name: str) -> Any:
    return task_backends["default"].client.use("django." + name, lambda queue: queue)


def test_task_runs_and_its_result_is_stored(tasks):
    result = tasks.add.enqueue(1, y=2)
    assert result.status == TaskResultStatus.READY
    assert result.enqueued_at is not None
    same = tasks.add.get_result(result.id)
    assert (same.status, same.args, same.kwargs) == (TaskResultStatus.READY, [1], {"y": 2})
    assert work() == "1 task\n"
    assert tasks.done == [(1, 2)]
    result.refresh()
    assert result.return_value == 3
    assert result.is_finished
    assert result.attempts == 1
    assert result.enqueued_at <= result.started_at <= result.finished_at
    results = list(queue_of("_results").browse())
    assert [message.message_id for message in results] == [result.id]
    assert results[0].expires_at is not None


async def test_task_is_enqueued_and_read_with_asyncio(tasks):
    result = await tasks.mail.aenqueue("me")
    from asgiref.sync import sync_to_async

    await sync_to_async(work)()
    assert (await tasks.mail.aget_result(result.id)).return_value == {"to": "me"}
    await result.arefresh()
    assert result.return_value == {"to": "me"}


def test_tasks_run_by_queue_and_priority(tasks):
    for n, priority in enumerate((-100, 0, 100)):
        tasks.add.using(priority=priority).enqueue(n, 0)
    work(queue=["mail"])
    assert tasks.done == []
    work(queue=["mail", "default"])
    assert tasks.done == [(2, 0), (1, 0), (0, 0)]
    assert [level(p) for p in (-100, -67, -35, -1, 0, 1, 26, 51, 76, 100)] == [0, 1, 1, 2, 3, 4, 5, 6, 7, 7]


def test_run_after_delays_the_task(tasks):
    later = timezone.now() + timedelta(hours=1)
    result = tasks.add.using(run_after=later).enqueue(1, 1)
    assert tasks.add.get_result(result.id).task.run_after == later
    assert work() == "0 tasks\n"
    task_backends["default"].client.manager.advance_clock(3601)
    assert work() == "1 task\n"


def test_failed_task_stores_its_error_and_is_not_repeated(tasks):
    result = tasks.fails.enqueue()
    odd = tasks.not_json.enqueue()
    work()
    result.refresh()
    assert result.status == TaskResultStatus.FAILED
    assert result.errors[0].exception_class is LookupError
    assert "there is no such thing" in result.errors[0].traceback
    with pytest.raises(ValueError, match="failed"):
        _ = result.return_value
    odd.refresh()
    assert odd.errors[0].exception_class is TypeError
    assert work() == "0 tasks\n"


@pytest.mark.parametrize("name,error", [("exits", SystemExit), ("is_cancelled", asyncio.CancelledError)])
def test_task_that_exits_or_is_cancelled_has_failed_and_its_worker_goes_on(
    tasks: Any, name: str, error: type[BaseException]
) -> None:
    result = getattr(tasks, name).enqueue()
    tasks.add.enqueue(1, 1)
    assert work() == "2 tasks\n"
    result.refresh()
    assert (result.status, result.attempts) == (TaskResultStatus.FAILED, 1)
    assert result.errors[0].exception_class is error


def test_task_with_a_result_too_large_to_store_fails_and_is_not_repeated(tasks):
    result, error = tasks.too_large.enqueue(), tasks.fails_at_length.enqueue()
    assert work() == "2 tasks\n"
    assert sorted(tasks.done) == ["fails_at_length", "too_large"]
    result.refresh()
    assert result.status == TaskResultStatus.FAILED
    assert result.errors[0].exception_class is MessageTooLarge
    error.refresh()
    assert error.errors[0].exception_class is LookupError
    assert work() == "0 tasks\n"


def test_failed_task_whose_error_does_not_fit_beside_its_arguments_is_not_repeated(tasks, options):
    options["SETTINGS"] |= {"max_message_bytes": 20_000}
    result = tasks.fails_with.enqueue("x" * 9_000, "y" * 9_000)
    assert work() == "1 task\n"
    result.refresh()
    assert result.status == TaskResultStatus.FAILED
    assert [error.exception_class for error in result.errors] == [LookupError]
    assert result.errors[0].traceback.endswith("y" * 500 + "\n")
    assert work() == "0 tasks\n"
    assert tasks.done == ["fails_with"]


def test_task_whose_arguments_fill_its_message_is_not_repeated(tasks, options):
    options["SETTINGS"] |= {"max_message_bytes": 20_000}
    results: list[Any] = []
    with pytest.raises(MessageTooLarge):
        results.extend(tasks.fails_with.enqueue("x" * size, "y") for size in range(19_000, 20_000, 20))
    work()
    assert work() == "0 tasks\n"
    for result in results:
        result.refresh()
    finished = [result for result in results if result.is_finished]
    assert 0 < len(finished) < len(results)
    # The others are among the failed messages.
    assert len(drain(queue_of("default;poison"))) == len(results) - len(finished)
    assert len(finished) <= tasks.done.count("fails_with") <= len(results)


def test_deleted_queues_are_created_again(tasks):
    tasks.add.enqueue(1, 1)
    manager = task_backends["default"].client.manager
    for name in ("django.default", "django._results"):
        manager.delete_queue(name)
    result = tasks.add.enqueue(2, 2)
    assert work() == "1 task\n"
    result.refresh()
    assert result.return_value == 4


def test_client_connects_again_when_the_data_are_gone(start_server, tasks, options):
    server = start_server()
    options["URL"] = server.url
    tasks.add.enqueue(1, 1)
    with server.client() as raw:
        raw.flushall()
    with pytest.raises(ManagerNotFound):
        tasks.add.enqueue(1, 1)
    result = tasks.add.enqueue(2, 2)
    assert work() == "1 task\n"
    result.refresh()
    assert result.return_value == 4


def test_results_expire(tasks, options):
    result = tasks.add.enqueue(1, 1)
    work()
    task_backends["default"].client.manager.advance_clock(86_401)
    for unknown in (result.id, "", "x" * 32, "x" * 500):
        with pytest.raises(TaskResultDoesNotExist):
            task_backends["default"].get_result(unknown)


def test_result_ttl_0_stores_no_results(tasks, options):
    with override_settings(TASKS={"default": {**_backend(options), "OPTIONS": {**options, "RESULT_TTL": 0}}}):
        assert not task_backends["default"].supports_get_result
        result = tasks.add.enqueue(2, 2)
        assert work() == "1 task\n"
        assert tasks.done == [(2, 2)]
        with pytest.raises(NotImplementedError):
            result.refresh()


def _backend(options: dict[str, Any]) -> dict[str, Any]:
    return {"BACKEND": "mqredis.django.MqredisBackend", "QUEUES": ["default", "mail"], "OPTIONS": options}


def test_task_is_enqueued_immediately_or_on_commit(tasks, options):
    with transaction.atomic():
        tasks.add.enqueue(1, 1)
        assert queue_of("default").receive(0)
    with override_settings(TASKS={"default": _backend({**options, "ENQUEUE_ON_COMMIT": True})}):
        with transaction.atomic():
            result = tasks.add.enqueue(2, 2)
            assert drain(queue_of("default")) == []
            times = [result.enqueued_at]
        times.append(result.enqueued_at)
        assert times[0] is None
        assert times[1] is not None
        with transaction.atomic():
            tasks.add.enqueue(3, 3)
            transaction.set_rollback(True)
        work()
    assert tasks.done == [(2, 2)]


def test_signals_are_sent(tasks):
    seen: list[Any] = []

    def note(sender, task_result, **_):
        seen.append((sender.__name__, str(task_result.status)))

    every = (signals.task_enqueued, signals.task_started, signals.task_finished)
    for signal in every:
        signal.connect(note)
    try:
        tasks.add.enqueue(1, 1)
        work()
    finally:
        for signal in every:
            signal.disconnect(note)
    assert [status for _, status in seen] == ["READY", "RUNNING", "SUCCESSFUL"]
    assert {sender for sender, _ in seen} == {"MqredisBackend"}


def test_receivers_of_signals_get_no_old_database_connection(tasks, monkeypatch):
    closed: list[None] = []
    seen: list[bool] = []

    def started(**_):
        seen.append(bool(closed))

    connection = connections["default"]
    connection.ensure_connection()
    monkeypatch.setattr(connection, "close", lambda: closed.append(None))
    monkeypatch.setattr(connection, "close_at", 0.0)  # CONN_MAX_AGE is over
    tasks.add.enqueue(1, 1)
    signals.task_started.connect(started)
    try:
        Runner(task_backends["default"], ["default"]).handle(queue_of("default").peek(0))
    finally:
        signals.task_started.disconnect(started)
    assert seen == [True]


def lost(message: Message, times: int) -> Message:
    """Return the message as delivered after ``times`` workers were lost."""
    return message.replace(attempts=times + 1)


def test_task_of_lost_workers_runs_again_and_counts_attempts(tasks):
    result = tasks.attempts.enqueue()
    runner = Runner(task_backends["default"], ["default"])
    message = queue_of("default").peek(0)
    for _ in range(2):  # two workers began it and died
        begun = tasks.attempts.get_result(result.id)
        object.__setattr__(begun, "worker_ids", [*begun.worker_ids, "dead"])
        object.__setattr__(begun, "status", TaskResultStatus.RUNNING)
        task_backends["default"].save(begun)
    runner.handle(lost(message, 2))
    result.refresh()
    assert (result.return_value, result.attempts) == (3, 3)
    runner.handle(message)  # the task has finished but its message was not committed: it does not run again
    assert tasks.attempts.get_result(result.id).attempts == 3


def test_task_that_lost_its_workers_too_often_fails_and_becomes_poison(tasks):
    result = tasks.add.enqueue(1, 1)
    queue, manager = queue_of("default"), task_backends["default"].client.manager
    for _ in range(5):
        queue.lock(0, lease=5)
        manager.advance_clock(6)
    assert work() == "0 tasks\n"
    result.refresh()
    assert result.status == TaskResultStatus.FAILED
    assert "lost 5 times" in result.errors[0].traceback
    assert tasks.done == []
    with manager.open("django.default;poison") as poison:
        assert poison.peek(0).reason == "poison: its worker was lost 5 times"
    assert manager.redrive("django.default;poison") == 1
    assert work() == "1 task\n"
    result.refresh()
    assert (result.status, result.return_value) == (TaskResultStatus.SUCCESSFUL, 2)


def test_release_on_worker_shutdown_does_not_count_as_an_attempt(tasks):
    result = tasks.add.enqueue(1, 1)
    queue = queue_of("default")
    for _ in range(7):
        lock = queue.lock(0)
        queue.manager.run(settle.settle(queue.handle, [(giveback.unattempted(), lock.fence, lock.key)]))
    assert queue.peek(0).delivery_count == 7
    assert work() == "1 task\n"
    result.refresh()
    assert result.return_value == 2


@pytest.mark.parametrize("path", ["tests.django.tasks.no_task", "os.getcwd", "antigravity.geohash", "x", ""])
def test_message_cannot_select_code_to_run(tasks, path):
    tasks.add.enqueue(1, 1)
    queue = queue_of("default")
    row = json.loads(queue.receive(0).body)
    queue.send(json.dumps({**row, "task": path}))
    queue.send(b"nonsense")
    queue.send(b"{}")
    assert work() == "0 tasks\n"
    assert tasks.done == []
    assert drain(queue) == []
    import sys

    assert "antigravity" not in sys.modules


def test_task_of_a_queue_that_was_removed_is_rejected(tasks, options):
    tasks.mail.enqueue("ann")
    message = queue_of("mail").peek(0)
    with (
        override_settings(TASKS={"default": {**_backend(options), "QUEUES": ["default"]}}),
        pytest.raises(Reject, match="Queue 'mail' is not valid"),
    ):
        Runner(task_backends["default"], ["mail"]).handle(message)


@pytest.mark.parametrize(
    "wrong",
    [{"URl": "x", "LEASE": 0}, {"COLOUR": "red"}, {"RESULT_TTL": "never"}],
    ids=["lease", "name", "ttl"],
)
def test_invalid_options_are_refused(wrong):
    chosen = {"default": {"BACKEND": "mqredis.django.MqredisBackend", "OPTIONS": wrong}}
    with override_settings(TASKS=chosen), pytest.raises(ImproperlyConfigured, match="OPTIONS"):
        _ = task_backends["default"]


def test_worker_command_without_queues_is_refused(tasks, options):
    with override_settings(TASKS={"default": {**_backend(options), "QUEUES": []}}):
        with pytest.raises(CommandError, match="name the queues"):
            work()
        tasks.add.enqueue(1, 1)
        assert work(queue=["default"]) == "1 task\n"


def test_worker_command_refuses_a_queue_that_tasks_does_not_name(tasks: Any) -> None:
    with pytest.raises(CommandError, match="has no queue 'mial', only: default, mail"):
        work(queue=["default", "mial"])


def test_options_of_the_worker_command_have_the_defaults_of_workers():
    given = Command().create_parser("manage.py", "mqredis_worker").parse_args([])
    defaults = signature(Worker).parameters
    assert given.shutdown == defaults["shutdown_seconds"].default
    assert given.health_file == defaults["health_file"].default
    assert given.concurrency == signature(Runner).parameters["concurrency"].default


def test_page_has_every_option() -> None:
    page = (Path(__file__).parents[2] / "docs" / "django.md").read_text()
    table = page.partition("\n| option | default | meaning |")[2].partition("\n\n")[0]
    cells = " ".join(row.split("|")[1] for row in table.splitlines() if row.startswith("| `"))
    assert sorted(re.findall(r"`(\w+)`", cells)) == sorted(name.upper() for name in Options.model_fields)
