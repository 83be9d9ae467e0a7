"""The backend: a task is a message, and the states of its result are messages in a queue of their own.

Projects name it in ``TASKS`` (docs/django.md), and Django calls it; ``runner`` writes the states of results by it, and
reads tasks. The names of queues, of RESULTS among them, are in the brokers of users (docs/django.md, QUEUE_PREFIX).

Task queues are not transactional, because Django's priorities count there, so a task is run at least once: its worker
holds a lock, and another begins the task again when that lapses.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import sys
import time
from datetime import datetime
from typing import Any

from django.db import transaction
from django.utils import timezone
from django.utils.crypto import get_random_string
from django.utils.module_loading import autodiscover_modules

from mqredis.client import Queue
from mqredis.django.api import (
    BaseTaskBackend,
    Task,
    TaskError,
    TaskException,
    TaskResult,
    TaskResultDoesNotExist,
    TaskResultStatus,
    normalize_json,
    signals,
)
from mqredis.django.options import Client, client_of, options_of
from mqredis.errors import InvalidArgument, MessageNotFound
from mqredis.models import Match, Outgoing

_TIMES = ("enqueued_at", "started_at", "finished_at", "last_attempted_at")
_CONTENT_TYPE = "application/json"
# Name of the queue of results, behind the prefix.
RESULTS = "_results"


def level(priority: int) -> int:
    """Django's priority, -100 to 100, as one of the broker's, 0 to 7; Django's 0 is the broker's default, 3."""
    if priority < 0:
        return 2 - (-priority - 1) * 3 // 100
    return 4 + (priority - 1) * 4 // 100 if priority else 3


class MqredisBackend(BaseTaskBackend):
    """Task backend for ``TASKS``; ``OPTIONS`` are the fields of ``mqredis.django.options.Options``."""

    supports_defer = True
    supports_async_task = True
    supports_priority = True

    def __init__(self, alias: str, params: dict[str, Any]) -> None:
        super().__init__(alias, params)
        self.parsed_options = options_of(self.options, alias)
        self.supports_get_result = self.parsed_options.result_ttl > 0

    @property
    def client(self) -> Client:
        """The connection, shared by all threads."""
        return client_of(self.parsed_options)

    def queue_name(self, name: str) -> str:
        """The broker's name of one of Django's queues."""
        return self.parsed_options.queue_prefix + name

    # ---- enqueue ---------------------------------------------------------------------------------

    def enqueue(self, task: Any, args: Any, kwargs: Any) -> Any:
        """Send a task; it can be looked up at once by the id of its result."""
        self.validate_task(task)
        result = TaskResult(
            task=task,
            id=get_random_string(32),
            status=TaskResultStatus.READY,
            enqueued_at=None,
            started_at=None,
            finished_at=None,
            last_attempted_at=None,
            args=args,
            kwargs=kwargs,
            backend=self.alias,
            errors=[],
            worker_ids=[],
        )
        if self.parsed_options.enqueue_on_commit:
            transaction.on_commit(lambda: self._enqueue(result))
        else:
            self._enqueue(result)
        return result

    def _enqueue(self, result: Any) -> None:
        task = result.task
        change(result, enqueued_at=timezone.now())
        self.save(result)  # first, so that the worker of the task finds it
        message = Outgoing(
            body=json.dumps(self._row(result)).encode(),
            content_type=_CONTENT_TYPE,
            label=task.module_path[:249],  # no label is longer (models.fields)
            message_id=result.id,
            priority=level(task.priority),
            delay=_wait(task),
            properties={"task": task.module_path[:255]},
        )
        self.client.use(self.queue_name(task.queue_name), lambda queue: queue.send(message))
        signals.task_enqueued.send(type(self), task_result=result)

    # ---- results ---------------------------------------------------------------------------------

    def save(self, result: Any) -> None:
        """Store the present state of a result, in place of the former one."""
        if not self.parsed_options.result_ttl:
            return
        self.client.use(self.queue_name(RESULTS), lambda queue: self._replace(queue, result))

    def _replace(self, queue: Queue, result: Any) -> None:
        match = Match(message_id=result.id)
        # The new state is sent before the old ones go: a result is never missing, and a reader takes the last one.
        fresh = result.status == TaskResultStatus.READY
        before = [] if fresh else [message.lookup_id for message in queue.browse(match=match)]
        queue.send(
            json.dumps(self._row(result)),
            content_type=_CONTENT_TYPE,
            message_id=result.id,
            time_to_be_received=self.parsed_options.result_ttl + _wait(result.task),
        )
        for lookup_id in before:
            with contextlib.suppress(MessageNotFound):
                queue.receive_by_lookup_id(lookup_id)

    def get_result(self, result_id: str) -> Any:
        """The result of this id. Raises TaskResultDoesNotExist: unknown, or its time is over; and as :meth:`read`."""
        if not self.parsed_options.result_ttl:
            return super().get_result(result_id)
        try:
            match = Match(message_id=result_id)
            *_, last = self.client.use(
                self.queue_name(RESULTS), lambda queue: list(queue.browse(match=match))
            )
        except (ValueError, InvalidArgument):
            raise TaskResultDoesNotExist(result_id) from None
        return self.read(last.body)

    def _row(self, result: Any) -> dict[str, Any]:
        """A result as JSON, which :meth:`read` parses: the body of a task's message, and of its stored result.

        Messages may be older than this release: :meth:`read` must accept rows without a new key.
        """
        task = result.task
        times = {name: getattr(result, name) for name in _TIMES}
        return {
            "id": result.id,
            "task": task.module_path,
            "queue": task.queue_name,
            "priority": task.priority,
            "run_after": task.run_after.isoformat() if task.run_after else None,
            "args": result.args,
            "kwargs": result.kwargs,
            "status": str(result.status),
            "errors": [[error.exception_class_path, error.traceback] for error in result.errors],
            "worker_ids": result.worker_ids,
            "return": result._return_value,
            **{name: when.isoformat() if when else None for name, when in times.items()},
        }

    def read(self, body: bytes) -> Any:
        """Parse a result that was stored or sent.

        Raises InvalidArgument if it is damaged, or names an unknown task or a queue that is not in ``QUEUES``.
        """
        try:
            row = json.loads(body)
            task = self.resolve(row["task"]).using(
                priority=int(row["priority"]),
                queue_name=str(row["queue"]),
                run_after=_time(row["run_after"]),
                backend=self.alias,
            )
            result = TaskResult(
                task=task,
                id=str(row["id"]),
                status=TaskResultStatus(row["status"]),
                args=list(row["args"]),
                kwargs=dict(row["kwargs"]),
                backend=self.alias,
                errors=[TaskError(exception_class_path=str(c), traceback=str(t)) for c, t in row["errors"]],
                worker_ids=[str(worker) for worker in row["worker_ids"]],
                **{name: _time(row[name]) for name in _TIMES},
            )
        except (ValueError, KeyError, TypeError, AttributeError, TaskException) as error:
            raise InvalidArgument(f"not a task of this backend: {type(error).__name__}: {error}") from None
        change(result, _return_value=normalize_json(row.get("return")))
        return result

    def resolve(self, path: str) -> Any:
        """The task of this path, of a module that this process has imported for itself: a message never imports any.

        Looked for are the ``tasks`` modules of all applications and ``OPTIONS["MODULES"]``. Raises InvalidArgument.
        """
        module, _, name = str(path).rpartition(".")
        for after_imports in (False, True):
            if after_imports:
                autodiscover_modules("tasks")
                for each in self.parsed_options.modules:
                    importlib.import_module(each)
            found = getattr(sys.modules.get(module), name, None)
            if isinstance(found, Task):
                return found
        raise InvalidArgument(
            f"there is no task {str(path)[:200]!r}: name its module in TASKS[{self.alias!r}]['OPTIONS']['MODULES']"
        )


def change(result: Any, **values: Any) -> None:
    """Set fields of a result although it is frozen."""
    for name, value in values.items():
        object.__setattr__(result, name, value)


def _time(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None


def _wait(task: Any) -> float:
    """Seconds from now until a task may run. Where Django uses no time zones, its time is local."""
    return max(0.0, task.run_after.timestamp() - time.time()) if task.run_after else 0.0
