"""``manage.py mqredis_worker``: runs the tasks of this project.

Django finds it by its file name, and docs/django.md describes its options. ``Runner`` passes those of a ``Worker`` on;
their defaults are the same (tests/django/test_django.py).
"""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError

from mqredis.django.api import task_backends
from mqredis.django.backend import MqredisBackend
from mqredis.django.runner import Runner
from mqredis.errors import MqError


class Command(BaseCommand):
    """The command."""

    help = "Run tasks until SIGTERM or SIGINT: then what runs is finished, and nothing new is begun."

    def add_arguments(self, parser: Any) -> None:
        """Its options."""
        parser.add_argument("--backend", default="default", help="alias in TASKS (default: default)")
        parser.add_argument(
            "--queue",
            action="append",
            help="only this queue, in the order given (default: the backend's QUEUES)",
        )
        parser.add_argument("--concurrency", type=int, default=1, help="tasks at a time, each in a thread")
        parser.add_argument("--burst", action="store_true", help="end when no task is left")
        parser.add_argument("--health-file", help="touched while the worker can read; see mqredis health")
        parser.add_argument(
            "--shutdown", type=float, default=25.0, help="seconds for tasks to finish at the end"
        )

    def handle(self, *_: Any, **options: Any) -> None:
        """Run."""
        try:
            backend = task_backends[options["backend"]]
            if not isinstance(backend, MqredisBackend):
                raise CommandError(f"TASKS[{options['backend']!r}] is not a backend of mqredis")
            queues = options["queue"] or sorted(backend.queues)
            if backend.queues and (unknown := sorted({*queues} - backend.queues)):
                known = ", ".join(sorted(backend.queues))
                raise CommandError(
                    f"TASKS[{options['backend']!r}] has no queue {unknown[0]!r}, only: {known}"
                )
            runner = Runner(
                backend,
                queues,
                options["concurrency"],
                health_file=options["health_file"],
                shutdown_seconds=options["shutdown"],
            )
            done = runner.run(burst=options["burst"])
        except MqError as error:
            raise CommandError(str(error)) from error
        if options["verbosity"] > 0:
            self.stdout.write(f"{done} task" if done == 1 else f"{done} tasks")
