"""Django's tasks under one name each: ``django.tasks`` where Django has it (6.0), else the package ``django-tasks``.

The backend, the runner and the management command import from it. Both packages must have what is named here;
docs/django.md says with which versions the tests run.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

# The package that is used.
ROOT = "django.tasks" if find_spec("django.tasks") else "django_tasks"
_base: Any = import_module(f"{ROOT}.base")
_exceptions: Any = import_module(f"{ROOT}.exceptions")

BaseTaskBackend: Any = import_module(f"{ROOT}.backends.base").BaseTaskBackend
Task: Any = _base.Task
TaskContext: Any = _base.TaskContext
TaskError: Any = _base.TaskError
TaskResult: Any = _base.TaskResult
TaskResultStatus: Any = _base.TaskResultStatus
# The base class of what a task is refused with; the name of the class itself differs.
TaskException: Any = _exceptions.TaskException
TaskResultDoesNotExist: Any = _exceptions.TaskResultDoesNotExist
normalize_json: Any = _base.normalize_json
signals: Any = import_module(f"{ROOT}.signals")
task_backends: Any = import_module(ROOT).task_backends
