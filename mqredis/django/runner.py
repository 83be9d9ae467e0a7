"""The worker of ``manage.py mqredis_worker``: its handler runs Django's tasks.

``manage.py mqredis_worker`` starts it, and gives it options of ``Worker``. ``handle`` runs in the threads of the
worker, each with database connections of its own. An error of a task is a result and no failed attempt, so only lost
workers and errors of the broker count as attempts (docs/django.md).
"""

from __future__ import annotations

import contextlib
import logging
import traceback
from asyncio import CancelledError
from collections.abc import Sequence
from typing import Any

from django.db import close_old_connections
from django.utils import timezone
from django.utils.crypto import get_random_string

from mqredis.django.api import (
    TaskContext,
    TaskError,
    TaskResultDoesNotExist,
    TaskResultStatus,
    normalize_json,
    signals,
)
from mqredis.django.backend import MqredisBackend, change
from mqredis.errors import InvalidArgument, MessageTooLarge
from mqredis.models import Message
from mqredis.worker import Reject, Retry, Worker

log = logging.getLogger("mqredis.django")

# Characters of a traceback that are stored, counted from its end: the first of these with which the result fits. An
# error may quote all that a task was given.
_LENGTHS = (100_000, 1_000, 0)


class WorkerLost(RuntimeError):
    """A task was begun ``max_attempts`` times, and each time its worker was lost."""


def _ended_by_losses(result: Any) -> bool:
    name = f"{WorkerLost.__module__}.{WorkerLost.__qualname__}"
    return bool(result.errors) and result.errors[-1].exception_class_path == name


class Runner:
    """Runs the tasks of some queues of one backend."""

    def __init__(
        self, backend: MqredisBackend, queues: Sequence[str], concurrency: int = 1, **worker: Any
    ) -> None:
        if not queues:
            raise InvalidArgument("name the queues: TASKS allows any")
        self.backend = backend
        self.id = get_random_string(32)
        self.worker = Worker(**worker)
        names = [backend.queue_name(name) for name in queues]
        self.worker.consumer(
            *names,
            concurrency=concurrency,
            lease=backend.parsed_options.lease,
            # `handle` ends the attempts, so that the result of the task tells why.
            retry=Retry(attempts=None),
            create={},
            name=f"django.{backend.alias}",
        )(self.handle)

    def run(self, *, burst: bool = False, signals: bool = True) -> int:
        """Run tasks until SIGTERM or SIGINT; ``burst``: until none is left. Returns how many."""
        return self.worker.run(burst=burst, manager=self.backend.client.manager, signals=signals)

    def handle(self, message: Message) -> None:
        """Run the task of a message and store its result. Neither it nor a receiver of its signals gets a database
        connection that is too old."""
        close_old_connections()
        try:
            self._run(message)
        finally:
            close_old_connections()

    def _run(self, message: Message) -> None:
        try:
            result = self.backend.read(message.body)
            if self.backend.parsed_options.result_ttl:
                result = self._latest(result)
        except InvalidArgument as error:
            raise Reject(str(error)) from None
        if result.is_finished and not _ended_by_losses(result):
            return  # a worker died after it had stored the result and before it removed the message
        if message.attempts > self.backend.parsed_options.max_attempts:
            lost = WorkerLost(f"its worker was lost {message.attempts - 1} times")
            if not result.is_finished:
                self._fail(result, lost)
            raise Reject(str(lost))
        now = timezone.now()
        change(
            result,
            status=TaskResultStatus.RUNNING,
            started_at=result.started_at or now,
            last_attempted_at=now,
            finished_at=None,  # a task whose workers were lost may be put back from ;poison
            worker_ids=[*result.worker_ids, self.id],
        )
        try:
            self.backend.save(result)
        except MessageTooLarge as error:
            raise Reject(f"its state cannot be stored: {error}") from None
        signals.task_started.send(type(self.backend), task_result=result)
        self._call(result)

    def _latest(self, result: Any) -> Any:
        """The stored result of the task, which has its earlier attempts."""
        try:
            return self.backend.get_result(result.id)
        except TaskResultDoesNotExist:
            return result  # the task waited for longer than results are kept

    def _call(self, result: Any) -> None:
        task = result.task
        context = (TaskContext(task_result=result),) if task.takes_context else ()
        try:
            value = normalize_json(task.call(*context, *result.args, **result.kwargs))
        except (Exception, SystemExit, CancelledError) as error:  # noqa: BLE001 - whatever a task raises is its result
            self._fail(result, error)
            return
        change(result, _return_value=value)
        try:
            self._store_end(result, TaskResultStatus.SUCCESSFUL)
        except MessageTooLarge as error:  # each run would return as much, so the task must not run again
            change(result, _return_value=None)
            self._fail(result, error)
        else:
            signals.task_finished.send(type(self.backend), task_result=result)

    def _fail(self, result: Any, error: BaseException) -> None:
        """Store the error of a task. Raises Reject if it does not fit: the task must not run again."""
        log.warning("task %s of %s failed: %s", result.id, result.task.module_path, error)
        path = f"{type(error).__module__}.{type(error).__qualname__}"
        text, earlier = "".join(traceback.format_exception(error)), list(result.errors)
        for length in _LENGTHS:
            shown = TaskError(exception_class_path=path, traceback=text[max(len(text) - length, 0) :])
            change(result, errors=[*earlier, shown])
            with contextlib.suppress(MessageTooLarge):
                self._store_end(result, TaskResultStatus.FAILED)
                break
        else:
            raise Reject(f"its error cannot be stored: {path}")
        signals.task_finished.send(type(self.backend), task_result=result)

    def _store_end(self, result: Any, status: Any) -> None:
        change(result, status=status, finished_at=timezone.now())
        self.backend.save(result)
